"""The machine a lab runs in, and how an experiment gets there and its result back.

from testbed import lab
result = lab.run("hello", parameters={"hosts": "8"})
assert result.passed, result.claims
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from testbed.lab.api import run
    from testbed.lab.definition import Experiment, experiment
    from testbed.lab.engines.table import prepare
    from testbed.lab.experiment_run import Run
    from testbed.lab.parameters import Between, File, OneOf
    from testbed.lab.result import Claim, Result, Status

__all__ = ["Between", "Claim", "Experiment", "File", "OneOf", "Result", "Run", "Status", "experiment", "prepare", "run"]

_PLACES = {
    "Experiment": "definition", "experiment": "definition", "Run": "experiment_run", "run": "api",
    "Between": "parameters", "File": "parameters", "OneOf": "parameters", "prepare": "engines.table",
    "Claim": "result", "Result": "result", "Status": "result",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    # Loaded on demand: importing one module of this package, as the command line does, does not import the others.
    if name in _PLACES:
        return getattr(importlib.import_module(f"testbed.lab.{_PLACES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
