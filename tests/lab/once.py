"""Runs that several tests look at: each is made once in a session, by whichever worker asks for it first.

A run is known by all that it takes: the job with its parameters and options, the code, and the engine. It is made in
the lab like any other, and nothing of it is kept after the session. A test that asks whether a run repeats makes its
runs by `lab.run`.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from testbed.experiment import definition
from testbed.lab.engines.engine import PreparedEngine
from testbed.lab.job.job import RunOptions
from testbed.lab.results.result import Result
from testbed.lab.results.result_folder import new_folder
from testbed.lab.runs.api import make, pack_run


class Session:
    """The folder in which all workers of a session find the runs."""

    folder: Path | None = None

    @classmethod
    def begin(cls, factory: pytest.TempPathFactory) -> None:
        own = factory.getbasetemp()
        cls.folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "runs"


def run(
    name: str, parameters: Mapping[str, Any] | None = None, *, on: PreparedEngine, out: Path, capture_octets: int = 0
) -> Result:
    """Return the result of a shipped experiment, in a folder below `out` that is the test's own."""
    assert Session.folder is not None
    experiment = definition.find(name)
    on = on.having(experiment.further, print, experiment.source.parent)
    packed = pack_run(experiment, on, parameters or {}, RunOptions(capture_octets=capture_octets))
    takes = hashlib.sha256(packed.tar)
    for further in (packed.code, on.engine.name, repr(on.packages)):
        takes.update(further.encode())
    place = Session.folder / takes.hexdigest()
    place.mkdir(parents=True, exist_ok=True)
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made = next((path.parent for path in place.glob("*/result.json")), None)
        if made is None:
            made = make(packed, on, out=place).folder
    assert made is not None
    return Result.read(shutil.copytree(made, new_folder(out, name), dirs_exist_ok=True))
