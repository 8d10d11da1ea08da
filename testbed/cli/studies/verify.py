"""`xoff verify`: compare the digests of this machine with those of the repository.

Where digests depend on Xoff's code, as on `vm`, and are of other code, the claims of experiments are compared.
"""

from __future__ import annotations

import argparse
import importlib
import json
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict
from pathlib import Path

import testbed
from testbed.cli import index
from testbed.cli.arguments import whole_number
from testbed.cli.engine_setup import engine_option, ready
from testbed.cli.screen import progress, streams
from testbed.errors import UsageError
from testbed.experiment import definition
from testbed.experiment.definition import Experiment
from testbed.lab.engines import table
from testbed.lab.engines.engine import Engine
from testbed.lab.engines.words import WORDS
from testbed.lab.results import folder
from testbed.lab.results.published import Published
from testbed.lab.results.result import Exit, Result
from testbed.lab.studies import batch, costs, references
from testbed.lab.studies.batch import Task, TaskOutcome
from testbed.lab.studies.references import Comparison, Outcome, Reference

_MARKS = {
    Outcome.SAME: "✓", Outcome.CLAIMED: "✓", Outcome.NOT_JUDGED: "-", Outcome.DIFFERENT: "✗", Outcome.UNKNOWN: "?",
    Outcome.FAILED: "✗",
}  # fmt: skip
_RIGHT = (Outcome.SAME, Outcome.CLAIMED, Outcome.NOT_JUDGED)


def verify_options(parser: argparse.ArgumentParser) -> None:
    what = parser.add_argument("experiment", nargs="*", metavar="EXPERIMENT", help="by default all that Xoff ships")
    what.completer = lambda **_: index.experiments()  # type: ignore[attr-defined]
    engine_option(parser, [engine for engine in WORDS if engine.reproducible])
    parser.add_argument(
        "-j", type=whole_number(1, 2), default=1, metavar="N", help="run up to N side by side, a core each (default 1)"
    )
    parser.add_argument(
        "--published",
        action="store_true",
        help="the experiments that reproduce what others have published, with a table of published and measured values",
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
    chosen = _chosen(options)
    root = Path(testbed.__file__).parents[1]
    update = _writer(root) if options.update else None
    engine = ready(options.engine)
    known = references.read(root)

    with ExitStack() as stack:
        unkept = stack.enter_context(tempfile.TemporaryDirectory(prefix="xoff-"))
        screen = stack.enter_context(progress.Screen(many=False, quiet_stdout=options.json))
        costs_s = costs.expected_of(experiment.name for experiment in chosen)
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
        published = {result.experiment: _published(result) for result in results} if options.published else {}
        if update is not None:  # while the result folders are there
            update(known, results)
    name = references.edition(results[0].provenance)
    comparisons = [_compared(result, known) for result in results]
    counted = Counter(comparison.outcome for comparison in comparisons)
    differences = known[name].differences(results[0].provenance) if name in known else []
    if options.json:
        report = {
            "engine": name, "same": counted[Outcome.SAME], "as claimed": counted[Outcome.CLAIMED],
            "experiments": len(comparisons), "differences": differences,
            "comparisons": [asdict(comparison) for comparison in comparisons],
        }  # fmt: skip
        if options.published:
            report["published"] = {name: [asdict(one) for one in values] for name, values in published.items()}
        print(json.dumps(report, indent=1))
    else:
        print(f"{name}: {_summary(counted)}")
        for difference in differences:
            print(f"  {difference}")
        if options.published:
            _show(published)
    if update is not None:
        failed = any(comparison.outcome is Outcome.FAILED for comparison in comparisons)
        return Exit.FAILED if failed else Exit.OK
    return Exit.OK if all(one in _RIGHT for one in counted) else Exit.FAILED


def _summary(counted: Counter[Outcome]) -> str:
    whole = counted.total()
    if not counted[Outcome.CLAIMED] + counted[Outcome.NOT_JUDGED]:
        return f"{counted[Outcome.SAME]} of {whole} experiments gave the digest of the repository"
    held = f"in {counted[Outcome.SAME] + counted[Outcome.CLAIMED]} of {whole} experiments the claims hold"
    return f"{held}; degraded and not judged: {counted[Outcome.NOT_JUDGED]}" if counted[Outcome.NOT_JUDGED] else held


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


def _chosen(options: argparse.Namespace) -> list[Experiment]:
    """Return the experiments that are named, and without names those of the selection."""
    named = [definition.find(name) for name in options.experiment]
    if not options.published:
        return named or _all_on(options.engine)
    known = {experiment.name for experiment in definition.published()}
    for experiment in named:
        if experiment.name not in known:
            raise UsageError(
                f"{experiment.name} reproduces nothing that was published; --published has {', '.join(sorted(known))}"
            )
    return named or definition.published()


def _published(result: Result) -> list[Published]:
    assert result.folder is not None
    return folder.read(result.folder).published()


def _show(published: Mapping[str, Sequence[Published]]) -> None:
    from rich.table import Table

    from testbed.cli.screen.console import shown, stdout

    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for column in ("", "published", "measured", "claim"):
        table.add_column(column, overflow="fold")
    for name, values in published.items():
        table.add_row(f"[bold]{shown(name)}[/bold]")
        for one in values:
            table.add_row(f"  {shown(one.name)}", *map(shown, one.texts))
    stdout.print(table)
    for source in dict.fromkeys(one.source for values in published.values() for one in values):
        stdout.print(f"[dim]{shown(source)}[/dim]", soft_wrap=True)


def _all_on(engine: Engine) -> list[Experiment]:
    """Return the shipped experiments that are for an engine."""
    return definition.for_any_engine() if engine.cpu_takes_time else definition.shipped()


def _compared(result: Result, known: Mapping[str, Reference]) -> Comparison:
    return references.compare(result, known.get(references.edition(result.provenance)))


def _line(comparison: Comparison) -> str:
    text = f"{_MARKS[comparison.outcome]} {comparison.experiment:<24} {comparison.digest[:16]}"
    match comparison.outcome:
        case Outcome.CLAIMED:
            return f"{text}  its claims hold"
        case Outcome.NOT_JUDGED:
            return f"{text}  it was short of CPU, so its claims are not judged"
        case Outcome.DIFFERENT:
            return f"{text}  the repository has {comparison.expected[:16]}"
        case Outcome.UNKNOWN:
            return f"{text}  the repository has none"
        case Outcome.FAILED:
            return f"{text}  {comparison.reason}"
        case _:
            return text
