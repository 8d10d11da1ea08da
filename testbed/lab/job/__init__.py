"""A job: what is packed for the lab, and the supervisor that does it there."""

from testbed.moved import attributes

__getattr__ = attributes(__name__, "job")
