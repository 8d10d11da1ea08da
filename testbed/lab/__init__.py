"""The machine a lab runs in, and how an experiment gets there and its result back.

from testbed import lab
result = lab.run("hello", parameters={"hosts": "8"})
assert result.passed, result.claims
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from testbed.lab.definition import Experiment, experiment
from testbed.lab.handle import Run

if TYPE_CHECKING:
    from testbed.lab.api import run
    from testbed.lab.result import Claim, Result, Status

__all__ = ["Claim", "Experiment", "Result", "Run", "Status", "experiment", "run"]


def __getattr__(name: str) -> Any:
    # Loaded on demand: an experiment inside the lab imports this package and needs none of it.
    if name == "run":
        from testbed.lab import api

        return api.run
    if name in ("Claim", "Result", "Status"):
        from testbed.lab import result

        return getattr(result, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
