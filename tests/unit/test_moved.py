"""Old names of modules go on working for one version, with a warning that names the new one."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from testbed import moved

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("old", sorted(moved.MODULES))
def test_what_an_old_name_stands_for_exists(old: str) -> None:
    new = moved.new_name(f"testbed.{old}")
    assert new is not None
    assert find_spec(new) is not None
    assert moved.new_name(new) is None, "a module that has moved has one new name"


@pytest.mark.parametrize(
    ("text", "new"),
    [
        ("from testbed.pfc.settings import PfcSettings", "testbed.switch.pfc.settings"),
        ("import testbed.lab.definition", "testbed.experiment.definition"),
        ("from testbed.lab import fidelity", "testbed.experiment.fidelity"),
        ("from testbed.lab.job import Job", "testbed.lab.job.job"),
    ],
)
def test_an_old_import_gives_the_module_itself_and_a_warning_at_its_line(tmp_path: Path, text: str, new: str) -> None:
    program = tmp_path / "old.py"
    program.write_text(f"\n{text}\nimport sys\nassert {new!r} in sys.modules\n")
    done = subprocess.run(
        [sys.executable, str(program)], env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert f"{program}:2: FutureWarning" in done.stderr
    assert f" is {new} now" in done.stderr


def test_a_module_keeps_its_own_name(recwarn: pytest.WarningsRecorder) -> None:
    old = importlib.import_module("testbed.ecn.curve")
    assert old is importlib.import_module("testbed.switch.ecn.curve")
    assert old.__name__ == "testbed.switch.ecn.curve"
    assert old.__spec__ is not None and old.__spec__.name == "testbed.switch.ecn.curve"


FOLDERS = ("testbed", "snappi_xoff", "controllers", "topologies", "experiments", "lessons", "tools", "tests", "bench")


IMPORT = re.compile(r"^\s*(?:from (testbed[\w.]*) import (?:\(([^)]*)\)|(.+))|import (testbed[\w.]*))", re.MULTILINE)


def _imported(path: Path) -> Iterator[str]:
    """Yield the modules of ours that a file imports, and the names that it imports from them."""
    for module, several, on_the_line, whole in IMPORT.findall(path.read_text()):
        names = re.sub(r"#.*", "", several or on_the_line).split(",")
        yield from ([whole] if whole else [f"{module}.{name.split()[0]}" for name in names if name.strip()])


def test_nothing_of_ours_uses_an_old_name() -> None:
    old = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in [ROOT / "xoff.py", *(file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py"))]
        for name in _imported(path)
        if moved.new_name(name) is not None
    ]
    assert old == []


def test_other_names_are_missing_as_ever() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"testbed\.nothing"):
        importlib.import_module("testbed.nothing")
    package = importlib.import_module("testbed.net.fabric")
    assert not hasattr(package, "nothing")
