"""What a router is to speak: BGP, OSPF, IS-IS and BFD, whatever program speaks it.

Each is a record with what users change; the rest follows from the topology (`router.py`). Times are the lab's: a daemon
knows no scale.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv6Network
from typing import Any

from testbed.errors import UsageError
from testbed.units import Duration

LOCATOR_BITS = 48
"""The bits of a locator, as its SIDs are divided: 32 of the block, 16 of the node; 16 of the function follow."""
MOST_WAYS = 64
"""The most equal routes that daemons are told to use."""


@dataclass(frozen=True)
class Bgp:
    """External BGP over each cable to another router, by the port and without addresses, with equal ways.

    `asn` is the router's AS; without it each router has one of its own, 4200000000 and its number.
    """

    asn: int | None = None
    keepalive: Duration | str = "3s"
    hold: Duration | str = "9s"

    def __post_init__(self) -> None:
        if self.asn is not None and not (type(self.asn) is int and 0 < self.asn < 1 << 32):
            raise UsageError(f"Bgp: asn is {self.asn!r}; a whole number from 1 to 4294967295 is expected")
        _require_seconds("Bgp", keepalive=self.keepalive, hold=self.hold)
        if Duration(self.hold) < Duration("3s"):
            raise UsageError(f"Bgp: hold is {self.hold}; BGP takes 3s or more, and Bfd(...) finds failures sooner")
        if Duration(self.keepalive) >= Duration(self.hold):
            raise UsageError(f"Bgp: keepalive is {self.keepalive}; it has to be shorter than hold, {self.hold}")


@dataclass(frozen=True)
class Ospf:
    """OSPFv2 in one area, with point-to-point cables whose costs are the topology's."""

    area: int = 0
    hello: Duration | str = "1s"
    dead: Duration | str = "4s"

    def __post_init__(self) -> None:
        if not (type(self.area) is int and 0 <= self.area < 1 << 32):
            raise UsageError(f"Ospf: area is {self.area!r}; a whole number, 0 or more, is expected")
        _require_seconds("Ospf", hello=self.hello, dead=self.dead)
        if Duration(self.hello) >= Duration(self.dead):
            raise UsageError(f"Ospf: hello is {self.hello}; it has to be shorter than dead, {self.dead}")


@dataclass(frozen=True)
class Isis:
    """IS-IS of level 2 for IPv4 and IPv6, with point-to-point cables whose metrics are the topology's costs.

    With a `locator`, as in "fd00:5:1::/48", the router has SRv6 SIDs in it (RFC 9352): End, and End.X for each
    neighbour. Then it tells others its IPv6 networks and no IPv4, and cables need no IPv4 addresses.
    """

    hello: Duration | str = "1s"
    lost_after: int = 3
    """The number of hellos without which a neighbour is gone."""
    locator: str = ""

    def __post_init__(self) -> None:
        _require_seconds("Isis", hello=self.hello)
        if not (type(self.lost_after) is int and 2 <= self.lost_after <= 100):
            raise UsageError(f"Isis: lost_after is {self.lost_after!r}; a whole number from 2 to 100 is expected")
        if self.locator:
            _require_locator(self.locator)


@dataclass(frozen=True)
class Bfd:
    """BFD between neighbours of the other protocols: one is gone after `multiplier` intervals without its packets."""

    interval: Duration | str = "100ms"
    multiplier: int = 3

    def __post_init__(self) -> None:
        interval = Duration(self.interval)
        if interval.ps % 10**9 or not Duration("10ms") <= interval <= Duration("60s"):
            raise UsageError(f"Bfd: interval is {self.interval}; whole milliseconds from 10ms to 60s are expected")
        if not (type(self.multiplier) is int and 2 <= self.multiplier <= 255):
            raise UsageError(f"Bfd: multiplier is {self.multiplier!r}; a whole number from 2 to 255 is expected")


Protocol = Bgp | Ospf | Isis | Bfd


def chosen(where: str, protocols: Sequence[Any], known: Iterable[type]) -> dict[type, Any]:
    """Return protocols by their classes; refuse what `where` does not speak, and one that is given twice."""
    kinds, found = tuple(known), {}
    for one in protocols:
        if not isinstance(one, kinds):
            names = ", ".join(f"{kind.__name__}()" for kind in kinds)
            shown = one.__name__ if isinstance(one, type) else one
            raise UsageError(f"{where}: {shown!r} is no protocol that it speaks; it speaks {names}")
        if type(one) in found:
            raise UsageError(f"{where}: {type(one).__name__} is given twice")
        found[type(one)] = one
    if found.keys() == {Bfd}:
        raise UsageError(f"{where}: BFD alone makes no routes; give it a protocol beside, as in {where}(Bgp(), Bfd())")
    return found


def seconds(duration: Duration | str) -> int:
    """Return a time that is known to be whole seconds."""
    return Duration(duration).ns // 10**9


def milliseconds(duration: Duration | str) -> int:
    """Return a time that is known to be whole milliseconds."""
    return Duration(duration).ns // 10**6


def _require_locator(locator: str) -> None:
    try:
        is_right = IPv6Network(locator).prefixlen == LOCATOR_BITS
    except ValueError:
        is_right = False
    if not is_right:
        raise UsageError(
            f"Isis: locator is {locator!r}; an IPv6 prefix of {LOCATOR_BITS} bits is expected, as in fd00:5:1::/48"
        )


def _require_seconds(where: str, **times: Duration | str) -> None:
    for name, time in times.items():
        duration = Duration(time)
        if duration.ps % 10**12 or not Duration("1s") <= duration <= Duration("600s"):
            raise UsageError(f"{where}: {name} is {time}; whole seconds from 1s to 600s are expected")
