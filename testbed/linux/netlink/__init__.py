"""Netlink: its messages, and the links, qdiscs and routes that are set by it."""

from typing import TYPE_CHECKING

from testbed.moved import attributes

if not TYPE_CHECKING:  # or mypy would find every name here
    __getattr__ = attributes(__name__, "messages")
