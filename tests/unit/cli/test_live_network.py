"""The demo's drawing of a running network: states by events, any terminal, any line from the lab."""

from __future__ import annotations

import io
import random
from itertools import pairwise
from typing import Any

import pytest
from rich.console import Console

from testbed.cli.screen.live_network import LiveNetwork

CHAIN: dict[str, Any] = {
    "network": {
        "case": "with PFC",
        "nodes": {"h1": "host", "s2": "switch", "s1": "switch", "r1": "router"},
        "cables": [["h1-eth0", "s1-eth1"], ["s1-eth2", "r1-eth0"], ["r1-eth1", "s2-eth1"]],
        "ports": {
            "h1-eth0": "h1", "s1-eth1": "s1", "s1-eth2": "s1", "r1-eth0": "r1", "r1-eth1": "r1", "s2-eth1": "s2",
        },
        "buffers": {"s1": 1000, "r1": 100, "s2": 1000},
    }
}  # fmt: skip


def window(*events: tuple[str, str], t: int = 10**9, **used: int) -> dict[str, Any]:
    return {"t": t, "used": used, "events": [[t, kind, port, [3]] for kind, port in events]}


def drawn(network: LiveNetwork, width: int = 80, height: int = 24, utf: bool = True) -> list[str]:
    file = io.TextIOWrapper(io.BytesIO(), encoding="utf-8" if utf else "ascii")
    console = Console(file=file, width=width, height=height, force_terminal=True, color_system=None)
    with console.capture() as shown:
        console.print(network)
    return [line.rstrip() for line in shown.get().splitlines()]


def test_nothing_is_drawn_before_there_is_a_network() -> None:
    assert drawn(LiveNetwork()) == [""] or drawn(LiveNetwork()) == []


def test_nodes_come_in_their_order_with_buffers_and_neighbours() -> None:
    network = LiveNetwork()
    network.update(CHAIN)
    network.update(window(("xoff_sent", "s1-eth1"), s1=500, r1=100, t=2_500_000_000))
    head, s1, r1, s2, legend = drawn(network)
    assert head.startswith("2.5 s of the lab  with PFC  XOFF sent 1  through tunnels 0  dropped 0")
    assert s1.split()[:3] == ["s1", "██████░░░░░░", "500/1000"] and s1.endswith("h1 r1") and "▄" in s1
    assert r1.split()[:3] == ["r1", "████████████", "100/100"] and r1.endswith("s1 s2")
    assert s2.split()[:3] == ["s2", "░░░░░░░░░░░░", "0/1000"] and s2.endswith("r1")
    assert legend == "‖ stopped by PFC, and its priorities"


@pytest.mark.parametrize("end", ["xon_received", "pause_expired", "pause_cancelled", "storm_detected"])
@pytest.mark.parametrize("start", ["xoff_received", "tunnel_received"])
def test_a_port_is_marked_from_its_pause_to_the_end_of_it(start: str, end: str) -> None:
    network = LiveNetwork()
    network.update(CHAIN)
    network.update(window((start, "h1-eth0")))
    assert drawn(network)[1].endswith("h1‖3 r1")
    network.update(window((end, "h1-eth0")))
    assert drawn(network)[1].endswith("h1 r1")


def test_another_network_begins_anew_and_an_ended_one_has_no_pauses() -> None:
    network = LiveNetwork()
    network.update(CHAIN)
    network.update(window(("xoff_received", "h1-eth0"), ("drop", "s1-eth1")))
    network.update({"end": 3 * 10**9})
    assert drawn(network)[0].startswith("3.0 s") and "‖" not in drawn(network)[1]
    assert "dropped 1" in drawn(network)[0]
    network.update(CHAIN)
    assert "dropped 0" in drawn(network)[0]


@pytest.mark.parametrize("width", [20, 40, 60, 80, 200])
def test_lines_are_never_wider_than_the_terminal(width: int) -> None:
    network = LiveNetwork()
    network.update(CHAIN)
    network.update(window(("xoff_received", "h1-eth0"), s1=999))
    lines = drawn(network, width)
    assert len(lines) == 5 and max(map(len, lines)) <= width


def test_a_low_terminal_has_the_first_nodes_and_the_number_of_the_others() -> None:
    names = [f"s{number}" for number in range(40)]
    cables = [[f"{one}-eth2", f"{other}-eth1"] for one, other in pairwise(names)]
    ports = {port: port.partition("-")[0] for cable in cables for port in cable}
    network = LiveNetwork()
    buffers = dict.fromkeys(names, 10)
    network.update(
        {"network": {"case": "", "nodes": dict.fromkeys(names, "switch"), "cables": cables, "ports": ports,
                     "buffers": buffers}}
    )  # fmt: skip
    lines = drawn(network, height=12)
    assert len(lines) == 6 and lines[-1].endswith("36 more nodes")


def test_a_terminal_without_unicode_has_other_marks() -> None:
    network = LiveNetwork()
    network.update(CHAIN)
    network.update(window(("xoff_received", "h1-eth0"), s1=500))
    assert all(line.isascii() for line in drawn(network, utf=False))
    assert "h1!3" in drawn(network, utf=False)[1]


def test_names_have_no_effect_on_the_terminal() -> None:
    hostile = "\x1b[2J[red]\n" + "x" * 100
    network = LiveNetwork()
    network.update(
        {"network": {"case": hostile, "nodes": {hostile: "switch", "b": "switch"}, "cables": [["p", "q"]],
                     "ports": {"p": hostile, "q": "b"}, "buffers": {hostile: 5}}}
    )  # fmt: skip
    shown = "\n".join(drawn(network))
    assert "\x1b" not in shown and "\\x1b[2J[red]" in shown and len(shown.splitlines()) == 4


def test_any_line_of_the_lab_can_come() -> None:
    dice = random.Random(18)

    def anything(depth: int = 3) -> Any:
        kinds: list[Any] = [None, True, -1, 2**70, 1.5, "s1", "h1-eth0", "\x1b[2J", ""]
        if depth and dice.random() < 0.5:
            return [anything(depth - 1) for _ in range(dice.randrange(4))]
        if depth and dice.random() < 0.5:
            return {dice.choice(["t", "used", "events", "network", "nodes", "s1", "end"]): anything(depth - 1)}
        return dice.choice(kinds)

    network = LiveNetwork()
    network.update(CHAIN)
    for _ in range(3000):
        event = [1, "xoff_received", "h1-eth0", [anything(0)]]
        changed = {dice.choice(["nodes", "cables", "ports", "buffers", "case"]): anything()}
        line = dice.choice(
            [
                anything(),
                {"t": anything(0), "used": {"s1": anything(1)}, "events": [anything(), event]},
                {"network": CHAIN["network"] | changed},
            ]
        )
        network.update(line)
        if dice.random() < 0.05:
            drawn(network)
