"""One direction of a cable: when what is put on it leaves and arrives, and in what state.

The line has a rate, a delay, and a law of errors (`testbed.switch.link.errors`). A frame begins when the line is free.
An ordered set goes between the blocks of what is leaving, so it never waits for a frame, and takes its eight octets'
time from what follows. Two ordered sets have a distance, as the specification wants it; its distances within a frame
are not kept.

A frame that is lost is lost whole. Of a damaged one the receiver finds out with its last bit, and of a damaged ordered
set it knows nothing. `Jam` disturbs single ones.

Runs in C: testbed/lab/um/linux/xoff_line_rules.h.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field

from testbed.switch.link.errors import mixed
from testbed.switch.link.jam import Jam, LineFate, LineUnit

OVERHEAD, GAP, OCTETS_OF_SET = 24, 12, 8
"""A frame's octets on the line beside those that Linux counts, and those of them that are idle."""
LEAST_SPACING = 400
"""The octets from the begin of an ordered set to the next."""
HEADER = 8 + 64
_PS = 8 * 10**12
_NS = 8 * 10**9
_LOSS = 0x6C6F7373
"""Makes the hashes for losses others than those for errors."""


class Wait(enum.IntEnum):
    """How much of a frame its receiver waits for, as `forwarding` says."""

    FIRST_BIT = 0
    HEADER = 1
    WHOLE = 2


@dataclass(frozen=True)
class LineSettings:
    """A line, in the lab's time."""

    bps: int
    delay_ns: int
    wait: Wait = Wait.FIRST_BIT
    loss: int = 0
    """The threshold of 64 bits below which a frame is lost."""
    slot_octets: int = 0
    """The octets of a slot of the law of errors; 0: there are no errors."""
    slot_threshold: int = 0
    seed: int = 0
    jams: Sequence[Jam] = ()


@dataclass
class Line:
    """A line with what is on it."""

    settings: LineSettings
    free_ps: int = 0
    """The moment from which on it is free."""
    set_ns: int = 0
    """The moment from which on an ordered set may begin."""
    put: dict[LineUnit, int] = field(default_factory=lambda: dict.fromkeys(LineUnit, 0))
    frames: int = 0
    """The frames that were put on it, with those that have no sequence number."""

    def time_ps(self, octets: int) -> int:
        """Return the time that octets take, rounded up to a picosecond."""
        return -(-octets * _PS // self.settings.bps)

    def time_ns(self, octets: int) -> int:
        return -(-self.time_ps(octets) // 1000)

    @property
    def free_ns(self) -> int:
        return -(-self.free_ps // 1000)

    def put_frame(self, now_ns: int, length: int, numbered: bool) -> tuple[int, LineFate]:
        """Put a frame on the line; return the moment at which its receiver has it or finds it damaged, and its fate."""
        begin_ps = max(now_ns * 1000, self.free_ps)
        self.free_ps = begin_ps + self.time_ps(length + OVERHEAD)
        self.frames += 1
        fate = self._fate(LineUnit.FRAME, begin_ps, length + OVERHEAD - GAP) if numbered else LineFate.CAME
        if not numbered and self._is_damaged(begin_ps, length + OVERHEAD - GAP):
            fate = LineFate.DAMAGED
        if fate is LineFate.CAME and mixed(self.settings.seed ^ _LOSS, self.frames) < self.settings.loss:
            fate = LineFate.LOST
        if fate is LineFate.DAMAGED or self.settings.wait is Wait.WHOLE:
            seen_ps = self.free_ps
        else:
            seen_ps = begin_ps + (self.time_ps(HEADER) if self.settings.wait is Wait.HEADER else 0)
        return -(-seen_ps // 1000) + self.settings.delay_ns, fate

    def put_set(self, now_ns: int, what: LineUnit) -> tuple[int, LineFate]:
        """Put an ordered set on the line; return the moment at which it arrives, and its fate."""
        begin_ns = max(now_ns, self.set_ns)
        self.set_ns = begin_ns + self.time_ns(LEAST_SPACING)
        taken_ps = self.time_ps(OCTETS_OF_SET)
        self.free_ps = max(self.free_ps, now_ns * 1000) + taken_ps
        fate = self._fate(what, begin_ns * 1000, OCTETS_OF_SET)
        return begin_ns + -(-taken_ps // 1000) + self.settings.delay_ns, fate

    def _fate(self, what: LineUnit, begin_ps: int, octets: int) -> LineFate:
        self.put[what] += 1
        number = self.put[what]
        for jam in self.settings.jams:
            if jam.what is what and jam.first <= number < jam.first + jam.count:
                return jam.fate
        return LineFate.DAMAGED if self._is_damaged(begin_ps, octets) else LineFate.CAME

    def _is_damaged(self, begin_ps: int, octets: int) -> bool:
        """Report whether an octet is in a damaged slot."""
        given = self.settings
        if not given.slot_octets:
            return False
        place = begin_ps // 1000 * given.bps // _NS
        slots = range(place // given.slot_octets, (place + octets - 1) // given.slot_octets + 1)
        return any(mixed(given.seed, slot) < given.slot_threshold for slot in slots)
