"""One file brings the lab to machines that have nothing but Python, where it gives the same results.

Such a machine is a root file system of Debian with Python, entered by a user without any capability, without a network.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from testbed.lab.engines.engine import PreparedEngine
from testbed.lab.host import cache, prerequisites
from testbed.lab.studies.cluster import parts

from .. import once
from ..processes import Dask, Start

ROOT = Path(__file__).parents[3]
USER = 54321

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can make and enter another root file system"),
    pytest.mark.skipif(
        prerequisites.find_program("mmdebstrap") is None, reason="mmdebstrap, which makes roots, is not here"
    ),
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
        entered = self.entered(["--net"], "/home/user/xoff", command, environment)
        return subprocess.run(entered, capture_output=True, text=True, check=False)

    def entered(
        self, further: Sequence[str], folder: str, command: Sequence[str], environment: Mapping[str, str]
    ) -> list[str]:
        """The command that runs one there; `further` namespaces are its own too."""
        variables = {"PATH": "/usr/bin:/bin", "HOME": "/home/user", "LANG": "C.UTF-8", **environment}
        privileges = [f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--bounding-set=-all", "--no-new-privs"]
        return ["unshare", "--mount", "--pid", *further, "--ipc", "--uts", "--fork", "--kill-child",
                "sh", "-c", _ENTER, "enter", str(self.path), "setpriv", *privileges,
                "env", "--ignore-environment", f"--chdir={folder}",
                *(f"{name}={value}" for name, value in variables.items()), *command]  # fmt: skip

    def result(self, *arguments: str, **environment: str) -> dict[str, Any]:
        """Return the result of `./xoff run` with these arguments."""
        done = self.run("./xoff", "run", *arguments, "--json", "--out", "/home/user/results", **environment)
        assert done.returncode == 0, done.stderr
        content: dict[str, Any] = json.loads(done.stdout)[0]
        return content


Maker = Callable[..., Elsewhere]


@pytest.fixture(scope="module")
def exported(ready: PreparedEngine) -> Path:
    """The engine um in one file, compressed once for all suites: the one that workers of a cluster are sent."""
    return parts.lab(ready, print, lambda done, total: None).path


@pytest.fixture(scope="module")
def elsewhere(exported: Path) -> Iterator[Maker]:
    """Return a function that makes such machines, one of each release; they are removed afterwards."""
    made: dict[str, Elsewhere] = {}
    with cache.owned("elsewhere") as work:

        def make(suite: str, *packages: str) -> Elsewhere:
            if suite in made:
                return made[suite]
            path = work / suite
            # Python and the shell need no configuring, which is half of the work.
            variant = ["--variant=essential"] if packages else ["--variant=extract", "--include=?essential"]
            done = subprocess.run(
                ["mmdebstrap", *variant, "--quiet", "--include=" + ",".join(("python3", *packages)),
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


@pytest.mark.parametrize("suite", [pytest.param("bookworm", marks=pytest.mark.long), "trixie"])
def test_a_user_with_nothing_but_python_imports_the_lab_and_gets_the_same(
    suite: str, ready: PreparedEngine, elsewhere: Maker, tmp_path: Path
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
    ours = once.run("incast", on=ready, out=tmp_path)
    assert theirs["digest"] == ours.digest
    for name in ("image", "kernel", "kernel_digest", "code"):
        assert theirs["provenance"][name] == getattr(ours.provenance, name), name


OTHERS = {
    "dnf": 'ID=fedora\nPRETTY_NAME="Fedora Linux 41"\n',
    "pacman": 'ID=arch\nPRETTY_NAME="Arch Linux"\n',
    "zypper": 'ID="opensuse-leap"\nID_LIKE="suse opensuse"\nPRETTY_NAME="openSUSE Leap 15.6"\n',
    "apk": 'ID=alpine\nPRETTY_NAME="Alpine Linux v3.20"\n',
}


def test_another_linux_names_what_it_lacks_in_its_own_words_and_takes_a_prebuilt_lab(
    ready: PreparedEngine, elsewhere: Maker, tmp_path: Path
) -> None:
    """Roots of Debian without apt, with the names of others: no root of these can be had everywhere."""
    there = elsewhere("trixie")
    release = there.path / "etc" / "os-release"
    debian = release.read_bytes()
    manager = there.path / "opt" / "manager"
    manager.mkdir(parents=True)
    place = {"XOFF_CACHE": "/home/user/other", "PATH": "/opt/manager:/usr/bin:/bin"}
    try:
        release.unlink()  # a link to the one in /usr
        for number, (name, text) in enumerate(OTHERS.items()):
            release.write_text(text)
            program = manager / name
            program.write_text("#!/bin/sh\necho called >&2; exit 1\n")
            program.chmod(0o755)
            if not number:
                first = there.run("./xoff", "run", "incast", "--out", "/home/user/results", "--json",
                                  XOFF_LAB="/home/user/lab.tar", **place)  # fmt: skip
                assert first.returncode == 0, first.stderr
                assert json.loads(first.stdout)[0]["digest"] == once.run("incast", on=ready, out=tmp_path).digest
                assert "this machine needs" not in first.stderr
                again = there.run("./xoff", "run", "incast", "--out", "/home/user/results", **place)
                assert again.returncode == 0, again.stderr
                assert "kernel" not in again.stderr
            lacks = there.run("./xoff", "run", "hello", "--engine", "vm", **place)
            assert lacks.returncode == 3, lacks.stderr
            line = lacks.stderr.splitlines()[-1]
            assert f"this {text.split('=')[-1].strip().strip(chr(34))} lacks qemu-system-x86, " in line
            assert f"As root: {name} " in line
            assert "called" not in lacks.stderr
            program.unlink()
    finally:
        release.unlink(missing_ok=True)
        release.write_bytes(debian)


@pytest.mark.long  # it compiles Xoff for the lab once more; the unit tests have the rest of `rerun.py`
def test_an_artifact_gives_the_same_digest_to_a_reviewer_with_nothing_but_python(
    elsewhere: Maker, exported: Path, tmp_path: Path
) -> None:
    there = elsewhere("trixie")
    ours = _here("um", tmp_path / "results", "hello", "--seed", "7")
    command = [str(ROOT / "xoff"), "artifact", str(tmp_path / "results"), "--lab", str(exported)]
    place = there.path / "home" / "user" / "artifact"
    subprocess.run([*command, "-o", str(place)], check=True)
    subprocess.run(["chown", "-R", f"{USER}:{USER}", place], check=True)
    done = there.run("python3", "/home/user/artifact/rerun.py", XOFF_CACHE="/home/user/reviewer")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 of 1 commands gave the expected digests" in done.stdout
    (again,) = (place / "rerun").rglob("result.json")
    assert json.loads(again.read_text())["digest"] == ours["digest"]


@pytest.mark.long  # it compresses the whole lab once more; the unit tests do the same with a small one
def test_what_was_imported_is_exported_to_the_same_bytes(elsewhere: Maker, exported: Path) -> None:
    there = elsewhere("trixie")
    for command in (["import", "/home/user/lab.tar"], ["export", "/home/user/again.tar", "--engine", "um"]):
        done = there.run("./xoff", "image", *command, XOFF_CACHE="/home/user/second")
        assert done.returncode == 0, done.stderr
    again = there.path / "home" / "user" / "again.tar"
    assert cache.sha256(again) == cache.sha256(exported)


@pytest.mark.long
@pytest.mark.parametrize("way", ["sent", "shared"])
def test_a_dask_worker_with_nothing_but_python_and_dask_makes_the_runs_of_a_sweep(
    way: str, elsewhere: Maker, start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker has another Python than the scheduler; Xoff comes from the scheduler, or from a shared file."""
    there = elsewhere("trixie")
    _install_dask(there)
    home = there.path / "home" / "user"
    grid = ("sweep", str(ROOT / "tests/lab/jobs/studies.py"), "--grid", "scale=1,2")
    with monkeypatch.context() as context:  # a scheduler keeps the lab that was sent to it; this one has none yet
        context.setenv("XOFF_CACHE", str(tmp_path / "scheduler"))
        dask = Dask(start, tmp_path)
    shared = tmp_path / "shared"  # a folder by the same name here and there
    inside = there.path / shared.relative_to("/")
    inside.mkdir(parents=True)
    shared.symlink_to(inside)
    given = ["--lab", str(shared / "lab.tar")] if way == "shared" else []
    keeps = f"/home/user/worker-{way}"
    log = tmp_path / "worker.log"
    with _worker_there(there, dask, log, keeps, 2):
        sweep = start("testbed", *grid, "--out", tmp_path / "theirs", "--scheduler", dask.address, *given)
        assert sweep.popen.wait(300) == 0, sweep.said + log.read_text(errors="replace")
    assert ("sending the lab" in sweep.said) == (way == "sent")
    assert list((home / f"worker-{way}" / "cluster").glob("lab-*/um-root-*/disk"))
    here = start("testbed", *grid, "--out", tmp_path / "here")
    assert here.popen.wait(300) == 0, here.said
    for name in ("table.csv", "summary.csv"):
        assert (tmp_path / "theirs" / name).read_bytes() == (tmp_path / "here" / name).read_bytes(), name


@contextmanager
def _worker_there(there: Elsewhere, dask: Dask, log: Path, keeps: str, threads: int) -> Iterator[None]:
    """Run a worker with nothing but Python and Dask, which keeps its files in the folder `keeps`."""
    worker = ["python3", "-m", "distributed.cli.dask_worker", dask.address, "--nthreads", str(threads), "--no-nanny",
              "--no-dashboard", "--host", "127.0.0.1", "--local-directory", "/tmp"]  # fmt: skip
    with log.open("wb") as out, subprocess.Popen(
        there.entered([], "/home/user", worker, {"PYTHONPATH": "/home/user/dask", "XOFF_CACHE": keeps}),
        stdout=out, stderr=out,
    ) as process:  # fmt: skip
        try:
            yield
        finally:
            process.kill()


@pytest.mark.long
def test_a_worker_with_nothing_but_python_and_dask_has_a_part_of_a_network(
    elsewhere: Maker, start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other part is on a worker of this machine, with another Python and another C library."""
    there = elsewhere("trixie")
    _install_dask(there)
    with monkeypatch.context() as context:  # a scheduler without the lab, and a worker that has it
        context.setenv("XOFF_CACHE", str(tmp_path / "scheduler"))
        dask = Dask(start, tmp_path)
    dask.worker()
    job = (str(ROOT / "tests/lab/jobs/partition.py") + ":roce", "--partitions", "2")
    log = tmp_path / "worker.log"
    with _worker_there(there, dask, log, "/home/user/worker-part", 1):
        run = start("testbed", "run", *job, "--scheduler", dask.address, "--json", "--out", tmp_path / "theirs")
        assert run.popen.wait(300) == 0, run.said + log.read_text(errors="replace")
        assert "waiting for 2 free threads" in run.said or "sending the lab" in run.said
        (found,) = (tmp_path / "theirs").glob("*/result.json")
        assert json.loads(found.read_text())["digest"] == _here("um", tmp_path / "here", *job)["digest"]
        kept = there.path / "home" / "user" / "worker-part" / "cluster"
        assert list(kept.glob("lab-*/um-root-*/disk"))
        assert not [*kept.glob("lab-*/tmp/*"), *kept.parent.glob("tmp/*")]


def _install_dask(there: Elsewhere) -> None:
    """The wheels of cluster.lock for the Python there, which has no pip."""
    version = there.run("python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])").stdout.strip()
    folder = there.path / "home" / "user" / "dask"
    if folder.exists():
        return
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--only-binary", ":all:",
         "--python-version", version, "--implementation", "cp",
         *(f"--platform=manylinux{tag}_x86_64" for tag in ("_2_28", "_2_17", "2014")), "--target", str(folder),
         "--requirement", str(ROOT / "requirements" / "cluster.lock")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        pytest.skip(f"no Dask for Python {version} can be had: {done.stderr.strip().splitlines()[-1:]}")


@pytest.mark.long
def test_the_virtual_machine_starts_on_the_newest_qemu_of_debian(elsewhere: Maker) -> None:
    """From 10.1 on QEMU aborted when the snapshot with Xoff's code was taken."""
    there = elsewhere("sid", "qemu-system-x86", "qemu-utils")
    file = there.path / "home" / "user" / "lab.tar"
    subprocess.run([ROOT / "xoff", "image", "export", file, "--engine", "vm"], check=True)
    done = there.run("./xoff", "image", "import", "/home/user/lab.tar")
    assert done.returncode == 0, done.stderr
    results = [there.result("hello", "--engine", "vm") for _ in range(2)]
    assert results[0]["digest"] == results[1]["digest"]
    assert tuple(map(int, results[0]["provenance"]["qemu"].split(".")[:2])) >= (10, 1)
