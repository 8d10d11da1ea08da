"""The hops that a stop goes back, with cables in a row of a network that stands for any."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from testbed.measures.standstill import hops

CABLES = {
    "h1-eth0": ("h1", "s1"), "h2-eth0": ("h2", "s1"), "s1-eth3": ("s1", "s2"), "s2-eth2": ("s2", "s3"),
    "s3-eth3": ("s3", "s1"), "h4-eth0": ("h4", "s4"),
}  # fmt: skip
"""By the port: its node, and the one at the other end of its cable."""


def _net() -> Any:
    def port(name: str) -> Any:
        return SimpleNamespace(name=name, node=SimpleNamespace(name=CABLES[name][0]))

    def far_end(port: Any) -> Any:
        return SimpleNamespace(node=SimpleNamespace(name=CABLES[port.name][1]))

    return SimpleNamespace(fabric=SimpleNamespace(port=port, far_end=far_end))


@pytest.mark.parametrize(
    ("stopped", "count"),
    [
        ([], 0),
        (["s1-eth3"], 1),
        (["s1-eth3", "h1-eth0", "h2-eth0"], 2),
        (["h1-eth0"], 0),
        (["h4-eth0", "s1-eth3"], 1),
        (["s1-eth3", "s3-eth3", "s2-eth2"], 2),
    ],
)
def test_a_stop_counts_by_cables_in_a_row_from_the_congested_node(stopped: list[str], count: int) -> None:
    assert hops(_net(), stopped, "s2") == count
