"""The report of a sweep: its pictures have the numbers of `summary.csv`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from testbed.lab.results.folder import ReportError
from testbed.lab.studies import sweep_tables
from testbed.lab.studies.sweep_tables import Failure, Row
from testbed.report.pages.page import report
from testbed.report.studies import sweep_page
from tests.report_folders import HOSTILE


def swept(folder: Path, seeds: int = 3, **names: str) -> Path:
    """Write a sweep of two parameters, in which the second figure is the same everywhere."""
    folder.mkdir()
    rows = [
        Row({"senders": senders, "wan": wan}, seed, "ok", "", True, "d", "i", "f",
            {names.get("figure", "pauses"): int(senders) * 10 + seed, "lost": 0})
        for senders in ("2", "4", "8")
        for wan in ("1km", "10km")
        for seed in range(seeds)
    ]  # fmt: skip
    sweep_tables.write(folder, rows, [Failure({"senders": "9"}, 1, "lost", "")])
    return folder


def test_a_heat_map_has_the_mean_of_each_point_and_darker_cells_for_more(tmp_path: Path) -> None:
    page = report([swept(tmp_path / "study")])
    cells = re.findall(r'<td class="heat heat-(\d)">([^<]+)</td>', page)
    assert [value for _, value in cells] == ["21", "21", "41", "41", "81", "81"]
    assert [int(heat) for heat, _ in cells] == [0, 0, 1, 1, 4, 4]
    assert "1 runs did not end by themselves" in page


def test_a_curve_has_the_interval_of_the_table(tmp_path: Path) -> None:
    folder = swept(tmp_path / "study")
    study = sweep_page.read(folder)
    mean = study.figures["pauses"][0]
    assert f"{mean.mean:.4g}, 95 %: {mean.low:.4g} to {mean.high:.4g}" in sweep_page.body(study)
    assert mean.high - mean.mean == pytest.approx(4.303 / 3**0.5, rel=1e-3)  # Student's t with 2 degrees of freedom


def test_one_seed_has_no_interval(tmp_path: Path) -> None:
    (first, *_) = sweep_page.read(swept(tmp_path / "study", seeds=1)).figures["pauses"]
    assert first.low == first.mean == first.high


def test_names_are_text(tmp_path: Path) -> None:
    page = report([swept(tmp_path / "study", figure=HOSTILE)])
    assert "<img src=x" not in page and "\x1b" not in page and page.count("<script") == 0


@pytest.mark.parametrize(
    "content", ["", "figure,runs\npauses,1\n", "a,figure,runs,mean,half width of 95 %,least,most\n1,f,1,inf,0,0,0\n"]
)
def test_a_damaged_summary_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "summary.csv").write_text(content)
    if not content:
        assert "no parameter" in report([tmp_path])
        return
    with pytest.raises(ReportError, match=r"summary\.csv: line 2 is of no summary of a sweep"):
        report([tmp_path])
