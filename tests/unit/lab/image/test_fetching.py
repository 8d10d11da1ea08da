"""A first set-up that fails ends with the reason in one sentence, and the way out."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from testbed.lab.host import cache
from testbed.lab.image import fetching

ROOT = Path(__file__).parents[4]
OTHER_MACHINE = "./xoff image export FILE there, ./xoff image import FILE here"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")


def _xoff(before: str, cache_of_ours: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The front door on a fresh machine, in namespaces of its own, after the script `before`."""
    command = ["unshare", "--mount", "--net", "sh", "-ec", f'{before}\nexec "$@"', "sh",
               sys.executable, str(ROOT / "xoff"), *(arguments or ("doctor",))]  # fmt: skip
    own = {"XOFF_CACHE": str(cache_of_ours), "XOFF_YES": "1", "PIP_NO_CACHE_DIR": "1", "PIP_INDEX_URL": ""}
    environment = {name: value for name, value in (os.environ | own).items() if name != "PIP_INDEX_URL"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.stderr.startswith("unshare: "):
        pytest.skip(f"no namespaces: {done.stderr}")
    return done


@pytest.mark.slow
@needs_root
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            "size=20m",
            "xoff: no room for the Python environment: {} has 20 MB free and 100 MB are needed; free some, or ",
        ),
        (
            "nr_inodes=300",
            "xoff: making the Python environment failed: the disk of {} is full; free some, or set XOFF_C",
        ),
    ],
    ids=["little space", "few files"],
)
def test_a_full_disk_is_named(options: str, said: str, xoff_cache: Path) -> None:
    xoff_cache.mkdir()
    done = _xoff(f"mount -t tmpfs -o mode=755,{options} none {xoff_cache}", xoff_cache)
    assert done.returncode == 3
    assert done.stderr.splitlines()[-1].startswith(said.format(xoff_cache))
    assert not [line for line in done.stderr.splitlines() if not line.startswith("xoff: ")]


@pytest.mark.slow
@needs_root
def test_without_a_network_one_line_names_the_lab_that_can_be_carried(xoff_cache: Path) -> None:
    began = time.monotonic()
    done = _xoff("ip link set lo up 2>/dev/null || true", xoff_cache)
    took_s = time.monotonic() - began
    assert done.returncode == 3
    *before, last = done.stderr.splitlines()
    assert last.startswith("xoff: installing the Python packages of run.lock failed: no index of Python packages ans")
    assert OTHER_MACHINE in last
    assert [line.split(" in ")[0] for line in before] == ["xoff: making the Python environment"]
    assert took_s < 60  # on a busy machine; pip's own attempts alone take a good 20 s more


RETRYING = (
    "WARNING: Retrying (Retry(total=4, connect=None, read=None, redirect=None, status=None)) after connection broken "
    "by 'NewConnectionError('<pip._vendor.urllib3.connection.HTTPSConnection object at 0x7f>: Failed to establish a "
    "new connection: [Errno 101] Network is unreachable')': /simple/numpy/\n"
)


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        (RETRYING * 5 + "ERROR: No matching distribution found for numpy", " (Network is unreachable)."),
        ("ConnectTimeoutError(... 'Connection to there timed out. (connect timeout=15)')", " (timed out)."),
        (
            "ProxyError('Cannot connect to proxy.', OSError('Tunnel connection failed: 403 Forbidden'))",
            " (Tunnel con",
        ),
        ("urllib3.exceptions.NameResolutionError: no words of the system", " answers. Connect this machine"),
    ],
)
def test_pips_lines_about_its_attempts_become_one(said: str, cause: str, xoff_cache: Path) -> None:
    error = fetching.failure("fetching numpy", said)
    assert isinstance(error, fetching.FetchError)
    assert str(error).startswith("fetching numpy failed: no index of Python packages answers")
    assert cause in str(error)
    assert "\n" not in str(error)
    assert "image import" not in str(error)  # which brings no such package


def test_a_disk_that_was_full_for_a_moment_is_named_too(xoff_cache: Path) -> None:
    cache.folder("tmp")
    error = fetching.failure("fetching numpy", "ERROR: Could not install: [Errno 28] No space left on device")
    assert isinstance(error, cache.DiskFullError)
    assert str(error).startswith(f"fetching numpy failed, as a disk became full: that of {xoff_cache}, or of ")


def test_what_is_not_understood_is_shown_by_its_end_and_cannot_command_a_terminal(xoff_cache: Path) -> None:
    said = "".join(f"line {number} \x1b[2J\n\n" for number in range(20))
    error = fetching.failure("fetching numpy", said)
    assert str(error).splitlines()[0] == "fetching numpy failed:"
    assert [line.strip() for line in str(error).splitlines()[1:]] == [f"line {n} \\x1b[2J" for n in range(14, 20)]
