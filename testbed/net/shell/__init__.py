"""The shell of a network: Mininet's with commands of our own."""

from testbed.moved import attributes

__getattr__ = attributes(__name__, "topologies")
