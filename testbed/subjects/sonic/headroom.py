"""The headroom that a lossless group of a port needs, by speed, cable length and MTU, and the headroom that it has.

Two bounds, by the sums of `testbed.switch.headroom`. Below `least` frames are lost even if both stations react at once
and all frames have full size. `most` is for stations as slow as the standards allow, and for the frames that waste most
of their cells; with it nothing is lost, whatever comes. Both have room for the frame that triggers PAUSE.

The division of a switch's memory by its tables (decision 0285): reserved, headroom and shared, pool by pool.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass

from testbed.subjects.sonic.tables import NULL, PoolRow, PoolType, ProfileRow, Tables
from testbed.switch.headroom import annex_n
from testbed.switch.headroom.calculation import HeadroomError, HeadroomPort, adaptive
from testbed.switch.headroom.extras import Extras, Fec
from testbed.units import Length, Rate

ASSUMED_POOL = 32 << 20
"""The bytes of a pool without a size. The switch itself divides its memory there."""


@dataclass(frozen=True)
class Division:
    """One pool, in bytes. `headroom` is the part that may be used, `promised` the sum of the groups' parts of it."""

    name: str
    size: int
    reserved: int
    headroom: int
    promised: int

    @property
    def shared(self) -> int:
        return self.size - self.reserved - self.headroom


def ingress_pools(tables: Tables) -> dict[str, PoolRow]:
    return {name: pool for name, pool in tables.pools.items() if pool.type is not PoolType.EGRESS}


def egress_pools(tables: Tables) -> dict[str, PoolRow]:
    return {name: pool for name, pool in tables.pools.items() if pool.type is not PoolType.INGRESS}


def reserved(tables: Tables, profile: ProfileRow, pool: PoolRow) -> int:
    """Return the bytes that a group has for itself besides its headroom."""
    shares = pool.xoff is not None or tables.over_subscribe is not None
    own = not shares and profile.xoff is not None and profile.size >= profile.xoff
    return profile.size - (profile.xoff or 0) if own else profile.size


def divisions(tables: Tables, ports: Iterable[str] | None = None) -> list[Division]:
    """Return the divisions of all pools. Only `ports` count, by default all."""
    sizes, chosen = memory(tables), set(tables.ports if ports is None else ports)
    return [
        Division(name, sizes[name], *parts)
        for pools, part in _PARTS
        for name, pool in pools(tables).items()
        for parts in [part(tables, name, pool, chosen)]
    ]


def memory(tables: Tables) -> dict[str, int]:
    """Return the bytes of each pool with reserved memory and headroom, whichever of them its size includes."""
    by_pool: dict[str, int] = {}
    for pools, part in _PARTS:
        for name, pool in pools(tables).items():
            by_pool.setdefault(name, ASSUMED_POOL if pool.size is None else pool.size)
            if pool.size is not None and tables.sizes_are_shared:
                held, headroom, _ = part(tables, name, pool, set(tables.ports))
                by_pool[name] += held + headroom
    return by_pool


def _of_ingress(tables: Tables, name: str, pool: PoolRow, ports: Set[str]) -> tuple[int, int, int]:
    """Return the reserved bytes, the headroom, and the sum of the groups' parts of it."""
    rows = [
        profile
        for (port, number) in tables.groups
        if port in ports and (profile := tables.profile(port, number)) is not None and profile.pool == name
    ]
    promised = sum(row.xoff or 0 for row in rows)
    headroom = promised if pool.xoff is None else pool.xoff
    if pool.xoff is None and tables.over_subscribe is not None:
        headroom = max(-(-promised // tables.over_subscribe), *(row.xoff or 0 for row in rows), 0)
    return sum(reserved(tables, row, pool) for row in rows), headroom, promised


def _of_egress(tables: Tables, name: str, pool: PoolRow, ports: Set[str]) -> tuple[int, int, int]:
    held = sum(
        profile.size
        for (port, _), used in tables.queue_profiles.items()
        if port in ports and used != NULL and (profile := tables.profiles.get(used)) and profile.pool == name
    )
    return held, 0, 0


_PARTS = ((ingress_pools, _of_ingress), (egress_pools, _of_egress))


NO_EXTRAS = Extras()
DEFAULT_MTU = 9100
SHORT_CABLE = "5m"
"""The length that is assumed where CABLE_LENGTH has no entry."""
_TAGGED = 18
"""The octets of a tagged frame beside its payload, with FCS."""
_FCS = 4


@dataclass(frozen=True)
class Need:
    """The bounds of one lossless group's headroom, in bytes of whole cells."""

    least: int
    most: int


def needed(rate: Rate, length: Length, mtu: int, cell: int, extras: Extras = NO_EXTRAS) -> Need:
    """Return the headroom that one lossless group needs."""
    longest = mtu + _TAGGED
    full = HeadroomPort(rate, longest, longest, cell, not_kept=_FCS)
    small = HeadroomPort(rate, longest, 64, cell, not_kept=_FCS)
    trigger = -(-(longest - _FCS) // cell)
    least = adaptive(full, length.propagation() * 2, further=extras.least(rate, longest)).cells + trigger
    further = extras.most(rate, longest)
    try:
        most = annex_n.worst_case(small, length, annex_n.port_type_for(rate), further=further).cells + trigger
    except HeadroomError:  # 802.3 has no delays for the rate
        slow = annex_n.HIGHER_LAYER_DELAY * 2
        most = adaptive(small, length.propagation() * 2, slow, further).cells + trigger
    return Need(least * cell, max(least, most) * cell)


def fec_of(tables: Tables, port: str) -> Fec:
    """Return the FEC of a port by the file. One that is negotiated counts as RS, the longer one."""
    word = tables.ports[port].fec
    return Fec.RS if word == "auto" else Fec(word or "none")


def needed_at(tables: Tables, port: str, cell: int, extras: Extras | None = None) -> Need:
    """Return the headroom that one lossless group of a switch's port needs. Without `extras` its FEC is the file's."""
    row = tables.ports[port]
    there = Extras(fec_of(tables, port)) if extras is None else extras
    length = Length(tables.cables.get(port, SHORT_CABLE))
    return needed(Rate.from_bps(row.speed * 10**6), length, row.mtu or DEFAULT_MTU, cell, there)


def described(tables: Tables, port: str) -> str:
    """Return the speed, cable and MTU of a port as text."""
    row = tables.ports[port]
    length = tables.cables.get(port)
    mtu = f"MTU {row.mtu}" if row.mtu else f"MTU {DEFAULT_MTU} (assumed)"
    return f"{Rate.from_bps(row.speed * 10**6)}, {length or f'{SHORT_CABLE} (assumed)'}, {mtu}"


@dataclass(frozen=True)
class GroupHeadroom:
    """One lossless group of a port: the headroom that it has, in bytes, and the headroom that the port's cable
    needs.
    """

    port: str
    group: int
    profile: str | None
    """The name of the group's BUFFER_PROFILE, even if the file lacks that profile, or None if the group has none."""
    has: int | None
    """The headroom in bytes: 0 without a profile, None if BUFFER_PG has NULL, so that the switch computes it."""
    need: Need
    pool: str = ""
    pool_xoff: int | None = None

    @property
    def slack(self) -> int:
        """The headroom in bytes beyond the least that is needed. Below zero frames will be lost."""
        return (self.need.most if self.has is None else self.has) - self.need.least

    @property
    def in_words(self) -> str:
        has = "computed" if self.has is None else f"{self.has} B"
        return f"headroom {has}, needed {self.need.least} B"

    @property
    def remedy(self) -> str:
        """The setting to change if there is too little headroom; empty if there is enough."""
        if self.slack >= 0:
            return ""
        most = f"{self.need.most} ({self.need.least} is the least, with full frames and stations that react at once)"
        if self.profile is None or not self.has:
            return f"give BUFFER_PG {self.port}|{self.group} a lossless profile with an xoff of {most}"
        shared = ""
        if self.pool_xoff is not None and self.pool_xoff < self.need.most:
            shared = f", and xoff of pool {self.pool}, {self.pool_xoff}, to no less"
        return f"set xoff of profile {self.profile} to {most}{shared}"


def lossless_groups(tables: Tables, port: str, cell: int, extras: Extras | None = None) -> list[GroupHeadroom]:
    """Return the lossless groups of a port, in the order of their numbers. Without PFC there are none."""
    groups, need = [], needed_at(tables, port, cell, extras)
    for group in sorted(tables.pfc_of(port)):
        name, row = tables.profile_name(port, group), tables.profile(port, group)
        if row is not None:
            pool = tables.pools.get(row.pool)
            groups.append(
                GroupHeadroom(port, group, name, row.xoff or 0, need, row.pool, pool.xoff if pool is not None else None)
            )
        else:
            computed = tables.groups.get((port, group)) == NULL
            groups.append(GroupHeadroom(port, group, name, None if computed else 0, need))
    return groups


def tightest(tables: Tables, port: str, cell: int) -> GroupHeadroom | None:
    """Return the lossless group of a port that has the least slack, or None if the port has no PFC."""
    return min(lossless_groups(tables, port, cell), key=lambda one: one.slack, default=None)
