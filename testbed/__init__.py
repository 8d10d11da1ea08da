"""Xoff: a lossless-Ethernet lab on a stock kernel in virtual time."""

import sys

from testbed.moved import Finder

__version__ = "0.1.0"

sys.meta_path.insert(0, Finder)  # before Python finds an old name by the path of a package that has moved
