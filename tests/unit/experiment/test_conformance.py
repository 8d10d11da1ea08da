"""Conformance cases where no lab is needed: which ports are tested, the default switch, controls, matrix and report."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from experiments.conformance import _tables
from testbed.errors import UsageError, warn, warnings_of
from testbed.experiment import definition
from testbed.lab.results.foreign import ForeignError
from testbed.lab.results.result import Claim, Figure
from testbed.lab.studies.conformance import FILE, Cell, ColumnPorts, Matrix, case_name, ports_of
from testbed.report.pages.page import report
from testbed.subjects.sonic.check import check
from testbed.subjects.sonic.lab.settings import Switch
from testbed.subjects.sonic.ports_to_test import PortsError, classes
from testbed.subjects.sonic.read import read
from testbed.subjects.sonic.tables import Tables

COLUMNS = [(speed, model) for speed in _tables.SPEEDS for model in _tables.MODELS]
ROOT = Path(__file__).parents[3]
HOSTILE = "<img src=x onerror=alert(1)>"


def default(**ports: dict[str, str]) -> Tables:
    """The default switch with other rows of PORT."""
    content = _tables.default_json("100G", "dynamic")
    for name, row in ports.items():
        content["PORT"][name] |= row
    return read(json.dumps(content).encode()).require("it")


@pytest.mark.parametrize(("speed", "model"), COLUMNS)
def test_the_default_switch_has_nothing_that_is_wrong_or_risky(speed: str, model: str) -> None:
    reading = read(json.dumps(_tables.default_json(speed, model)).encode())
    check(reading.tables, reading.problems)
    assert [str(problem) for problem in reading.problems.found] == []
    switch = Switch.of(reading.tables)
    switch.require()
    assert {port.rate for port in switch.ports.values()} == {_tables.rate(speed)}
    assert [switch.dscp(priority) for priority in range(8)] == list(range(8))


def test_controls_turn_off_one_mechanism() -> None:
    tables = default()
    assert not any(port.settings.pfc.enabled for port in Switch.of(_tables.without_pfc(tables)).ports.values())
    groups = Switch.of(_tables.without_headroom(tables)).buffer.groups.values()
    assert {group.headroom for group in groups if group.lossless} == {0}
    ports = Switch.of(_tables.without_watchdog(tables)).ports.values()
    assert {port.settings.pfc.watchdog for port in ports} == {None}
    assert not any(port.settings.ecn for port in Switch.of(_tables.without_ecn(tables)).ports.values())
    assert all(port.settings.ecn and port.settings.pfc.watchdog for port in Switch.of(tables).ports.values())


def test_headroom_that_the_switch_computes_is_turned_off_too() -> None:
    tables = default()
    tables = replace(tables, groups={place: "NULL" for place in tables.groups if place[1] in (3, 4)})
    assert {one.headroom for one in Switch.of(tables).buffer.groups.values() if one.lossless} != {0}
    groups = Switch.of(_tables.without_headroom(tables)).buffer.groups.values()
    assert {one.headroom for one in groups if one.lossless} == {0}


def test_a_switch_without_pfc_has_nothing_to_test() -> None:
    with pytest.raises(PortsError, match="no port is up and has pfc_enable in PORT_QOS_MAP"):
        classes(_tables.without_pfc(default()), _tables.CELL)


# Cases


def test_each_case_is_one_file_with_a_function_of_its_name() -> None:
    cases = definition.conformance()
    assert [case.source.stem for case in cases] == [case.name for case in cases]
    assert {"L01", "L09", "L15", "Y04"} <= {case_name(case.name) for case in cases}
    assert len({case_name(case.name) for case in cases}) == len(cases)


def test_cases_with_three_hosts_take_three_ports() -> None:
    cases = {case_name(case.name): ports_of(case) for case in definition.conformance()}
    assert {cases[name] for name in ("L06", "L10", "L15", "Y02", "DWRR", "WATCHDOG-FUNCTIONAL")} == {3}
    assert {cases[name] for name in ("L01", "L13", "HEADROOM-SIZE", "WATCHDOG-TIMER")} == {2}


def test_each_case_has_a_section_on_the_page() -> None:
    sections = re.findall(r"^### (.+)$", (ROOT / "docs" / "conformance.md").read_text(), re.MULTILINE)
    assert sorted(sections) == sorted(case_name(case.name) for case in definition.conformance())


def test_a_case_has_the_name_that_the_plan_gives_it() -> None:
    assert case_name("l03_resume") == "L03"
    assert case_name("watchdog_timer") == "WATCHDOG-TIMER"
    assert case_name("l3_resume") == "L3-RESUME"


# Matrix and report


def cell(case: str, column: str, measured: Any = 0, passed: bool = True, **others: Any) -> Cell:
    claims = (
        Claim("lost, and in no counter", {"equals": 0}, 0, True),
        Claim("frames lost", {"equals": 0}, measured, passed),
    )
    given = {"reason": "", "claims": claims, "figures": (Figure("headroom", 208, "B"),)} | others
    return Cell(case, column, passed, folder=f"{case}-001", digest="d", **given)


MATRIX = Matrix(
    "", ("100G dynamic", "100G static"), {"L01": "A storm.", "L08": f"A burst {HOSTILE}."},
    (cell("L01", "100G dynamic"), cell("L01", "100G static", 7, passed=False), cell("L08", "100G dynamic")),
    (ColumnPorts("100G static", ("Ethernet28", f"E{HOSTILE}"), "100Gb/s, 50km", "set xoff of p to 7", ("L09",)),),
)  # fmt: skip


def test_a_matrix_is_the_same_when_it_is_read_again(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(json.dumps(MATRIX.as_json()))
    assert Matrix.read(tmp_path) == MATRIX
    assert not MATRIX.passed
    found = MATRIX.cell("L01", "100G static")
    assert found is not None and found.main is not None
    assert (found.main.name, [claim.measured for claim in found.failed_claims]) == ("frames lost", [7])
    assert MATRIX.cell("L08", "100G static") is None


def test_a_cell_that_failed_by_another_claim_than_its_main_one_has_that_ones_name() -> None:
    later = Claim("XOFF sent", {"at_least": 1}, 0, False)
    found = cell("L08", "leaf")
    assert found.measured == "0"
    assert replace(found, passed=False, claims=(*found.claims, later)).measured == "XOFF sent: 0"
    assert cell("L08", "leaf", 7, passed=False).measured == "7"


PORTS = '{"switch": "", "columns": [], "cases": [], "cells": [], "tested": %s}'


@pytest.mark.parametrize(
    "content",
    [
        "[]",
        "{}",
        '{"switch": "", "columns": [], "cases": [{}], "cells": []}',
        PORTS % "7",
        PORTS % "[{}]",
        PORTS % '[{"column": "a", "about": "", "remedy": "", "ports": [], "left_out": []}]',
    ],
)
def test_what_is_no_matrix_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / FILE).write_text(content)
    with pytest.raises(UsageError, match=r"conformance\.json is no result of `xoff switch conformance`"):
        Matrix.read(tmp_path)


@pytest.mark.parametrize(
    ("kind", "key", "value"),
    [("claims", "expected", []), ("claims", "name", {}), ("claims", "passed", 1), ("figures", "name", []),
     ("figures", "unit", {}), ("figures", "value", math.inf)],
)  # fmt: skip
def test_a_cell_with_what_is_no_claim_or_figure_is_refused(tmp_path: Path, kind: str, key: str, value: object) -> None:
    content = json.loads(json.dumps(MATRIX.as_json()))
    content["cells"][0][kind][0][key] = value
    (tmp_path / FILE).write_text(json.dumps(content))
    with pytest.raises(UsageError, match=rf"is no result of `xoff switch conformance`: .* is no {kind[:-1]}"):
        Matrix.read(tmp_path)


def test_what_is_not_json_is_refused_with_its_line(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text('{"switch": "",\n}')
    with pytest.raises(ForeignError, match=r"conformance\.json: line 2 is not JSON"):
        Matrix.read(tmp_path)


def test_the_report_has_verdicts_and_measured_values(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(json.dumps(MATRIX.as_json()))
    page = report([tmp_path])
    assert "1 of 3 runs failed." in page and "✗ 7" in page and "✓ 0" in page and "208B" in page
    assert "<img src=x" not in page and "L01-001" in page
    assert "hosts at Ethernet28, E&lt;img" in page and "Ethernet28: 100Gb/s, 50km; L09 take more ports" in page
    assert "set xoff of p to 7" in page


def test_a_matrix_of_an_earlier_version_has_no_ports(tmp_path: Path) -> None:
    content = MATRIX.as_json()
    del content["tested"]
    (tmp_path / FILE).write_text(json.dumps(content))
    assert Matrix.read(tmp_path) == replace(MATRIX, tested=())


def test_a_run_that_did_not_come_to_its_end_is_in_the_report_with_its_reason(tmp_path: Path) -> None:
    ended = cell("L01", "leaf", passed=False, reason=f"timeout {HOSTILE}", claims=())
    (tmp_path / FILE).write_text(json.dumps(Matrix("a.json", ("leaf",), {"L01": "A storm."}, (ended,)).as_json()))
    page = report([tmp_path])
    assert "✗ timeout &lt;img" in page and "that of a.json" in page


def test_a_warning_of_a_control_says_that_it_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    with warnings_of("control: no ECN"):
        warn("no port on the way marks")
    warn("headroom is short")
    assert capsys.readouterr().err == (
        "warning: control: no ECN: no port on the way marks\nwarning: headroom is short\n"
    )  # fmt: skip
