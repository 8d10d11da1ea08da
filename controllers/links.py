"""Ways over the links between switches: the shortest ones to a switch, and a tree for frames that are flooded."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

Links = Mapping[int, Mapping[int, tuple[int, int]]]
"""For each switch its ports that lead to others: {1: {2: (3, 4)}} joins port 2 of switch 1 and port 4 of switch 3."""


def distances(links: Links, goal: int) -> dict[int, int]:
    """Return how many links there are from each switch to this one, for those that can reach it."""
    found, queue = {goal: 0}, deque([goal])
    while queue:
        one = queue.popleft()
        for far, _ in links[one].values():
            if far not in found:
                found[far] = found[one] + 1
                queue.append(far)
    return found


def shortest(links: Links, switch: int, distance: Mapping[int, int]) -> tuple[int, ...]:
    """Return the ports of a switch by which its shortest ways begin; `distance` is from the goal."""
    own = distance.get(switch)
    return tuple(sorted(port for port, (far, _) in links[switch].items() if own and distance.get(far) == own - 1))


def tree(links: Links) -> set[tuple[int, int]]:
    """Return the switches and ports of links that make a tree of shortest ways in each part of the network."""
    found: set[tuple[int, int]] = set()
    reached: set[int] = set()
    for root in sorted(links):
        if root in reached:
            continue
        reached.add(root)
        queue = deque([root])
        while queue:
            one = queue.popleft()
            for port, (far, far_port) in sorted(links[one].items()):
                if far not in reached:
                    reached.add(far)
                    found |= {(one, port), (far, far_port)}
                    queue.append(far)
    return found
