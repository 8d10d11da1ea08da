"""`xoff switch ecn`: points of a marking curve, and whether marking begins before PAUSE."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

from testbed.cli import main


def answered(arguments: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main(["switch", "ecn", *shlex.split(arguments), "--json"]) == 0
    content: dict[str, Any] = json.loads(capsys.readouterr().out)
    return content


def test_points_of_the_curve_are_exact(capsys: pytest.CaptureFixture[str]) -> None:
    found = answered("--kmin 100kB --kmax 400kB --pmax 20% --queue 130kB", capsys)
    points = {point["queue"]: point["marked"] for point in found["points"]}
    assert points[100_000] == "0" and points[130_000] == "1/50" and points[325_000] == "3/20"
    assert points[399_999] == "299999/1500000" and points[400_000] == "1"
    assert found["notes"] == []


def test_pause_before_the_first_mark_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    (note,) = answered("--kmin 400kB --kmax 800kB --xoff 200kB", capsys)["notes"]
    assert note.startswith("PAUSE is sent at 200000 B and marking begins at 400000 B: the queue is paused before")
    (note,) = answered("--kmin 100kB --kmax 400kB --pmax 20% --xoff 200kB", capsys)["notes"]
    assert note == "PAUSE is sent at 200000 B, below kmax: up to there 6.667 % of the packets are marked at most"
    assert main(["switch", "ecn", "--kmin", "100kB", "--kmax", "100kB"]) == 0
    assert capsys.readouterr().out == "     queue  marked\n  100000 B  100 %\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("--kmin 2kB --kmax 1kB", "--kmin is 2kB and --kmax 1kB; --kmin cannot be the larger"),
        ("--kmin 2kB --kmax 4kB --pmax 2", "--pmax is '2'; it is above 0 and at most 1"),
        ("--kmin 2 --kmax 4kB", "--kmin: '2' is not a size"),
    ],
)
def test_an_error_names_the_option(arguments: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["switch", "ecn", *shlex.split(arguments)]) == 2
    assert said in capsys.readouterr().err
