"""Cables in units of the hardware, and the same cables on the lab's scale."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from testbed.errors import UsageError
from testbed.units import Duration, Length, Rate, Scale

MTU = 1500
MTUS = range(1280, 9216 + 1)
"""The possible MTUs: from the least that IPv6 needs to the jumbo frames of common switches."""


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
