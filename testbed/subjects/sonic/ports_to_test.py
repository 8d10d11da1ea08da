"""The ports of a switch that a run tests: the one with the least headroom to spare, and one of each class of ports.

Ports of a class have the same speed, cable, MTU, buffer profiles and all other settings that decide about lossless
traffic. Ports that differ only in cable, MTU and the profiles of priority groups can be tested beside each other: the
others then have hosts, which do the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from testbed.errors import UsageError, nearest
from testbed.subjects.sonic.headroom import SHORT_CABLE, GroupHeadroom, described, tightest
from testbed.subjects.sonic.tables import PortRow, Tables
from testbed.units import Length, Rate

MOST_PORTS = 4
_USUAL_POOL = 16 << 20
_USUAL_WATCHDOG_MS = 1400
_USUAL_DELAY_BYTES = 1 << 20
"""The pool in bytes, watchdog's times in ms and content of cables in bytes for which a case's time limit is made."""


class PortsError(UsageError):
    """The error of ports that cannot be tested."""


@dataclass(frozen=True)
class PortClass:
    """The ports of one class, those that the user names first."""

    ports: tuple[str, ...]
    beside: tuple[str, ...]
    """Ports of other classes that can have hosts too, the user's first. None of them would lose frames itself."""
    headroom: GroupHeadroom
    """The headroom of the tightest lossless group; it is the same at each port of the class."""

    def places(self, most: int = MOST_PORTS) -> tuple[str, ...]:
        """Return the ports that get a host."""
        return (*self.ports, *self.beside)[:most]

    def about(self, tables: Tables) -> str:
        """Return a port of the class in words, with the rate and the cable of the hardware."""
        port, one = self.ports[0], self.headroom
        return f"{described(tables, port)}, profile {one.profile or '(none)'}, {one.in_words}"


def classes(tables: Tables, cell: int, named: Sequence[str] = ()) -> list[PortClass]:
    """Return the classes of the ports that are up and have PFC, the one with the least slack first.

    Each has its ports in the order of the file.

    With `named` only the classes of these ports, each with its named ports first.
    """
    testable = [port for port, row in tables.ports.items() if row.admin_up and tables.pfc_of(port)]
    if not testable:
        raise PortsError(
            "no port is up and has pfc_enable in PORT_QOS_MAP, so there is nothing to test; `xoff switch check` shows "
            "what the file has"
        )
    for port in named:
        require_port(tables, port)
        if not tables.pfc_of(port):
            raise PortsError(f"{port} has no pfc_enable in PORT_QOS_MAP, so there is nothing to test at it")
    ordered = [*dict.fromkeys(named), *(port for port in testable if port not in named)]
    by_class: dict[object, list[str]] = {}
    by_kind: dict[object, list[str]] = {}
    for port in ordered:
        by_class.setdefault(_class_of(tables, port), []).append(port)
        by_kind.setdefault(_alike(tables, port), []).append(port)
    headrooms = {ports[0]: _tightest(tables, ports[0], cell) for ports in by_class.values()}
    short = {port for ports in by_class.values() if headrooms[ports[0]].slack < 0 for port in ports}
    found = []
    for ports in by_class.values():
        if named and ports[0] not in named:
            continue
        others = [port for port in by_kind[_alike(tables, ports[0])] if port not in ports]
        beside = [port for port in others if port in named or port not in short]
        found.append(PortClass(tuple(ports), tuple(beside), headrooms[ports[0]]))
    return sorted(found, key=lambda one: one.headroom.slack)


def _tightest(tables: Tables, port: str, cell: int) -> GroupHeadroom:
    """Return the tightest lossless group of a port that has PFC."""
    found = tightest(tables, port, cell)
    assert found is not None
    return found


def require_port(tables: Tables, port: str) -> None:
    """Raise a PortsError if there is no such port, or if it is down."""
    if port not in tables.ports:
        raise PortsError(f"there is no port {port[:40]!r}; {nearest(port[:40], tables.ports)}")
    if not tables.ports[port].admin_up:
        raise PortsError(f"{port} is down (admin_status), so nothing can be tested at it")


def split(text: str) -> list[str]:
    """Return the names in a list such as "Ethernet0,Ethernet4"."""
    found = list(dict.fromkeys(filter(None, (one.strip() for one in text.split(",")))))
    if not found:
        raise PortsError(f"--ports {text[:40]!r} names none; Ethernet0,Ethernet4 is a list of ports")
    return found


def in_order(tables: Tables, cell: int, ports: Iterable[str]) -> list[str]:
    """Return these ports in the order of a run: the one with the least slack, one of each other class, and the others.

    Ports without PFC are last.
    """
    chosen = list(ports)
    slack = {port: group.slack for port in chosen if (group := tightest(tables, port, cell)) is not None}
    first: dict[object, str] = {}
    for port in slack:
        first.setdefault(_class_of(tables, port), port)
    leading = sorted(first.values(), key=slack.__getitem__)
    ranks = {port: rank for rank, port in enumerate(leading)}
    return sorted(chosen, key=lambda port: (ranks.get(port, len(ranks)), port not in slack))


def with_only(tables: Tables, ports: Sequence[str]) -> Tables:
    """Return the same switch with only these ports up, in this order. Testers take the places of neighbours."""
    rows = {port: replace(tables.ports[port], admin_up=True) for port in ports}
    rows |= {port: replace(row, admin_up=False) for port, row in tables.ports.items() if port not in rows}
    return replace(tables, ports=rows, neighbours={})


def ports_under_test(tables: Tables) -> Mapping[str, PortRow]:
    """Return the ports under test of such tables: those that are up."""
    return {port: row for port, row in tables.ports.items() if row.admin_up}


def patience(tables: Tables) -> int:
    """Return the factor by which a case may take longer on this switch than on Xoff's own.

    Large buffers take long to fill, and a case waits for a watchdog's times and for the frames in long cables.
    """
    pool = max((row.size or 0 for row in tables.pools.values()), default=0)
    watchdog = max((row.detection_time + (row.restoration_time or 0) for row in tables.watchdogs.values()), default=0)
    delays = (
        Rate.from_bps(row.speed * 10**6).size_in(Length(tables.cables.get(port, SHORT_CABLE)).propagation()).bytes
        for port, row in tables.ports.items()
    )
    watchdog += 10 * (tables.watchdog_poll or 0)
    return 1 + pool // _USUAL_POOL + watchdog // _USUAL_WATCHDOG_MS + max(delays, default=0) * 8 // _USUAL_DELAY_BYTES


def _alike(tables: Tables, port: str) -> object:
    """Return the settings that ports have in common if they can be tested beside each other."""
    qos = tables.qos_of(port)
    return (
        tables.ports[port].speed,
        qos.pfc_enable,
        qos.pfcwd_sw_enable,
        tuple(sorted(qos.maps.items())),
        tables.watchdogs.get(port),
        tuple((tables.queue_profiles.get((port, queue)), tables.queues.get((port, queue))) for queue in range(8)),
    )


def _class_of(tables: Tables, port: str) -> object:
    profiles = tuple(tables.profile_name(port, group) for group in range(8))
    length = Length(tables.cables.get(port, SHORT_CABLE))
    return _alike(tables, port), length, tables.ports[port].mtu, profiles
