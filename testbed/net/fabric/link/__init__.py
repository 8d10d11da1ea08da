"""Credits between the ports of a running network."""
