"""Rules of one's own at the ports of a network."""
