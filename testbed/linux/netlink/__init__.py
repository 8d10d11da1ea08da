"""Netlink: its messages, and the links, qdiscs and routes that are set by it."""
