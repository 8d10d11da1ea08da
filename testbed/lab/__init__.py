"""The machine a lab runs in, and how an experiment gets there and its result back.

from testbed import lab
result = lab.run("hello", parameters={"hosts": "8"})
assert result.passed, result.claims
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from testbed.experiment.definition import Experiment, experiment
    from testbed.experiment.parameters import Between, File, OneOf
    from testbed.experiment.run import Run
    from testbed.lab.engines.table import prepare
    from testbed.lab.results.result import Claim, Result, Status
    from testbed.lab.runs.api import run

__all__ = ["Between", "Claim", "Experiment", "File", "OneOf", "Result", "Run", "Status", "experiment", "prepare", "run"]

_PLACES = {
    "Experiment": "testbed.experiment.definition", "experiment": "testbed.experiment.definition",
    "Between": "testbed.experiment.parameters", "File": "testbed.experiment.parameters",
    "OneOf": "testbed.experiment.parameters", "prepare": "testbed.lab.engines.table",
    "Run": "testbed.experiment.run", "run": "testbed.lab.runs.api",
    "Claim": "testbed.lab.results.result", "Result": "testbed.lab.results.result",
    "Status": "testbed.lab.results.result",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    # Loaded on demand: importing one module of this package, as the command line does, does not import the others.
    if name in _PLACES:
        return getattr(importlib.import_module(_PLACES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
