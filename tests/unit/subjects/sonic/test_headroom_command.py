"""`xoff switch headroom`, and that docs/headroom.md shows what it prints."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from testbed.cli import main

PAGE = (Path(__file__).parents[4] / "docs" / "headroom.md").read_text()


@pytest.fixture(autouse=True)
def usual_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def shown(arguments: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    assert main(["switch", "headroom", *shlex.split(arguments)]) == 0
    return [line.rstrip() for line in capsys.readouterr().out.splitlines()]


def answered(arguments: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main(["switch", "headroom", *shlex.split(arguments), "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert isinstance(content, dict)
    return content


def examples() -> list[tuple[str, list[str]]]:
    """Return the commands of the page, each with its output."""
    blocks = re.findall(r"^    \$ xoff switch headroom (.*)\n((?:    .*\n)+)", PAGE, re.MULTILINE)
    return [(arguments, [line[4:] for line in output.splitlines()]) for arguments, output in blocks]


# The page


@pytest.mark.parametrize(("arguments", "output"), examples())
def test_the_page_shows_what_the_command_prints(
    arguments: str, output: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert shown(arguments, capsys)[: len(output)] == output


def test_the_page_has_two_examples_and_the_last_is_whole(capsys: pytest.CaptureFixture[str]) -> None:
    first, last = examples()
    assert "126024" in "".join(first[1])
    assert shown(last[0], capsys) == last[1]


def test_the_page_s_way_to_annex_n_s_example_is_right(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = "--rate 10Gb/s --length 100m --medium cat6"
    assert f"`{arguments}`" in PAGE
    worst = next(m for m in answered(arguments, capsys)["models"] if m["model"] == "worst case")
    assert worst["delay_value"] == {"name": "delay value", "bits": 126024, "bytes": 15753, "cells": 76}


# Answers


def test_a_length_and_its_round_trip_give_the_same_headroom(capsys: pytest.CaptureFixture[str]) -> None:
    by_length = answered("--rate 100Gb/s --length 50km", capsys)
    by_trip = answered("--rate 100Gb/s --rtt 500us", capsys)
    assert by_length["models"] == by_trip["models"]
    assert (by_length["length_mm"], by_trip["length_mm"]) == (50_000_000, 50_000_000)
    assert (by_length["length_is_upper_bound"], by_trip["length_is_upper_bound"]) == (False, True)


def test_every_option_reaches_the_sum(capsys: pytest.CaptureFixture[str]) -> None:
    content = answered(
        "--rate 25Gb/s --length 500m --response 2us --max-frame 9216 --min-frame 1500 --cell 160 --medium twinax",
        capsys,
    )
    adaptive = content["models"][0]
    assert {term["name"]: term["bits"] for term in adaptive["terms"]} == {
        "round trip X": 119048,  # 2 x 500 m at 0.7 c
        "stations": 50000,
        "2 MaxFrame": 2 * (9216 + 20) * 8,
        "PFC frame": 672,
    }
    assert adaptive["alpha"] == "1760/1621"  # 11 cells for 1601 bytes
    assert adaptive["cells"] == -(-adaptive["bytes"] // 160)


def test_json_is_the_same_with_or_without_defaults_written_out(capsys: pytest.CaptureFixture[str]) -> None:
    short = answered("--rate 10Gb/s --rtt 10us", capsys)
    long = answered("--rate 10Gb/s --rtt 10us --max-frame 2000 --min-frame 64 --cell 208 --medium fibre", capsys)
    assert short == long


@pytest.mark.parametrize(
    ("arguments", "models"),
    [
        ("--rate 100Gb/s --length 1m", ["adaptive", "worst case", "vendor default", "mlx5 driver"]),
        ("--rate 50Gb/s --length 1m", ["adaptive", "vendor default", "mlx5 driver"]),
        ("--rate 25Mb/s --rtt 10ms", ["adaptive", "mlx5 driver"]),
    ],
)
def test_a_model_without_that_rate_is_left_out_and_it_is_said(
    arguments: str, models: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    content = answered(arguments, capsys)
    assert [model["model"] for model in content["models"]] == models
    assert sum(note.startswith("no ") for note in content["notes"]) == 4 - len(models)
    notes = [line for line in shown(arguments, capsys) if line.startswith("note: ")]
    assert notes == [f"note: {note}" for note in content["notes"]]


def test_a_narrow_terminal_loses_no_figure(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    text = "\n".join(shown("--rate 400Gb/s --length 80km", capsys))
    for model in answered("--rate 400Gb/s --length 80km", capsys)["models"]:
        assert f" {model['bytes']} " in text
        assert all(f" {term['bits']} " in text for term in model["terms"])


# Mistakes


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "the following arguments are required: --rate; see xoff switch headroom --help"),
        ("--rate 10Gb/s", "one of the arguments --length --rtt is required; see xoff switch headroom --help"),
        (
            "--rate 10Gb/s --length 5m --rtt 1us",
            "argument --rtt: not allowed with argument --length; see xoff switch headroom --help",
        ),
        (
            "--rate 100GB --length 5m",
            "--rate: '100GB' is not a rate: GB is a unit of size; did you mean '100GB/s'?",
        ),
        ("--rate 0b/s --length 5m", "a port of 0b/s needs no headroom; give a rate above zero"),
        (
            "--rate 10Gb/s --length 5k",
            "--length: '5k' is not a length: unknown unit 'k'; write for example '500m'",
        ),
        ("--rate 10Gb/s --rtt 1h500", "--rtt: '1h500' is not a duration: its number must look like 12 or 12.5"),
        ("--rate 10Gb/s --rtt=-1us", "--rtt: '-1us' is not a duration: it is negative; write for example '3.3us'"),
        (
            "--rate 10Gb/s --rtt 1us --response 1us",
            "--response goes with --length; a measured round trip has it in it",
        ),
        ("--rate 10Gb/s --rtt 1us --max-frame 9k", "--max-frame: '9k' is not a whole number of bytes, such as 2000"),
        ("--rate 10Gb/s --rtt 1us --max-frame 10", "--max-frame is 10; it is a whole number of bytes, 64 to 65535"),
        (
            "--rate 10Gb/s --rtt 1us --min-frame 3000",
            "--min-frame is 3000 bytes, more than --max-frame, 2000; lower --min-frame or raise --max-frame",
        ),
        ("--rate 10Gb/s --rtt 1us --cell 0", "--cell is 0; it is a whole number of bytes, 1 to 65535"),
        (
            "--rate 10Gb/s --rtt 1us --alpha 1,1",
            "--alpha: '1,1' is not an alpha; write a number such as '1.1' or '11/10'",
        ),
        ("--rate 10Gb/s --rtt 1us --alpha 0", "--alpha: alpha is 0; it is an exact fraction above 0, up to 1000"),
        ("--rate 10Gb/s --length 5m --medium fiber", "argument --medium: invalid choice: 'fiber'"),
        ("--rate 10Gb/s --length 5m --port-type 10G", "argument --port-type: invalid choice: '10G'"),
        (
            "--rate 10Gb/s --length 5m --port-type 25GBASE-R",
            "a 25GBASE-R port has 25Gb/s, not 10Gb/s; choose another port type",
        ),
        (
            "--rate 10Gb/s --rtt 1000h",
            "--rtt 1000h is longer than the 100s there and back over 10000000km of fibre, the longest cable",
        ),
    ],
)
def test_a_mistake_gets_one_line_and_exit_code_2(
    arguments: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["switch", "headroom", *shlex.split(arguments)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"xoff: {message}")
    assert said.err.count("\n") == 1
