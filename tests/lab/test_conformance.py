"""Conformance cases: a selection, with `--all` each at each speed and buffer model, and on a switch of the user's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments.conformance._tables import MODELS, SPEEDS, default_json
from testbed import lab
from testbed.cli import main
from testbed.lab import definition
from testbed.lab.conformance import FILE
from testbed.lab.engine import Kind, Ready
from testbed.lab.result import Exit

from .conftest import failed_claims

QUICK = {("l04_quanta", "400G", "static"), ("y03_global_pause", "800G", "dynamic")}
ALL = [(case.name, speed, model) for case in definition.conformance() for speed in SPEEDS for model in MODELS]


@pytest.mark.parametrize(
    ("name", "speed", "buffer"), [pytest.param(*one, marks=() if one in QUICK else pytest.mark.long) for one in ALL]
)
def test_a_case_passes_and_its_control_fails(ready: Ready, tmp_path: Path, name: str, speed: str, buffer: str) -> None:
    if ready.kind is not Kind.UM:
        pytest.skip("conformance cases are for the engine um")
    result = lab.run(definition.find(name), parameters={"speed": speed, "buffer": buffer}, on=ready, out=tmp_path)
    assert failed_claims(result) == set()
    assert any(claim.name.startswith("control, ") for claim in result.claims)


def test_a_switch_of_the_user_with_too_little_headroom_fails_where_it_matters(
    ready: Ready, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """100 m of cable at 800G and headroom for a few frames: bursts are lost, and pauses work as they should."""
    if ready.kind is not Kind.UM:
        pytest.skip("conformance cases are for the engine um")
    content = default_json("800G", "static")
    content["BUFFER_PROFILE"]["ingress_lossless"]["xoff"] = "10400"
    content["CABLE_LENGTH"]["AZURE"] = dict.fromkeys(content["PORT"], "100m")
    (tmp_path / "leaf.json").write_text(json.dumps(content))
    monkeypatch.chdir(tmp_path)
    assert main(["conformance", "--switch", "leaf.json", "--case", "L04,L08", "-o", "out"]) == Exit.FAILED
    cells = {cell["case"]: cell for cell in json.loads(Path("out", FILE).read_text())["cells"]}
    assert cells["L04"]["passed"] and cells["L04"]["column"] == "dut1 800Gb/s"
    assert [claim["name"] for claim in cells["L08"]["claims"] if not claim["passed"]] == ["frames lost"]
    assert "frames lost" in Path("out", "report.html").read_text()
