"""The series that `--series` records of a whole network in any experiment."""

from __future__ import annotations

import csv
from itertools import pairwise
from pathlib import Path

from testbed import lab
from testbed.lab.engines.engine import PreparedEngine
from testbed.lab.results.folder import read
from testbed.report.timeline.series import LOAD, tracks

INTERVAL_NS = 10_000
"""10 ms of the lab, at its scale of 1000."""


def test_recorded_loads_add_up_to_what_the_flows_sent(ready: PreparedEngine, tmp_path: Path) -> None:
    result = lab.run("incast", on=ready, out=tmp_path, series_ns=INTERVAL_NS)
    result.check()
    assert result.folder is not None
    with (result.folder / "series-links.csv").open(newline="") as file:
        rows = [(int(row["lab_ns"]), row["port"], int(row["load_bps"]) // 1000) for row in csv.DictReader(file)]
    end_ns = read(result.folder).networks[0].end_ns
    of_receiver = [(t_ns, load) for t_ns, port, load in rows if port == "s1-eth3" and t_ns < end_ns]
    # A row is about the time before its sample, and holds until the next row. The last one here is of one sample.
    of_receiver.append((of_receiver[-1][0] + 1000 * INTERVAL_NS, 0))
    octets = sum(load * (later - t_ns) for (t_ns, load), (later, _) in pairwise(of_receiver)) / 8e9
    assert octets == 2 * 600 * 1538, "what the two senders have on the wire"
    assert {track.port for track in tracks(read(result.folder)) if track.panel == LOAD} >= {"h1-eth0", "s1-eth3"}
    assert (result.folder / "series-rates.csv").read_text().count("h1 to r p3") > 10
