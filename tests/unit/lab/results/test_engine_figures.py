"""Differences between the engines' results, what may be stated of them, and the tables of docs/engines.md."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from testbed.errors import UsageError
from testbed.experiment import definition
from testbed.experiment.fidelity import Fidelity, Thresholds, Verdict
from testbed.lab.results.result import Claim, Figure, Provenance, Result, Status, Times
from tools import compare_engines, engine_figures, engines_page, tolerances
from tools.engine_figures import Agreement, compare
from tools.tolerances import Stated, ToleranceError, parsed

ROOT = Path(__file__).parents[4]
KEPT = Fidelity(Verdict.KEPT, (), 1, None, None, None, Thresholds())
DEGRADED = replace(KEPT, verdict=Verdict.DEGRADED, reasons=("the CPU was busy",))
NAMES = {one.name for one in definition.for_any_engine()}


def result(engine: str, figures: dict[str, Any], *, unit: str = "", fidelity: Fidelity = KEPT) -> Result:
    made_with = Provenance(engine, "none", "i", "7.3", "k", "", "1", "c", "d")
    found = tuple(Figure(name, value, unit) for name, value in figures.items())
    claims = (Claim("lost", {"equals": 0}, 0, True),)
    return Result("incast", Status.OK, "", {}, 1, found, claims, fidelity, made_with, Times(1, 1.0, None), {})


def both(um: Any, vm: Any, stated: str = "", unit: str = "") -> Agreement:
    """The comparison of a figure called `x`."""
    told = parsed(stated, "tolerances").get("incast", Stated())
    return compare(result("um", {"x": um}, unit=unit), result("vm", {"x": vm}, unit=unit), told)


def apart(within: str, figures: str = '"x"') -> str:
    return f'[[incast.apart]]\nfigures = {figures}\nwithin = {within}\nreason = "a reason"\n'


@pytest.mark.parametrize(("um", "vm"), [(0, 0), (100, 98), (-50, -51), (1.5, 1.5), ("text", "text"), ([1, 2], [1, 2])])
def test_values_that_are_equal_or_within_the_default_are_no_fault(um: Any, vm: Any) -> None:
    assert both(um, vm).faults == ()


@pytest.mark.parametrize(
    ("um", "vm", "fault"),
    [
        (100, 97, "x: um 100, vm 97, 3.00% apart; 2% allowed"),
        (0, 1, "x: um 0, vm 1, 100.00% apart; 2% allowed"),
        (1, -1, "x: um 1, vm -1, 200.00% apart; 2% allowed"),
        ("up", "down", "x: um up, vm down; 2% allowed"),
        (True, 1.02, "x: um True, vm 1.02; 2% allowed"),
        ([1, 2], [1], "x[1]: um 2, vm absent; 2% allowed"),
        ({"a": [1]}, {"a": [2]}, "x[a][0]: um 1, vm 2, 50.00% apart; 2% allowed"),
    ],
)
def test_values_further_apart_are_faults_by_the_name_of_each(um: Any, vm: Any, fault: str) -> None:
    assert both(um, vm).faults == (fault,)


@pytest.mark.parametrize(
    ("um", "vm", "within", "unit"),
    [
        (100, 80, '"20%"', ""),
        (3, 5, "2", ""),
        (31_016, 5_732_877, '"6ms"', "ns"),
        (100_000, 90_000, '"10kb/s"', "b/s"),
        ("in 1 ms", "in 2 ms", '"any text"', ""),
    ],
)
def test_a_stated_difference_allows_what_it_names(um: Any, vm: Any, within: str, unit: str) -> None:
    found = both(um, vm, apart(within), unit)
    assert found.faults == ()
    assert [(one.reason, len(pairs)) for one, pairs in found.apart] == [("a reason", 1)]


@pytest.mark.parametrize(
    ("um", "vm", "stated", "fault"),
    [
        (100, 79, apart('"20%"'), "x: um 100, vm 79, 21.00% apart; 20% allowed"),
        (100, 79, apart('"40ms"'), "x: um 100, vm 79, 21.00% apart; 40ms allowed"),
        (1, "one", apart('"any text"'), "x: um 1, vm one; any text allowed"),
        (100, 80, apart('"20%"', '["x", "y*"]'), "no figure is y*; take it out of experiments/engine_tolerances.toml"),
    ],
)
def test_a_stated_difference_that_does_not_fit_is_a_fault(um: Any, vm: Any, stated: str, fault: str) -> None:
    assert both(um, vm, stated).faults[0] == fault


@pytest.mark.parametrize(
    ("um", "vm", "stated", "note"),
    [
        (100, 80, apart('"45%"'), "x: 45% are stated, 20.00% needed"),
        (100, 99, apart('"5%"'), "no figure x needs what is stated"),
    ],
)
def test_a_stated_difference_that_is_wider_than_needed_is_noted(um: Any, vm: Any, stated: str, note: str) -> None:
    found = both(um, vm, stated)
    assert (found.faults, found.notes) == ((), (note,))
    assert both(um, vm, apart('"21%"')).notes == (() if vm == 80 else ("no figure x needs what is stated",))


def test_only_an_asterisk_of_a_pattern_is_more_than_itself() -> None:
    assert both({"a.b": [1], "a": [0]}, {"a.b": [2], "a": [0]}, apart('"50%"', '"x[a.*][0]"')).faults == ()
    assert both({"axb": [1]}, {"axb": [2]}, apart('"50%"', '"x[a.b][0]"')).faults


def test_other_claims_and_claims_that_fail_are_faults() -> None:
    um, vm = result("um", {}), result("vm", {})
    failed = replace(vm, claims=(Claim("lost", {"equals": 0}, 3, False),))
    assert "on vm the claim does not hold: lost" in compare(um, failed, Stated()).faults
    assert "the claims have other names or another order" in compare(um, replace(vm, claims=()), Stated()).faults
    ended = replace(vm, status=Status.ERROR, reason="ValueError")
    assert "on vm: ValueError" in compare(um, ended, Stated()).faults


def test_a_degraded_run_is_not_compared_and_its_reason_is_stated() -> None:
    um, vm = result("um", {"x": 1}), result("vm", {"x": 2}, fidelity=DEGRADED)
    stated = parsed('[incast]\ndegraded = "eight flows"', "tolerances")["incast"]
    found = compare(um, vm, stated)
    assert (found.degraded, found.faults) == (("the CPU was busy",), ())
    assert "has no reason: the CPU was busy" in compare(um, vm, Stated()).faults[0]
    assert "on vm the run is not degraded" in compare(um, replace(vm, fidelity=KEPT), stated).faults[0]


@pytest.mark.parametrize(
    ("um", "vm", "message"),
    [
        (result("vm", {}), result("vm", {}), "a result of um is needed, it is of vm"),
        (result("um", {}), replace(result("vm", {}), seed=2), "the seeds are not the same, 1 and 2"),
        (result("um", {}), replace(result("vm", {}), parameters={"n": 2}), "the parameters are not the same"),
        (result("um", {}), replace(result("vm", {}), experiment="other"), "the experiments are not the same"),
    ],
)
def test_results_that_cannot_be_compared_are_refused(um: Result, vm: Result, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        compare(um, vm, Stated())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x", "is not TOML"),
        ("[incast]", "[[apart]] tables or degraded are expected"),
        ("[incast]\ndegarded = 'x'", "tolerances: [incast] degarded: unknown key; did you mean degraded?"),
        ("[incast]\ndegraded = ' '", "[incast] degraded: is empty; say something"),
        ("[incast]\ndegraded = 3", "[incast] degraded: 3 is not text"),
        (f"[incast]\ndegraded = 'x'\n{apart('1')}", "figures of a degraded run are not compared"),
        ("[[incast.apart]]\nfigures = 'x'\nwithin = '5%'", "[[incast.apart]] number 1 reason: is missing"),
        (apart("'5%'", "[]"), "[] is neither a pattern nor a list of patterns"),
        (apart("'5%'").replace("a reason", " "), "reason: is empty; say something"),
        (apart("'0%'"), "within: '0%' is no tolerance; give a part"),
        (apart("'100%'"), "within: '100%' is"),
        (apart("'far'"), "within: 'far' is"),
        (apart("true"), "within: true is"),
        (apart("-1"), "within: -1 is"),
    ],
)
def test_a_file_that_is_not_right_is_refused_with_the_place(text: str, message: str) -> None:
    with pytest.raises(ToleranceError, match=re.escape(message)):
        parsed(text, "tolerances")


def test_all_that_is_stated_is_of_experiments_that_run_on_both_engines() -> None:
    assert tolerances.read(ROOT).keys() <= NAMES


def test_the_page_has_every_experiment_and_the_tables_that_follow_from_the_files() -> None:
    kept, stated = engines_page.read(ROOT), tolerances.read(ROOT)
    page = (ROOT / engines_page.PAGE).read_text()
    assert kept.keys() == NAMES
    assert engines_page.filled(page, kept, stated) == page, "`tools/compare_engines.py UM VM --update` fills them in"
    assert engines_page.written(kept) == (ROOT / engines_page.FILE).read_text()
    assert {name for name, found in kept.items() if found["degraded"]} == {
        name for name, one in stated.items() if one.degraded
    }
    assert {name for name, found in kept.items() if found["apart"]} == {
        name for name, one in stated.items() if one.apart
    }


def test_results_of_folders_are_compared_and_what_is_stated_decides(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, one in (("um", result("um", {"goodput": 100})), ("vm", result("vm", {"goodput": 99}))):
        (tmp_path / name / "incast-001").mkdir(parents=True)
        one.write(tmp_path / name / "incast-001")
    found = engine_figures.stored(tmp_path / "um")["incast"], engine_figures.stored(tmp_path / "vm")["incast"]
    assert str(compare(*found, Stated())) == "1 of 2 figures equal, 1 within 2% (at most 1.00%)"
    assert compare_engines.main([str(tmp_path / "um"), str(tmp_path)]) == 2
    assert "has no result" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("folder", "message"),
    [("nothing", "has no result"), ("damaged", "is not a result of xoff"), ("twice", "more than one")],
)
def test_folders_without_a_result_to_compare_are_refused(tmp_path: Path, folder: str, message: str) -> None:
    for name in ("nothing", "damaged/a", "twice/a", "twice/b"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "damaged" / "a" / "result.json").write_text("{}")
    for name in "ab":
        result("um", {}).write(tmp_path / "twice" / name)
    with pytest.raises(UsageError, match=message):
        engine_figures.stored(tmp_path / folder)
