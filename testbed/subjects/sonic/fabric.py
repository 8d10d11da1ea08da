"""The contradictions between the switches of a fabric: the settings of the two ends of each cable.

Each finding is a warning. A rule's name is for programs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from testbed.errors import listed
from testbed.strict.problems import Problem, Problems
from testbed.strict.problems import json_path as path
from testbed.subjects.sonic.tables import MapKind, NeighbourRow, Tables
from testbed.units import Length

_USED_MAPS = (MapKind.DSCP_TO_TC, MapKind.DOT1P_TO_TC, MapKind.TC_TO_PG, MapKind.TC_TO_QUEUE, MapKind.PFC_TO_QUEUE)


def check_fabric(switches: Mapping[str, Tables]) -> list[tuple[str, Problem[str]]]:
    """Return the contradictions between the switches of several files, as (file, finding).

    A switch is identified by its hostname.
    """
    found: list[tuple[str, Problem[str]]] = []
    files = {tables.hostname: file for file, tables in switches.items()}
    for file, tables in switches.items():
        for port, near in tables.neighbours.items():
            other = files.get(near.name)
            if other is None or other == file:
                continue
            problems = Problems[str]()
            _link(tables, port, switches[other], near, problems)
            found += [(file, problem) for problem in problems.found]
    return found


def _link(one: Tables, port: str, other: Tables, near: NeighbourRow, problems: Problems[str]) -> None:
    name, far = near.name, near.port
    where = path("DEVICE_NEIGHBOR", port)
    ends = f"{port} and {name} {far}"
    if far not in other.ports:
        problems.warning(where, f"{name} has no port {far or '(none is named)'}", rule="neighbour")
        return
    back = other.neighbours.get(far)
    if back is not None and (back.name, back.port) != (one.hostname, port):
        problems.warning(
            where, f"{name} {far} is this port's neighbour, and its own is {back.name} {back.port}", rule="neighbour"
        )
    for what, here, there in (
        ("speed", one.ports[port].speed, other.ports[far].speed),
        ("MTU", one.ports[port].mtu, other.ports[far].mtu),
        ("cable length", _length(one, port), _length(other, far)),
    ):
        if here != there:
            problems.warning(where, f"{ends} differ in {what}: {here} and {there}", rule="ends differ")
    for priorities, has, lacks in (
        (one.pfc_of(port) - other.pfc_of(far), port, f"{name} {far}"),
        (other.pfc_of(far) - one.pfc_of(port), f"{name} {far}", port),
    ):
        if priorities:
            numbers = listed(map(str, sorted(priorities)))
            problems.warning(where, f"PFC of {numbers} is on at {has} and off at {lacks}", rule="pfc differs")
    for kind in _USED_MAPS:
        here_map, there_map = one.map_of(port, kind) or {}, other.map_of(far, kind) or {}
        differ = _differences(here_map, there_map, kind.sources)
        if differ:
            problems.warning(where, f"{ends} differ in {kind}: {listed(differ, 4)}", rule="maps differ")


def _length(tables: Tables, port: str) -> str | None:
    text = tables.cables.get(port)
    return None if text is None else str(Length(text))


def _differences(one: Mapping[int, int], other: Mapping[int, int], sources: Sequence[int]) -> list[str]:
    return list(_each_difference(one, other, sources))


def _each_difference(one: Mapping[int, int], other: Mapping[int, int], sources: Sequence[int]) -> Iterator[str]:
    for source in sources:
        here, there = one.get(source), other.get(source)
        if here != there:
            yield f"{source} to {'none' if here is None else here} and {'none' if there is None else there}"
