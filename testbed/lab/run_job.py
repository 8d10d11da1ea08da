"""Inside the sandbox: find what the job names and do it."""

from __future__ import annotations

import time
from pathlib import Path

from testbed import plugins
from testbed.lab import definition, script
from testbed.lab.experiment_run import Run
from testbed.lab.job import Job, in_lab
from testbed.net import notebook

_IMPORTS_NS = 20_000_000
"""The time that imports get before an experiment begins: each takes some microseconds of system calls."""


def run_job(job: Job, run: Run, code: Path) -> None:
    """Run the experiment or script, or the shell or live view of a topology, that `job` asks for."""
    if job.live:
        from testbed.net.live.loop import live

        with notebook.current_is(run):
            live(job.name)
    elif job.terminal is not None and (not job.source or script.is_of_topologies(code / job.source)):
        from testbed.net.shell import shell

        with notebook.current_is(run):
            shell(str((code / job.source).parent / job.name) if job.source else job.name)
    elif job.source.startswith(f"{plugins.FOLDER}/"):
        plugins.found()  # from now on its packages can be imported
        module = job.source.removeprefix(f"{plugins.FOLDER}/").removesuffix(".py").removesuffix("/__init__")
        _perform(definition.in_module(module.replace("/", "."), job.name), run, job, code)
    else:
        _perform(definition.load_file(code / job.source, job.name), run, job, code)


def _perform(experiment: definition.Experiment, run: Run, job: Job, code: Path) -> None:
    """Begin the experiment at a time that does not depend on how many modules have been imported, and run it."""
    time.sleep((_IMPORTS_NS - run.now_ns % _IMPORTS_NS) / 1e9)
    experiment.perform(run, in_lab(experiment.parameters, job.parameters, code))
