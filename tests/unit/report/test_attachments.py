"""What a report has for other programs, and what it says instead where that is too large."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from testbed.report.pages import attachments
from testbed.report.pages.page import report
from tests.report_folders import hostile, small


def test_a_report_has_the_trace_of_its_run_and_no_button_for_captures_that_there_are_not(tmp_path: Path) -> None:
    page = report([small(tmp_path / "one")])
    assert 'data-perfetto="trace-0"' in page and 'data-name="one.perfetto-trace"' in page
    assert "for Wireshark</button>" not in page
    both = report([small(tmp_path / "two"), small(tmp_path / "three")])
    assert re.findall(r'data-perfetto="([^"]+)"', both) == ["trace-0", "trace-1"]


def test_what_is_too_large_or_damaged_has_the_command_that_writes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = small(tmp_path / "a b")
    (folder / "captures" / "1").mkdir(parents=True)
    (folder / "captures" / "1" / "x.pcapng").write_bytes(b"no capture")
    monkeypatch.setattr(attachments, "LARGEST", 10)
    page = report([folder])
    assert "data-perfetto=" not in page
    for option in ("--perfetto", "--pcapng"):
        assert f"xoff export &#x27;{folder}&#x27; {option}</code>" in page


def test_a_foreign_result_has_no_markup_in_its_attachments(tmp_path: Path) -> None:
    page = report([hostile(tmp_path / '"><img src=x>')])
    assert "<img" not in page and "&quot;&gt;&lt;img src=x&gt;.perfetto-trace" in page
