"""The definition of an experiment in a file of somebody else's, which is read in the lab alone."""

import json
import tempfile
from pathlib import Path

from testbed.experiment.definition import load_file
from testbed.experiment.described import described
from xoff import File, Run, experiment


@experiment(timeout="60s")
def definition(run: Run, files: tuple[File, ...] = (), places: str = "[]", name: str = "") -> None:
    """Report what the first of some files defines; `places` has their paths in a folder, as JSON."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, place) for place in json.loads(places)]
        for path, file in zip(paths, files, strict=True):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(file.read_bytes())
        run.figure("definition", json.dumps(described(load_file(paths[0], name or None))))
