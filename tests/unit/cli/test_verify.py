"""The refusals of `xoff verify`, and its choice of experiments for an engine."""

from __future__ import annotations

import pytest

from testbed.cli import main
from testbed.experiment import definition
from testbed.lab.results.result import Exit


def test_only_what_reproduces_something_can_be_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "--published", "incast"]) == Exit.USAGE
    assert "incast reproduces nothing that was published; --published has " in capsys.readouterr().err


def test_where_cpu_work_takes_time_only_what_is_for_such_labs_is_compared() -> None:
    chosen = {one.name for one in definition.for_any_engine()}
    assert "incast" in chosen and definition.find("incast").free_cpu is False
    assert not chosen & {one.name for one in (*definition.conformance(), *definition.published())}
    assert "spraying" not in chosen and definition.find("spraying").free_cpu
