"""Networks to run things on. Each file defines Mininet topologies and names them in `topos`."""
