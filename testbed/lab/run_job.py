"""Inside the sandbox: find what the job names and do it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from testbed import plugins
from testbed.lab import definition, steady_memory
from testbed.lab.experiment_run import Run
from testbed.lab.job import Job
from testbed.net import notebook


def run_job(job: Job, run: Run, code: Path) -> None:
    """Run the experiment, or the shell or live view of a topology, that `job` asks for."""
    steady_memory.in_one_piece(_body(job, run, code))


def _body(job: Job, run: Run, code: Path) -> Callable[[], None]:
    """What `job` asks for; all that finding it takes is done."""
    if job.live:
        from testbed.net.live.loop import live

        return partial(_on_topology, live, job, run)
    if job.terminal is not None:
        from testbed.net.shell import shell

        return partial(_on_topology, shell, job, run)
    if job.source.startswith(f"{plugins.FOLDER}/"):
        plugins.found()  # from now on its packages can be imported
        module = job.source.removeprefix(f"{plugins.FOLDER}/").removesuffix(".py").removesuffix("/__init__")
        experiment = definition.in_module(module.replace("/", "."), job.name)
    else:
        experiment = definition.load_file(code / job.source, job.name)
    return partial(experiment.perform, run, job.parameters)


def _on_topology(program: Callable[[str], None], job: Job, run: Run) -> None:
    with notebook.current_is(run):
        program(job.name)
