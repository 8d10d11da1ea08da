"""The headroom budget of a report has the cells of the result, and the sum of the headroom proposal."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from testbed.lab.results.folder import read
from testbed.report.pages.headroom_budget import budget
from testbed.report.timeline.tracks import tracks
from testbed.switch.headroom.calculation import HeadroomPort, adaptive
from testbed.units import Duration, Rate
from tests.report_folders import HOSTILE, network, small


def table_of(folder: Path, **changes: Any) -> list[list[str]]:
    """Return the rows of the first network's budget, after a change of its line in the log."""
    lines = (folder / "networks.jsonl").read_text().splitlines()
    started = network(10_000_000, "with PFC") | changes
    (folder / "networks.jsonl").write_text("\n".join([json.dumps(started), *lines[1:]]) + "\n")
    found = read(folder)
    html = budget(found.networks[0], tracks(found))
    assert "<img src=x" not in html
    rows = re.findall(r"<tr><th scope=\"row\">(.*?)</tr>", html, re.DOTALL)
    return [[re.sub(r"<[^>]+>", "", cell).strip() for cell in re.split(r"</t[dh]>", row)] for row in rows]


def test_parts_and_rest_are_what_is_reserved(tmp_path: Path) -> None:
    rows = table_of(small(tmp_path / "one"))
    assert [row[0] for row in rows] == ["s1-eth1", "s1-eth2"]
    expected = adaptive(HeadroomPort(Rate("10Mb/s"), 1518, cell_bytes=208, not_kept=4), Duration("10us"))
    reserved, left = int(rows[0][2]), int(rows[0][6])
    assert reserved == 43 and left == 43 - expected.cells


def test_too_little_is_named(tmp_path: Path) -> None:
    changed = network(0, "")["ports"]
    changed["s1-eth1"]["groups"]["3"]["headroom_cells"] = 3
    (short, _) = table_of(small(tmp_path / "one"), ports=changed)
    assert short[6] == "0" and short[8].endswith("missing")


def test_what_is_not_a_number_is_left_out(tmp_path: Path) -> None:
    changed = network(0, "")["ports"]
    changed["s1-eth1"]["groups"]["3"]["headroom_cells"] = HOSTILE
    changed["s1-eth2"]["groups"]["3"]["headroom_cells"] = 10**400
    assert table_of(small(tmp_path / "one"), ports=changed) == []
