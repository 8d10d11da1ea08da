"""Routers of a lab: their addresses, SIDs and filters, and the controller beside them."""
