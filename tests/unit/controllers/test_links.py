"""Shortest ways over links, and trees."""

from __future__ import annotations

from controllers.links import distances, shortest, tree

SQUARE = {
    1: {1: (2, 1), 2: (3, 1)},
    2: {1: (1, 1), 2: (4, 1)},
    3: {1: (1, 2), 2: (4, 2)},
    4: {1: (2, 2), 2: (3, 2)},
    5: {},
}


def test_ways_are_those_with_the_fewest_links() -> None:
    distance = distances(SQUARE, 4)
    assert distance == {4: 0, 2: 1, 3: 1, 1: 2}
    assert [shortest(SQUARE, switch, distance) for switch in SQUARE] == [(1, 2), (2,), (2,), (), ()]


def test_a_tree_has_one_link_fewer_than_switches() -> None:
    assert tree(SQUARE) == {(1, 1), (2, 1), (1, 2), (3, 1), (2, 2), (4, 1)}
    assert tree({1: {1: (2, 1), 2: (2, 2)}, 2: {1: (1, 1), 2: (1, 2)}}) == {(1, 1), (2, 1)}
