"""`xoff benchmark`: the tests of a benchmark for AI training fabrics, on one fabric, with one report."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

from testbed import shipped_packages
from testbed.cli.arguments import hint, one_of, whole_number
from testbed.cli.engine_setup import ready
from testbed.cli.first_steps.report import FILE as REPORT
from testbed.cli.first_steps.report import write as write_report
from testbed.cli.output_file import whole_file
from testbed.cli.screen import console, progress, streams
from testbed.cli.screen.amount import Amount
from testbed.errors import UsageError
from testbed.experiment import definition
from testbed.experiment.definition import Experiment, Origin
from testbed.lab.engines import table
from testbed.lab.host import cores
from testbed.lab.results.foreign import ForeignFolder
from testbed.lab.results.result import Exit, Result
from testbed.lab.studies import sweep
from testbed.lab.studies.batch import TaskOutcome
from testbed.lab.studies.benchmark import FILE, TESTS, Benchmark, Failed, OutcomeOfTest, arrow
from testbed.lab.studies.cluster.client import Cluster, connected
from testbed.lab.studies.sweep import Sweep
from testbed.measures.fabric_under_test import FabricUnderTest
from testbed.net.shell import topologies
from testbed.roce import rates

_EXPERIMENT = shipped_packages.folder(shipped_packages.EXPERIMENTS) / "_benchmark" / "benchmark.py"
FABRIC = "leaf-spine,4,4,4"
_EXAMPLES = f"""\
examples:
  xoff benchmark --quick                             four leaves, four spines and sixteen hosts, in minutes
  xoff benchmark rail,2,4,2 --test ecmp,spray        two tests of another topology
  xoff benchmark my/file.py:mine,4 --seeds 5         a topology of your own
  xoff benchmark leaf1/config_db.json spine1/config_db.json
  xoff compare results/benchmark results/before      what differs; xoff report A B shows both side by side

Tests: {", ".join(one.name for one in TESTS)}.
"""


def options(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "fabric",
        nargs="*",
        metavar="FABRIC",
        help=f"a topology, FILE.py:NAME, or config_db.json files (default {FABRIC})",
    )
    parser.add_argument("--quick", action="store_true", help="small sizes and few rounds: minutes on two cores")
    what = parser.add_argument("--test", metavar="TEST,...", help="some of the tests (default: all)")
    what.completer = lambda **_: [one.name for one in TESTS]  # type: ignore[attr-defined]
    parser.add_argument("--control", default="dcqcn", metavar="C", help=f"the rate control: {', '.join(rates.names())}")
    parser.add_argument("--pfc", type=one_of("setting", ("on", "off")), default="on", metavar="on|off",
                        help="lossless, or drops (default: on); switches of a file are as it says")  # fmt: skip
    parser.add_argument("--ecn", type=one_of("setting", ("auto", "on", "off")), default="auto", metavar="on|off",
                        help="marks before PFC (default: if the rate control goes by them)")  # fmt: skip
    parser.add_argument(
        "--recovery", type=one_of("recovery", ("go-back-N", "selective-repeat")), default="go-back-N", metavar="R",
        help="what RoCE sends again after a loss: go-back-N (default) or selective-repeat",
    )  # fmt: skip
    parser.add_argument("--seeds", type=whole_number(1, 5), default=1, metavar="N", help="seeds 1 to N (default 1)")
    parser.add_argument("-j", type=whole_number(1, 2), metavar="N", help="run up to N at a time (default all cores)")
    parser.add_argument("--scheduler", metavar="ADDRESS", help="run on a Dask cluster: tcp://HOST:PORT")
    parser.add_argument(
        "--lab", type=Path, metavar="FILE", help="have its workers take the lab from FILE, which all of them see"
    )
    parser.add_argument("--out", type=Path, default=Path("results/benchmark"), metavar="FOLDER",
                        help=f"where {FILE}, {REPORT} and result folders go (default results/benchmark)")  # fmt: skip


def benchmark(options: argparse.Namespace) -> int:
    """Measure a fabric by the tests of draft-calabria-bmwg-ai-fabric-training-bench: RDMA transport, congestion, load
    balancing, collectives, job completion time and the link layer. Runs that are in the folder are not made again."""
    streams.outlast()
    if options.lab is not None and options.scheduler is None:
        raise UsageError("--lab is for the workers of a cluster, which --scheduler names")
    if options.j is not None and options.scheduler is not None:
        raise UsageError("-j is for this machine; how many runs a worker makes at a time is `dask worker --nthreads`")
    tests = _tests(options.test)
    topo, files = _fabric(options.fabric)
    rates.maker_of(options.control)
    of_file = bool(files) and files[0].suffix != ".py"
    if of_file and (options.pfc, options.ecn) != ("on", "auto"):
        raise UsageError(f"--pfc and --ecn are for topologies; here they are as {files[0].name} says")
    recovery = options.recovery.replace("-repeat", " repeat")
    fabric = FabricUnderTest.of(
        topo, files, control=options.control, pfc=options.pfc == "on", ecn=options.ecn, recovery=recovery
    )  # a mistake is reported before anything is set up
    words = [*options.fabric, "--test", ",".join(tests), "--control", options.control]
    words += [] if of_file else ["--pfc", options.pfc, "--ecn", options.ecn]
    words += ["--recovery", options.recovery]
    words += [*(["--quick"] if options.quick else []), "--seeds", str(options.seeds)]
    origin = Origin(("benchmark", *words), tuple(map(str, files)), takes_parameters=False, takes_options=False)
    experiment = replace(definition.find(str(_EXPERIMENT)), origin=origin)
    grid = {"test": tests, "topo": [topo], "control": [options.control], "recovery": [recovery]}
    grid["quick"] = [str(options.quick).lower()]
    if not of_file:
        grid |= {"pfc": [str(options.pfc == "on").lower()], "ecn": [options.ecn]}
    if files:
        grid["files"] = [",".join(map(str, files))]
    if options.scheduler is None:
        measured = _make(options, experiment, grid, None)
    else:
        with connected(options.scheduler, console.say, options.lab) as cluster:
            measured = _make(options, experiment, grid, cluster)
    measured.write_tables()
    return _report(options, fabric, tests, measured, " ".join(("xoff benchmark", *words)))


def _report(
    options: argparse.Namespace, fabric: FabricUnderTest, tests: Sequence[str], found: Sweep, command: str
) -> int:
    made_with: dict[str, str] = {}
    outcomes = []
    for test in tests:
        rows = [row for row in found.rows if row.parameters["test"] == test]
        results = [
            replace(Result.read(ForeignFolder(found.folder / row.folder)), folder=found.folder / row.folder)
            for row in rows
        ]
        missing = [
            Failed(f"{one.status}: {one.reason}", one.seed)
            for one in (*found.failed, *found.not_made)
            if one.parameters["test"] == test
        ]
        outcomes.append(OutcomeOfTest.of(test, results, found.folder, missing))
        for one in results[:1]:
            made = one.provenance
            made_with = {"Xoff": made.xoff, "engine": made.engine, "kernel": made.kernel, "image": made.image}
    measured = Benchmark(
        fabric.name, fabric.settings, options.quick, options.seeds, command, tuple(made_with.items()), tuple(outcomes)
    )
    with whole_file(found.folder / FILE, [found.folder]) as out:
        out.write(json.dumps(measured.as_json(), indent=1).encode() + b"\n")
    write_report([found.folder], found.folder / REPORT)
    if options.json:
        print(json.dumps(measured.as_json(), indent=1))
    else:
        _show(measured)
        console.stdout.print(f"report: {console.shown(found.folder / REPORT)}", soft_wrap=True)
    if found.interruption is not None:
        raise found.interruption
    if found.failed or found.not_made:
        return Exit.MACHINE
    return Exit.OK if measured.passed else Exit.FAILED


def _make(
    options: argparse.Namespace, experiment: Experiment, grid: Mapping[str, Sequence[str]], cluster: Cluster | None
) -> Sweep:
    engine = ready(table.DEFAULT)
    with ExitStack() as stack:
        screen = stack.enter_context(progress.Screen(many=True, quiet_stdout=options.json))
        if cluster is not None:
            cluster.show_progress(stack.enter_context(closing(screen.watch("cluster"))).describe)
        bar: list[Amount] = []

        def ended(outcome: TaskOutcome, count: int, total: int) -> None:
            if not bar:
                bar.append(screen.all_of("benchmark", total))
            bar[0].at(count, f"{count} of {total} runs")
            console.say(f"{count} of {total}: {_name(outcome)}")

        return sweep.run(
            experiment, grid, seeds=options.seeds, on=engine, out=options.out,
            width=options.j or len(cores.available()), scheduler=cluster,
            watch=lambda task: closing(screen.watch(str(task.parameters["test"]))), done=ended,
        )  # fmt: skip


def _name(outcome: TaskOutcome) -> str:
    what = f"{outcome.task.parameters['test']}, seed {outcome.task.options.seed}"
    if outcome.result is None:
        return f"{what}: {outcome.error}"
    if outcome.result.reason:
        return f"{what}: {outcome.result.reason}"
    return f"{what}: {'ok' if outcome.result.passed else 'a claim does not hold'}"


def _tests(text: str | None) -> list[str]:
    known = [one.name for one in TESTS]
    if text is None:
        return known
    names = list(dict.fromkeys(filter(None, (word.strip() for word in text.split(",")))))
    for word in names:
        if word not in known:
            raise UsageError(f"there is no test {word[:40]!r}; {hint(word, known)}")
    if not names:
        raise UsageError(f"--test {text!r} names none; there are {', '.join(known)}")
    return [name for name in known if name in names]


def _fabric(words: Sequence[str]) -> tuple[str, list[Path]]:
    """Return the topology and the user's files that are asked for."""
    if words and all(word.endswith(".json") for word in words):
        return "", [Path(word) for word in words]
    if len(words) > 1:
        raise UsageError(f"{' '.join(words)[:80]}: one topology is expected, or config_db.json files")
    wanted = words[0] if words else FABRIC
    file, rest = topologies.file_of(wanted)
    return (rest, [file]) if file is not None else (wanted, [])


def _show(found: Benchmark) -> None:
    from rich.table import Table

    is_utf = console.stdout.encoding.startswith("utf")
    held, failed = ("✓", "✗") if is_utf else ("+", "-")
    shown = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for column in ("", "test", "row", "column", "measured"):
        shown.add_column(column, overflow="fold")
    for outcome in found.outcomes:
        test = next(one for one in TESTS if one.name == outcome.test)
        mark = f"[red]{failed}[/red]" if outcome.failed else f"[green]{held}[/green]"
        rows = [(row, columns) for row, columns in outcome.rows.items() if test.main in columns]
        for row, columns in rows or [("", {})]:
            value = columns.get(test.main)
            main = f"{test.main}{arrow(test.main) if is_utf else ''}" if value is not None else ""
            shown.add_row(
                mark, f"{test.section} {test.name}", console.shown(row), main, console.shown(str(value or ""))
            )
    console.stdout.print(shown)
    if is_utf:
        console.say("↑: more is better, ↓: less is better")
    for outcome in found.outcomes:
        for one in outcome.failed:
            console.stdout.print(
                f"{outcome.test}, seed {one.seed}: {one.what}", markup=False, highlight=False, soft_wrap=True
            )
