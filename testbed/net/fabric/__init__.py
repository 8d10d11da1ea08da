"""The fabric of a network: its ports, their queues and buffers, and the agents beside them."""

from typing import TYPE_CHECKING

from testbed.moved import attributes

if not TYPE_CHECKING:  # or mypy would find every name here
    __getattr__ = attributes(__name__, "fabric")
