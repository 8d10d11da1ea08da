"""Xoff: a lossless-Ethernet lab on a stock kernel in virtual time."""

__version__ = "0.1.0"
