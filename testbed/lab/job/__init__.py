"""A job: what is packed for the lab, and the supervisor that does it there."""

from typing import TYPE_CHECKING

from testbed.moved import attributes

if not TYPE_CHECKING:  # or mypy would find every name here
    __getattr__ = attributes(__name__, "job")
