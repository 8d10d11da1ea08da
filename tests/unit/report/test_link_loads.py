"""The matrices of loads of links in reports."""

from __future__ import annotations

import re
from typing import Any, cast

from testbed.lab.results.folder import Folder, Network
from testbed.report.pages import link_loads
from testbed.report.timeline.series import LOAD
from testbed.report.timeline.tracks import Shape, Track, Tracks

RATE = 10_000_000_000


class FakeFolder:
    """What the tables need of a result."""

    def __init__(self, networks: list[Network], lab_time: bool = False) -> None:
        self.networks, self.lab_time = networks, lab_time
        self.scale = type("FakeScale", (), {"k": 1000})()


def fabric(leaves: int = 2, spines: int = 2, number: int = 1, start_ns: int = 0) -> Network:
    nodes = {f"spine{one}": "switch" for one in range(1, spines + 1)}
    cables: list[dict[str, Any]] = []
    for leaf in range(1, leaves + 1):
        nodes |= {f"leaf{leaf}": "switch", f"h{leaf}": "host"}
        ends = [(f"h{leaf}", f"h{leaf}-eth0", f"leaf{leaf}-eth1")]
        ends += [(f"spine{one}", f"spine{one}-eth{leaf}", f"leaf{leaf}-eth{one + 1}") for one in range(1, spines + 1)]
        cables += [
            {"nodes": [f"leaf{leaf}", far], "ends": [port, far_port], "hardware_rate_bps": RATE}
            for far, far_port, port in ends
        ]
    return Network(number, start_ns, start_ns + 1000, "", "fabric", nodes, cables, {}, {})


def tracks(**loads: list[tuple[int, int]]) -> Tracks:
    found = []
    for port, steps in loads.items():
        track = Track(LOAD, port.replace("_", "-"), "", Shape.STEPS, unit="b/s")
        for t_ns, value in steps:
            track.add(t_ns, value)
        found.append(track)
    return Tracks(found, cast(Any, None), cast(Any, None), [], cast(Any, None), [])


def shown(folder: FakeFolder, found: Tracks) -> str:
    return "".join(link_loads.markup(cast(Folder, folder), found, 2))


def test_each_direction_of_each_link_is_a_cell_with_its_mean_while_anything_was_sent() -> None:
    found = tracks(leaf1_eth2=[(100, RATE), (300, 0)], spine2_eth1=[(200, RATE // 2), (500, 0)])
    page = shown(FakeFolder([fabric()]), found)
    cells = re.findall(r'<td class="heat ([a-z0-9-]+)">(\d+)</td>', page)
    assert cells == [("heat-3", "50"), *[("idle", "0")] * 4, ("heat-2", "38"), *[("idle", "0")] * 2]
    assert "most: 50 % from leaf1 to spine1; idle: 6 of 8" in page
    assert page.count("<caption>") == 2


def test_a_network_that_sends_nothing_and_one_with_few_links_have_no_tables() -> None:
    assert shown(FakeFolder([fabric()]), tracks()) == ""
    assert shown(FakeFolder([fabric(2, 1)]), tracks(leaf1_eth2=[(0, RATE)])) == ""


def test_networks_of_a_run_are_apart_and_loads_of_the_lab_count_by_its_line() -> None:
    both = [fabric(), fabric(number=2, start_ns=2000)]
    found = tracks(leaf1_eth2=[(0, RATE // 1000), (1000, 0), (2000, RATE // 4000), (3000, 0)])
    page = shown(FakeFolder(both, lab_time=True), found)
    assert "most: 100 % from leaf1 to spine1; idle: 7 of 8: fabric 1" in page
    assert "most: 25 % from leaf1 to spine1; idle: 7 of 8: fabric 2" in page


def test_names_are_text() -> None:
    network = fabric()
    network.nodes["<b>"] = network.nodes.pop("spine1")
    for cable in network.cables:
        cable["nodes"] = ["<b>" if node == "spine1" else node for node in cable["nodes"]]
    page = shown(FakeFolder([network]), tracks(leaf1_eth2=[(0, RATE), (500, 0)]))
    assert "<b>" not in page and "&lt;b&gt;" in page
