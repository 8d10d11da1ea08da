"""Does a cable fit a switch? The verdict on one port with a cable of some length, and the configuration that makes it
fit.

A group fits if its headroom is at least what is needed with full frames and stations that react at once. The
configuration that is suggested has room for the slowest stations and the worst frames that the standards allow; where
the pool has no room for that, it has the least. It changes only what has to change: the length of the cable, a profile
of its own for the port, and the pool's headroom. Whether the rest of the pool is enough for bursts is not decided here.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, replace

from testbed.errors import UsageError, nearest
from testbed.subjects.sonic.headroom import Division, Need, described, divisions, lossless_groups, memory, needed_at
from testbed.subjects.sonic.tables import NULL, PoolRow, ProfileRow, Tables
from testbed.subjects.sonic.write import as_json
from testbed.switch.headroom.extras import Extras
from testbed.units import Length

Patch = dict[str, dict[str, dict[str, str]]]


class Verdict(enum.StrEnum):
    """The verdict on a port as it is configured, and what can be done."""

    FITS = "fits"
    FITS_IF_CHANGED = "fits if changed"
    NO_PFC = "no PFC"
    DOES_NOT_FIT = "does not fit"


@dataclass(frozen=True)
class Fit:
    """The answer for one port, in bytes."""

    port: str
    verdict: Verdict
    sentence: str
    need: Need
    has: int | None
    """The least headroom of a lossless group of the port, or None if the switch computes it."""
    patch: Patch
    """The tables and fields to set, in the form that `config load` takes; empty if nothing has to change."""


def chosen(tables: Tables, name: str) -> list[str]:
    """Return a port, or the members of a port channel."""
    if name in tables.channels:
        return list(tables.channels[name])
    if name not in tables.ports:
        raise UsageError(f"there is no port {name[:40]}; {nearest(name[:40], [*tables.ports, *tables.channels])}")
    return [name]


def fit(tables: Tables, port: str, length: Length, cell: int, extras: Extras | None = None) -> Fit:
    """Return the verdict on a port with a cable of this length. Without `extras` its FEC is that of the file."""
    asked = replace(tables, cables={**tables.cables, port: in_metres(length)})
    need, where = needed_at(asked, port, cell, extras), described(asked, port)
    if not tables.pfc_of(port):
        text = f"No: {port} has no PFC, so no frame is lossless there; pfc_enable in PORT_QOS_MAP|{port} turns it on."
        return Fit(port, Verdict.NO_PFC, text, need, 0, {})
    # The groups with the profiles that they have now: NULL finds another profile by the new length.
    now = {(port, one.group): one for one in lossless_groups(tables, port, cell, extras)}
    sizes = [0 if one.profile is None else one.has for one in now.values()]
    if None in sizes:
        text = (
            f"{port} ({where}) needs {need.least} B of headroom for each lossless group at least, {need.most} B for "
            "the slowest stations; the switch computes it itself from CABLE_LENGTH, so set the length."
        )
        patch = _lengths(tables, asked, port)
        return Fit(port, Verdict.FITS_IF_CHANGED if patch else Verdict.FITS, text, need, None, patch)
    has = min(size for size in sizes if size is not None)
    groups = sorted(number for _, number in now)
    words = f"{'group' if len(groups) == 1 else 'groups'} {', '.join(map(str, groups))}"
    if has >= need.least and not _pool_problem(asked, port):
        slow = "" if has >= need.most else f"; the slowest that the standards allow would need {need.most} B"
        text = f"Yes: {port} ({where}) fits: {words} have {has} B of headroom and need {need.least} B at least{slow}."
        return Fit(port, Verdict.FITS, text, need, has, _lengths(tables, asked, port))
    made, wanted = _best(tables, asked, port, groups, need)
    if made is None:
        return Fit(port, Verdict.DOES_NOT_FIT, _hopeless(asked, port, groups, need, where), need, has, {})
    lack = f"{need.least - has} B are missing" if has < need.least else "its pool promises more than it has"
    enough = "" if wanted == need.most else ", with full frames and stations that react at once"
    before, after = _shared(tables, port), _shared(made, port)
    left = f" and leaves {after} of {before} B to share" if after < before else ""
    text = (
        f"No, but it can: {port} ({where}) needs {need.least} B of headroom in {words} and has {has} B, so {lack}; "
        f"with {wanted} B it fits{enough}{left}."
    )
    return Fit(port, Verdict.FITS_IF_CHANGED, text, need, has, _patch(tables, made, port, groups))


def _best(before: Tables, asked: Tables, port: str, groups: list[int], need: Need) -> tuple[Tables | None, int]:
    """Return tables that fit: with the most headroom if half of what is shared stays, else with the least."""
    shared = _shared(before, port)
    for wanted, stays in ((need.most, shared // 2), (need.least, 1)):
        made = _with_headroom(asked, port, groups, wanted)
        if made is not None and not _pool_problem(made, port) and _shared(made, port) >= stays:
            return made, wanted
    return None, 0


def _shared(tables: Tables, port: str) -> int:
    """Return the bytes that the lossless groups of a port share with others."""
    names = {row.pool for number in tables.pfc_of(port) if (row := tables.profile(port, number)) and row.lossless}
    return min((one.shared for one in divisions(tables) if one.name in names), default=0)


def in_metres(length: Length) -> str:
    """Return a length as SONiC takes it, in whole metres, rounded up."""
    return f"{-(-length.mm // 1000)}m"


def _with_headroom(tables: Tables, port: str, groups: list[int], wanted: int) -> Tables | None:
    """Return tables in which a port's lossless groups have so much headroom; None if nothing says from which pool."""
    model = next((row for number in groups if (row := tables.profile(port, number)) and row.lossless), None)
    model = model or next((row for row in tables.profiles.values() if row.lossless), None)
    if model is None:
        return None
    name, pool = _profile_name(tables, port), tables.pools.get(model.pool)
    holds_xoff = pool is not None and pool.xoff is None and model.size >= (model.xoff or 0)
    size_of_group = model.size + (wanted - (model.xoff or 0) if holds_xoff else 0)
    profiles = {**tables.profiles, name: replace(model, size=size_of_group, xoff=wanted)}
    made = replace(tables, profiles=profiles, groups={**tables.groups, **{(port, number): name for number in groups}})
    if pool is None or pool.xoff is None:
        return made
    # One pot for the headroom of all groups: it stays as much oversubscribed as it was. The memory stays what it is.
    promised = {one.name: one.promised for one in divisions(made)}[model.pool]
    was = {one.name: one.promised for one in divisions(tables)}[model.pool]
    xoff = promised if was <= pool.xoff else pool.xoff + promised - was
    size = pool.size
    if size is not None and tables.sizes_are_shared:
        size -= max(0, xoff - pool.xoff)
    if size is not None and size <= 0:
        return None
    return replace(made, pools={**made.pools, model.pool: replace(pool, xoff=max(xoff, pool.xoff), size=size)})


def _profile_name(tables: Tables, port: str) -> str:
    return f"pg_lossless_{tables.ports[port].speed}_{tables.cables[port]}_profile"


def _pool_problem(tables: Tables, port: str) -> Division | None:
    """Return the division of the port's pool if it promises more than there is, or leaves nothing to share."""
    names = {row.pool for number in tables.pfc_of(port) if (row := tables.profile(port, number))}
    return next((one for one in divisions(tables) if one.name in names and one.shared <= 0), None)


def _hopeless(tables: Tables, port: str, groups: list[int], need: Need, where: str) -> str:
    each = f"{need.least} B of headroom for each of {len(groups)} lossless groups"
    made = _with_headroom(tables, port, groups, need.least)
    pools = memory(tables)
    if made is None and not any(row.lossless for row in tables.profiles.values()):
        return f"No: {port} ({where}) needs {each}, and no BUFFER_PROFILE has an xoff; add one that names a pool."
    name = next(
        (row.pool for row in (made or tables).profiles.values() if row.lossless and row.pool in pools), "its pool"
    )
    has, wants = f"the {pools.get(name, 0)} B of {name}", f"{need.least * len(groups)} B"
    return (
        f"No, and no setting makes it fit: {port} ({where}) needs {each}, and {has} have no room for {wants} beside "
        "what is reserved and promised to other ports; a shorter cable, one lossless group or more buffer helps."
    )


def _lengths(before: Tables, after: Tables, port: str) -> Patch:
    if before.cables.get(port) == after.cables[port]:
        return {}
    return {"CABLE_LENGTH": {"AZURE": {port: after.cables[port]}}}


def _patch(before: Tables, after: Tables, port: str, groups: list[int]) -> Patch:
    """Return the rows that differ, as a file of `config load` has them."""
    written = as_json(after)
    patch: Patch = _lengths(before, after, port)
    for table, old, new in (
        ("BUFFER_POOL", before.pools, after.pools),
        ("BUFFER_PROFILE", before.profiles, after.profiles),
    ):
        changed: Mapping[str, PoolRow | ProfileRow] = {n: row for n, row in new.items() if dict(old).get(n) != row}
        if changed:
            patch[table] = {name: written[table][name] for name in changed}
    rows = {
        f"{port}|{number}": {"profile": after.groups[port, number]}
        for number in groups
        if before.groups.get((port, number)) not in (after.groups[port, number], NULL)
        or before.profile_name(port, number) != after.groups[port, number]
    }
    if rows:
        patch["BUFFER_PG"] = rows
    return patch
