"""`xoff switch incident`: a known kind of incident, on the switch of a config_db.json, in the lab."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from testbed import shipped_packages
from testbed.cli.arguments import one_of, whole_number
from testbed.cli.first_steps import running
from testbed.cli.first_steps.run import run_options
from testbed.cli.screen import console
from testbed.errors import UsageError
from testbed.experiment.definition import Origin
from testbed.subjects.sonic.lab.incidents import SUMMARIES, incident_of, scene
from testbed.subjects.sonic.lab.settings import CELL, Switch

_EXPERIMENT = shipped_packages.folder(shipped_packages.EXPERIMENTS) / "_incident.py"


def options(parser: argparse.ArgumentParser) -> None:
    what = "; ".join(f"{name}: {summary}" for name, summary in SUMMARIES.items())
    parser.add_argument("what", metavar="INCIDENT", help=what)
    parser.add_argument("file", metavar="FILE", help="config_db.json of the switch")
    parser.add_argument("--port", default="", metavar="PORT", help="port of h1 (default: that with the least headroom)")
    parser.add_argument("--priority", type=one_of("priority", "01234567"), default="3", metavar="P", help="0 to 7")
    parser.add_argument(
        "--cell", type=whole_number(1, CELL), default=CELL, metavar="N", help=f"bytes of a buffer cell (default {CELL})"
    )
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="copy the experiment and the file there, to change them"
    )
    run_options(parser)


def incident(options: argparse.Namespace) -> int:
    """Run an incident on the switch of a file, and claim what a switch that is configured well does: a victim, a
    storm, a flapping link or a wrong DSCP."""
    what = incident_of(options.what)
    switch = Switch.from_config_db(options.file, cell=options.cell)
    switch.require()
    scene(switch, options.port, int(options.priority))  # a mistake is reported before anything is set up
    if options.keep is not None:
        _keep(options.keep, options.file, what)
    parameters = {
        "switch": options.file, "what": str(what), "port": options.port, "priority": options.priority,
        "cell": str(options.cell),
    }  # fmt: skip
    words = ["switch", "incident", str(what), options.file, "--priority", options.priority]
    words += ["--cell", str(options.cell), *(["--port", options.port] if options.port else [])]
    origin = Origin(tuple(words), (options.file,), takes_parameters=False)
    return running.run_experiment(str(_EXPERIMENT), parameters, options, origin)


def _keep(folder: Path, file: str, what: str) -> None:
    """Copy the experiment and the file to a folder, and say how they are run from there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        copy, path = folder / "switch.json", folder / "incident.py"
        shutil.copyfile(file, copy)
        shutil.copyfile(_EXPERIMENT, path)
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror}") from None
    console.say(f"xoff run {path} --set switch={copy} --set what={what} runs it from there")
