"""The fabric of a network: its ports, their queues and buffers, and the agents beside them."""

from testbed.moved import attributes

__getattr__ = attributes(__name__, "fabric")
