"""VL arbitration of an output port as strict and weighted shares of its line, which is what qdiscs have.

A share is the part of the line that a VL gets when all VLs have packets waiting. With a high limit of 255 the VLs of
the high table are strict; with a lower one both tables share the line: after so many units of 4096 bytes from the high
table one packet of the low one is served (decision 0180). The mapping of VLs to priorities and queues is not decided
here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from testbed.subjects.qos.model import DROP_VL, VlWeight
from testbed.subjects.qos.setup import Arbitration

NO_LIMIT = 255
_LIMIT_UNIT = 4096


@dataclass(frozen=True)
class Shares:
    """The shares of the VLs of one port."""

    strict: tuple[int, ...]  # served before all others
    weighted: dict[int, Fraction]  # parts of what the strict ones leave; their sum is 1
    unserved: tuple[int, ...]  # in no entry with a weight: nothing of them is sent
    warning: str = ""

    def __str__(self) -> str:
        strict = [f"VL {vl} strict" for vl in self.strict]
        return ", ".join([*strict, *(f"VL {vl} {float(part):.2%}" for vl, part in sorted(self.weighted.items()))])


def shares(arbitration: Arbitration, mtu: int, vls: int = DROP_VL) -> Shares:
    """Return the shares of a port with so many VLs, where packets have up to `mtu` bytes."""
    high, low = _parts(arbitration.high, vls), _parts(arbitration.low, vls)
    unserved = tuple(vl for vl in range(vls) if vl not in high and vl not in low)
    if not high or not low:
        return Shares((), high or low, unserved)
    limit = arbitration.high_limit or 0
    if limit == NO_LIMIT:
        weighted = {vl: part for vl, part in low.items() if vl not in high}
        total = sum(weighted.values(), Fraction(0))
        warning = ""
        if len(high) > 1:
            warning = f"VLs {', '.join(map(str, high))} are strict, each before the next; their weights are not kept"
        return Shares(tuple(high), {vl: part / total for vl, part in weighted.items()}, unserved, warning)
    in_turn = max(limit * _LIMIT_UNIT, mtu)  # a limit of 0 is one packet
    of_high = Fraction(in_turn, in_turn + mtu)
    both = {vl: high.get(vl, 0) * of_high + low.get(vl, 0) * (1 - of_high) for vl in sorted({*high, *low})}
    return Shares((), both, unserved)


def equal_shares(vls: int) -> Shares:
    """Return the shares of a port without arbitration tables (decision 0176)."""
    vls = min(vls, DROP_VL)
    return Shares((), {vl: Fraction(1, vls) for vl in range(vls)}, ())


def _parts(table: Iterable[VlWeight] | None, vls: int) -> dict[int, Fraction]:
    """Return each VL's part of a table. A VL may be in several entries; one that the port lacks never has packets."""
    weights: dict[int, int] = {}
    for vl, weight in table or ():
        if weight and vl < vls:
            weights[vl] = weights.get(vl, 0) + weight
    total = sum(weights.values())
    return {vl: Fraction(weight, total) for vl, weight in weights.items()}
