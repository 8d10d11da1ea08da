"""Priorities: a port's settings, how a switch and a sending host use them, and whether the ports of a path agree."""
