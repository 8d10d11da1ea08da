"""Inside the sandbox: find what the job names and do it."""

from __future__ import annotations

from pathlib import Path

from testbed import plugins
from testbed.lab import definition, script
from testbed.lab.experiment_run import Run
from testbed.lab.job import Job
from testbed.net import notebook


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
        definition.in_module(module.replace("/", "."), job.name).perform(run, job.parameters)
    else:
        definition.load_file(code / job.source, job.name).perform(run, job.parameters)
