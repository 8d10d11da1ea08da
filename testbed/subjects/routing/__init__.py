"""Routing daemons of others as the control plane of a lab's routers: their configuration, made from a topology."""
