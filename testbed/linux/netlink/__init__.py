"""Netlink: its messages, and the links, qdiscs and routes that are set by it."""

from testbed.moved import attributes

__getattr__ = attributes(__name__, "messages")
