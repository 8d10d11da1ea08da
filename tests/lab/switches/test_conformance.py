"""Conformance cases: a selection, with `--all` each at each speed and buffer model, and on a switch of the user's."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from experiments.conformance._tables import MODELS, SPEEDS, default_json
from testbed import lab
from testbed.cli import main
from testbed.experiment import definition
from testbed.lab.engines.engine import PreparedEngine
from testbed.lab.results.result import Exit
from testbed.lab.studies.conformance import FILE, case_name

from ..conftest import failed_claims

QUICK = {("l04_quanta", "400G", "static"), ("y03_global_pause", "800G", "dynamic"), ("tc03_dcqcn", "400G", "static")}
CANNOT_HOLD = {("lr11_load", speed): {"percent of the throughput without loss"} for speed in ("400G", "800G")}
"""Claims of a plan that no link can meet at these speeds, by the page's table."""
ALL = [(case.name, speed, model) for case in definition.conformance() for speed in SPEEDS for model in MODELS]


@pytest.mark.parametrize(
    ("name", "speed", "buffer"), [pytest.param(*one, marks=() if one in QUICK else pytest.mark.long) for one in ALL]
)
def test_a_case_passes_and_its_control_fails(
    ready: PreparedEngine, tmp_path: Path, name: str, speed: str, buffer: str
) -> None:
    if ready.engine.name != "um":
        pytest.skip("conformance cases are for the engine um")
    result = lab.run(definition.find(name), parameters={"speed": speed, "buffer": buffer}, on=ready, out=tmp_path)
    assert failed_claims(result) == CANNOT_HOLD.get((name, speed), set())
    assert any(claim.name.startswith("control, ") for claim in result.claims)


def conformance(content: dict[str, Any], ready: PreparedEngine, cases: str, *more: str) -> int:
    """Run `xoff switch conformance` on a switch of the user's, and return its exit code."""
    if ready.engine.name != "um":
        pytest.skip("conformance cases are for the engine um")
    Path("leaf.json").write_text(json.dumps(content))
    return main(["switch", "conformance", "leaf.json", "--case", cases, "-o", "out", *more])


def found() -> dict[str, Any]:
    """Return the matrix that it wrote."""
    content: dict[str, Any] = json.loads(Path("out", FILE).read_text())
    return content


WATCHDOG = "WATCHDOG-TIMER,L12,L13,WATCHDOG-FUNCTIONAL,L10"
TIMES = [(300, 300, 300), (400, 400, 400), (100, 100, 100), (100, 100, 3000), (300, 100, 400), (5000, 60_000, 3000)]
"""Detection and restoration time and polling interval, in ms."""


@pytest.mark.parametrize(
    ("times", "cases"),
    [(TIMES[1], "WATCHDOG-TIMER"), *(pytest.param(one, WATCHDOG, marks=pytest.mark.long) for one in TIMES)],
)
def test_a_right_watchdog_passes_with_any_times(
    ready: PreparedEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: tuple[int, int, int], cases: str
) -> None:
    monkeypatch.chdir(tmp_path)
    detection, restoration, poll = map(str, times)
    content = default_json("100G", "dynamic")
    row = {"action": "drop", "detection_time": detection, "restoration_time": restoration}
    content["PFC_WD"] = {"GLOBAL": {"POLL_INTERVAL": poll}} | dict.fromkeys(content["PORT"], row)
    assert conformance(content, ready, cases) == Exit.OK


@pytest.mark.parametrize(
    "cases", ["L08", *(pytest.param(one, marks=pytest.mark.long) for one in ("L06,L09,L15", "XOFF-XON-LIMITS"))]
)
def test_a_buffer_that_takes_more_than_five_seconds_to_fill_passes(
    ready: PreparedEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cases: str
) -> None:
    """Each of two groups may hold a third of the pool, and both together 65 MB: 5.3 s of a line of 100 Mb/s."""
    monkeypatch.chdir(tmp_path)
    content = default_json("400G", "dynamic")
    pools, profiles = content["BUFFER_POOL"], content["BUFFER_PROFILE"]
    headroom = int(pools["ingress_pool"]["xoff"])
    pools["ingress_pool"]["size"] = str(97_500_000 + headroom + 8 * 18_720)
    profiles["ingress_lossless"]["dynamic_th"] = "0"
    pools["egress_lossless_pool"]["size"] = profiles["egress_lossless"]["static_th"] = "200000000"
    assert conformance(content, ready, cases) == Exit.OK


def far(content: dict[str, Any], xoff: int | None = None) -> dict[str, Any]:
    """The last port has a cable of 50 km; with `xoff` there is headroom for it, of the groups and of the pool."""
    content["CABLE_LENGTH"]["AZURE"]["Ethernet24"] = "50km"
    if xoff is not None:
        content["BUFFER_PROFILE"]["ingress_lossless"]["xoff"] = content["BUFFER_POOL"]["ingress_pool"]["xoff"] = str(
            xoff
        )
        content["BUFFER_POOL"]["ingress_pool"]["size"] = str(12_000_000 + xoff)
    return content


def test_the_port_that_check_warns_of_fails_with_its_remedy_and_the_remedy_mends_it(
    ready: PreparedEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert conformance(far(default_json("100G", "dynamic")), ready, "L08") == Exit.FAILED
    matrix = found()
    verdicts = {cell["column"]: cell["passed"] for cell in matrix["cells"]}
    assert verdicts == {"dut1 Ethernet24 100Gb/s 50km": False, "dut1 Ethernet0 100Gb/s 40m": True}
    remedy = matrix["tested"][0]["remedy"]
    assert f"dut1 Ethernet24 100Gb/s 50km: {remedy}" in capsys.readouterr().out
    number = re.match(r"set xoff of profile ingress_lossless to (\d+) ", remedy)
    assert number is not None
    mended = far(default_json("100G", "dynamic"), int(number[1]))
    assert conformance(mended, ready, "L08", "--ports", "Ethernet24") == Exit.OK


@pytest.mark.long
def test_a_right_switch_with_a_long_cable_passes_every_case(
    ready: PreparedEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cases = ",".join(case_name(case.name) for case in definition.conformance())
    mended = far(default_json("100G", "dynamic"), 16_000_000)
    assert conformance(mended, ready, cases, "--ports", "Ethernet24") == Exit.OK


def test_a_switch_of_the_user_with_too_little_headroom_fails_where_it_matters(
    ready: PreparedEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """100 m of cable at 800G and headroom for a few frames: bursts are lost, and pauses work as they should."""
    content = default_json("800G", "static")
    content["BUFFER_PROFILE"]["ingress_lossless"]["xoff"] = "10400"
    content["CABLE_LENGTH"]["AZURE"] = dict.fromkeys(content["PORT"], "100m")
    monkeypatch.chdir(tmp_path)
    assert conformance(content, ready, "L04,L08") == Exit.FAILED
    cells = {cell["case"]: cell for cell in found()["cells"]}
    assert cells["L04"]["passed"] and cells["L04"]["column"] == "dut1 Ethernet0 800Gb/s 100m"
    assert [claim["name"] for claim in cells["L08"]["claims"] if not claim["passed"]] == ["frames lost"]
    assert "frames lost" in Path("out", "report.html").read_text()
