"""The image of the lab, and the packages that can be added to it."""

from typing import TYPE_CHECKING

from testbed.moved import attributes

if not TYPE_CHECKING:  # or mypy would find every name here
    __getattr__ = attributes(__name__, "image")
