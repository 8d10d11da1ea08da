"""Hosts' ports as ports of a traffic generator: they send and receive frames as they are configured, and the host's own
network stack is silent."""
