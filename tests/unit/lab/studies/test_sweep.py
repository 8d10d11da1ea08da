"""Sweeps: every combination once, resumed without repeating, with tables that do not depend on interruptions."""

from __future__ import annotations

import csv
import errno
import math
import threading
from pathlib import Path
from typing import Annotated, Any

import pytest

from testbed import lab
from testbed.cli import main
from testbed.cli.studies import sweep as cli_sweep
from testbed.errors import UsageError
from testbed.experiment import definition
from testbed.experiment.output import StreamError
from testbed.lab import Between, Run, experiment
from testbed.lab.host import cache
from testbed.lab.job.job import Job
from testbed.lab.results.result import Exit, Result, distinct
from testbed.lab.studies import sweep, sweep_tables
from testbed.lab.studies.comparison import Difference, compare_folders
from testbed.lab.studies.sweep_tables import Row, mean_of, student_t
from tests.unit.serve.scripted_lab import ScriptedEngine

pytestmark = [pytest.mark.usefixtures("xoff_cache"), pytest.mark.slow]
GRID = {"load": ["1", "10"]}


@experiment
def measured(run: Run, load: Annotated[int, Between(1, 10**5)] = 1, kind: str = "x", runs: int = 1) -> None:
    """An experiment that a script answers here."""


def answer(job: Job) -> dict[str, Any]:
    return {"goodput": job.parameters["load"] * 100 + job.seed, "text": "no number"}


class Twin(str):
    """A name that does not equal another one of the same text, so that a dictionary has both."""

    __slots__ = ()
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


def table(folder: Path, name: str = sweep_tables.TABLE) -> list[dict[str, str]]:
    with (folder / name).open(newline="") as lines:
        return list(csv.DictReader(lines))


def test_a_grid_is_every_combination_in_order() -> None:
    assert sweep.combinations({"a": ["1", "2"], "b": ["x", "y"]}) == [
        {"a": "1", "b": "x"}, {"a": "1", "b": "y"}, {"a": "2", "b": "x"}, {"a": "2", "b": "y"},
    ]  # fmt: skip
    assert sweep.combinations({}) == [{}]


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ({"load": []}, "the grid has no value of load"),
        ({"load": ["1", "1"]}, "the grid has a value of load twice: 1,1"),
        ({"laod": ["1"]}, "measured has no parameter laod; did you mean load?"),
        ({"load": ["x"]}, "load=x: a whole number is expected"),
        ({"load": [str(n) for n in range(60_000)], "kind": ["a", "b"]}, "120000 combinations with 1 seeds are over"),
        ({"load": range(10**6), "kind": range(10**6)}, "are over 100000 runs"),
        ({"load": ["1", "01"]}, "the grid has the same value of load twice: 1 and 01"),
        ({"load": [0]}, "load is 0; what the experiment claims holds for 1 to 100000"),
        ({"runs": ["1"]}, "the parameter runs cannot be in a grid: the tables have a column runs"),
    ],
)
def test_a_wrong_grid_is_refused_before_any_run(grid: dict[str, list[str]], message: str, tmp_path: Path) -> None:
    ready = ScriptedEngine(answer=answer)
    with pytest.raises(UsageError, match=message.replace("?", r"\?")):
        sweep.run(measured, grid, on=ready, out=tmp_path / "sweep")
    assert ready.jobs == []


@pytest.mark.parametrize(
    ("seeds", "message"),
    [
        (0, "seeds is 0; one seed at least is expected"),
        ([], "there are no seeds"),
        ([1, 2, 1], "a seed is there twice: 1, 2, 1"),
        ([-1], "seed -1: a whole number from 0 up is expected"),
    ],
)
def test_wrong_seeds_are_refused_before_any_run(seeds: int | list[int], message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message):
        sweep.run(measured, GRID, seeds=seeds, on=ScriptedEngine(answer=answer), out=tmp_path / "sweep")
    assert not (tmp_path / "sweep").exists()


def test_a_folder_that_cannot_be_one_is_refused_before_any_run(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ready = ScriptedEngine(answer=answer)
    with pytest.raises(UsageError, match=r"a sweep cannot go to .*: Not a directory; name another folder"):
        sweep.run(measured, GRID, on=ready, out=tmp_path / "file" / "sweep")
    assert ready.jobs == []


def test_a_full_disk_is_refused_before_any_run_and_ends_a_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready = ScriptedEngine(answer=answer)
    with monkeypatch.context() as patched, pytest.raises(cache.DiskFullError, match=r"no room for results: .* MB free"):
        patched.setattr(sweep, "_LEAST_FREE", 1 << 60)
        sweep.run(measured, GRID, on=ready, out=tmp_path)
    assert ready.jobs == []

    def full(job: Job) -> dict[str, Any]:
        raise OSError(errno.ENOSPC, "No space left on device", "somewhere")

    ready = ScriptedEngine(answer=full)
    found = sweep.run(measured, GRID, on=ready, out=tmp_path)
    assert [failure.status for failure in found.failed] == ["disk-full"]
    assert [failure.status for failure in found.not_made] == ["not started"]
    assert {failure.reason for failure in (*found.failed, *found.not_made)} == {"the disk is full: somewhere"}
    assert len(ready.jobs) == 1


def test_a_run_whose_lab_broke_down_is_made_once_more(tmp_path: Path) -> None:
    def broken(job: Job) -> dict[str, Any]:
        if len(ready.jobs) == 1 or job.seed == 2:
            raise StreamError("the lab's kernel panicked")
        return answer(job)

    ready = ScriptedEngine(answer=broken)
    found = sweep.run(measured, {"load": ["1"]}, seeds=2, on=ready, out=tmp_path)
    assert [job.seed for job in ready.jobs] == [1, 2, 1, 2]
    assert [(row.seed, row.status) for row in found.rows] == [(1, "ok")]
    assert [(one.seed, one.status, one.reason) for one in found.failed] == [(2, "lost", "the lab's kernel panicked")]
    assert found.made == 1


def test_the_table_has_a_row_for_each_run_and_the_summary_its_mean_and_interval(tmp_path: Path) -> None:
    found = sweep.run(measured, GRID, seeds=3, on=ScriptedEngine(answer=answer), out=tmp_path)
    found.write_tables()
    assert found.made == 6
    assert [(row["load"], row["seed"], row["figure: goodput"]) for row in table(tmp_path)] == [
        ("1", "1", "101"), ("1", "2", "102"), ("1", "3", "103"),
        ("10", "1", "1001"), ("10", "2", "1002"), ("10", "3", "1003"),
    ]  # fmt: skip
    means = sweep_tables.summary(found.rows)
    assert [(mean.parameters, mean.figure, mean.runs, mean.mean) for mean in means] == [
        ({"load": "1"}, "goodput", 3, 102.0),
        ({"load": "10"}, "goodput", 3, 1002.0),
    ]
    assert means[0].half_width == pytest.approx(4.30265 / math.sqrt(3))


def test_parameters_are_those_of_a_run_where_a_list_has_several_values_of_one(tmp_path: Path) -> None:
    given = {"load": [1, 10], "kind": "xy"}
    found = sweep.run(measured, given, on=ScriptedEngine(answer=answer), out=tmp_path)
    assert [row.parameters for row in found.rows] == [{"load": load, "kind": "xy"} for load in ("1", "10")]


def test_a_sweep_is_a_line_and_a_data_frame_and_a_terminal_shows_how_far_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ready = ScriptedEngine(answer=answer)
    quiet = sweep.run(measured, GRID, on=ready, out=tmp_path / "quiet")
    assert repr(quiet) == f"<Sweep {tmp_path / 'quiet'}: {len(quiet.rows)} runs>"
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    sweep.run(measured, GRID, on=ready, out=tmp_path / "shown")
    count = len(quiet.rows)
    assert capsys.readouterr().err.endswith(
        f"\rmeasured: {count - 1} of {count} runs\rmeasured: {count} of {count} runs\n"
    )
    pytest.importorskip("pandas")
    assert list(quiet.table()["load"]) == [row.parameters["load"] for row in quiet.rows]
    assert "figure: " in "".join(quiet.table().columns)


def test_what_a_claim_measured_is_a_figure_too_and_none_of_one_name_is_left_out() -> None:
    figures = [
        {"name": "a", "value": 1, "unit": "ns"}, {"name": "list", "value": [1], "unit": ""},
        {"name": "CNPs", "value": 0, "unit": ""}, {"name": "CNPs", "value": 7, "unit": ""},
        {"name": "CNPs", "value": "none", "unit": ""}, {"name": "CNPs", "value": 9, "unit": ""},
    ]  # fmt: skip
    claims = [
        {"name": "a", "measured": 2, "unit": "ns"}, {"name": "b", "measured": 2.5, "unit": ""},
        {"name": "yes", "measured": True, "unit": ""}, {"name": "vast", "measured": 10**400, "unit": ""},
        {"name": "CNPs", "measured": 0, "unit": ""}, {"name": "b", "measured": 3.5, "unit": ""},
    ]  # fmt: skip
    assert sweep_tables.figures_of({"figures": figures, "claims": claims}) == {
        "a [ns]": 1, "CNPs": 0, "CNPs (2)": 7, "CNPs (4)": 9, "a (claim) [ns]": 2, "b": 2.5, "b (2)": 3.5,
    }  # fmt: skip


def test_names_become_distinct_in_their_order_whatever_they_are() -> None:
    assert distinct(["x", "x (2)", "x", "x", "y"]) == ["x", "x (2)", "x (3)", "x (4)", "y"]


@pytest.mark.parametrize(
    ("figure", "values", "text"),
    [
        ("goodput [b/s]", [1875020000, 1875030000], "1.87502Gb/s +- 63530b/s (2 runs)"),
        ("goodput [b/s]", [1875020000] * 4, "1.87502Gb/s (the same with 4 seeds)"),
        ("pause [ns]", [1500], "1.5us (1 run)"),
        ("pause [ns]", [0, 1], "0.5 ns +- 6353ps (2 runs)"),
        ("frames", [18750213] * 2, "18750213 (the same with 2 seeds)"),
        ("frames", [1e15, 3e15], "2e+15 +- 1.271e+16 (2 runs)"),
        ("frames", [0, 0], "0 (the same with 2 seeds)"),
        ("share [of all]", [0.25, 0.5], "0.375 +- 1.588 (2 runs)"),
        ("chance", [1.5e-7], "1.5e-07 (1 run)"),
    ],
)
def test_a_mean_is_written_with_its_unit_and_its_interval(figure: str, values: list[float], text: str) -> None:
    (mean,) = sweep_tables.summary(
        Row({}, seed, "ok", "", True, "", "", "", {figure: value}) for seed, value in enumerate(values)
    )
    assert str(mean) == text


def test_runs_that_were_made_are_not_made_again(tmp_path: Path) -> None:
    ready = ScriptedEngine(answer=answer)
    sweep.run(measured, GRID, seeds=2, on=ready, out=tmp_path)
    again = sweep.run(measured, GRID, seeds=3, on=ready, out=tmp_path)
    assert (again.made, len(again.rows), len(ready.jobs)) == (2, 6, 6)
    assert [job.seed for job in ready.jobs[4:]] == [3, 3]


def test_a_result_that_was_written_is_read_as_it_was(tmp_path: Path) -> None:
    result = lab.run(measured, parameters={"load": 7}, on=ScriptedEngine(answer=answer), out=tmp_path)
    assert result.folder is not None
    assert Result.read(result.folder) == result


def test_other_limits_or_parameters_are_other_inputs(tmp_path: Path) -> None:
    ready = ScriptedEngine(answer=answer)
    sweep.run(measured, {"load": ["1"]}, on=ready, out=tmp_path)
    assert sweep.run(measured, {"load": ["1"], "kind": ["x"]}, on=ready, out=tmp_path).made == 0  # the default
    assert sweep.run(measured, {"load": ["1"], "kind": ["y"]}, on=ready, out=tmp_path).made == 1


def test_an_interrupted_and_resumed_sweep_has_the_table_of_an_undisturbed_one(tmp_path: Path) -> None:
    cancel = threading.Event()
    ready = ScriptedEngine(answer=answer)
    first = sweep.run(
        measured, GRID, seeds=3, on=ready, out=tmp_path / "cut", cancel=cancel,
        done=lambda _, ended, total: cancel.set() if ended == 2 else None,
    )  # fmt: skip
    assert (len(first.rows), len(first.failed), len(first.not_made)) == (2, 0, 4), "what was not made has not failed"
    assert {failure.status for failure in first.not_made} == {"not started"}
    first.write_tables()
    assert not (tmp_path / "cut" / sweep_tables.FAILED).exists()
    sweep.run(measured, GRID, seeds=3, on=ready, out=tmp_path / "cut").write_tables()
    sweep.run(measured, GRID, seeds=3, on=ready, out=tmp_path / "whole").write_tables()
    for name in (sweep_tables.TABLE, sweep_tables.SUMMARY):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert compare_folders(tmp_path / "cut", tmp_path / "whole") == []
    assert len(ready.jobs) == 12
    assert sweep.run(measured, GRID, seeds=3, on=ready, out=tmp_path / "cut").made == 0


def test_failed_runs_are_apart_with_their_reason_and_are_not_repeated(tmp_path: Path) -> None:
    def sometimes(job: Job) -> dict[str, Any]:
        if job.seed == 2:
            raise RuntimeError("no buffer")
        return answer(job)

    ready = ScriptedEngine(answer=sometimes)
    sweep.run(measured, GRID, seeds=2, on=ready, out=tmp_path).write_tables()
    assert [row["seed"] for row in table(tmp_path)] == ["1", "1"]
    failed = table(tmp_path, sweep_tables.FAILED)
    assert [(row["load"], row["seed"], row["status"], row["reason"]) for row in failed] == [
        ("1", "2", "error", "no buffer"),
        ("10", "2", "error", "no buffer"),
    ]
    assert sweep.run(measured, GRID, seeds=2, on=ready, out=tmp_path).made == 0


def test_a_result_that_was_removed_is_made_again(tmp_path: Path) -> None:
    ready = ScriptedEngine(answer=answer)
    first = sweep.run(measured, GRID, on=ready, out=tmp_path)
    (tmp_path / first.rows[0].folder / "result.json").unlink()
    assert sweep.run(measured, GRID, on=ready, out=tmp_path).made == 1


def test_two_sweeps_do_not_share_a_folder_at_once(tmp_path: Path) -> None:
    def another(*_: object) -> None:
        with pytest.raises(UsageError, match="another sweep is running"):
            sweep.run(measured, GRID, on=ScriptedEngine(answer=answer), out=tmp_path)

    assert sweep.run(measured, {"load": ["1"]}, on=ScriptedEngine(answer=answer), out=tmp_path, done=another).made == 1


@pytest.mark.parametrize(
    ("degrees", "expected"),
    [(1, 12.7062), (2, 4.3027), (3, 3.1824), (4, 2.7764), (9, 2.2622), (30, 2.0423), (100, 1.984)],
)
def test_quantiles_of_students_t_are_those_of_published_tables(degrees: int, expected: float) -> None:
    assert student_t(degrees) == pytest.approx(expected, abs=5e-5)


@pytest.mark.parametrize(
    ("values", "mean", "half_width"),
    # Of the second: s = 0.22361, t of 4 degrees of freedom 2.77645.
    [
        ([5.0, 5.0, 5.0], 5.0, 0.0),
        ([9.9, 10.1, 10.0, 10.3, 9.7], 10.0, 0.277645),
        ([1.0, 3.0], 2.0, 12.7062 * math.sqrt(2) / math.sqrt(2)),
    ],
)
def test_the_interval_is_that_of_students_t(values: list[float], mean: float, half_width: float) -> None:
    assert mean_of(values) == (mean, pytest.approx(half_width, rel=1e-5))
    assert math.isnan(mean_of(values[:1])[1])


def test_a_comparison_names_what_differs_between_two_results(tmp_path: Path) -> None:
    found = sweep.run(measured, GRID, on=ScriptedEngine(answer=answer), out=tmp_path)
    first, second = (tmp_path / row.folder for row in found.rows)
    assert compare_folders(first, first) == []
    differences = compare_folders(first, second)
    assert Difference("parameter load", 1, 10) in differences
    assert Difference("figure goodput", 101, 1001) in differences
    with pytest.raises(UsageError, match="is a result and the other a sweep"):
        found.write_tables()
        compare_folders(first, tmp_path)
    with pytest.raises(UsageError, match=r"has neither result\.json nor summary\.csv"):
        compare_folders(first, tmp_path / "nothing")


def test_a_comparison_of_sweeps_has_a_line_for_each_mean_that_differs(tmp_path: Path) -> None:
    def other(job: Job) -> dict[str, Any]:
        return answer(job) | ({"goodput": 7} if job.parameters["load"] == 1 else {})

    for folder, script, seeds in (("a", answer, 2), ("b", other, 2), ("c", answer, 1)):
        sweep.run(measured, GRID, seeds=seeds, on=ScriptedEngine(answer=script), out=tmp_path / folder).write_tables()
    (only,) = compare_folders(tmp_path / "a", tmp_path / "b")
    assert (only.what, str(only.first), str(only.second)) == (
        "load=1 goodput", "101.5 +- 6.353 (2 runs)", "7 (the same with 2 seeds)",
    )  # fmt: skip
    found = {one.what: str(one.second) for one in compare_folders(tmp_path / "a", tmp_path / "c")}
    assert found == {"load=1 goodput": "101 (1 run)", "load=10 goodput": "1001 (1 run)"}
    (tmp_path / "c" / sweep_tables.SUMMARY).write_text("load,figure\n1,goodput\n")
    with pytest.raises(UsageError, match=r"summary\.csv: line 2 cannot be read: 'runs'; sweep again"):
        compare_folders(tmp_path / "a", tmp_path / "c")


def test_a_comparison_sees_each_of_several_figures_with_one_name(tmp_path: Path) -> None:
    def twice(job: Job) -> dict[str, Any]:
        return {"a": 1, Twin("CNPs"): job.seed, Twin("CNPs"): 5}

    found = sweep.run(measured, {"load": ["1"]}, seeds=2, on=ScriptedEngine(answer=twice), out=tmp_path)
    assert [dict(row.figures) for row in found.rows] == [{"a": 1, "CNPs": seed, "CNPs (2)": 5} for seed in (1, 2)]
    first, second = (tmp_path / row.folder for row in found.rows)
    assert [one.what for one in compare_folders(first, second)] == ["seed", "figure CNPs"]
    assert [Result.read(second).figure(name) for name in ("CNPs", "CNPs (2)")] == [2, 5]


@pytest.mark.parametrize(("drawn", "said"), [(True, False), (False, True)])
def test_a_sweep_prints_that_the_seed_has_no_effect_and_what_is_left(
    drawn: bool, said: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def script(job: Job) -> dict[str, Any]:
        return answer(job) if drawn else {"goodput": job.parameters["load"]}

    def cut(*arguments: Any, **options: Any) -> sweep.Sweep:
        event = threading.Event()
        options |= {"cancel": event, "done": lambda _, ended, total: event.set() if ended == 4 else None, "width": 1}
        return sweep_run(*arguments, **options)

    sweep_run = sweep.run
    monkeypatch.setattr(cli_sweep, "ready", lambda kind: ScriptedEngine(answer=script))
    monkeypatch.setattr(definition, "find", lambda name: measured)
    words = ["sweep", "measured", "--grid", "load=1,10", "--seeds", "2", "--out", str(tmp_path / "all")]
    assert main(words) == 0
    everything = capsys.readouterr()
    assert ("the seed has no effect on any figure" in everything.err) is said
    assert ("load=10  goodput: 10 (the same with 2 seeds)" in everything.out) is said
    monkeypatch.setattr(sweep, "run", cut)
    assert main([*words[:-3], "3", "--out", str(tmp_path / "cut")]) == Exit.MACHINE
    left = capsys.readouterr().err
    assert "4 runs in the table, 0 failed; 4 were made now" in left
    assert "2 runs are left (the sweep was interrupted); the same command makes them" in left
