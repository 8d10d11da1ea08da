"""A job: how it is packed, supervised in the lab, and started by the API."""

from testbed.moved import attributes

__getattr__ = attributes(__name__, "job")
