"""A report of a real run has the numbers of its result, which are from the network's counters, not its log."""

from __future__ import annotations

import json
import re
from pathlib import Path

from testbed.experiment import definition
from testbed.lab.engines.engine import PreparedEngine
from testbed.lab.results.folder import read
from testbed.lab.runs.api import run
from testbed.report.pages.page import report
from testbed.report.timeline.tracks import PAUSED, tracks


def test_pauses_and_drops_in_the_report_are_those_that_the_network_counted(
    ready: PreparedEngine, tmp_path: Path
) -> None:
    result = run(definition.find("incast"), on=ready, out=tmp_path).check()
    assert result.folder is not None
    folder = read(result.folder)
    assert [network.title for network in folder.networks] == ["with PFC", "without PFC"]
    network = folder.networks[0]
    assert network.nodes == {"h1": "host", "h2": "host", "r": "host", "s1": "switch"}
    assert network.ports["s1-eth1"]["groups"]["3"]["alpha"] == "1/2"
    assert network.buffers["s1"]["total_cells"] == 1500
    assert {cable["lab_rate_bps"] for cable in network.cables} == {10_000_000}
    assert network.end_ns < folder.networks[1].start_ns
    for one in folder.networks:
        started = [event.t_ns for event in folder.events() if event.name == "agent_started"]
        assert sum(one.start_ns <= t_ns <= one.end_ns for t_ns in started) == 6, "each port's agent, in its own network"

    found = tracks(folder)
    paused = {track.port: len(track.t_ns) for track in found.in_panel(PAUSED)}
    assert [paused["h1-eth0"], paused["h2-eth0"]] == result.figure("with PFC: pauses of each sender")
    assert found.dropped["threshold"] == result.figure("lost by flows")
    assert found.events["xoff_sent"] == next(one.measured for one in result.claims if one.name == "with PFC: pauses")
    assert not folder.damage

    (data,) = re.findall(r'class="data">(.*?)</script>', report([result.folder]))
    rows = {(one["panel"], one["port"]): one["rows"] for one in json.loads(data)["tracks"]}
    assert rows["paused", "h1-eth0"] == paused["h1-eth0"]
