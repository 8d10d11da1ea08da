"""A limit on how often a port processes changed frames from its link: as often as LLDP lets one neighbour send.

IEEE 802.1AB gives a transmitter 10 frames at most at once (txCreditMax), and one more each second. A neighbour that
changes its TLVs with every frame would otherwise make this port negotiate, program a NIC and write a log thousands
of times in a second. A frame beyond that is held; of each neighbour the last one, so nothing that lasts is lost. Held
frames are read one a second, the longest held first. Frames that repeat what is known cost nothing and are never held.
"""

from __future__ import annotations

from testbed.frames.lldp import LldpFrame
from testbed.subjects.dcbx.neighbours import MOST, Identifier
from testbed.units import Duration, Scale

MOST_AT_ONCE = 10
_TICK = Duration("1s")


class TokenBucket:
    """A token bucket with room for `most` tokens, into which one more comes each `tick_ns`."""

    def __init__(self, most: int, tick_ns: int) -> None:
        self._most, self._tick_ns = most, tick_ns
        self._full_ns = 0  # when all of them are there again

    def spend(self, now_ns: int) -> bool:
        """Take a token out and return True, or return False if there is none."""
        if self.next_ns > now_ns:
            return False
        self._full_ns = max(self._full_ns, now_ns) + self._tick_ns
        return True

    @property
    def next_ns(self) -> int:
        """The time when the next token can be taken; a time in the past if it can be taken now."""
        return self._full_ns - (self._most - 1) * self._tick_ns


class Damping:
    """The changed frames of one port that have to wait."""

    def __init__(self, scale: Scale) -> None:
        self._tick_ns = scale.lab(_TICK).ns
        self._held: dict[Identifier, tuple[LldpFrame, bytes]] = {}
        self.forget()

    def admits(self, now_ns: int) -> bool:
        """Return True if a changed frame may be processed now. It has to wait while others are held."""
        return not self._held and self._bucket.spend(now_ns)

    def hold(self, identifier: Identifier, frame: LldpFrame, octets: bytes) -> bool:
        """Hold a frame in place of an earlier one of the neighbour; return False if there is no room."""
        if identifier not in self._held and len(self._held) == MOST:
            return False
        self._held[identifier] = frame, octets
        return True

    def drop(self, identifier: Identifier) -> None:
        """Drop a held frame: a later one of the neighbour was processed."""
        self._held.pop(identifier, None)

    def release(self, now_ns: int) -> tuple[LldpFrame, bytes] | None:
        """Return a held frame whose time has come, or None if there is none."""
        if self._held and self._bucket.spend(now_ns):
            return self._held.pop(next(iter(self._held)))
        return None

    def forget(self) -> None:
        """Drop all held frames: the link is another one now."""
        self._held.clear()
        self._bucket = TokenBucket(MOST_AT_ONCE, self._tick_ns)

    def deadline_ns(self) -> int | None:
        return self._bucket.next_ns if self._held else None
