"""Files of others, which are read and run in the lab alone: `XOFF_READ_IN_LAB=1 xoff run theirs.py`.

`xoff run FILE.py` executes the module level of the file on the user's machine, for its parameters. That is right for
a file of one's own, and for none that came with a result from elsewhere.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from testbed import shipped_packages
from testbed.experiment import definition, script
from testbed.experiment.definition import Experiment
from testbed.experiment.described import experiment_of
from testbed.experiment.module_level import VARIABLE, is_read_in_lab
from testbed.experiment.parameters import ExperimentError
from testbed.lab.engines.engine import PreparedEngine
from testbed.lab.engines.host import Host
from testbed.lab.results.result import Status
from testbed.lab.runs import api

_DEFINITION = shipped_packages.folder(shipped_packages.EXPERIMENTS) / "_definition.py"


def is_named(reference: str) -> bool:
    """Return True if a user means a file that this machine must not execute."""
    path = Path(reference.partition(":")[0])
    return path.suffix == ".py" and path.is_file() and is_read_in_lab(path)


def find(reference: str, on: PreparedEngine) -> Experiment:
    """Return the experiment in such a file, as the lab describes it."""
    path, name = Path(reference.partition(":")[0]), reference.partition(":")[2]
    if isinstance(on.engine, Host):
        raise ExperimentError(f"{VARIABLE} is set, and the engine {on.engine} is this machine itself; um is a lab")
    if definition.script_in(path) is not None:
        return definition.find(reference)
    along = [name for name in script.files(path) if "," not in name]
    files = [path, *(path.parent / one for one in along)]
    given = {
        "files": ",".join(map(str, files)), "places": json.dumps([path.name, *along]), "name": name
    }  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="xoff-definition-") as folder:
        result = api.run(definition.load_file(_DEFINITION), parameters=given, out=folder, on=on)
        if result.status is not Status.OK:
            raise ExperimentError(f"{path} cannot be read in the lab: {result.reason or result.status}")
        return experiment_of(json.loads(result.figure("definition")), path, reference)
