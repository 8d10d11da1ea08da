"""Replays of Link Layer Retry in a report: marks among the events, and a table for each network."""

from __future__ import annotations

import json
from pathlib import Path

from testbed.lab.results import folder as folders
from testbed.report.pages.page import report
from testbed.report.timeline.tracks import MARKS, tracks
from testbed.subjects.link.report.replays import section
from tests.report_folders import MS, lines, small


def with_llr(place: Path) -> Path:
    """Return a small result whose first network had LLR: two replays and a flush, and a replay after its end."""
    found = small(place)
    log = [json.loads(line) for line in (found / "networks.jsonl").read_text().splitlines()]
    end = next(line for line in log if line["network"] == "ended")
    end["llr"] = {"s1-eth1": {"LLR_TX_REPLAY": 2}}
    (found / "networks.jsonl").unlink()
    lines(found / "networks.jsonl", log)
    start_ns = next(line["lab_ns"] for line in log if line["network"] == "started")
    events = [json.loads(line) for line in (found / "events.jsonl").read_text().splitlines()]
    for after, kind, frames, sequence in (
        (1, "llr_replay", 11, 7889), (2, "llr_replay", 3, 12_077), (3, "llr_flush", 3, 12_080),
    ):  # fmt: skip
        events.append({"t": start_ns + after * MS, "event": kind, "port": "s1-eth1", "priorities": [],
                       "frames": frames, "sequence": sequence})  # fmt: skip
    events.sort(key=lambda one: one["t"])
    (found / "events.jsonl").unlink()
    lines(found / "events.jsonl", events)
    return found


def test_a_report_has_each_replay_and_flush_with_its_frames(tmp_path: Path) -> None:
    place = with_llr(tmp_path / "retry-001")
    result = folders.read(place)
    (html,) = section(result)
    assert "replays: 2, flushes: 1" in html
    for cell in ("replay", "flush: given up", "11", "7,889", "12,080", "s1-eth1"):
        assert f">{cell}<" in html, cell
    assert html in report([place])
    found = tracks(result)
    assert {"llr_replay", "llr_flush"} <= set(found.marks)
    assert [track.panel for track in found.tracks if track.panel == MARKS]


def test_a_result_without_llr_has_no_such_table(tmp_path: Path) -> None:
    assert section(folders.read(small(tmp_path / "plain-001"))) == []
