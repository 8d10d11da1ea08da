"""End.X.PFC on real routers, and what another decoder makes of its packets."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from testbed.lab.result import Result

from .conftest import Runner


@pytest.fixture
def at_the_sid(run: Runner) -> Result:
    return run("wan:at_the_sid").check()


def test_the_sid_answers_pings_obeys_pfc_and_counts_the_rest(at_the_sid: Result) -> None:
    assert at_the_sid.folder is not None
    tunnel = at_the_sid.folder / "tunnel.pcap"
    frames = _read(tunnel)
    pfc = [frame for frame in frames if "macc" in frame]
    assert pfc, "no MAC control frame was found inside"
    for frame in pfc:
        assert frame["ipv6"]["ipv6.routing.type"] == "4", frame["ipv6"]
    good = pfc[-1]
    assert good["macc"]["macc.opcode"].lower() == "0x0101"
    assert "_ws.expert" not in json.dumps(good), good
    complaints = [frame for frame in frames if "_ws.expert" in json.dumps(frame)]
    assert len(complaints) == 1, "it complains of the frame to another address, which it has to, and of no other"


def test_the_sender_of_what_a_sid_does_not_take_hears_each_error_once(run: Runner) -> None:
    """Decision 0143; also that the router's own protocols get what is allowed, and that errors are limited."""
    assert run("wan_errors:errors").check().claims


def test_who_is_outside_the_domain_changes_nothing_and_is_counted(run: Runner) -> None:
    """Decision 0149; without the filters the same packets do harm."""
    assert run("wan_outside:attacked").check().claims


def test_a_stranger_inside_the_domain_reaches_no_sid(run: Runner) -> None:
    assert run("wan_outside:from_an_inner_stranger").check().claims


@pytest.mark.parametrize("back", ["planned", "controlled"])
def test_back_pressure_goes_against_the_data_whichever_way_they_go(run: Runner, back: str) -> None:
    assert run("wan_directions:both_ways", back=back).check().claims


def test_the_drafts_literal_lists_teach_a_tunnel_and_deliver_where_the_last_segment_decapsulates(run: Runner) -> None:
    assert run("wan_lists:literal").check().claims


def _read(file: Path) -> list[dict[str, dict[str, str]]]:
    """Each packet's layers with their fields, flattened."""
    said = subprocess.run(
        ["tshark", "-r", str(file), "-T", "json", "--no-duplicate-keys"], capture_output=True, text=True, check=True
    )
    return [{name: _flat(layer) for name, layer in one["_source"]["layers"].items()} for one in json.loads(said.stdout)]


def _flat(layer: object) -> dict[str, str]:
    found: dict[str, str] = {}
    if isinstance(layer, dict):
        for name, value in layer.items():
            if isinstance(value, str):
                found[name] = value
            else:
                found |= _flat(value)
    elif isinstance(layer, list):
        for one in layer:
            found |= _flat(one)
    return found
