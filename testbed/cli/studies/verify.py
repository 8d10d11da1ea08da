"""`xoff verify`: compare the digests of this machine with those of the repository."""

from __future__ import annotations

import argparse
import importlib
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict
from pathlib import Path

import testbed
from testbed.cli.arguments import whole_number
from testbed.cli.engine_setup import engine_option, engines, ready
from testbed.cli.screen import progress, streams
from testbed.errors import UsageError
from testbed.experiment import definition
from testbed.experiment.definition import Experiment
from testbed.lab.engines import table
from testbed.lab.engines.engine import Engine
from testbed.lab.results.result import Exit, Result
from testbed.lab.studies import batch, costs, references
from testbed.lab.studies.batch import Task, TaskOutcome
from testbed.lab.studies.references import Comparison, Outcome, Reference

_MARKS = {Outcome.SAME: "✓", Outcome.DIFFERENT: "✗", Outcome.UNKNOWN: "?", Outcome.FAILED: "✗"}


def verify_options(parser: argparse.ArgumentParser) -> None:
    what = parser.add_argument("experiment", nargs="*", metavar="EXPERIMENT", help="by default all that Xoff ships")
    what.completer = lambda **_: [e.name for e in definition.shipped()]  # type: ignore[attr-defined]
    engine_option(parser, engines(lambda engine: engine.reproducible))
    parser.add_argument(
        "-j", type=whole_number(1, 2), default=1, metavar="N", help="run up to N side by side, a core each (default 1)"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="keep the result folders here")
    parser.add_argument(
        "--update",
        action="store_true",
        help=f"in a checkout: write the digests of this machine to {references.FILE}, the figures that docs quote, and "
        "the pictures of the gallery",
    )


def verify(options: argparse.Namespace) -> int:
    """Run the experiments and compare their digests with those in the repository."""
    streams.outlast()
    chosen = [definition.find(name) for name in options.experiment] or _all_on(options.engine)
    root = Path(testbed.__file__).parents[1]
    update = _writer(root) if options.update else None
    engine = ready(options.engine)
    known = references.read(root)

    with ExitStack() as stack:
        unkept = stack.enter_context(tempfile.TemporaryDirectory(prefix="xoff-"))
        screen = stack.enter_context(progress.Screen(many=False, quiet_stdout=options.json))
        costs_s = costs.of(experiment.name for experiment in chosen)
        so_far = progress.Several(screen, "verify", "experiments", [*costs_s.values()])

        def show(outcome: TaskOutcome) -> None:
            so_far.ended(costs_s[outcome.task.experiment.name])
            if outcome.result is not None and not options.json:
                screen.print(_line(_compared(outcome.result, known)), is_error=False)

        tasks = [Task(experiment, engine) for experiment in chosen]
        finished = batch.run(
            tasks, out=options.out or unkept, width=options.j, done=show,
            watch=lambda task: closing(screen.watch(task.experiment.name, tells=False)),
        )  # fmt: skip
        finished.raise_first()
        results = finished.results
        if update is not None:  # while the result folders are there
            update(known, results)
    name = references.edition(results[0].provenance)
    comparisons = [_compared(result, known) for result in results]
    same = sum(comparison.outcome is Outcome.SAME for comparison in comparisons)
    differences = known[name].differences(results[0].provenance) if name in known else []
    if options.json:
        report = {
            "engine": name, "same": same, "experiments": len(comparisons), "differences": differences,
            "comparisons": [asdict(comparison) for comparison in comparisons],
        }  # fmt: skip
        print(json.dumps(report, indent=1))
    else:
        print(f"{name}: {same} of {len(comparisons)} experiments gave the digest of the repository")
        for difference in differences:
            print(f"  {difference}")
    if update is not None:
        failed = any(comparison.outcome is Outcome.FAILED for comparison in comparisons)
        return Exit.FAILED if failed else Exit.OK
    return Exit.OK if same == len(comparisons) else Exit.FAILED


def _writer(root: Path) -> Callable[[Mapping[str, Reference], Sequence[Result]], None]:
    """Return the function that writes digests, quoted figures and pictures into a checkout; it takes the source."""
    if not (root / "tools" / "digests.py").is_file():
        raise UsageError("--update writes files of the source: clone the repository and use it there")
    digests, figures, gallery = (
        importlib.import_module(f"tools.{name}") for name in ("digests", "published_figures", "gallery")
    )

    def write(known: Mapping[str, Reference], results: Sequence[Result]) -> None:
        name = references.edition(results[0].provenance)
        digests.write(root, {**known, name: digests.updated(known.get(name), results)})
        if results[0].provenance.engine == table.DEFAULT:
            figures.update(root, results)
            gallery.update(root, results)

    return write


def _all_on(engine: Engine) -> list[Experiment]:
    """Return the shipped experiments; conformance cases are for labs whose CPU is free (decision 0290)."""
    cases = {case.name for case in definition.conformance()} if engine.cpu_takes_time else set()
    return [experiment for experiment in definition.shipped() if experiment.name not in cases]


def _compared(result: Result, known: Mapping[str, Reference]) -> Comparison:
    return references.compare(result, known.get(references.edition(result.provenance)))


def _line(comparison: Comparison) -> str:
    text = f"{_MARKS[comparison.outcome]} {comparison.experiment:<24} {comparison.digest[:16]}"
    match comparison.outcome:
        case Outcome.DIFFERENT:
            return f"{text}  the repository has {comparison.expected[:16]}"
        case Outcome.UNKNOWN:
            return f"{text}  the repository has none"
        case Outcome.FAILED:
            return f"{text}  {comparison.reason}"
        case _:
            return text
