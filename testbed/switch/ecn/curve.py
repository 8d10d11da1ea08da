"""The probability with which a switch marks a packet, in the words of switch command lines: Kmin, Kmax, Pmax.

It implements "RED" of the PFC/ECN article by decision 0134. The curve is what has to come out on the wire:

    share of packets picked
       1 |                 .________   at or above kmax: every packet
    pmax |               .'
         |           .-'
       0 |________.-'________________  queue in bytes
               kmin      kmax    limit: tail drop

The queue is what waits as a packet arrives, that packet not counted, in bytes as Linux counts them: frames from the
destination address on, without FCS. Not here: what is done with a picked packet (`field`), and how Linux is brought to
follow the curve (`red`).
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction

from testbed.errors import UsageError
from testbed.units import Size

LONGEST_QUEUE = Size.from_bytes(2**31 - 1)
"""The longest queue: the kernel's counters have 32 bits, and its check of the thresholds leaves one free."""

# Plain digits: Fraction would also read "1e-999999999", and take all memory for it.
_FRACTION = re.compile(r"\s*([0-9./]{1,30})\s*(%?)\s*")


class EcnError(UsageError):
    """ECN settings that are invalid, or that Linux does not support."""


@dataclass(frozen=True, init=False)
class EcnCurve:
    """The marking curve of one queue. kmin == kmax marks in one step (DCTCP), and pmax then plays no part.

    Sizes may be given as text, pmax as a fraction or text: EcnCurve("100kB", "400kB", "20%").
    """

    kmin: Size
    kmax: Size
    pmax: Fraction  # reached just below kmax
    limit: Size | None  # tail drop; None: only memory, or the buffer in front of the queue, ends it
    keep_not_ect: bool  # packets that cannot be marked wait for tail drop instead of being dropped when picked

    def __init__(
        self,
        kmin: Size | str,
        kmax: Size | str,
        pmax: Fraction | int | str,
        limit: Size | str | None = None,
        keep_not_ect: bool = False,
    ) -> None:
        object.__setattr__(self, "kmin", Size(kmin))
        object.__setattr__(self, "kmax", Size(kmax))
        object.__setattr__(self, "pmax", _probability(pmax))
        object.__setattr__(self, "limit", None if limit is None else Size(limit))
        object.__setattr__(self, "keep_not_ect", keep_not_ect)
        if self.kmin > self.kmax:
            raise EcnError(f"kmin is {self.kmin} and kmax {self.kmax}; kmin cannot be the larger")
        if self.kmax > LONGEST_QUEUE:
            raise EcnError(f"kmax is {self.kmax}; Linux counts queues up to {LONGEST_QUEUE}")
        if self.limit is not None and self.limit <= self.kmax:
            raise EcnError(
                f"limit is {self.limit} and kmax {self.kmax}: packets would be dropped before the queue is long "
                "enough to mark each; leave room for at least one packet above kmax"
            )
        if self.limit is not None and self.limit > LONGEST_QUEUE:
            raise EcnError(f"limit is {self.limit}; Linux counts queues up to {LONGEST_QUEUE}")

    @classmethod
    def step(cls, k: Size | str, limit: Size | str | None = None, keep_not_ect: bool = False) -> EcnCurve:
        """Return the curve that marks every packet that finds k or more in the queue, and no other."""
        return cls(k, k, 1, limit, keep_not_ect)

    def fraction(self, queue: int) -> Fraction:
        """Return the share of packets to be picked while so many bytes wait."""
        kmin, kmax = self.kmin.bytes, self.kmax.bytes
        if queue < kmin:
            return Fraction(0)
        if queue >= kmax:
            return Fraction(1)
        return self.pmax * Fraction(queue - kmin, kmax - kmin)


def _probability(value: Fraction | int | str) -> Fraction:
    """Return a probability above 0 and at most 1, exactly: a float is refused, since 0.1 is not one tenth."""
    exact = None
    if isinstance(value, Fraction) or type(value) is int:
        exact = Fraction(value)
    elif isinstance(value, str) and (match := _FRACTION.fullmatch(value)):
        with suppress(ValueError, ZeroDivisionError):
            exact = Fraction(match[1]) / (100 if match[2] else 1)
    if exact is None or not 0 < exact <= 1:
        shown = str(value) if isinstance(value, Fraction) else repr(value)
        raise EcnError(f"pmax is {shown}; it is above 0 and at most 1, written such as '1/5', '0.2' or '20%'")
    return exact
