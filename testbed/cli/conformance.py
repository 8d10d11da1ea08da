"""`xoff conformance`: the cases of SONiC's public PFC test plans, on switches of several speeds or on the user's."""

from __future__ import annotations

import argparse
import json
import re
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

from testbed.cli import console, streams, ui
from testbed.cli.arguments import hint, whole
from testbed.cli.engine_setup import ready
from testbed.cli.output_file import whole as whole_file
from testbed.cli.report import FILE as REPORT
from testbed.cli.report import write as write_report
from testbed.errors import UsageError
from testbed.lab import batch, definition
from testbed.lab.batch import Task, TaskOutcome
from testbed.lab.conformance import FILE, Cell, ConformanceError, Matrix, case_name, in_order
from testbed.lab.definition import Experiment, OneOf, Origin
from testbed.lab.engine import Kind
from testbed.lab.job import Limits
from testbed.lab.result import Exit, expectation
from testbed.net.sonic import Switch, speed
from testbed.sonic.under_test import ports_under_test, under_test
from testbed.units import written

_CASE = '''"""The case {case} on a switch of the user's; written by `xoff conformance`."""

from pathlib import Path

from experiments.conformance.{module} import {name} as case
from testbed.lab import Run, experiment


@experiment(timeout="{timeout}", files=["switch.json"])
def {name}(run: Run) -> None:
    """{summary}"""
    case.body(run, switch=Path(__file__).with_name("switch.json"))
'''
_EXAMPLES = """\
examples:
  xoff conformance                               every case at 100G with both buffer models
  xoff conformance --speed 400G --case L01,L03   two cases
  xoff conformance --switch config_db.json       every case on your own switch

Each case runs on the switch, and again with the mechanism off that it tests: that control has to fail.
Exit code: 0 if every case passed, 1 if one failed. docs/conformance.md describes the cases.
"""


def options(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "--switch", metavar="FILE", help="config_db.json of the switch to test; without it, a switch of Xoff's own"
    )
    parser.add_argument("--speed", metavar="S,...", help="speeds of Xoff's own switch: 100G, 400G, 800G (default 100G)")
    parser.add_argument(
        "--buffer", metavar="B,...", help="its buffer models: dynamic, static thresholds (default: both)"
    )
    what = parser.add_argument("--case", metavar="CASE,...", help="cases, as in L01,Y03 (default: all)")
    what.completer = lambda **_: list(_cases())  # type: ignore[attr-defined]
    parser.add_argument("-j", type=whole(1, 2), default=1, metavar="N", help="run up to N side by side, a core each")
    parser.add_argument("-o", "--output", type=Path, default=Path("results/conformance"), metavar="FOLDER",
                        help=f"where {FILE}, {REPORT} and result folders go (default results/conformance)")  # fmt: skip


def conformance(options: argparse.Namespace) -> int:
    """Run the cases of SONiC's public PFC test plans, and print the matrix of verdicts and measured values."""
    streams.outlast()
    cases = _chosen("case", options.case, _cases())
    with tempfile.TemporaryDirectory(prefix="xoff-conformance-") as place:
        planned = _on_file(cases, options, Path(place)) if options.switch else _on_own(cases, options)
        _make(options.output)
        return _run(options, cases, planned)


def _run(
    options: argparse.Namespace, cases: dict[str, Experiment], planned: list[tuple[str, Experiment, dict[str, str]]]
) -> int:
    engine = ready(Kind.UM)  # decision 0290
    tasks = [
        Task(experiment, engine, given, limits=Limits(virtual_s=experiment.timeout.ps / 1e12))
        for _, experiment, given in planned
    ]
    columns = {id(task): column for task, (column, _, _) in zip(tasks, planned, strict=True)}

    def name(task: Task) -> str:
        return f"{case_name(task.experiment.name)} {columns[id(task)]}"

    def show(outcome: TaskOutcome) -> None:
        if outcome.result is not None and not options.json:
            cell = Cell.of(columns[id(outcome.task)], outcome.result)
            console.say(f"{name(outcome.task)}: {cell.reason or ('passed' if cell.passed else 'failed')}")

    with ExitStack() as stack:
        screen = stack.enter_context(ui.Screen(many=True, quiet_stdout=options.json))
        finished = batch.run(
            tasks, out=options.output, width=options.j, watch=lambda task: closing(screen.watch(name(task))), done=show
        )
    matrix = Matrix(
        Path(options.switch).name if options.switch else "",
        tuple(dict.fromkeys(column for column, _, _ in planned)),
        {case: experiment.summary for case, experiment in cases.items()},
        tuple(Cell.of(columns[id(one.task)], one.result) for one in finished.outcomes if one.result is not None),
    )
    if matrix.cells:
        _write(matrix, options.output)
    if options.json:
        print(json.dumps(matrix.as_json(), indent=1))
    elif matrix.cells:
        _show(matrix)
        console.stdout.print(f"report: {console.shown(options.output / REPORT)}", soft_wrap=True)
    finished.raise_first()
    return max((result.exit_code() for result in finished.results), default=Exit.OK)


# What to run


def _cases() -> dict[str, Experiment]:
    return in_order(definition.conformance())


def _chosen(noun: str, text: str | None, known: dict[str, Experiment]) -> dict[str, Experiment]:
    """The cases that a list names, all without one."""
    if text is None:
        return known
    names = {
        name: case
        for case, experiment in known.items()
        for name in (case, re.sub(r"^(\D+)0+", r"\1", case), experiment.name.upper())
    }
    found = {}
    for word in filter(None, (one.strip() for one in text.split(","))):
        if word.upper() not in names:
            raise UsageError(f"there is no {noun} {word[:40]!r}; {hint(word.upper(), list(known))}")
        found[names[word.upper()]] = known[names[word.upper()]]
    if not found:
        raise UsageError(f"--{noun} {text!r} names none; there are {', '.join(known)}")
    return found


def _values(cases: dict[str, Experiment], parameter: str, text: str | None) -> list[str]:
    """The values of a parameter of all cases that a list names; None: all values."""
    limits = next(one.limits for one in next(iter(cases.values())).parameters if one.name == parameter)
    assert isinstance(limits, OneOf)
    known = list(limits.ends)
    if text is None:
        return known
    found = list(dict.fromkeys(filter(None, (one.strip() for one in text.split(",")))))
    for word in found:
        if word not in known:
            scale = ", because the lab has no scale for it" if parameter == "speed" else ""
            raise UsageError(f"--{parameter} {word[:40]}: not possible{scale}; {hint(word, known)}")
    if not found:
        raise UsageError(f"--{parameter} {text!r} names none; there are {', '.join(known)}")
    return found


def _on_own(cases: dict[str, Experiment], options: argparse.Namespace) -> list[tuple[str, Experiment, dict[str, str]]]:
    """Column, experiment and parameters of each run on a switch of Xoff's own."""
    speeds = _values(cases, "speed", options.speed or "100G")
    models = _values(cases, "buffer", options.buffer)
    columns = [(f"{chosen} {model}", {"speed": chosen, "buffer": model}) for chosen in speeds for model in models]
    return [(column, case, given) for case in cases.values() for column, given in columns]


def _on_file(
    cases: dict[str, Experiment], options: argparse.Namespace, place: Path
) -> list[tuple[str, Experiment, dict[str, str]]]:
    """The same on the user's switch, which travels to the lab as a file beside the experiment."""
    for name in ("speed", "buffer"):
        if getattr(options, name) is not None:
            raise UsageError(f"--{name} is for Xoff's own switch; with --switch it is what {options.switch} has")
    switch = Switch.from_config_db(options.switch)
    switch.require()
    chosen = under_test(switch.tables)
    column = f"{switch.name} {speed(chosen, next(iter(ports_under_test(chosen))))}"
    for warning in switch.warnings:
        console.say(f"{options.switch}: {warning}")
    try:
        shutil.copyfile(options.switch, place / "switch.json")
        return [(column, _written(case, place, options.switch), {}) for case in cases.values()]
    except OSError as error:
        raise ConformanceError(f"{place} cannot be written: {error.strerror}") from None


def _written(case: Experiment, place: Path, switch: str) -> Experiment:
    path = place / f"{case.name}.py"
    path.write_text(
        _CASE.format(
            case=case_name(case.name),
            module=case.source.stem,
            name=case.name,
            timeout=case.timeout,
            summary=case.summary,
        )
    )
    words = ("conformance", "--switch", switch, "--case", case_name(case.name))
    origin = Origin(words, (switch,), takes_parameters=False, takes_options=False)
    return replace(definition.load_file(path), origin=origin)


# What came of it


def _make(folder: Path) -> None:
    """Before anything runs: a folder that cannot be is no reason to run for minutes."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder} cannot be made: {error.strerror}; -o names another place") from None


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
