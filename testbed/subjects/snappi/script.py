"""Scripts of snappi as experiments: `xoff run script.py` takes one as it is.

Such a script imports snappi, and nothing in it is marked with @experiment. It is not imported on this machine, like any
script (`script.py`). The lab runs it by `lab/script.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from testbed.experiment import script
from testbed.experiment.script import ScriptKind
from testbed.units import Rate

if TYPE_CHECKING:
    from testbed.experiment.run import Run

PACKAGE = "snappi"


def is_script(path: Path) -> bool:
    """Return whether this file, or a conftest.py beside a test, imports snappi, and it defines no experiment."""
    files = [path, *([path.with_name("conftest.py")] if path.stem.startswith("test_") else [])]
    if not any(PACKAGE.encode() in script.octets(file) for file in files):
        return False  # most files; parsing takes longer
    names = script.imported(*files)
    return PACKAGE in names and "testbed" not in names


def body(run: Run, topology: str = "", line: Rate = Rate("100Mb/s")) -> None:
    """A script of snappi; topology: a network to test, in place of one switch whose fastest port has `line`."""
    raise RuntimeError("a script is run as a file")


SCRIPTS = (ScriptKind(is_script, body, "testbed.subjects.snappi.lab.script:run_script", (PACKAGE,)),)
