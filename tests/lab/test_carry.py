"""One file brings the lab to machines that have nothing but Python, where it gives the same results.

Such a machine is a root file system of Debian with Python, entered by a user without any capability, without a network.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from testbed.lab import cache, needs

ROOT = Path(__file__).parents[2]
USER = 54321

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can make and enter another root file system"),
    pytest.mark.skipif(needs.find_program("mmdebstrap") is None, reason="mmdebstrap, which makes roots, is not here"),
]

# Runs in namespaces of its own, with the root as $1: what a container has, and no network.
_ENTER = """
set -e
root=$1
shift
mount --make-rprivate /
mount -t tmpfs none "$root/dev"
for device in null zero full random urandom; do
    touch "$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
mkdir -m 1777 "$root/dev/shm"
mount -t tmpfs none "$root/dev/shm"
ln -s /proc/self/fd "$root/dev/fd"
mount -t proc none "$root/proc"
exec chroot "$root" "$@"
"""


@dataclass(frozen=True)
class Elsewhere:
    """A root file system with a copy of Xoff, and the file that was exported."""

    path: Path

    def run(self, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command there as a user who may nothing."""
        variables = {"PATH": "/usr/bin:/bin", "HOME": "/home/user", "LANG": "C.UTF-8"} | environment
        privileges = [f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--bounding-set=-all", "--no-new-privs"]
        return subprocess.run(
            ["unshare", "--mount", "--pid", "--net", "--ipc", "--uts", "--fork", "--kill-child",
             "sh", "-c", _ENTER, "enter", str(self.path), "setpriv", *privileges,
             "env", "--ignore-environment", "--chdir=/home/user/xoff",
             *(f"{name}={value}" for name, value in variables.items()), *command],
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    def result(self, *arguments: str, **environment: str) -> dict[str, Any]:
        """Of `./xoff run` with these arguments."""
        done = self.run("./xoff", "run", *arguments, "--json", "--out", "/home/user/results", **environment)
        assert done.returncode == 0, done.stderr
        content: dict[str, Any] = json.loads(done.stdout)[0]
        return content


Maker = Callable[..., Elsewhere]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("export") / "lab.tar"
    subprocess.run([ROOT / "xoff", "image", "export", file], cwd=file.parent, check=True)
    return file


@pytest.fixture(scope="module")
def elsewhere(exported: Path) -> Iterator[Maker]:
    """Makes such machines, one of each release; they are removed afterwards."""
    made: dict[str, Elsewhere] = {}
    with cache.owned("elsewhere") as work:

        def make(suite: str, *packages: str) -> Elsewhere:
            if suite in made:
                return made[suite]
            path = work / suite
            done = subprocess.run(
                ["mmdebstrap", "--variant=essential", "--quiet", "--include=" + ",".join(("python3", *packages)),
                 '--aptopt=APT::Install-Recommends "false"', '--aptopt=Acquire::Check-Valid-Until "false"',
                 suite, str(path), *filter(None, [os.environ.get("XOFF_MIRROR")])],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            if done.returncode:
                pytest.skip(f"no root of Debian {suite} could be made: {done.stderr.strip().splitlines()[-1:]}")
            home = path / "home" / "user"
            for name in _tracked():
                (home / "xoff" / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, home / "xoff" / name)
            shutil.copy2(exported, home / "lab.tar")
            subprocess.run(["chown", "-R", f"{USER}:{USER}", home], check=True)
            made[suite] = Elsewhere(path)
            return made[suite]

        yield make


def _tracked() -> list[str]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split(
        "\n"
    )
    return [name for name in listed if name and (ROOT / name).exists()]


def _here(engine: str, out: Path, *arguments: str) -> dict[str, Any]:
    command = [str(ROOT / "xoff"), "run", *arguments, "--engine", engine, "--json", "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    content: dict[str, Any] = json.loads(done.stdout)[0]
    return content


@pytest.mark.parametrize("suite", ["bookworm", "trixie"])
def test_a_user_with_nothing_but_python_imports_the_lab_and_gets_the_same(
    suite: str, elsewhere: Maker, tmp_path: Path
) -> None:
    """The lab's own Debian, and another with another C library and another Python."""
    there = elsewhere(suite)
    place = {"XOFF_CACHE": "/home/user/my cache"}
    refused = there.run("python3", "-c", "import os; os.chroot('/tmp')")
    assert "PermissionError" in refused.stderr
    assert there.run("python3", "-m", "pip", "--version").returncode != 0
    without = there.run("./xoff", "run", "incast", "--engine", "um", **place)
    assert without.returncode == 3, without.stderr
    assert "./xoff image import FILE" in without.stderr

    brought = there.run("./xoff", "image", "import", "/home/user/lab.tar", **place)
    assert brought.returncode == 0, brought.stderr
    assert "importing /home/user/lab.tar: 50 %" in brought.stderr
    assert not list((there.path / "home" / "user" / "my cache" / "tmp").iterdir())
    assert not (there.path / "home" / "user" / ".cache").exists()

    theirs = there.result("incast", "--engine", "um", **place)
    ours = _here("um", tmp_path, "incast")
    assert theirs["digest"] == ours["digest"]
    for name in ("image", "kernel", "kernel_digest", "code"):
        assert theirs["provenance"][name] == ours["provenance"][name], name


def test_what_was_imported_is_exported_to_the_same_bytes(elsewhere: Maker, exported: Path) -> None:
    there = elsewhere("trixie")
    for command in (["import", "/home/user/lab.tar"], ["export", "/home/user/again.tar"]):
        done = there.run("./xoff", "image", *command, XOFF_CACHE="/home/user/second")
        assert done.returncode == 0, done.stderr
    again = there.path / "home" / "user" / "again.tar"
    assert cache.sha256(again) == cache.sha256(exported)


@pytest.mark.long
def test_the_virtual_machine_starts_on_the_newest_qemu_of_debian(elsewhere: Maker) -> None:
    """From 10.1 on QEMU aborted when the snapshot with Xoff's code was taken."""
    there = elsewhere("sid", "qemu-system-x86", "qemu-utils")
    done = there.run("./xoff", "image", "import", "/home/user/lab.tar")
    assert done.returncode == 0, done.stderr
    results = [there.result("hello", "--engine", "vm") for _ in range(2)]
    assert results[0]["digest"] == results[1]["digest"]
    assert tuple(map(int, results[0]["provenance"]["qemu"].split(".")[:2])) >= (10, 1)
