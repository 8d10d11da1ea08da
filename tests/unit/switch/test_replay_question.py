"""`xoff switch replay`: the replay buffer of a cable, how near it is to SONiC's sample, and that pages say so."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from testbed.cli import main
from testbed.net.fabric.cable import Cable
from testbed.switch.headroom.annex_n import delay_of
from testbed.switch.link import question
from testbed.switch.link.question import Asked
from tools.calculators.table import CALCULATORS, answered

PAGE = (Path(__file__).parents[3] / "docs/link-retry.md").read_text(encoding="utf-8")
SAMPLE = {
    ("200Gb/s", "5m"): (61, 31_184),
    ("200Gb/s", "40m"): (71, 35_952),
    ("400Gb/s", "5m"): (115, 58_768),
    ("400Gb/s", "40m"): (133, 67_760),
}


def printed(arguments: str, capsys: pytest.CaptureFixture[str], command: str = "replay") -> dict[str, Any]:
    assert main(["switch", command, *shlex.split(arguments), "--json"]) == 0
    content: dict[str, Any] = json.loads(capsys.readouterr().out)
    return content


@pytest.mark.parametrize("cable", SAMPLE)
def test_sonics_sample_is_the_law_with_stations_of_about_a_microsecond(cable: tuple[str, str]) -> None:
    frames, octets = SAMPLE[cable]
    found = question.answer(Asked(*cable, response="925ns"), delay_of)
    assert found.sample is not None and found.sample[:2] == (frames, octets)
    assert abs(found.octets - octets) / octets < 0.09
    assert -(-octets // 512) == frames
    chosen = Cable(*cable, llr=True).retry
    assert chosen is not None and (chosen.frames, chosen.octets) == (frames, octets)


@pytest.mark.parametrize("cable", SAMPLE)
def test_the_page_has_the_laws_numbers(cable: tuple[str, str]) -> None:
    found = question.answer(Asked(*cable), delay_of)
    row = next(
        line for line in PAGE.splitlines() if line.startswith(f"| {cable[0].replace('Gb', ' Gb')}, {cable[1][:-1]} m")
    )
    numbers = [int(one.replace(" ", "")) for one in re.findall(r"\d[\d ]*(?= frames| B)", row)]
    assert numbers == [found.frames, found.octets, *SAMPLE[cable]]


@pytest.mark.parametrize(("rate", "length"), [("100Gb/s", "100m"), ("800Gb/s", "5m"), ("400Gb/s", "500m")])
def test_a_cable_without_a_sample_has_what_the_command_says(
    rate: str, length: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = printed(f"--rate {rate} --length {length}", capsys)
    chosen = Cable(rate, length, llr=True).retry
    assert chosen is not None and chosen.replay_timer is not None
    assert (found["frames"], found["octets"]) == (chosen.frames, chosen.octets)
    assert found["timer_ps"] == chosen.replay_timer.ps  # type: ignore[union-attr]
    assert found["octets"] == sum(term["octets"] for term in found["terms"])
    assert found["sonic"] is None and found["notes"] == []


def test_a_long_cable_is_refused_as_the_lab_refuses_it(capsys: pytest.CaptureFixture[str]) -> None:
    found = printed("--rate 100Gb/s --length 50km", capsys)
    assert found["timer_ps"] is None
    assert "the lab refuses LLR on such a cable" in found["notes"][0]


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("replay", {"rate": "200Gb/s", "length": "40m"}),
        ("replay", {"rate": "400Gb/s", "length": "5m", "mtu": "9216", "response": "1us", "medium": "twinax"}),
        ("replay", {"rate": "25Gb/s", "length": "10km", "spacing": "400"}),
        ("credits", {"rate": "400Gb/s", "length": "100m"}),
        ("credits", {"rate": "100Gb/s", "length": "2km", "frame": "9018", "overhead": "8", "whole": "yes"}),
        ("credits", {"rate": "800Gb/s", "length": "50km", "frame": "64", "longest": "9018", "response": "1us"}),
    ],
)
def test_the_calculator_of_the_page_says_what_the_command_says(
    name: str, given: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    found = answered(name, CALCULATORS[name].values(given))
    words = shlex.split(found["command"])
    assert json.loads(found["json"]) == printed(shlex.join(words[3:]), capsys, name)
    for term in [term for one in [json.loads(found["json"])] for term in one.get("terms", [])]:
        assert term["name"] in found["html"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("replay --rate 200Gb/s --length 5", "--length: '5' is not a length"),
        ("replay --rate 200Gb/s --length 5m --mtu 40", "--mtu: '40' is no number of bytes from 64 to 65535"),
        ("replay --rate 200Gb/s --length 5m --spacing 1", "--spacing: '1' is no number of bytes from 320 to 32760"),
        ("replay --rate 200Gb/s --length 5m --response soon", "--response: 'soon' is not"),
        ("credits --rate 200Gb/s --length 5m --frame big", "--frame: 'big' is no whole number of bytes"),
        ("credits --rate 200Gb/s --length 5m --cell 7", "cell is 7; it is 32 to 2048"),
    ],
)
def test_an_error_names_the_option(arguments: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["switch", *shlex.split(arguments)]) == 2
    assert said in capsys.readouterr().err
