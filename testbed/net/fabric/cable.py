"""Cables in units of the hardware, and the same cables on the lab's scale; lines, and when a node has a frame."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from fractions import Fraction

from testbed.errors import UsageError
from testbed.switch.pfc.line import PFC_FRAME
from testbed.units import Duration, Length, Rate, Scale, Size

MTU = 1500
MTUS = range(1280, 9216 + 1)
"""The possible MTUs: from the least that IPv6 needs to the jumbo frames of common switches."""
HEADER = Size.from_bytes(8 + 64)
"""The part of a frame that a node has to have before it cuts through."""


class CableError(UsageError):
    """The description of a cable contradicts itself or is out of range."""


@dataclass(frozen=True)
class Cable:
    """A full-duplex cable: `Cable("100Gb/s", "50km")`, or with a delay instead of a length.

    `loss` is the fraction of frames that the cable loses in each direction; lossless Ethernet needs 0. `mtu` is the MTU
    of both its ports in octets: 9216 for jumbo frames.
    """

    rate: Rate
    delay: Duration
    length: Length | None
    loss: Fraction
    mtu: int

    def __init__(
        self,
        rate: Rate | str = "10Gb/s",
        length: Length | str | None = None,
        *,
        delay: Duration | str | None = None,
        loss: Fraction | str | int = 0,
        mtu: int = MTU,
    ) -> None:
        if length is not None and delay is not None:
            raise CableError(f"a cable has a length ({length}) or a delay ({delay}), not both")
        run = None if length is None else Length(length)
        object.__setattr__(self, "rate", Rate(rate))
        object.__setattr__(self, "length", run)
        object.__setattr__(self, "delay", run.propagation() if run else Duration(delay or "0s"))
        object.__setattr__(self, "loss", _part(loss))
        object.__setattr__(self, "mtu", mtu)
        if not self.rate.bps:
            raise CableError("a cable of 0b/s carries nothing; give a rate above zero")
        if type(mtu) is not int or mtu not in MTUS:
            raise CableError(f"mtu is {mtu!r}; a whole number of octets is expected, {MTUS[0]} to {MTUS[-1]}")

    def with_delay(self, delay: Duration) -> Cable:
        """Return the same cable with another delay, and with no length."""
        return Cable(self.rate, delay=delay, loss=self.loss, mtu=self.mtu)

    def in_lab(self, scale: Scale) -> Cable:
        """Return the same cable on the lab's scale: its rate divided, its delay multiplied."""
        return Cable(scale.lab(self.rate), delay=scale.lab(self.delay), loss=self.loss, mtu=self.mtu)

    def __str__(self) -> str:
        lost = f", losing {self.loss} of the frames" if self.loss else ""
        jumbo = f", MTU {self.mtu}" if self.mtu != MTU else ""
        return f"{self.rate} over {self.length or self.delay}{lost}{jumbo}"


def _part(loss: Fraction | str | int) -> Fraction:
    try:
        part = Fraction(loss)
    except (ValueError, ZeroDivisionError):
        part = Fraction(-1)
    if not 0 <= part <= 1:
        raise CableError(f"loss is {loss!r}; it is a part of the frames, from 0 to 1, such as '1/1000'")
    return part


class Line(enum.StrEnum):
    """The model of the lines at a node's ports (decision 0620)."""

    REAL = "real"
    """PFC frames wait for the frame that is leaving and take their time; cells come free with a frame's last bit."""
    IDEAL = "ideal"
    """PFC frames never wait and take no time; cells come free with a frame's first bit."""

    @classmethod
    def of(cls, where: str, value: object) -> Line:
        """Return what a user has written, the real one if it is nothing; UsageError if it does not exist."""
        return cls.REAL if value is None else cls(_known(where, "line", value, cls))


class Forwarding(enum.StrEnum):
    """The moment at which a node has a frame that comes in; without this setting it is that of the first bit."""

    CUT_THROUGH = "cut-through"  # with the preamble and the first 64 octets
    STORE_AND_FORWARD = "store-and-forward"  # with the last bit

    @classmethod
    def of(cls, where: str, value: object) -> Forwarding | None:
        """Return what a user has written; UsageError if it is nothing that exists."""
        return None if value is None else cls(_known(where, "forwarding", value, cls))


def _known(where: str, name: str, value: object, kinds: type[enum.StrEnum]) -> str:
    if isinstance(value, str) and value in list(kinds):
        return value
    raise UsageError(f"{where}: {name} is {value!r}; write {' or '.join(repr(one.value) for one in kinds)}")


def pause_ns(rate: Rate, line: Line, forwarding: Forwarding | None) -> int:
    """Return the time from when a PFC frame comes in until its last bit has.

    `line` is that of the sender. What stores frames gets none before that, and what cuts through has its header.
    """
    if line is Line.IDEAL or forwarding is Forwarding.STORE_AND_FORWARD:
        return 0
    waits = PFC_FRAME.bytes - (HEADER.bytes if forwarding is Forwarding.CUT_THROUGH else 0)
    return rate.time_for(Size.from_bytes(waits)).ns
