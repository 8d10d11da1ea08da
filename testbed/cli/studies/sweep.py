"""`xoff sweep`: parameter studies, on this machine or a cluster."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from testbed.cli import index
from testbed.cli.arguments import whole_number
from testbed.cli.engine_setup import engine_option, ready
from testbed.cli.house.packages import with_option, with_packages
from testbed.cli.screen import console, progress, streams
from testbed.cli.screen.amount import Amount
from testbed.errors import UsageError
from testbed.experiment import definition
from testbed.experiment.definition import Experiment
from testbed.lab.engines.words import WORDS
from testbed.lab.host import cores
from testbed.lab.results.result import Exit, Status
from testbed.lab.studies import sweep, sweep_tables
from testbed.lab.studies.batch import TaskOutcome
from testbed.lab.studies.cluster.client import Cluster, connected
from testbed.lab.studies.sweep import Sweep
from testbed.lab.studies.sweep_tables import Mean


def sweep_options(parser: argparse.ArgumentParser) -> None:
    what = parser.add_argument("experiment", nargs=1, metavar="EXPERIMENT", help="a name, a FILE.py or FILE.py:NAME")
    what.completer = lambda **_: index.experiments()  # type: ignore[attr-defined]
    parser.add_argument(
        "--grid", action="append", default=[], metavar="K=A,B,C", help="values of a parameter; may be repeated"
    )
    parser.add_argument("--seeds", type=whole_number(1, 10), default=1, metavar="N", help="seeds 1 to N (default 1)")
    with_option(parser)
    parser.add_argument(
        "-j",
        type=whole_number(1, 2),
        metavar="N",
        help="run up to N at a time (default all cores)",
    )
    parser.add_argument("--scheduler", metavar="ADDRESS", help="run on a Dask cluster: tcp://HOST:PORT")
    parser.add_argument(
        "--lab",
        type=Path,
        metavar="FILE",
        help="have its workers take the lab from FILE, in a folder that all of them see",
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="the sweep's folder (default results/sweep-EXPERIMENT)")
    engine_option(parser, [engine for engine in WORDS if engine.reproducible])


def run_sweep(options: argparse.Namespace) -> int:
    """Run an experiment with every combination of parameters and every seed. Runs that are in the folder are not made
    again, so the same command continues a sweep that was interrupted."""
    streams.outlast()
    if options.lab is not None and options.scheduler is None:
        raise UsageError("--lab is for the workers of a cluster, which --scheduler names")
    if options.j is not None and options.scheduler is not None:
        raise UsageError("-j is for this machine; how many runs a worker makes at a time is `dask worker --nthreads`")
    experiment = definition.find(options.experiment[0])
    grid = dict(_axis(text) for text in options.grid)
    if len(grid) < len(options.grid):
        raise UsageError("--grid names a parameter twice; write all its values in one, as in --grid hosts=2,4")
    sweep.points(experiment, grid, options.seeds)  # a typo is reported before anything is set up
    if options.scheduler is None:
        study = make(experiment, grid, options.seeds, options, options.out, packages=options.packages)
    else:
        if not options.engine.joins_clusters:
            raise UsageError(f"--engine {options.engine}: a cluster's workers have only Python, and run um")
        with connected(options.scheduler, console.say, options.lab) as cluster:
            study = make(
                experiment, grid, options.seeds, options, options.out, packages=options.packages, cluster=cluster
            )
    tables = study.write_tables()
    if options.json:
        rows = [row.columns() for row in study.rows]
        failed = [failure.columns() for failure in study.failed]
        left = [one.columns() for one in study.not_made]
        content = {"folder": str(study.folder), "made": study.made, "rows": rows, "failed": failed, "left": left}
        print(json.dumps(content, indent=1))
    else:
        means = sweep_tables.summary(study.rows)
        shown = sweep_tables.varying(means) if len(study.rows) > 1 else means
        for mean in shown:
            console.stdout.print(_line(mean), soft_wrap=True, markup=False)
        if same := len({mean.figure for mean in means}) - len({mean.figure for mean in shown}):
            console.say(
                f"the same in all runs, and not shown: {same} of the figures in {study.folder / sweep_tables.SUMMARY}"
            )
        if options.seeds > 1 and means and all(mean.runs > 1 and not mean.half_width for mean in means):
            console.say("the seed has no effect on any figure; one seed is enough, or draw from run.rng")
        console.say(f"{len(study.rows)} runs in the table, {len(study.failed)} failed; {study.made} were made now")
        if study.not_made:
            console.say(
                f"{len(study.not_made)} runs are left ({study.not_made[-1].reason}); the same command makes them"
            )
        console.say(f"tables: {', '.join(map(str, tables))}")
    if study.interruption is not None:
        raise study.interruption
    if study.failed or study.not_made:
        return Exit.MACHINE
    return Exit.OK if all(row.passed for row in study.rows) else Exit.FAILED


def make(
    experiment: Experiment,
    grid: Mapping[str, Sequence[str]],
    seeds: Sequence[int] | int,
    options: argparse.Namespace,
    out: Path | None,
    *,
    packages: Sequence[str] = (),
    cluster: Cluster | None = None,
) -> Sweep:
    """Make the runs of a study with the `engine` and `j` of a command's options, with their progress on the screen."""
    engine = with_packages(ready(options.engine), packages, experiment)
    with ExitStack() as stack:
        screen = stack.enter_context(progress.Screen(many=True, quiet_stdout=True))
        if cluster is not None:
            cluster.show_progress(stack.enter_context(closing(screen.watch("cluster"))).describe)
        so_far: list[Amount] = []
        begun_s = time.monotonic()
        varied = [name for name, values in grid.items() if len(values) > 1] or list(grid)

        def ended(outcome: TaskOutcome, count: int, total: int) -> None:
            _report(outcome, count, total, varied)
            if not so_far:  # how many are to be made is known when the first of them has ended
                so_far.append(screen.all_of("sweep", total, begun_s))
            so_far[0].at(count, f"{count} of {total} runs")

        return sweep.run(
            experiment, grid, seeds=seeds, on=engine, out=out or f"results/sweep-{experiment.name}",
            width=options.j or len(cores.available()), scheduler=cluster,
            watch=lambda task: closing(screen.watch(_name(task.parameters, task.options.seed, varied))), done=ended,
        )  # fmt: skip


def _axis(text: str) -> tuple[str, list[str]]:
    name, equals, values = text.partition("=")
    if not name or not equals or not all(values.split(",")):
        raise UsageError(f"--grid {text}: NAME=VALUE,VALUE is expected, as in --grid hosts=2,4,8")
    return name, values.split(",")


def _name(parameters: Mapping[str, Any], seed: int, varied: Collection[str]) -> str:
    return " ".join([*(f"{name}={value}" for name, value in parameters.items() if name in varied), f"seed {seed}"])


def _report(outcome: TaskOutcome, ended: int, total: int, varied: Collection[str]) -> None:
    name = _name(outcome.task.parameters, outcome.task.options.seed, varied)
    if (result := outcome.result) is None:
        text = str(outcome.error)
    elif result.status is not Status.OK:
        text = f"{result.status}: {result.reason}"
    else:
        text = "ok" if result.passed else "a claim does not hold"
    console.say(f"{ended} of {total}: {name}: {text}")


def _line(mean: Mean) -> str:
    point = " ".join(f"{name}={value}" for name, value in mean.parameters.items())
    return f"{point}  {mean.figure}: {mean}".strip()
