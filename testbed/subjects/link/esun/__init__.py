"""ESUN, Ethernet for scale-up networks: its header of four octets, and how a switch forwards by it."""
