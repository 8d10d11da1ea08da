"""`xoff switch conformance` for plans of a subject that run on its models, then in the lab: rows, CSV, a summary."""

from __future__ import annotations

import argparse
import importlib
import json
from contextlib import ExitStack, closing
from dataclasses import asdict

from testbed import shipped_packages
from testbed.cli.arguments import hint
from testbed.cli.engine_setup import ready
from testbed.cli.output_file import whole_file
from testbed.cli.screen import console, progress
from testbed.errors import UsageError
from testbed.experiment import definition
from testbed.lab.engines import table
from testbed.lab.results.result import Exit
from testbed.lab.studies import batch
from testbed.lab.studies.batch import Task, TaskOutcome
from testbed.lab.studies.plan_rows import NOT_RUN, Plan, PlanRow, as_csv, rows_of_run

_EACH_S = 10.0
"""About what a case takes in the lab, for the time that is shown to be left."""


def on_models(options: argparse.Namespace, name: str) -> int:
    """Run the cases of a plan whose table has this name; return 0 if every case was run and passed."""
    for option in ("file", "speed", "buffer", "ports"):
        if getattr(options, option):
            word = "FILE" if option == "file" else f"--{option}"
            raise UsageError(f"{word} is for plans that run on switches; {options.plan} runs on a link")
    module, _, table = name.partition(":")
    plan: Plan = getattr(importlib.import_module(module), table)
    chosen = _chosen(options.case, plan)
    rows = {case: plan[case].run() for case in chosen}
    record = options.out / f"{options.plan}.csv"
    try:
        options.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{options.out} cannot be made: {error.strerror}; --out names another place") from None
    if not options.models:
        for case, found in _in_lab(options, {case: plan[case].experiment for case in chosen}).items():
            rows[case] += found
    with whole_file(record, [options.out]) as out:
        out.write(as_csv(row for found in rows.values() for row in found).encode())
    if options.json:
        told = {case: [asdict(row) | {"verdict": row.verdict} for row in found] for case, found in rows.items()}
        print(json.dumps(told, indent=1))
    else:
        _show(plan, rows)
        console.stdout.print(f"record: {console.shown(record)}", soft_wrap=True)
    return Exit.OK if all(_verdict(found) == "PASS" for found in rows.values()) else Exit.FAILED


def _in_lab(options: argparse.Namespace, files: dict[str, str]) -> dict[str, list[PlanRow]]:
    """Run the cases that have a file of `experiments/` in the lab; return the rows of each that was started."""
    folder = shipped_packages.folder(shipped_packages.EXPERIMENTS)
    engine = ready(table.DEFAULT)
    tasks = {
        case: Task(definition.load_file(folder / file), engine, {"case": case}) for case, file in files.items() if file
    }
    names = {id(task): case for case, task in tasks.items()}

    def show(outcome: TaskOutcome) -> None:
        so_far.ended(_EACH_S)
        if outcome.result is not None and not options.json:
            rows = rows_of_run(names[id(outcome.task)], outcome.result)
            console.say(f"{names[id(outcome.task)]} in the lab: {_verdict(rows)}")

    with ExitStack() as stack:
        screen = stack.enter_context(progress.Screen(many=True, quiet_stdout=options.json))
        so_far = progress.Several(screen, "conformance", "runs", [_EACH_S] * len(tasks))
        finished = batch.run(
            list(tasks.values()), out=options.out, width=options.j,
            watch=lambda task: closing(screen.watch(names[id(task)])), done=show,
        )  # fmt: skip
    finished.raise_first()
    return {
        names[id(one.task)]: rows_of_run(names[id(one.task)], one.result)
        for one in finished.outcomes
        if one.result is not None
    }


def _chosen(text: str | None, plan: Plan) -> list[str]:
    if text is None:
        return list(plan)
    chosen = [word.strip().upper() for word in text.split(",") if word.strip()]
    for word in chosen:
        if word not in plan:
            raise UsageError(f"there is no case {word[:40]!r} in this plan; {hint(word, list(plan))}")
    if not chosen:
        raise UsageError(f"--case {text!r} names none; there are {', '.join(plan)}")
    return list(dict.fromkeys(chosen))


def _verdict(rows: list[PlanRow]) -> str:
    verdicts = {row.verdict for row in rows}
    return "FAIL" if "FAIL" in verdicts else NOT_RUN if NOT_RUN in verdicts else "PASS"


def _show(plan: Plan, rows: dict[str, list[PlanRow]]) -> None:
    for case, found in rows.items():
        passed = sum(row.passed is True for row in found)
        line = f"{case:8} {_verdict(found):8} {passed}/{len(found)}  {plan[case].text}"
        console.stdout.print(line, markup=False, highlight=False, soft_wrap=True)
        for row in found:
            if not row.passed:
                words = f"{row.scenario}: "
                words += f"frame {row.frame}, {row.settings}: " if row.settings else ""
                told = row.notes if row.passed is None else f"measured {row.measured}, expected {row.expected}"
                console.stdout.print(
                    f"         {words}{row.what}: {told}", markup=False, highlight=False, soft_wrap=True
                )
    verdicts = [_verdict(found) for found in rows.values()]
    summary = f"{verdicts.count('PASS')} of {len(verdicts)} cases passed, {verdicts.count('FAIL')} failed"
    console.stdout.print(f"{summary}, {verdicts.count(NOT_RUN)} not run or not whole", highlight=False)
