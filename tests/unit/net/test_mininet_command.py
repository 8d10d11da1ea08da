"""The arguments that the lab's shell passes to Mininet's own command, checked without Mininet."""

from __future__ import annotations

from pathlib import Path

import pytest

import testbed
from testbed.net.shell.mininet_command import with_xoff_file

OURS = str(Path(testbed.__path__[0]) / "mn.py")


@pytest.mark.parametrize(
    ("typed", "given"),
    [
        ("--topo incast,2", f"--custom {OURS} --topo incast,2"),
        ("--custom testbed/mn.py --topo incast,2", f"--custom {OURS} --topo incast,2"),
        ("--topo incast,2 --custom=../testbed/mn.py", f"--custom {OURS} --topo incast,2"),
        (f"--custom {OURS}", f"--custom {OURS}"),
        ("--custom mine.py,testbed/mn.py --test x", f"--custom {OURS},mine.py --test x"),
        ("--custom", f"--custom {OURS}"),
        ("", f"--custom {OURS}"),
    ],
)
def test_mininets_command_gets_xoffs_file_wherever_the_shell_is(
    typed: str, given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert with_xoff_file(typed.split()) == given.split()
