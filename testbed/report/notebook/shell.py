"""The place where a notebook's kernel learns how results and sweeps show themselves. It imports neither before a cell
ends with one.
"""

from __future__ import annotations

import sys
from typing import Any

_SHOWN = {("testbed.lab.results.result", "Result"): "result", ("testbed.lab.studies.sweep", "Sweep"): "sweep"}
"""The classes that a notebook shows as HTML, with the function of `cell.py` that makes it."""


def register() -> None:
    """Tell IPython, if this is a process of it, how results and sweeps are shown."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is None:
        return
    html = shell.display_formatter.formatters["text/html"]
    for (module, name), function in _SHOWN.items():
        html.for_type_by_name(module, name, _later(function))


def _later(function: str) -> Any:
    def show(thing: Any) -> str:
        from testbed.report.notebook import cell

        return str(getattr(cell, function)(thing))

    return show
