"""The search for deadlocks over several kernels: whatever a part has seen and whenever the parts meet, it finds what a
look at the whole network finds.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.linux.port_program import GroupLimits
from testbed.net.fabric.deadlocks import Group, Search, Seen
from testbed.net.partition.deadlock_notes import DeadlockNotes
from testbed.switch.pfc.deadlock import deadlocks

NODES = 4
LIMITS = GroupLimits(lossless=True, guaranteed=0, static=2, alpha=None, xon_offset=1, headroom=9)
QUEUES = tuple(1 << priority for priority in range(8))


def part_of_ring(nodes: Sequence[int], paused: Sequence[bool]) -> Seen:
    """Return what is seen at some nodes of a ring. Port 2n of node n leads to port 2n + 1 of the next node, which has
    paused it or not; the frames of a group wait in the node's own queue to the next one.
    """
    mine = [node for node in nodes if paused[node]]
    groups = {
        (2 * before + 1, 3): Group((node, 0), 9, LIMITS, (0, 1, 1), {(2 * node, 3): 2})
        for before, node in ((node - 1 if node else NODES - 1, node) for node in nodes)
    }
    slots = [2 * node for node in mine]
    return Seen(dict.fromkeys(slots, 8), dict.fromkeys(slots, QUEUES), groups)


PLACEMENTS = st.lists(st.integers(0, 2), min_size=NODES, max_size=NODES).map(
    lambda part_of: [[node for node in range(NODES) if part_of[node] == part] for part in range(3)]
)
PAUSED = st.lists(st.booleans(), min_size=NODES, max_size=NODES) | st.just([True] * NODES)


@given(PLACEMENTS, PAUSED)
def test_what_parts_see_together_is_what_is_seen_of_the_whole_network(
    parts: list[list[int]], paused: list[bool]
) -> None:
    first, *others = [part_of_ring(nodes, paused) for nodes in parts]
    whole = part_of_ring(range(NODES), paused)
    assert first.joined(others) == whole
    circle = tuple((2 * node, 3) for node in range(NODES))
    assert deadlocks(first.joined(others).waits()) == ([circle] if all(paused) else [])


def noted(seen: Sequence[Seen]) -> Iterator[tuple[int, bytes]]:
    """Yield the moment of each look and what a part notes then."""
    yield 1, b"" if seen[0] == Seen({}, {}, {}) else pickle.dumps((1, seen[0]))
    for look, (before, now) in enumerate(pairwise(seen), 2):
        yield look, b"" if now == before else pickle.dumps((look, now))


MEETINGS = st.lists(st.lists(st.integers(0, 3), min_size=3, max_size=3), max_size=6)
"""The looks that each part makes from one meeting to the next."""


@given(PLACEMENTS, st.lists(PAUSED, min_size=1, max_size=8), MEETINGS)
def test_parts_that_meet_at_any_moments_find_what_a_look_at_the_whole_network_finds(
    parts: list[list[int]], looks: list[list[bool]], meetings: list[list[int]]
) -> None:
    search = Search()
    whole = [part_of_ring(range(NODES), paused) for paused in looks]
    expected = [record for look, seen in enumerate(whole, 1) for record in search.records(seen, look)]
    of_parts = [list(noted([part_of_ring(nodes, paused) for paused in looks])) for nodes in parts]
    notes, given = DeadlockNotes(), [0] * len(parts)
    try:
        for further in [*meetings, [len(looks)] * len(parts)]:
            pieces = []
            for part, many in enumerate(further):
                begin, given[part] = given[part], min(given[part] + many, len(looks))
                new = b"".join(octets for _, octets in of_parts[part][begin : given[part]])
                pieces.append((given[part], new))
            found = notes.found(pieces)
            assert found == [record for record in expected if record[0] <= min(given)]
    finally:
        notes.close()


@pytest.mark.parametrize("cells", [1, 2])
def test_a_group_over_the_cut_that_resumes_when_the_rest_has_left_breaks_the_circle(cells: int) -> None:
    """Two cells, one of them in the queue of the circle: without it the group has none in the headroom, and resumes."""
    one, other = part_of_ring((0, 1), [True] * NODES), part_of_ring((2, 3), [True] * NODES)
    group = other.groups[3, 3]
    changed = {(3, 3): Group(group.pool, group.size, LIMITS, group.used, {(4, 3): cells})}
    together = one.joined([Seen(other.paused, other.stops, other.groups | changed)])
    assert bool(deadlocks(together.waits())) == (cells == 2)
