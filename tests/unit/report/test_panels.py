"""A new panel of reports: without code from a table of the run, and with code as a function in a list."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.lab.results.folder import Folder
from testbed.report.pages import panels
from testbed.report.pages.page import report
from testbed.report.pages.panels import Panel
from testbed.report.timeline.tracks import DROPS, Tracks
from tests.report_folders import MS, small


def test_a_table_that_a_run_leaves_is_a_panel(tmp_path: Path) -> None:
    """docs/extending.md: `series-NAME.csv` with the columns t_ns, flow or port, and numbers."""
    folder = small(tmp_path / "one")
    (folder / "series-patience.csv").write_text(f"t_ns,flow,left_ns\n{100 * MS},h1,3\n{101 * MS},h1,2\n")
    assert "Patience: left" in report([folder])


def ports_with_drops(folder: Folder, found: Tracks) -> list[Panel]:
    """One lane for each port that dropped, with its drops as a track."""
    lanes = [(track.port, [at]) for at, track in enumerate(found.tracks) if track.panel == DROPS]
    return [Panel("", "Ports with drops", "of the whole run", "lanes", lanes=lanes)] if lanes else []


def test_a_function_in_the_list_is_a_panel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = small(tmp_path / "one")
    assert "Ports with drops" not in report([folder])
    monkeypatch.setattr(panels, "MAKERS", [ports_with_drops, *panels.MAKERS])
    page = report([folder])
    events = page.index("of agents, DCBX, headroom and tunnels")
    assert page.index("by the port that has to wait") < page.index("Ports with drops") < events, "in the list's order"
