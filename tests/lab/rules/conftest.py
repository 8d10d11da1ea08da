"""The kernel's library, which tests compare with the classes in Python."""

from tests.lab.roce.conftest import library_file

__all__ = ["library_file"]
