"""What a report computes: thresholds that move, pools, pause ratios, the moment and the window to look at."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from testbed.lab.results.folder import Folder, read
from testbed.report.timeline import series
from testbed.report.timeline.derived import POOL, THRESHOLD, _most_at_once, active, derived, moment, ratios
from testbed.report.timeline.tracks import ASSERTED, Track, Tracks, tracks
from tests.report_folders import MS, lines, network, small


def read_of(folder: Path) -> tuple[Folder, Tracks]:
    one = read(folder)
    found = tracks(one)
    found.tracks += series.tracks(one)
    return one, found


def with_alpha(folder: Path, alpha: str = "1/2") -> Path:
    """Write the small result with a threshold of alpha in place of 300 cells, and one network."""
    small(folder)
    started: dict[str, Any] = network(10 * MS, "alpha")
    for port in started["ports"].values():
        for group in port["groups"].values():
            group |= {"alpha": alpha}
            del group["xoff_cells"]
    lines(folder / "networks.jsonl", [started, {"t_ns": 990 * MS, "network": "ended"}])
    return folder


def rows(track: Track) -> list[tuple[int, int]]:
    return list(zip(track.t_ns, track.values, strict=True))


def test_a_moving_threshold_is_known_from_events_where_it_was_crossed(tmp_path: Path) -> None:
    one, found = read_of(with_alpha(tmp_path / "one"))
    (made,) = derived(one, found)
    assert (made.panel, made.port, made.label) == (
        THRESHOLD,
        "s1",
        "XOFF at 1/2 of the free cells, where it was crossed",
    )
    assert rows(made) == [(100 * MS, 301), (110 * MS, 301), (200 * MS, 301)], "at XOFF, and not at XON"


def test_with_recorded_buffers_it_is_alpha_times_the_free_cells(tmp_path: Path) -> None:
    folder = with_alpha(tmp_path / "one")
    buffer = ["t_ns,port,priority,guaranteed,shared,headroom,xoff", f"{100 * MS},s1-eth1,3,0,14,0,0",
              f"{100 * MS},s1-eth2,3,0,100,0,0", f"{101 * MS},s1-eth1,3,0,0,0,0"]  # fmt: skip
    (folder / "series-buffer.csv").write_text("\n".join([*buffer, ""]), encoding="utf-8")
    one, found = read_of(folder)
    pool, threshold = derived(one, found)
    assert (pool.panel, rows(pool)) == (POOL, [(100 * MS, 114), (101 * MS, 100)])
    assert rows(threshold) == [(100 * MS, (4914 - 114) // 2), (101 * MS, (4914 - 100) // 2)]


def test_an_alpha_that_is_none_is_left_out(tmp_path: Path) -> None:
    for number, alpha in enumerate(("1/0", "x", "-1", "9" * 50)):
        one, found = read_of(with_alpha(tmp_path / str(number), alpha))
        assert derived(one, found) == []


def test_ratios_are_parts_of_the_time_of_each_network(tmp_path: Path) -> None:
    one, found = read_of(small(tmp_path / "one"))
    first, second = ratios(one, found)
    assert (first.port, first.far_end, first.priority, first.intervals) == ("h1-eth0", "s1-eth1", "3", 2)
    assert (first.paused_ns, first.longest_ns, first.span_ns) == (50 * MS, 30 * MS, 490 * MS)
    assert (second.port, second.part) == ("h2-eth0", 30 / 490)
    assert [one.port for one in ratios(one, found, ASSERTED)] == ["s1-eth1", "s1-eth2"]


def test_the_first_moment_is_when_most_ports_are_paused(tmp_path: Path) -> None:
    one, found = read_of(small(tmp_path / "one"))
    assert moment(found, *active(one, found)) == 120 * MS + 20, "both from 110 to 130 ms"
    (tmp_path / "one" / "events.jsonl").write_text("")
    one, found = read_of(tmp_path / "one")
    assert moment(found, 20, 40) == 30 and active(one, found) == (0, 1000 * MS)


def test_the_window_ends_with_what_can_be_seen(tmp_path: Path) -> None:
    folder = small(tmp_path / "one")
    (folder / "events.jsonl").write_text(json.dumps({"t": 980 * MS, "event": "agent_started", "port": "s1-eth1"}))
    loads = ["t_ns,port,load_bps", f"{100 * MS},h1-eth0,10000", f"{300 * MS},h1-eth0,100", f"{900 * MS},h1-eth0,0"]
    (folder / "series-links.csv").write_text("\n".join([*loads, ""]), encoding="utf-8")
    one, found = read_of(folder)
    assert active(one, found) == (95 * MS, 305 * MS), "a hundredth of the highest load is not seen, nor an agent's mark"


def test_overlaps_are_counted_exactly() -> None:
    assert _most_at_once([0, 5, 6], [7, 8, 10]) == 6, "three from 6 to 7"
    assert _most_at_once([0, 10], [10, 20]) == 5, "one that ends where another begins is no overlap"
    assert _most_at_once([3], [3]) == 3, "of no length"
