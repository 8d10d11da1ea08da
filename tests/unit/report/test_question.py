"""A report says what an experiment of Xoff's own is about, and executes nothing for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.lab.results.folder import read
from testbed.report.pages.claims import question
from testbed.report.pages.page import report
from tests.report_folders import HOSTILE, small


def test_a_shipped_experiment_has_its_docstring_before_the_claims(tmp_path: Path) -> None:
    page = report([small(tmp_path / "one")])
    assert '<p class="lead">Two into one: with PFC the port is busy all the time and nothing is lost' in page
    assert page.index(">Two into one") < page.index(">Claims<")
    again = {"command": ["run", "incast", "--seed", "1"], "files": {}}
    assert question(read(small(tmp_path / "two", again=again)))


@pytest.mark.parametrize("name", [HOSTILE, "../../etc/passwd", "no_such_experiment", "incast.py", "_bars", ""])
def test_another_name_has_none(tmp_path: Path, name: str) -> None:
    assert question(read(small(tmp_path / "one", experiment=name))) == ""


def test_a_file_of_the_users_own_has_none_even_if_its_experiment_has_the_name_of_ours(tmp_path: Path) -> None:
    again = {"command": ["run", "mine.py:incast", "--seed", "1"], "files": {"mine.py": "ab"}}
    assert question(read(small(tmp_path / "one", again=again))) == ""
