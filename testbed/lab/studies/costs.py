"""The costs of the shipped experiments: seconds of CPU time for a run on the engine `um`, where they were measured.

The gallery of the documentation shows them, and `xoff verify` foretells its time by them. `xoff docs --figures` writes
the file. On another machine all of them are longer or shorter by some factor.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import testbed
from testbed.lab.job.job import COSTS

_UNKNOWN_S = 10.0


_NOTEWORTHY = 1.5
"""The factor by which a cost has to differ from the known one to replace it: each measurement differs a little."""


def known() -> dict[str, float]:
    """Return the seconds of CPU time of each experiment that was measured."""
    path = Path(testbed.__path__[0]).parent / COSTS
    if not path.is_file():
        return {}
    found: dict[str, float] = json.loads(path.read_text())
    return found


def expected_of(names: Iterable[str]) -> dict[str, float]:
    """Return the seconds of each of these experiments; of one that was not measured, those of a usual one."""
    table = known()
    return {name: table.get(name, _UNKNOWN_S) for name in names}


def write(root: Path, measured: Mapping[str, float]) -> None:
    """Put what was measured into the file of a checkout, as far as it differs from what is there."""
    table = known()
    for name, cost_s in measured.items():
        old_s = table.get(name)
        if old_s is None or not 1 / _NOTEWORTHY < cost_s / old_s < _NOTEWORTHY:
            table[name] = float(f"{cost_s:.2g}")
    (root / COSTS).write_text(json.dumps(dict(sorted(table.items())), indent=1) + "\n")
