"""Files of others run in the lab alone: their digests are those of files that this machine reads, too."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from testbed.lab.engines.engine import PreparedEngine

ROOT = Path(__file__).parents[3]
THEIRS = """
import contextlib, pathlib
with contextlib.suppress(OSError):
    pathlib.Path({ran!r}).write_text("as " + __name__)
from helper import LINK
from xoff import Duration, File, Rate, Run, experiment

@experiment(timeout="20s", files=("helper.py",), free_cpu=True)
def theirs(run: Run, rate: Rate = 4 * LINK, wait: Duration = Duration("3ms"), table: File | None = None) -> None:
    run.figure("rate", str(rate))
    run.figure("waited", str(wait))
    run.figure("table", table.read_text() if table else "")
"""


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    folder = tmp_path / "theirs"
    folder.mkdir()
    (folder / "helper.py").write_text("from xoff import Rate\nLINK = Rate('1Gb/s')\n")
    (folder / "table.csv").write_text("1,2\n")
    file = folder / "theirs.py"
    file.write_text(THEIRS.format(ran=str(tmp_path / "ran")))
    return file


def xoff(*words: object, alone: str = "") -> Any:
    command = [sys.executable, str(ROOT / "xoff"), *map(str, words)]
    environment = os.environ | {"XOFF_READ_IN_LAB": alone}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_a_file_that_this_machine_does_not_read_gives_the_same_digest(
    theirs: Path, tmp_path: Path, ready: PreparedEngine
) -> None:
    assert ready.engine.name == "um"
    ran, digests = tmp_path / "ran", []
    given = ("--set", "wait=5ms", "--set", f"table={theirs.with_name('table.csv')}")
    for alone in ("", "1"):
        done = xoff("run", theirs, *given, "--out", tmp_path / f"out{alone}", "--json", alone=alone)
        assert done.returncode == 0, done.stderr
        (result,) = json.loads(done.stdout)
        assert {one["name"]: one["value"] for one in result["figures"]} == {
            "rate": "4Gb/s", "waited": "5ms", "table": "1,2\n"
        }  # fmt: skip
        digests.append(result["digest"])
        assert ran.exists() is (alone == "")
        ran.unlink(missing_ok=True)
    assert digests[0] == digests[1]


def test_a_reviewer_s_machine_executes_no_file_of_an_artifact(
    theirs: Path, tmp_path: Path, ready: PreparedEngine
) -> None:
    assert ready.engine.name == "um"
    result, out, ran = tmp_path / "results", tmp_path / "artifact", tmp_path / "ran"
    assert xoff("run", theirs, "--out", result).returncode == 0
    assert xoff("artifact", result, "-o", out).returncode == 0
    ran.unlink()
    done = subprocess.run([sys.executable, out / "rerun.py"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1  same digests" in done.stdout
    assert not ran.exists()
