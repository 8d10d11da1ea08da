"""Settings of credit-based flow control on one direction of a cable: virtual channels, credits, cells and timers.

Names, ranges and defaults are those of OTG's `ultra_ethernet` (UE 1.0.3, section 5.2). Timers are in octets of the
line, as they are there; the CC_Update's may be a time instead, as OTG has it in microseconds.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from testbed.errors import UsageError
from testbed.units import Duration, Rate

MOST_CREDITS = (1 << 19) - 1
MOST_LOSSLESS = 4
"""The most virtual channels of one port that have credits."""
CELLS = range(32, 2049)
OVERHEADS = range(-16, 128)
CF_MIN, CF_MAX = 800, 65_536
CC_INTERVAL = 65_536
LONGEST_CC_TIME = Duration("65535us")
FCS = 4
SET_OCTETS = 8
"""The octets of an ordered set on the line."""
CC_OCTETS = 84
"""The octets of a CC_Update on the line, with preamble, FCS and gap."""
LINE_OVERHEAD = 20
"""The octets that a frame with FCS takes of the line beside its own: preamble and gap."""


class CreditError(UsageError):
    """Settings of credits that are out of range."""


class CreditMode(enum.StrEnum):
    """What a limit of credits is for."""

    PER_VC = "per_vc"
    """Each virtual channel has a limit of its own."""
    PER_PORT = "per_port"
    """All virtual channels of the port share one."""


@dataclass(frozen=True)
class Credits:
    """Credits of one direction, which both ends have alike."""

    limits: Mapping[int, int]
    """The credits of each virtual channel that has them, per VC; per port the number says nothing."""
    mode: CreditMode = CreditMode.PER_VC
    total: int = MOST_CREDITS
    """The credits of all of them together, per port."""
    cell: int = 64
    """The octets that a credit stands for: the receiver's cell."""
    overhead: int = -FCS
    """The octets that a frame takes of the receiver's buffer beside its own, with FCS; negative if part of it, as the
    FCS, is not kept."""
    cf_min: int = CF_MIN
    """The least octets of the line from one CF_Update to the next."""
    cf_max: int = CF_MAX
    """The most octets from one CF_Update to the next while the receiver holds frames."""
    cc_interval: int = CC_INTERVAL
    """The octets from one CC_Update to the next while credits are out."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "limits", MappingProxyType(dict(self.limits)))
        object.__setattr__(self, "mode", CreditMode(self.mode))
        if not 1 <= len(self.limits) <= MOST_LOSSLESS:
            raise CreditError(
                f"credits are given to {len(self.limits)} virtual channels; a port has 1 to {MOST_LOSSLESS} with them"
            )
        for vc, limit in self.limits.items():
            check("a virtual channel", vc, range(32))
            check(f"the limit of VC {vc}", limit, range(1, MOST_CREDITS + 1))
        check("total", self.total, range(1, MOST_CREDITS + 1))
        check("cell", self.cell, CELLS)
        check("overhead", self.overhead, OVERHEADS)
        check("cf_min", self.cf_min, range(768, 131_073))
        check("cf_max", self.cf_max, range(16_384, 1_048_577))
        check("cc_interval", self.cc_interval, range(1, 1 << 32))

    def of_frame(self, octets: int) -> int:
        """Return the credits that a frame of this length, with FCS, takes."""
        return max(1, -(-(octets + self.overhead) // self.cell))


@dataclass(frozen=True)
class PortCredits:
    """Credits of a port: some of its virtual channels have them, both ways, if the port at the other end has them, too.

    A virtual channel is a local priority. The numbers are those for what the port receives.
    """

    vcs: frozenset[int]
    cells: int | None = None
    """The credits of each virtual channel, or per port those that all of them share, which are cells of the buffer;
    None: as many as the cable needs for line rate with frames of any length."""
    mode: CreditMode | str = CreditMode.PER_VC
    cf_min: int = CF_MIN
    cf_max: int = CF_MAX
    cc_interval: int = CC_INTERVAL
    cc_time: Duration | str | None = None
    """The time from one CC_Update to the next, of the hardware, in place of `cc_interval`; at most 65 535 us."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "vcs", frozenset(self.vcs))
        for vc in self.vcs:
            check("a virtual channel", vc, range(8))
        if self.mode not in list(CreditMode):
            raise CreditError(f"credits: mode is {self.mode!r}; write {' or '.join(map(repr, map(str, CreditMode)))}")
        object.__setattr__(self, "mode", CreditMode(self.mode))
        if self.cc_time is not None:
            if self.cc_interval != CC_INTERVAL:
                raise CreditError("credits: cc_interval and cc_time are both given; a CC_Update has one timer")
            time = Duration(self.cc_time)
            object.__setattr__(self, "cc_time", time)
            if not 0 < time.ps <= LONGEST_CC_TIME.ps:
                raise CreditError(f"credits: cc_time is {time}; it is more than 0 and at most 65535us")
        limit = 1 if self.cells is None else self.cells
        Credits(
            dict.fromkeys(self.vcs, limit),
            cf_min=self.cf_min,
            cf_max=self.cf_max,
            cc_interval=self.cc_interval,
        )

    def cc_octets(self, rate: Rate) -> int:
        """Return the octets of a line of the hardware from one CC_Update to the next."""
        if self.cc_time is None:
            return self.cc_interval
        return max(1, math.ceil(rate.bits_in(Duration(self.cc_time)) / 8))


def check(name: str, value: object, values: range) -> None:
    """Raise CreditError if a value is not a whole number of the range."""
    if type(value) is not int or value not in values:
        raise CreditError(f"credits: {name} is {value!r}; it is {values[0]} to {values[-1]}")
