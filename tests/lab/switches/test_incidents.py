"""`xoff switch incident` in the lab: each incident happens on a switch of a file, and its claims say what it does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from testbed.cli import main
from testbed.lab.engines.engine import PreparedEngine
from testbed.lab.results.result import Exit

FILES = Path(__file__).parents[2] / "unit" / "data" / "sonic"
STATIC = FILES / "leaf_static.json"
"""A switch whose groups pause at 300 kB, so that an incident takes little traffic."""


def run(what: str, file: Path, engine: str, folder: Path) -> tuple[int, dict[str, Any], dict[str, Any]]:
    """Return the exit code, the figures, and what each claim measured."""
    code = main(["switch", "incident", what, str(file), "--engine", engine, "--out", str(folder)])
    result = json.loads((folder / "incident-001/result.json").read_text())
    figures = {figure["name"]: figure["value"] for figure in result["figures"]}
    return code, figures, {claim["name"]: claim["measured"] for claim in result["claims"]}


@pytest.mark.parametrize("what", ["flap", "victim"])
def test_an_incident_happens_and_the_switch_gets_over_it(ready: PreparedEngine, tmp_path: Path, what: str) -> None:
    code, figures, _ = run(what, STATIC, ready.engine.name, tmp_path)
    assert code == Exit.OK and figures["h1 is at"] == "static1 Ethernet0"


def test_a_wrong_dscp_loses_what_pfc_would_have_kept(ready: PreparedEngine, tmp_path: Path) -> None:
    code, figures, measured = run("dscp", STATIC, ready.engine.name, tmp_path)
    assert code == Exit.OK and figures["the wrong DSCP"] == "1, of traffic class 1"
    assert measured["as configured: lost"] == 0 and measured["DSCP 1: lost"] > 0


@pytest.mark.parametrize("watched", [True, False])
def test_a_storm_is_found_only_with_a_watchdog(ready: PreparedEngine, tmp_path: Path, watched: bool) -> None:
    content = json.loads(STATIC.read_text())
    if not watched:
        content.pop("PFC_WD")
    file = tmp_path / "leaf.json"
    file.write_text(json.dumps(content))
    code, figures, measured = run("storm", file, ready.engine.name, tmp_path)
    assert (code == Exit.OK) is watched
    assert measured["storms that the watchdog found"] == int(watched)
    assert ("what to set" in figures) is not watched
