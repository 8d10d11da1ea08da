"""Sending a frame at the time stamped in it, so that the time to encode it is not part of a measurement."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

_AHEAD_NS = (300_000, 600_000, 1_200_000, 2_400_000)
"""The time by which a measurement frame is stamped ahead: what it takes to write it, and more each time that was not
enough."""
_LATE_NS = 10_000
"""The most by which a frame may be sent after the moment that is in it."""

Written = TypeVar("Written")


def timed_write(write: Callable[[int], Written], take_back: Callable[[Written], None]) -> Written:
    """Return what `write` gives for a moment that is yet to come, at that moment.

    If the moment has passed by then, because something more urgent ran, it is taken back and written anew. The
    process spins meanwhile: after a sleep it might have to wait for the CPU.
    """
    for ahead_ns in _AHEAD_NS:
        moment_ns = time.monotonic_ns() + ahead_ns
        written = write(moment_ns)
        while (now_ns := time.monotonic_ns()) < moment_ns:
            pass
        if now_ns <= moment_ns + _LATE_NS or ahead_ns == _AHEAD_NS[-1]:
            break
        take_back(written)
    return written
