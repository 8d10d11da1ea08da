"""The shell of a network: Mininet's with commands of our own."""
