"""Running experiments for a command: an engine made ready, their progress on the screen, and their results."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from testbed.cli import index
from testbed.cli.engine_setup import ready, soonest
from testbed.cli.house.packages import with_packages
from testbed.cli.screen import console, progress, streams
from testbed.cli.screen.live_network import LiveNetwork
from testbed.errors import UsageError
from testbed.experiment import definition
from testbed.experiment.definition import Experiment, Origin
from testbed.experiment.fidelity import Thresholds
from testbed.experiment.output import CAPTURES
from testbed.lab.engines.engine import Engine, PreparedEngine
from testbed.lab.job.job import WHOLE_FRAMES, Limits, RunOptions
from testbed.lab.results import container
from testbed.lab.results.result import Exit, Result
from testbed.lab.runs import foreign_file
from testbed.lab.studies import batch
from testbed.lab.studies.batch import Task
from testbed.units import Duration

if TYPE_CHECKING:
    from testbed.lab.studies.cluster.client import Cluster


def run_named(options: argparse.Namespace) -> int:
    """Run the experiments that a command names."""
    streams.outlast()
    parameters = dict(_assignment(text) for text in options.set)
    chosen = [
        foreign_file.find(name, ready(options.engine)) if foreign_file.is_named(name) else _found(name, parameters)
        for name in options.experiment
    ]
    return _run(chosen, parameters, options, packages=options.packages)


def run_experiment(
    experiment: str,
    parameters: Mapping[str, str],
    options: argparse.Namespace,
    origin: Origin,
    *,
    network: LiveNetwork | None = None,
    after: Callable[[list[Result]], None] | None = None,
) -> int:
    """Run an experiment for a command with `run_options`. It is a shipped one's name, or a file that comes with Xoff.

    `origin` is the command, `after` is called with the results when they have been shown. `network` is drawn while it
    runs. The lab reports to it also where nothing can be drawn, so that there is one digest.
    """
    streams.outlast()
    chosen = replace(_found(experiment, parameters), origin=origin)
    return _run([chosen], parameters, options, network=network, after=after)


def _found(name: str, parameters: Mapping[str, str]) -> Experiment:
    """Return an experiment; a shipped one that runs as it is by its description, if there is one."""
    if parameters or not name.isidentifier():  # the ranges of parameters are in the experiment alone
        return definition.find(name)
    if (described := index.described(name)) is not None:
        return described
    itself = definition.find(name)
    if definition.is_shipped(itself):
        index.keep(itself)
    return itself


def _run(
    chosen: Sequence[Experiment],
    parameters: Mapping[str, str],
    options: argparse.Namespace,
    *,
    packages: Sequence[str] = (),
    network: LiveNetwork | None = None,
    after: Callable[[list[Result]], None] | None = None,
) -> int:
    """Run experiments with the same parameters and options, show their results, and return the exit code."""
    for experiment in chosen:
        experiment.read_parameters(parameters)  # a typo is reported before anything is set up
    kind = options.engine or soonest()
    thresholds = Thresholds()
    for setting in options.fidelity:
        thresholds = thresholds.changed(setting)
    with _cluster(options, kind, chosen) as workers:
        engine = ready(kind)
        for experiment in chosen:
            if experiment.free_cpu and kind.cpu_takes_time:
                console.print_error(
                    f"{experiment.name} is for labs whose CPU work takes no time, and its claims may fail on {kind}"
                )
        tasks = [
            Task(
                experiment,
                _on(workers, with_packages(engine, packages, experiment)),
                parameters,
                RunOptions(
                    seed=options.seed,
                    limits=_limits(options, experiment),
                    thresholds=thresholds,
                    capture_octets=options.capture_octets or (WHOLE_FRAMES if options.capture else 0),
                    series_ns=options.series.ns if options.series else 0,
                    follow=network.update if network is not None else None,
                    partitions=options.partitions,
                ),
            )
            for experiment in chosen
        ]
        with progress.Screen(options.j > 1 and len(chosen) > 1, options.json, network) as screen:
            finished = batch.run(
                tasks, out=options.out, width=options.j, watch=lambda task: closing(screen.watch(task.experiment.name))
            )
    results = finished.results
    if options.json:
        print(json.dumps([result.as_json() | {"folder": str(result.folder)} for result in results], indent=1))
    else:
        for result in results:
            progress.show(result)
    if options.capture or options.capture_octets:
        for result in results:
            _say_where_captures_are(result, options)
    if options.report:
        from testbed.cli.first_steps.report import of_results  # its pages are much to import

        if (path := of_results(results)) is not None:
            # With --json, standard output is for the JSON alone.
            (console.stderr if options.json else console.stdout).print(f"report: {console.shown(path)}", soft_wrap=True)
    if results and not container.keeps(options.out):
        console.say(f'{options.out} is gone with this container; `-v "$PWD:/work"` behind `run` would keep it')
    if after is not None:
        after(results)
    finished.raise_first()
    return max((result.exit_code(options.allow_degraded) for result in results), default=Exit.OK)


def _cluster(
    options: argparse.Namespace, kind: Engine, chosen: Sequence[Experiment]
) -> AbstractContextManager[Cluster | None]:
    """Reach the cluster that a command names, if it names one."""
    if options.scheduler is None:
        if options.lab is not None:
            raise UsageError("--lab is for the workers of a cluster, which --scheduler names")
        return nullcontext()
    if not kind.joins_clusters:
        raise UsageError(f"--engine {kind}: a cluster's workers have only Python, and run um")
    for experiment in chosen:
        if (options.partitions or experiment.partitions) < 2:
            raise UsageError(
                f"--scheduler: {experiment.name} has one kernel for its networks, and this machine can run it; with "
                "--partitions N they have several, and `xoff sweep` makes many runs on a cluster"
            )
    from testbed.lab.studies.cluster.client import connected  # few runs are on a cluster, and all would wait for it

    return connected(options.scheduler, console.say, options.lab)


def _on(cluster: Cluster | None, prepared: PreparedEngine) -> PreparedEngine:
    if cluster is None:
        return prepared
    from testbed.lab.studies.cluster.gang import placed

    return placed(prepared, cluster)


def _limits(options: argparse.Namespace, experiment: Experiment) -> Limits:
    limits = Limits(virtual_s=_seconds(options.timeout or experiment.timeout))
    if options.wall_timeout:
        limits = replace(limits, wall_s=_seconds(options.wall_timeout))
    if options.memory:
        limits = replace(limits, memory_mb=options.memory)
    if options.processes:
        limits = replace(limits, processes=options.processes)
    return limits


def _say_where_captures_are(result: Result, options: argparse.Namespace) -> None:
    out = console.stderr if options.json else console.stdout  # with --json, standard output is for the JSON alone
    captured = [name for name in result.files if name.startswith(f"{CAPTURES}/")]
    if captured and result.folder is not None:
        out.print(f"captures: {len(captured)} files in {console.shown(result.folder / CAPTURES)}", soft_wrap=True)
    else:
        out.print(f"captures: none, for no network of {console.shown(result.experiment)} ran", soft_wrap=True)


def _seconds(duration: Duration) -> float:
    return duration.ps / 1e12


def _assignment(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"--set {text}: NAME=VALUE is expected, as in --set hosts=8")
    return name, value
