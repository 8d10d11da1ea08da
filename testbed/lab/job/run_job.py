"""The inside of the sandbox: find the experiment, script or topology of the job, and run it."""

from __future__ import annotations

import gc
import importlib
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from testbed import plugins
from testbed.experiment import definition, script
from testbed.experiment.definition import Experiment
from testbed.experiment.run import Run, running
from testbed.lab.job.job import Job, in_lab
from testbed.linux.process import heap, kernel

_IMPORTS_NS = 20_000_000
"""The time that imports get before an experiment begins: each takes some microseconds of system calls."""


def run_job(job: Job, run: Run, code: Path) -> None:
    """Run the experiment or script, or the shell or live view of a topology, that `job` asks for, to its last line."""
    try:
        _run(job, run, code)
    finally:
        run.write_rest()


def _run(job: Job, run: Run, code: Path) -> None:
    """Import what is asked for, which makes many objects and no garbage, and run it."""
    gc.disable()
    if job.packages:  # the others do not wait for the import
        from testbed.lab.job import debian

        debian.make_run_folders()
    if job.live:
        from testbed.net.live.loop import live

        gc.enable()
        with running(run):
            live(job.name)
    elif job.terminal is not None and (not job.source or script.is_of_topologies(code / job.source)):
        from testbed.net.shell.commands import shell

        gc.enable()
        with running(run):
            shell(str((code / job.source).parent / job.name) if job.source else job.name)
    elif job.source.startswith(f"{plugins.FOLDER}/"):
        plugins.found()  # from now on its packages can be imported
        module = job.source.removeprefix(f"{plugins.FOLDER}/").removesuffix(".py").removesuffix("/__init__")
        _perform(definition.in_module(module.replace("/", "."), job.name), run, job, code)
    else:
        _perform(definition.load_file(code / job.source, job.name), run, job, code)


def _perform(experiment: Experiment, run: Run, job: Job, code: Path) -> None:
    """Begin the experiment at a time that does not depend on how many modules have been imported, and run it."""
    body = _script_runner(experiment)
    if kernel.cpu_work_takes_no_time():  # elsewhere each fork would pay for the memory
        heap.reserve()
    gc.freeze()  # the modules stay; to look at them would copy their memory into each process that does
    gc.enable()
    time.sleep((_IMPORTS_NS - run.lab_ns % _IMPORTS_NS) / 1e9)
    experiment.perform(run, in_lab(experiment.parameters, job.parameters, code), body)


def _script_runner(experiment: Experiment) -> Callable[..., None] | None:
    """Return the function that runs the experiment's file, if it is a script."""
    if experiment.script is not None:
        module, _, name = experiment.script.runner.partition(":")
        return partial(getattr(importlib.import_module(module), name), experiment.source)
    return None
