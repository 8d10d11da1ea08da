"""`xoff switch conformance`: the cases of SONiC's test plans, on switches of several speeds or on the user's."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from testbed import subject
from testbed.cli.arguments import hint, whole_number
from testbed.cli.engine_setup import ready
from testbed.cli.first_steps.report import FILE as REPORT
from testbed.cli.first_steps.report import write as write_report
from testbed.cli.output_file import whole_file
from testbed.cli.screen import console, progress, streams
from testbed.errors import UsageError
from testbed.experiment import definition
from testbed.experiment.definition import Experiment, Origin
from testbed.experiment.parameters import OneOf
from testbed.lab.engines import table
from testbed.lab.results.result import Exit, expectation
from testbed.lab.studies import batch, costs
from testbed.lab.studies.batch import Task, TaskOutcome
from testbed.lab.studies.conformance import (
    FILE,
    PLANS,
    Cell,
    ColumnPorts,
    Matrix,
    case_name,
    in_order,
    plan_of,
    ports_of,
)
from testbed.subjects.sonic.commands.model_plans import on_models
from testbed.subjects.sonic.lab.settings import CELL, Switch, speed
from testbed.subjects.sonic.ports_to_test import classes, patience, split
from testbed.units import written

_EXAMPLES = """\
examples:
  xoff switch conformance                               every case at 100G with both buffer models
  xoff switch conformance --speed 400G --case L01,L03   two cases
  xoff switch conformance config_db.json                every case on your own switch, for each class of its ports
  xoff switch conformance --plan rocev2                 the RoCEv2 plan, TC1 to TC11, between eight ranks
  xoff switch conformance --plan trimming               the packet trimming plan, its cases 1 to 13 as PT1 to PT13
  xoff switch conformance --plan llr                    the plan of Link Layer Retry, its cases 1 to 20 as LR1 to LR20
  xoff switch conformance --plan scale-up               the scale-up standard's 22 cases, on models and in the lab

Each case runs on the switch, and again with the mechanism off that it tests: that control has to fail.
Exit code: 0 if every case passed, 1 if one failed. docs/conformance.md describes the cases.
"""


def options(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "file", nargs="?", metavar="FILE", help="config_db.json of the switch to test (default: a switch of Xoff's own)"
    )
    parser.add_argument("--speed", metavar="S,...", help="speeds of Xoff's own switch: 100G, 400G, 800G (default 100G)")
    parser.add_argument(
        "--buffer", metavar="B,...", help="its buffer models: dynamic, static thresholds (default: both)"
    )
    parser.add_argument(
        "--ports", metavar="PORT,...",
        help="ports of FILE to test, as in Ethernet0,Ethernet48 (default: the one with the least headroom to spare, "
        "and one of each class: speed, cable, MTU, buffer profiles, maps)",
    )  # fmt: skip
    parser.add_argument(
        "--plan", choices=(*PLANS, *_model_plans()),
        help="the plan whose cases run: pfc (default), rocev2, trimming, llr, or scale-up; --case names any of the "
        "first four, or of the plan",
    )  # fmt: skip
    what = parser.add_argument("--case", metavar="CASE,...", help="cases, as in L01,Y03,TC2 (default: all of the plan)")
    what.completer = lambda **_: list(_cases())  # type: ignore[attr-defined]
    parser.add_argument(
        "--models", action="store_true",
        help="with --plan scale-up: run its cases on the models alone, in seconds, and not in the lab, too",
    )  # fmt: skip
    parser.add_argument(
        "-j", type=whole_number(1, 2), default=1, metavar="N", help="run up to N side by side, a core each"
    )
    parser.add_argument("--out", type=Path, default=Path("results/conformance"), metavar="FOLDER",
                        help=f"where {FILE}, {REPORT} and result folders go (default results/conformance)")  # fmt: skip


def conformance(options: argparse.Namespace) -> int:
    """Run the cases of one of SONiC's public test plans, and print the matrix of verdicts and measured values."""
    streams.outlast()
    if options.plan in _model_plans():
        return on_models(options, _model_plans()[options.plan])
    if options.models:
        raise UsageError("--models is for plans that have models: --plan " + " or ".join(_model_plans()))
    cases = _of_plan(options, _cases())
    tested: tuple[ColumnPorts, ...] = ()
    if options.file:
        planned, tested = _on_file(cases, options)
        for one in tested:
            console.say(f"{one.column}: {one.in_words}")
    else:
        planned = _on_own(cases, options)
    if not planned:
        raise UsageError("the switch has too few ports of one kind for each of these cases")
    _make(options.out)
    return _run(options, cases, planned, tested)


def _run(
    options: argparse.Namespace, cases: dict[str, Experiment], planned: list[_Planned], tested: tuple[ColumnPorts, ...]
) -> int:
    engine = ready(table.DEFAULT)
    tasks = [Task(one.experiment, engine, one.parameters) for one in planned]
    columns = {id(task): one.column for task, one in zip(tasks, planned, strict=True)}

    def name(task: Task) -> str:
        return f"{case_name(task.experiment.name)} {columns[id(task)]}"

    costs_s = costs.expected_of(task.experiment.name for task in tasks)

    def show(outcome: TaskOutcome) -> None:
        so_far.ended(costs_s[outcome.task.experiment.name])
        if outcome.result is not None and not options.json:
            cell = Cell.of(columns[id(outcome.task)], outcome.result)
            console.say(f"{name(outcome.task)}: {cell.reason or ('passed' if cell.passed else 'failed')}")

    with ExitStack() as stack:
        screen = stack.enter_context(progress.Screen(many=True, quiet_stdout=options.json))
        each_s = [costs_s[task.experiment.name] for task in tasks]
        so_far = progress.Several(screen, "conformance", "runs", each_s)
        finished = batch.run(
            tasks, out=options.out, width=options.j, watch=lambda task: closing(screen.watch(name(task))), done=show
        )
    matrix = Matrix(
        Path(options.file).name if options.file else "",
        tuple(dict.fromkeys(one.column for one in planned)),
        {case: experiment.summary for case, experiment in cases.items()},
        tuple(Cell.of(columns[id(one.task)], one.result) for one in finished.outcomes if one.result is not None),
        tested,
    )
    if matrix.cells:
        _write(matrix, options.out)
    if options.json:
        print(json.dumps(matrix.as_json(), indent=1))
    elif matrix.cells:
        _show(matrix)
        console.stdout.print(f"report: {console.shown(options.out / REPORT)}", soft_wrap=True)
    finished.raise_first()
    return max((result.exit_code() for result in finished.results), default=Exit.OK)


# What to run


@cache
def _model_plans() -> dict[str, str]:
    """Return the plans that run on models, and the names of their cases' tables."""
    return {word: name for plans in subject.loaded("plans") for word, name in plans.items()}


def _cases() -> dict[str, Experiment]:
    return in_order(definition.conformance())


def _of_plan(options: argparse.Namespace, known: dict[str, Experiment]) -> dict[str, Experiment]:
    """Return the cases that `--case` names, or all of the plan."""
    if options.case is None:
        plan = options.plan or PLANS[0]
        return {name: case for name, case in known.items() if plan_of(name) == plan}
    chosen = _chosen("case", options.case, known)
    for name in chosen:
        if options.plan is not None and plan_of(name) != options.plan:
            raise UsageError(f"{name} is no case of the plan {options.plan}; leave --plan out, or name others")
    return chosen


def _chosen(noun: str, text: str | None, known: dict[str, Experiment]) -> dict[str, Experiment]:
    """Return the cases that a list names, or all cases if there is no list."""
    if text is None:
        return known
    names = {
        name: case
        for case, experiment in known.items()
        for name in (case, re.sub(r"^(\D+)0+", r"\1", case), experiment.name.upper())
    }
    cases = {}
    for word in filter(None, (one.strip() for one in text.split(","))):
        if word.upper() not in names:
            raise UsageError(f"there is no {noun} {word[:40]!r}; {hint(word.upper(), list(known))}")
        cases[names[word.upper()]] = known[names[word.upper()]]
    if not cases:
        raise UsageError(f"--{noun} {text!r} names none; there are {', '.join(known)}")
    return cases


def _values(cases: dict[str, Experiment], parameter: str, text: str | None) -> list[str]:
    """Return the values that a list names of a parameter that all cases have, or all of them if there is no list."""
    limits = next(one.limits for one in next(iter(cases.values())).parameters if one.name == parameter)
    assert isinstance(limits, OneOf)
    known = list(limits.ends)
    if text is None:
        return known
    values = list(dict.fromkeys(filter(None, (one.strip() for one in text.split(",")))))
    for word in values:
        if word not in known:
            scale = ", because the lab has no scale for it" if parameter == "speed" else ""
            raise UsageError(f"--{parameter} {word[:40]}: not possible{scale}; {hint(word, known)}")
    if not values:
        raise UsageError(f"--{parameter} {text!r} names none; there are {', '.join(known)}")
    return values


def _on_own(cases: dict[str, Experiment], options: argparse.Namespace) -> list[_Planned]:
    """Return the runs on a switch of Xoff's own."""
    if options.ports is not None:
        raise UsageError("--ports is for a switch of your own, whose FILE is named; all ports of Xoff's own are alike")
    speeds = _values(cases, "speed", options.speed or "100G")
    models = _values(cases, "buffer", options.buffer)
    columns = [(f"{chosen} {model}", {"speed": chosen, "buffer": model}) for chosen in speeds for model in models]
    return [_Planned(column, case, given) for case in cases.values() for column, given in columns]


@dataclass(frozen=True)
class _Planned:
    """A run to be made: its column in the matrix, the experiment and its parameters."""

    column: str
    experiment: Experiment
    parameters: dict[str, str] = field(default_factory=dict)


def _on_file(
    cases: dict[str, Experiment], options: argparse.Namespace
) -> tuple[list[_Planned], tuple[ColumnPorts, ...]]:
    """Return the runs on the user's switch: every case once for each class of ports."""
    for name in ("speed", "buffer"):
        if getattr(options, name) is not None:
            raise UsageError(f"--{name} is for Xoff's own switch; here it is what {options.file} has")
    switch = Switch.from_config_db(options.file)
    switch.require()
    chosen = classes(switch.tables, CELL, split(options.ports) if options.ports is not None else ())
    for warning in switch.warnings:
        console.say(f"{options.file}: {warning}")
    planned, tested = [], []
    for one in chosen:
        ports = one.places()
        column = f"{switch.name} {ports[0]} {speed(switch.tables, ports[0])} {switch.ports[ports[0]].length}"
        left_out = [name for name, case in cases.items() if ports_of(case) > len(ports)]
        tested.append(ColumnPorts(column, ports, one.about(switch.tables), one.headroom.remedy, tuple(left_out)))
        own = [port for port in ports if port in one.ports]
        given = {"switch": options.file, "ports": ",".join(ports)}
        planned += [
            _Planned(column, _of_file(case, options.file, own, patience(switch.tables)), given)
            for name, case in cases.items()
            if name not in left_out
        ]
    return planned, tuple(tested)


def _of_file(case: Experiment, switch: str, ports: Sequence[str], patience: int) -> Experiment:
    """Return a case with the time limit that a switch of the user's needs, and the command that makes it again."""
    words = ("switch", "conformance", switch, "--ports", ",".join(ports), "--case", case_name(case.name))
    origin = Origin(words, (switch,), takes_parameters=False, takes_options=False)
    return replace(case, timeout=case.timeout * patience, origin=origin)


# What came of it


def _make(folder: Path) -> None:
    """Make the folder for results before anything runs, so that a path that cannot be made costs no minutes."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder} cannot be made: {error.strerror}; --out names another place") from None


def _write(matrix: Matrix, folder: Path) -> None:
    with whole_file(folder / FILE, [folder]) as out:
        out.write(json.dumps(matrix.as_json(), indent=1).encode() + b"\n")
    write_report([folder], folder / REPORT)


def _show(matrix: Matrix) -> None:
    from rich.table import Table

    held, failed = ("✓", "✗") if console.stdout.encoding.startswith("utf") else ("+", "-")
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for column in ("case", "measured", *matrix.columns):
        table.add_column(column, overflow="fold")
    for case in matrix.summaries:
        cells = [matrix.cell(case, column) for column in matrix.columns]
        name = next((cell.main.name for cell in cells if cell and cell.main), "")
        table.add_row(case, console.shown(name), *(_verdict(cell, held, failed) for cell in cells))
    console.stdout.print(table)
    for cell in matrix.cells:
        for line in _complaints(cell):
            console.stdout.print(f"{cell.case} {cell.column}: {line}", markup=False, highlight=False, soft_wrap=True)
    for one in matrix.tested:
        if one.remedy:
            console.stdout.print(f"{one.column}: {one.remedy}", markup=False, highlight=False, soft_wrap=True)
    passed = sum(cell.passed for cell in matrix.cells)
    console.stdout.print(f"{passed} of {len(matrix.cells)} runs passed", highlight=False)


def _verdict(cell: Cell | None, held: str, failed: str) -> str:
    if cell is None:
        return "not run"
    value = console.shown(cell.measured)
    return f"[green]{held}[/green] {value}" if cell.passed else f"[red]{failed}[/red] {value}"


def _complaints(cell: Cell) -> Sequence[str]:
    if cell.reason:
        return [f"{cell.reason}; what it had until then is in {cell.folder}"]
    return [
        f"{claim.name}: measured {written(claim.measured, claim.unit)}, expected {expectation(claim)}"
        for claim in cell.failed_claims
    ]
