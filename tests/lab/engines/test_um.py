"""The engine `um`: nothing of the host reaches the lab, and nothing of the lab reaches the host."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from testbed.lab import Status
from testbed.lab.engines.um import PreparedUm, Um
from testbed.lab.host import cache
from testbed.lab.image import image
from testbed.lab.job.job import Limits
from testbed.lab.results.result import RESULT
from testbed.lab.um import disks, kernel

from .. import once
from ..conftest import JOBS, Output, Runner, kept
from ..um_processes import UmProcesses

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.engines("um")
OTHER_USER = "nobody"


@pytest.fixture(scope="session")
def ready() -> PreparedUm:
    return Um().prepare(print)


def test_a_hostile_job_finds_nothing_of_its_host(run: Runner, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("only the host has this")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0)
        result = run("escape:tries", port=listening.getsockname()[1], secret=str(secret))
        with pytest.raises(BlockingIOError):
            listening.accept()
    assert result.status is Status.OK, result.reason
    for name in ("file systems of the host", "memory devices", "the secret is in"):
        assert result.figure(name) == [], name
    for name in ("mounted from the host", "modules", "written to the root disk", "connected to the host"):
        assert result.figure(name) is False, name
    model = next(line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name"))
    assert model.partition(":")[2].strip() not in result.figure("CPU")
    assert not {"XOFF_ROOT", "XOFF_JOB", "XOFF_OUT"} & set(result.figure("environment"))
    assert "GLIBC_TUNABLES" in result.figure("environment")  # of every program that the job starts


def test_the_kernel_that_is_built_here_is_the_reference_to_the_byte(ready: PreparedUm) -> None:
    built, reference = ready.kernel, kernel.reference()
    if built.tools != reference["tools"]:
        pytest.skip("Debian has other versions of the tools now")
    assert built.digest == reference["digest"], "./xoff image reference --engine um, if it is meant to change"


def test_the_root_disk_that_is_made_here_is_the_reference_to_the_byte(ready: PreparedUm) -> None:
    if ready.image.digest != image.reference()["digest"]:
        pytest.skip("Debian has other versions of the image's packages now")
    assert cache.sha256(ready.disks["XOFF_ROOT"]) == disks.reference_digest(), "./xoff image reference"


def test_the_time_stamp_counter_is_the_labs_clock_and_the_kernel_shows_the_same_every_time(run: Runner) -> None:
    results = [run("escape:counts") for _ in range(2)]
    assert results[0].check().claims
    assert results[0].digest == results[1].digest
    assert str(Path.home()) not in results[0].figure("boot") + results[0].figure("command line")


ALL_CORES = os.sched_getaffinity(0)
VARIATIONS: dict[str, tuple[list[str], dict[str, str], set[int]]] = {
    "the first core": ([], {}, {min(ALL_CORES)}),
    "other environment": ([], {"LANG": "de_DE.UTF-8", "TZ": "Asia/Tokyo", "NOISE": "x" * 5000}, ALL_CORES),
    "other CPU features": ([], {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-ERMS,-AVX512F"}, ALL_CORES),
    "memory laid out otherwise": (["setarch", "-R"], {}, ALL_CORES),
    "a small stack": (["prlimit", "--stack=1048576:1048576"], {}, ALL_CORES),
    "low priority": (["nice", "-n", "15"], {}, ALL_CORES),
}


@pytest.mark.parametrize(
    "together", [[*VARIATIONS], *(pytest.param([name], marks=pytest.mark.long, id=name) for name in VARIATIONS)]
)
def test_environment_place_core_and_layout_of_memory_do_not_matter(
    ready: PreparedUm, undisturbed: str, tmp_path: Path, together: list[str]
) -> None:
    """One job is started by the command line as on another machine, and as these tests start it."""
    prefix = [word for name in together for word in VARIATIONS[name][0]]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    cores = ALL_CORES
    for name in together:
        environment |= VARIATIONS[name][1]
        cores = cores & VARIATIONS[name][2]
    out = tmp_path / "theirs"
    out.mkdir()
    job = f"{JOBS / 'behave.py'}:mixes"
    # A program does it, for only a process of its own may change its cores.
    done = subprocess.run(
        ["taskset", "-c", ",".join(map(str, cores)), *prefix,
         sys.executable, "-m", "testbed", "run", job, "--engine", "um", "--out", str(out)],
        cwd=out, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads((out / "mixes-001" / RESULT).read_text())["digest"] == undisturbed


def test_another_user_gets_the_same(ready: PreparedUm, run: Runner, tmp_path: Path) -> None:
    """The user has no root, a copy of the code elsewhere, and a cache of its own with what was built."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    place = Path("/var/tmp") / f"xoff-test-{os.getpid()}"
    copy = "cp -r --reflink=auto"
    packages = "testbed snappi_xoff topologies controllers experiments xoff.py"
    files = [ready.image.path, ready.kernel.path, *(disk.parent for disk in ready.disks.values())]
    script = f"""
    set -e
    mkdir -p {place}/deep/er {place}/cache {place}/out
    cd {ROOT} && {copy} {packages} {place}/deep/er/
    {copy} -p --link {" ".join(map(str, files))} {place}/cache/ || {copy} -p {" ".join(map(str, files))} {place}/cache/
    find {place} -type d -exec chown {OTHER_USER}: {{}} +
    """
    try:
        subprocess.run(["sh", "-c", script], check=True)
        environment = {"PATH": os.environ["PATH"], "XOFF_CACHE": str(place / "cache"), "HOME": str(place)}
        environment |= {"PYTHONPATH": str(place / "deep" / "er"), "PYTHONDONTWRITEBYTECODE": "1"}
        program = "import sys; from testbed import lab; print(lab.run('incast', on='um', out=sys.argv[1]).digest)"
        done = subprocess.run(
            ["setpriv", "--reuid", OTHER_USER, "--regid", "nogroup", "--clear-groups",
             "/usr/bin/python3", "-c", program, str(place / "out")],
            cwd=place, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        ours = once.run("incast", on=ready, out=tmp_path / "ours")
        assert done.stdout.split()[-1] == ours.digest
    finally:
        subprocess.run(["rm", "-rf", str(place)], check=True)


def test_the_smallest_lab_holds_its_claims(ready: PreparedUm, tmp_path: Path) -> None:
    kept("hello", ready, tmp_path)


def test_nothing_is_left_of_a_lab_whose_front_end_is_killed(tmp_path: Path) -> None:
    job = f"{JOBS / 'misbehave.py'}:spins"
    with subprocess.Popen(
        [sys.executable, "-m", "testbed", "run", job, "--engine", "um", "--out", str(tmp_path)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    ) as front_end:  # fmt: skip
        assert front_end.stdout is not None
        while b"begun" not in front_end.stdout.readline():
            pass
        processes = UmProcesses(front_end.pid).all
        assert len(processes) > 3
        front_end.kill()
    deadline = time.monotonic() + 60
    while alive := [pid for pid in processes if Path(f"/proc/{pid}").exists()]:
        assert time.monotonic() < deadline, f"{alive} outlived their front end"
        time.sleep(0.05)


def test_a_lab_whose_process_is_killed_reports_it(run: Runner, output: Output) -> None:
    def shoot() -> None:
        while b"begun" not in output.out:
            time.sleep(0.05)
        os.kill(UmProcesses(os.getpid()).kernel, 9)

    shooting = threading.Thread(target=shoot)
    shooting.start()
    result = run("misbehave:spins", limits=Limits(virtual_s=1e5, wall_s=60))
    shooting.join()
    assert result.status is Status.LOST
    assert result.reason.startswith("the lab's kernel ended before the job did")


def test_a_kernel_panic_is_reported_with_what_the_kernel_said(run: Runner, output: Output) -> None:
    result = run("misbehave:panics_out_of_memory", limits=Limits(memory_mb=300))
    assert result.status is Status.LOST
    assert result.reason.startswith("the lab's kernel panicked; its last output:")
    assert "panic_on_oom" in result.reason
    assert result.figure("begun") == 1
    assert output.out.startswith(b"begun\n")
