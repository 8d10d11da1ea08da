"""Equal ways, routing, failures."""
