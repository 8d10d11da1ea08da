"""Tracks: intervals, counters and samples are those of the event log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from testbed.lab.results.folder import read
from testbed.lab.results.foreign import ForeignError
from testbed.report.timeline.tracks import ASSERTED, DROPS, OCCUPANCY, PAUSED, STORM, Tracks, natural, tracks
from tests.report_folders import MS, drop, lines, network, pause, small


def tracks_of(folder: Path, events: list[dict[str, Any]]) -> Tracks:
    if not folder.exists():
        small(folder)
    lines(folder / "events.jsonl", events)
    return tracks(read(folder))


def rows(found: Tracks, panel: str, port: str) -> list[tuple[int, int]]:
    (track,) = [one for one in found.in_panel(panel) if one.port == port]
    return list(zip(track.t_ns, track.values, strict=True))


def at(t: int, event: str, *priorities: int, port: str = "h1-eth0", **fields: Any) -> dict[str, Any]:
    return {"t": t, "event": event, "port": port, "priorities": list(priorities), **fields}


def test_a_pause_lasts_from_xoff_received_to_xon_received(tmp_path: Path) -> None:
    found = tracks(read(small(tmp_path / "one")))
    assert rows(found, PAUSED, "h1-eth0") == [(100 * MS + 20, 130 * MS + 20), (200 * MS + 20, 220 * MS + 20)]
    assert rows(found, ASSERTED, "s1-eth1") == [(100 * MS, 130 * MS), (200 * MS, 220 * MS)]
    assert found.pauses == {("h1-eth0", 3): 2, ("h2-eth0", 3): 1}
    assert rows(found, OCCUPANCY, "s1-eth2") == [(110 * MS, 301), (140 * MS, 204)]


@pytest.mark.parametrize("end", ["xon_received", "pause_expired", "pause_cancelled"])
def test_a_refreshed_pause_is_one_interval_whatever_ends_it(tmp_path: Path, end: str) -> None:
    events = [at(1, "xoff_received", 3, 4), at(5, "xoff_received", 3), at(9, end, 3), at(12, end, 4)]
    found = tracks_of(tmp_path / "one", events)
    assert [(one.label, *one.t_ns, *one.values) for one in found.in_panel(PAUSED)] == [
        ("priority 3", 1, 9),
        ("priority 4", 1, 12),
    ]


def test_a_storm_ends_the_pause_and_is_an_interval_itself(tmp_path: Path) -> None:
    events = [at(1, "xoff_received", 3), at(9, "storm_detected", 3), at(20, "storm_ended", 3)]
    found = tracks_of(tmp_path / "one", events)
    assert rows(found, PAUSED, "h1-eth0") == [(1, 9)] and rows(found, STORM, "h1-eth0") == [(9, 20)]


def test_what_is_open_when_a_network_ends_does_not_reach_into_the_next_one(tmp_path: Path) -> None:
    events = [at(100 * MS, "xoff_received", 3), at(600 * MS, "xoff_received", 3)]
    found = tracks_of(tmp_path / "one", events)
    assert rows(found, PAUSED, "h1-eth0") == [(100 * MS, 500 * MS), (600 * MS, 990 * MS)]


def test_drops_are_counted_by_port_and_reason_and_start_anew_with_each_network(tmp_path: Path) -> None:
    events = [drop(100 * MS), drop(101 * MS), drop(102 * MS, reason="headroom"), drop(600 * MS)]
    found = tracks_of(tmp_path / "one", events)
    assert found.dropped == {"threshold": 3, "headroom": 1}
    (track,) = [one for one in found.in_panel(DROPS) if one.label == "threshold"]
    assert list(track.values) == [0, 1, 2, 0, 1]
    assert list(track.t_ns) == [10 * MS, 100 * MS, 101 * MS, 510 * MS, 600 * MS], "0 from the start of each"


def test_a_log_that_is_out_of_order_gives_the_same_tracks(tmp_path: Path) -> None:
    events = pause(100 * MS, 130 * MS) + pause(200 * MS, 220 * MS)
    ordered = tracks_of(tmp_path / "one", events)
    assert tracks_of(tmp_path / "one", events[9:] + events[:9]).tracks == ordered.tracks


def test_an_experiments_own_events_are_counted_wherever_they_stand(tmp_path: Path) -> None:
    events = [{"t": 900 * MS, "event": "pulled", "cable": 1}, *pause(100 * MS, 130 * MS)]
    found = tracks_of(tmp_path / "one", events)
    assert found.events["pulled"] == 1 and found.pauses == {("h1-eth0", 3): 1}


def test_lines_that_are_no_events_are_counted_and_left_out(tmp_path: Path) -> None:
    folder = small(tmp_path / "one")
    with (folder / "events.jsonl").open("a") as log:
        log.write('{"t": 1}\n[]\n{broken\n{"t": 1, "event": "drop", "port": "x", "priorities": [9]}\n')
    one = read(folder)
    assert tracks(one).pauses == {("h1-eth0", 3): 2, ("h2-eth0", 3): 1}
    assert len(one.damage) == 4
    assert "line 32 of events.jsonl is no event" in str(one.damage) and "and 1 more" in str(one.damage)


def test_a_network_that_did_not_end_ends_with_the_run(tmp_path: Path) -> None:
    folder = small(tmp_path / "one")
    lines(folder / "networks.jsonl", [network(10 * MS, "only")])
    (only,) = read(folder).networks
    assert (only.title, only.start_ns, only.end_ns) == ("only", 10 * MS, 1000 * MS)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "has no result.json"),
        ("{", r"result\.json: line 1 is not JSON"),
        ("[]", "is not a result of xoff: experiment is missing"),
        ('{"experiment": 3}', "experiment is missing, or no str"),
    ],
)
def test_what_is_no_result_gets_one_clear_message(tmp_path: Path, content: str | None, message: str) -> None:
    folder = small(tmp_path / "one")
    (folder / "result.json").unlink()
    if content is not None:
        (folder / "result.json").write_text(content)
    with pytest.raises(ForeignError, match=message):
        read(folder)
    with pytest.raises(ForeignError, match="there is no result folder"):
        read(tmp_path / "none")


def test_ports_are_in_the_order_of_their_numbers() -> None:
    assert sorted(["s1-eth10", "s1-eth9", "h2", "s1", "s10"], key=natural) == ["h2", "s1", "s1-eth9", "s1-eth10", "s10"]


def test_damaged_lines_are_counted_once_each_even_if_the_log_is_out_of_order(tmp_path: Path) -> None:
    folder = small(tmp_path / "one", claims=[{"name": "no claim"}])
    lines(folder / "events.jsonl", [*pause(200 * MS, 220 * MS), {"t": "x"}, *pause(100 * MS, 130 * MS)])
    with (folder / "networks.jsonl").open("a") as log:
        log.write("{broken\n")
    one = read(folder)
    tracks(one)
    assert len(one.damage) == 3 and one.claims == []
