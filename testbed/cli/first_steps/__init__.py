"""The commands for a newcomer: run experiments, look at their results, and begin a file of your own."""
