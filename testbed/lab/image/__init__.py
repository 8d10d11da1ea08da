"""The image of the lab: how it is built, cached and carried to other machines."""

from testbed.moved import attributes

__getattr__ = attributes(__name__, "image")
