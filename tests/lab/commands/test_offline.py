"""Without any network interface, everything that is in the cache works (`tests/unit/lab/image/test_fetching.py` has an
empty one).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.lab.engines.engine import PreparedEngine

ROOT = Path(__file__).parents[3]
ALONE = ["unshare", "--net", *([] if os.geteuid() == 0 else ["--map-root-user"])]


def offline(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `xoff` in a network namespace of its own, in which not even the loopback interface is up."""
    if subprocess.run([*ALONE, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user may make no network namespace")
    return subprocess.run(
        [*ALONE, *words], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT), **environment}, capture_output=True,
        text=True, check=False,
    )  # fmt: skip


def test_what_is_cached_works_without_a_network(ready: PreparedEngine, tmp_path: Path) -> None:
    xoff = [sys.executable, "-m", "testbed"]
    out = str(tmp_path)
    results = []
    for _ in range(2):
        done = offline(*xoff, "run", "hello", "--engine", str(ready.engine), "--json", "--out", out)
        assert done.returncode == 0, done.stderr
        assert "index" not in done.stderr
        results.append(json.loads(done.stdout)[0])
    assert results[0]["digest"] == results[1]["digest"]
    first, second = (str(path) for path in sorted(tmp_path.glob("hello-*")))
    for words in (
        ["list"],
        ["report", first, second, "--out", f"{out}/report.html"],
        ["compare", first, second],
        ["switch", "headroom", "--rate", "100Gb/s", "--length", "10km"],
        ["doctor", "--engine", str(ready.engine)],
    ):
        done = offline(*xoff, *words)
        assert done.returncode == 0, (words, done.stderr)
