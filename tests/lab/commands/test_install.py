"""`pip install` gives the same program, with all its files."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from testbed.lab.engines.engine import PreparedEngine
from testbed.lab.job import job

ROOT = Path(__file__).parents[3]


def test_an_installed_xoff_runs_the_same_experiment_to_the_same_digest(ready: PreparedEngine, tmp_path: Path) -> None:
    source = tmp_path / "source"
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    for name in tracked:  # a build leaves things in its source
        if (ROOT / name).exists():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, source / name)
    place = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
    subprocess.run([place / "bin" / "pip", "install", "-q", str(source)], check=True)

    # What runs these tests finds Xoff by PYTHONPATH; an installed one must not.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def result(command: list[str]) -> dict[str, object]:
        waits = f"{ROOT}/tests/lab/jobs/behave.py:waits"
        whole = [*command, "run", waits, "--json", "--out", str(tmp_path / "out")]
        done = subprocess.run(whole, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        content: dict[str, object] = json.loads(done.stdout)[0]
        return content

    installed = result([str(place / "bin" / "xoff")])
    checkout = result([str(ROOT / "xoff")])
    assert installed["digest"] == checkout["digest"]
    assert installed["provenance"]["commit"] == ""  # type: ignore[index]
    files = subprocess.run(
        [place / "bin" / "python", "-c", "from testbed.lab.job import job; print(sorted(job.code()))"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert files.strip() == str(sorted(job.code()))
