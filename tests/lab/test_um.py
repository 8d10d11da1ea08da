"""The engine `um`: nothing of the host reaches the lab, and nothing of the lab reaches the host."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from testbed import lab
from testbed.lab import Result, Status, definition, engine
from testbed.lab.engine import Ready
from testbed.lab.job import Limits
from testbed.lab.result import RESULT

from .conftest import JOBS, Output, Runner

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.engines("um")
OTHER_USER = "nobody"


@pytest.fixture(scope="session")
def ready() -> Ready:
    return engine.prepare(engine.Kind.UM, print)


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


def test_the_kernel_and_every_process_of_the_lab_have_given_up_their_host(run: Runner) -> None:
    seen: list[dict[str, str]] = []

    def look() -> None:
        while len(seen) < 20:
            for pid in _kernels() & {int(own) for own in _children(os.getpid())}:
                with suppress(OSError):
                    status = dict(_fields(Path(f"/proc/{pid}/status"))) | {"files": " ".join(_files(pid))}
                    children = [dict(_fields(Path(f"/proc/{child}/status"))) for child in _children(pid)]
                    if children and status["Seccomp"] == "2":  # it has booted
                        seen.append(status)
                        seen.extend(child | {"files": ""} for child in children)
            time.sleep(0.05)

    looking = threading.Thread(target=look)
    looking.start()
    result = run("misbehave:spins", limits=Limits(virtual_s=1e5, wall_s=5))
    looking.join()
    assert result.status is Status.WALL_TIMEOUT
    assert {status["Seccomp"] for status in seen} == {"2"}
    assert {status["NoNewPrivs"] for status in seen} == {"1"}
    assert not any("socket:" in file and "inet" in file for status in seen for file in status["files"].split())


def test_the_time_stamp_counter_is_the_labs_clock(run: Runner) -> None:
    assert run("escape:counts").check().claims


def test_what_the_kernel_shows_of_itself_is_the_same_every_time(run: Runner) -> None:
    results = [run("escape:counts") for _ in range(2)]
    assert results[0].digest == results[1].digest
    assert str(Path.home()) not in results[0].figure("boot") + results[0].figure("command line")


@pytest.fixture
def busy() -> Iterator[None]:
    """More processes that never wait than there are cores."""
    spinners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range((os.cpu_count() or 1) + 1)]
    yield
    for spinner in spinners:
        spinner.kill()
        spinner.wait()


def _twice_at_a_time(run: Runner, job: str, count: int) -> list[Result]:
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda _: run(job), range(count)))


@pytest.mark.slow
def test_runs_on_an_idle_and_on_a_busy_machine_are_one_result(run: Runner, request: pytest.FixtureRequest) -> None:
    results = _twice_at_a_time(run, "behave:mixes", 10)
    request.getfixturevalue("busy")
    results += _twice_at_a_time(run, "behave:mixes", 10)
    assert {result.status for result in results} == {Status.OK}
    assert len({result.digest for result in results}) == 1


def test_environment_place_core_and_layout_of_memory_do_not_matter(ready: Ready, tmp_path: Path) -> None:
    """One experiment, by the command line, as different users of different machines would start it."""
    first = os.sched_getaffinity(0)
    variations: dict[str, tuple[list[str], dict[str, str], set[int]]] = {
        "plain": ([], {}, first),
        "the first core": ([], {}, {min(first)}),
        "other environment": ([], {"LANG": "de_DE.UTF-8", "TZ": "Asia/Tokyo", "NOISE": "x" * 5000}, first),
        "other CPU features": ([], {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-ERMS,-AVX512F"}, first),
        "memory laid out otherwise": (["setarch", "-R"], {}, first),
        "a small stack": (["prlimit", "--stack=1048576:1048576"], {}, first),
        "low priority": (["nice", "-n", "15"], {}, first),
    }  # fmt: skip
    digests = {}
    for name, (prefix, environment, cores) in variations.items():
        out = tmp_path / name
        out.mkdir()
        command = [*prefix, sys.executable, "-m", "testbed", "run", "hello", "--engine", "um", "--out", str(out)]
        # A shell, for only a process of its own may change its cores.
        set_cores = ["taskset", "-c", ",".join(map(str, cores))]
        done = subprocess.run(
            [*set_cores, *command], cwd=out, env=os.environ | {"PYTHONPATH": str(ROOT)} | environment,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{name}: {done.stderr}"
        digests[name] = json.loads((out / "hello-001" / RESULT).read_text())["digest"]
    assert len(set(digests.values())) == 1, digests


def test_another_user_gets_the_same(ready: Ready, run: Runner, tmp_path: Path) -> None:
    """Without root, from a copy of the code elsewhere, with a cache of its own that has what was built."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    assert ready.uml is not None
    place = Path("/var/tmp") / f"xoff-test-{os.getpid()}"
    copy = "cp -r --reflink=auto"
    packages = "testbed snappi_xoff topologies controllers experiments"
    files = [ready.uml.image.path, ready.uml.kernel.path, *(disk.parent for disk in ready.uml.disks.values())]
    script = f"""
    set -e
    mkdir -p {place}/deep/er {place}/cache {place}/out
    cd {ROOT} && {copy} {packages} {place}/deep/er/
    {copy} -p {" ".join(map(str, files))} {place}/cache/
    chown -R {OTHER_USER}: {place}
    """
    try:
        subprocess.run(["sh", "-c", script], check=True)
        environment = {"PATH": os.environ["PATH"], "XOFF_CACHE": str(place / "cache"), "HOME": str(place)}
        environment |= {"PYTHONPATH": str(place / "deep" / "er"), "PYTHONDONTWRITEBYTECODE": "1"}
        program = "import sys; from testbed import lab; print(lab.run('hello', on='um', out=sys.argv[1]).digest)"
        done = subprocess.run(
            ["setpriv", "--reuid", OTHER_USER, "--regid", "nogroup", "--clear-groups",
             "/usr/bin/python3", "-c", program, str(place / "out")],
            cwd=place, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        ours = lab.run(definition.find("hello"), on=ready, out=tmp_path / "ours")
        assert done.stdout.split()[-1] == ours.digest
    finally:
        subprocess.run(["rm", "-rf", str(place)], check=True)


def test_a_network_of_every_kind_of_part_comes_up(ready: Ready, tmp_path: Path) -> None:
    for name in ("hello", "incast"):
        lab.run(definition.find(name), on=ready, out=tmp_path).check()


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
        kernels = [pid for pid in _children(front_end.pid) if int(pid) in _kernels()]
        processes = [*kernels, *(child for pid in kernels for child in _children(int(pid)))]
        assert kernels
        assert len(processes) > 1
        front_end.kill()
    deadline = time.monotonic() + 60
    while alive := [pid for pid in processes if Path("/proc", pid).exists()]:
        assert time.monotonic() < deadline, f"{alive} outlived their front end"
        time.sleep(0.05)


def test_a_lab_whose_process_is_killed_reports_it(run: Runner, output: Output) -> None:
    def shoot() -> None:
        while b"begun" not in output.out:
            time.sleep(0.05)
        for pid in _kernels() & {int(own) for own in _children(os.getpid())}:
            os.kill(pid, 9)

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


def _kernels() -> set[int]:
    """The processes of this machine that are a kernel of the engine."""
    found = set()
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if b"time-travel=inf-cpu" in (place / "cmdline").read_bytes():
                found.add(int(place.name))
    return found


def _children(pid: int) -> list[str]:
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*"):
        with suppress(OSError):
            found += (task / "children").read_text().split()
    return found


def _fields(path: Path) -> list[tuple[str, str]]:
    return [(name, value.strip()) for name, _, value in (line.partition(":") for line in path.read_text().splitlines())]


def _files(pid: int) -> list[str]:
    return [str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir()]
