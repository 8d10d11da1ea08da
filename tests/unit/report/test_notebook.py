"""The output of a notebook's cell: a table and a page in a frame, whatever names a result has."""

from __future__ import annotations

import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from testbed.errors import UsageError
from testbed.lab.results.result import Result
from testbed.lab.studies.sweep import Sweep
from testbed.lab.studies.sweep_tables import Failure, Row
from testbed.report.notebook import cell
from testbed.report.notebook.widget import widget
from testbed.report.pages import page
from tests.report_folders import HOSTILE, hostile, large, small

ROOT = Path(__file__).parents[3]


class Markup(HTMLParser):
    """The elements of some HTML."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    @property
    def frames(self) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.elements if tag == "iframe"]


def result_in(folder: Path | None, experiment: str = "incast") -> Result:
    """Return a result as far as a cell needs it; folders of tests do not have all that a run writes."""
    made: Any = Result.__new__(Result)
    object.__setattr__(made, "folder", folder)
    object.__setattr__(made, "experiment", experiment)
    return made  # type: ignore[no-any-return]


def swept(name: str = "senders", many: int = 3) -> Sweep:
    rows = tuple(
        Row(
            {name: str(value), "frames": "600"},
            seed,
            "ok",
            "",
            True,
            "",
            "",
            "",
            {"pauses": 10.0 * value + seed, "lost": 0},
        )
        for value in range(1, many + 1)
        for seed in (1, 2)
    )
    return Sweep(Path("sweep-incast"), rows, (Failure({name: "9"}, 1, "timeout", ""),), (), len(rows))


def test_a_result_is_a_table_of_claims_and_a_page_in_a_frame_of_its_own_origin(tmp_path: Path) -> None:
    output = Markup(cell.result(result_in(small(tmp_path / "one"))))
    (frame,) = output.frames
    assert frame["sandbox"] == "allow-scripts", "nothing else: no forms, no windows, not the origin of the notebook"
    assert "goodput" in output.text and "10Mb/s" in output.text and "xoff.widget(result)" in output.text
    inside = frame["srcdoc"]
    assert inside is not None and inside.startswith("<!doctype html>") and "script-src 'sha256-" in inside
    assert inside.count('id="cursor"') == 1 and "All claims and figures" not in inside
    assert not [tag for tag, _ in output.elements if tag in ("script", "style", "img", "link")]


def test_markup_in_a_foreign_result_or_sweep_stays_text(tmp_path: Path) -> None:
    for output in (
        cell.result(result_in(hostile(tmp_path / "one"), HOSTILE)), cell.sweep(swept(HOSTILE)),
    ):  # fmt: skip
        outside = Markup(output)
        allowed = "p strong small span div table thead tbody tr th td details summary iframe"
        assert {tag for tag, _ in outside.elements} <= set(allowed.split())
        assert "<script>document.title" in outside.text, "as text"
        assert not any(name.startswith("on") for _, attributes in outside.elements for name in attributes)
        inside = Markup(outside.frames[0]["srcdoc"] or "")
        assert "img" not in [tag for tag, _ in inside.elements]


@pytest.mark.slow
def test_a_long_run_is_drawn_in_fewer_parts_and_a_line_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "_CELL_BUDGET", 50_000)
    output = cell.result(result_in(large(tmp_path / "one", events=100_000)))
    inside = Markup(output).frames[0]["srcdoc"] or ""
    assert len(output) < 400_000
    assert "too many events to be in this file one by one, and are envelopes of 2,048 equal parts" in inside


def test_a_sweep_is_a_table_of_its_runs_and_curves_of_the_figures_that_differ() -> None:
    output = Markup(cell.sweep(swept(many=12)))
    assert "20 of 24 runs, and 1 of 2 figures" in output.text and "not end by themselves: 1." in output.text
    assert sum(tag == "tr" for tag, _ in output.elements) == 21
    inside = output.frames[0]["srcdoc"] or ""
    assert "pauses over senders" in inside and "lost over" not in inside and "<script>" not in inside


def test_a_result_without_its_folder_or_a_network_says_so_and_draws_nothing(tmp_path: Path) -> None:
    assert "folder is gone" in cell.result(result_in(tmp_path / "gone"))
    folder = small(tmp_path / "one")
    (folder / "networks.jsonl").unlink()
    output = Markup(cell.result(result_in(folder)))
    assert output.frames == [] and "goodput" in output.text
    (folder / "result.json").write_text("[]")
    assert "result.json" in cell.result(result_in(folder))


def test_a_widget_without_anywidget_names_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "anywidget", None)
    with pytest.raises(UsageError, match=r"pip install 'xoff\[notebook\]'"):
        widget(result_in(small(tmp_path / "one")))


def test_importing_xoff_in_a_notebook_registers_both_without_loading_them(tmp_path: Path) -> None:
    pytest.importorskip("IPython", reason="IPython is not installed")
    code = f"""
import sys
from pathlib import Path
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
import xoff
assert "testbed.report.pages.page" not in sys.modules
from tests.unit.report.test_notebook import result_in, swept
data, _ = shell.display_formatter.format(result_in(Path({str(small(tmp_path / "one"))!r})), include=["text/html"])
assert "<iframe" in data["text/html"]
data, _ = shell.display_formatter.format(swept())
assert "<iframe" in data["text/html"] and data["text/plain"].startswith("<Sweep sweep-incast")
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, env={"HOME": str(tmp_path), "PATH": ""}, check=True)
