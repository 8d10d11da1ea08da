"""The division of a switch's memory by its tables (decision 0285): reserved, headroom and shared, pool by pool."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass

from testbed.subjects.sonic.tables import NULL, PoolRow, PoolType, ProfileRow, Tables

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
    found: dict[str, int] = {}
    for pools, part in _PARTS:
        for name, pool in pools(tables).items():
            found.setdefault(name, ASSUMED_POOL if pool.size is None else pool.size)
            if pool.size is not None and tables.sizes_are_shared:
                held, headroom, _ = part(tables, name, pool, set(tables.ports))
                found[name] += held + headroom
    return found


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
