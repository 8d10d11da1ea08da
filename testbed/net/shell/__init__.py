"""The shell of a network: Mininet's with commands of our own."""

from typing import TYPE_CHECKING

from testbed.moved import attributes

if not TYPE_CHECKING:  # or mypy would find every name here
    __getattr__ = attributes(__name__, "topologies")
