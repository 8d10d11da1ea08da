"""The command that makes a run again, which a result keeps and its report shows."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from testbed.experiment.definition import Experiment, Origin
from testbed.experiment.fidelity import Thresholds
from testbed.lab.engines.engine import PreparedEngine
from testbed.lab.host import cache
from testbed.lab.image import packages
from testbed.lab.job.job import USER_CODE, WHOLE_FRAMES, Job, Limits
from testbed.lab.results.result import Again
from testbed.units import Duration


def again(experiment: Experiment, job: Job, prepared: PreparedEngine, thresholds: Thresholds) -> Again:
    """Return the words after `xoff` that make a run again, and the digests of the user's files that they name."""
    origin = experiment.origin or _by_name(experiment, job)
    words = list(origin.words)
    if origin.takes_parameters:
        for name, value in job.parameters.items():
            files = [str(one.path) for one in job.attached if one.parameter == name]
            words += ["--set", f"{name}={','.join(files) or value}"]
    if origin.takes_options:
        words += ["--seed", str(job.seed), "--engine", prepared.engine.name, *_options(experiment, job, prepared)]
        words += _fidelity(thresholds)
    return Again(tuple(words), _digests(experiment, origin, job))


def _by_name(experiment: Experiment, job: Job) -> Origin:
    """Return the origin of an experiment that came from Python: its name, or the name of its file."""
    if job.source.startswith(f"{USER_CODE}/"):
        return Origin(("run", f"{experiment.source}:{experiment.name}"), (str(experiment.source),))
    return Origin(("run", experiment.name))


def _options(experiment: Experiment, job: Job, prepared: PreparedEngine) -> Iterator[str]:
    """Yield the options of the command for everything that differs from the default."""
    limits, usual = job.limits, Limits()
    for name in prepared.names:
        if name not in packages.found_beside(experiment.further, experiment.source.parent):
            yield from packages.option(name)
    if limits.virtual_s != experiment.timeout.ps / 1e12:
        yield from ("--timeout", str(Duration.from_ps(round(limits.virtual_s * 1e12))))
    if limits.memory_mb != prepared.memory_mb:
        yield from ("--memory", str(limits.memory_mb))
    if limits.processes != usual.processes:
        yield from ("--processes", str(limits.processes))
    if job.capture_octets == WHOLE_FRAMES:
        yield "--capture"
    elif job.capture_octets:
        yield from ("--capture-octets", str(job.capture_octets))
    if job.partitions != experiment.partitions:
        yield from ("--partitions", str(job.partitions))
    if job.series_ns:
        yield from ("--series", str(Duration.from_ns(job.series_ns)))


def _fidelity(thresholds: Thresholds) -> Iterator[str]:
    usual = Thresholds()
    if thresholds.idle_percent != usual.idle_percent:
        yield from ("--fidelity", f"idle={thresholds.idle_percent}%")
    for name, late_ns, usual_ns in (
        ("timer", thresholds.timer_late_ns, usual.timer_late_ns),
        ("agent", thresholds.agent_late_ns, usual.agent_late_ns),
    ):
        if late_ns != usual_ns:
            yield from ("--fidelity", f"{name}={Duration.from_ns(late_ns)}")


def _digests(experiment: Experiment, origin: Origin, job: Job) -> Mapping[str, str]:
    """Return the SHA-256 of each file that the user named, by its path, and of those that the experiment names."""
    named = dict.fromkeys(origin.files)
    if experiment.files and origin.takes_parameters and origin.files:
        folder = Path(origin.files[0]).parent
        named |= dict.fromkeys(os.path.normpath(folder / name) for name in experiment.files)
    if origin.takes_parameters:
        named |= dict.fromkeys(str(one.path) for one in job.attached)
    return {name: cache.sha256(Path(name)) for name in named}
