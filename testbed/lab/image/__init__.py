"""The image of the lab, and the packages that can be added to it."""

from testbed.moved import attributes

__getattr__ = attributes(__name__, "image")
