"""The command line as a user meets it: interrupted, killed, twice at once, out of disk, in a terminal."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.lab.engines import table
from testbed.lab.engines.engine import PreparedEngine
from testbed.lab.engines.um import PreparedUm
from testbed.lab.engines.vm import PreparedMachine
from testbed.lab.host import cache

from ..conftest import JOBS
from ..um_processes import GUARD

ROOT = Path(__file__).parents[3]
XOFF = [sys.executable, "-m", "testbed"]
MISBEHAVE = str(JOBS / "misbehave.py")
BEHAVE = str(JOBS / "behave.py")


@pytest.fixture(params=["um", "vm"])
def kind(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


@pytest.fixture
def private_tmp(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str) -> Path:
    """A cache of our own with what the engine has in the shared one, so that what is left behind is ours."""
    ready = table.prepare(kind, print)
    mine = tmp_path / "cache"
    mine.mkdir()
    if isinstance(ready, PreparedUm):
        parts = [ready.kernel.path, ready.image.path, *(disk.parent for disk in ready.disks.values())]
    else:
        assert isinstance(ready, PreparedMachine)
        parts = [ready.snapshot.path, ready.snapshot.image.path]
    for path in parts:
        (mine / path.name).symlink_to(path)
    monkeypatch.setenv("XOFF_CACHE", str(mine))
    return mine / "tmp"


_STARTED: list[subprocess.Popen[bytes]] = []


@pytest.fixture(autouse=True)
def nothing_runs_on() -> Iterator[None]:
    """A test that fails leaves no run behind either."""
    yield
    for process in _STARTED:
        process.kill()
        process.wait()
    _STARTED.clear()


def _usual_signals() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def start(*arguments: str, out: Path) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [*XOFF, "run", *arguments, "--out", str(out)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # Tests that run in the background, or by nohup, have these signals ignored, and children inherit that.
        preexec_fn=_usual_signals,  # noqa: PLW1509
    )
    _STARTED.append(process)
    return process


def wait_until_begun(process: subprocess.Popen[bytes]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == b"begun\n"


def machines_below(pid: int) -> list[int]:
    """The processes of QEMU or User-Mode Linux that a process has started."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
            name = (entry.parent / "comm").read_text().strip()
        except OSError:
            continue
        if int(fields[1]) == pid and (name.startswith("qemu") or name in ("linux", GUARD)):
            found.append(int(entry.parent.name))
    return found


def is_gone(pid: int) -> bool:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state in "ZX":
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize(
    ("kind", "number", "end"),
    [
        ("um", signal.SIGINT, (130, b"interrupted")),
        ("um", signal.SIGTERM, (143, b"terminated")),
        ("um", signal.SIGHUP, (129, b"the terminal has gone")),
        ("vm", signal.SIGTERM, (143, b"terminated")),
        pytest.param("vm", signal.SIGINT, (130, b"interrupted"), marks=pytest.mark.long),
        pytest.param("vm", signal.SIGHUP, (129, b"the terminal has gone"), marks=pytest.mark.long),
    ],
    indirect=["kind"],
)
def test_an_interrupted_run_keeps_what_it_had_and_leaves_nothing(
    kind: str, private_tmp: Path, tmp_path: Path, number: signal.Signals, end: tuple[int, bytes]
) -> None:
    process = start(f"{MISBEHAVE}:spins", "--engine", kind, out=tmp_path / "out")
    wait_until_begun(process)
    (machine,) = machines_below(process.pid)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    code, word = end
    assert process.returncode == code
    assert word in err
    assert b"Traceback" not in err
    folder = tmp_path / "out" / "spins-001"
    result = json.loads((folder / "result.json").read_text())
    assert result["status"] == "interrupted"
    assert result["figures"] == [{"name": "begun", "value": 1, "unit": ""}]
    assert (folder / "kept.txt").read_text() == "kept"
    assert is_gone(machine)
    assert list(private_tmp.iterdir()) == []


def test_a_killed_xoff_takes_its_machine_along_and_the_next_one_cleans_up(
    kind: str, private_tmp: Path, tmp_path: Path
) -> None:
    process = start(f"{MISBEHAVE}:spins", "--engine", kind, out=tmp_path / "out")
    wait_until_begun(process)
    (machine,) = machines_below(process.pid)
    process.kill()
    process.communicate()
    assert is_gone(machine)
    assert len(list(private_tmp.iterdir())) == 1
    assert len(cache.sweep()) == 1
    assert list(private_tmp.iterdir()) == []


def test_the_folder_of_a_killed_run_that_had_nothing_goes_with_the_next(ready: PreparedEngine, tmp_path: Path) -> None:
    killed = start("hello", out=tmp_path)
    reserve = tmp_path / "hello-001" / ".reserve"
    while not reserve.exists():
        assert killed.poll() is None
        time.sleep(0.001)
    killed.kill()
    killed.communicate()
    assert [path.name for path in tmp_path.rglob("*")] == ["hello-001", ".reserve"]
    process = start(f"{BEHAVE}:draws", "--allow-degraded", out=tmp_path)
    process.communicate(timeout=120)
    assert [path.name for path in tmp_path.iterdir()] == ["draws-001"]
    assert not list(tmp_path.rglob(".reserve"))


@pytest.mark.parametrize("kind", ["um", pytest.param("vm", marks=pytest.mark.long)], indirect=True)
def test_a_reader_that_goes_away_ends_no_run(kind: str, tmp_path: Path) -> None:
    """The streams are those of the user's machine, whatever the engine is."""
    options = ("--engine", kind, "--set", "lines=2000", "--allow-degraded")
    process = start(f"{BEHAVE}:says", *options, out=tmp_path)
    assert process.stdout is not None and process.stderr is not None
    assert len(process.stdout.read(100)) == 100
    process.stdout.close()
    assert b"Traceback" not in process.stderr.read()
    assert process.wait(60) == 0
    folder = tmp_path / "says-001"
    assert json.loads((folder / "result.json").read_text())["status"] == "ok"
    assert (folder / "output.log").read_bytes().count(b"\nline ") == 1999


def test_a_limit_of_wall_time_changes_no_digest(kind: str, tmp_path: Path) -> None:
    found = set()
    for number, limit in enumerate(((), ("--wall-timeout", "61s"))):
        options = ("--engine", kind, "--allow-degraded", *limit)
        process = start(f"{BEHAVE}:draws", *options, out=tmp_path / str(number))
        process.communicate(timeout=120)
        assert process.returncode == 0
        result = json.loads((tmp_path / str(number) / "draws-001" / "result.json").read_text())
        found.add((result["digest"], result["times"]["virtual_ns"]))
    assert len(found) == 1


def test_two_at_once_do_not_meet(ready: PreparedEngine, tmp_path: Path) -> None:
    both = [start(f"{BEHAVE}:waits", "--set", f"how_long={s}s", "--json", out=tmp_path) for s in (1, 2)]
    results = [json.loads(process.communicate()[0])[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert [round(r["figures"][0]["value"] / 1e9, 2) for r in results] == [1, 2]
    assert {Path(r["folder"]).name for r in results} == {"waits-001", "waits-002"}


def test_several_experiments_run_side_by_side_and_the_worst_exit_code_counts(
    ready: PreparedEngine, tmp_path: Path
) -> None:
    process = start(f"{BEHAVE}:says", f"{MISBEHAVE}:refuses", "-j", "2", out=tmp_path)
    out, err = process.communicate()
    assert process.returncode == 4
    assert b"says | line 0\n" in out
    assert err.count(b"the cable is not plugged in; plug it in") == 1
    assert b"xoff: refuses: XoffError: the cable is not plugged in; plug it in; what it had" in err
    assert {path.name for path in tmp_path.iterdir()} >= {"says-001", "refuses-001"}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "small"
    place.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12M", "tmpfs", str(place)], check=False)
    if done.returncode:
        pytest.skip("mounting a small disk takes root")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_is_said_and_the_result_still_written(ready: PreparedEngine, small_disk: Path) -> None:
    (small_disk / "filler").write_bytes(bytes(3 << 20))
    process = start(f"{BEHAVE}:leaves", "--set", "megabytes=40", out=small_disk / "out")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 3
    assert b"the disk is full" in err
    assert b"Traceback" not in err
    folder = small_disk / "out" / "leaves-001"
    assert json.loads((folder / "result.json").read_text())["status"] == "disk-full"
    assert (folder / "output.log").read_bytes() == b"leaving\n"


class Typist:
    """A user at a terminal in which `xoff shell` runs."""

    def __init__(self, topology: str) -> None:
        self._ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [*XOFF, "shell", topology], cwd=ROOT, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE
        )
        _STARTED.append(self.process)
        os.close(theirs)
        self._unread = b""
        self.read_until(b"mininet> ", 120)

    def type(self, text: bytes) -> None:
        os.write(self._ours, text)

    def read_until(self, wanted: bytes, within_s: float = 60) -> bytes:
        """Read on until `wanted` has come, and return what came before it."""
        while wanted not in self._unread:
            assert select.select([self._ours], [], [], within_s)[0], f"no {wanted!r} after {self._unread!r}"
            self._unread += os.read(self._ours, 4096)
        before, _, self._unread = self._unread.partition(wanted)
        return before

    def answer(self, command: str) -> str:
        """Type a command, and return what it prints until the next prompt."""
        self.type(f"{command}\n".encode())
        self.read_until(b"\n")
        return self.read_until(b"mininet> ").decode().replace("\r", "")

    def leave(self) -> None:
        self.type(b"exit\n")
        assert self.process.wait(60) == 0
        os.close(self._ours)


def test_mininets_command_line_works_in_the_users_terminal(ready: PreparedEngine) -> None:
    """The user types in a terminal; the lab's own terminal answers."""
    user = Typist("star,2")
    assert "1 packets transmitted, 1 received" in user.answer("h1 ping -c 1 h2")
    user.type(b"h1 echo started; sleep 1000\n")
    user.read_until(b"\r\nstarted")
    user.type(b"\x03")  # Ctrl-C ends the command, not the shell
    user.read_until(b"mininet> ")
    user.leave()


def test_commands_on_a_link_that_is_down_end_with_the_reason(ready: PreparedEngine) -> None:
    """A ping without a route fails at once, and thousands of them fit into the second that an answer may take."""
    user = Typist("incast,2")
    assert user.answer("link s1 h1 down") == ""
    begin_s = time.monotonic()
    answer = user.answer("iperf h1 r 2ms")
    assert answer == (
        "*** iperf: h1 gets no answer from r (10.0.0.3) within 1ms: ping: connect: Network is unreachable\n"
    )
    assert time.monotonic() - begin_s < 20, "it takes a second of the lab's time"
    assert user.answer("traffic h1 r for=1ms") == "*** traffic: flow at h1: [Errno 101] Network is unreachable\n"
    assert user.answer("iperf r h1 1ms").startswith("*** iperf: r gets no answer from h1 (10.0.0.1) within 1ms: ")
    assert user.answer("link s1 h1 up") == ""
    assert user.answer("iperf h1 r 1ms").endswith(" of TCP over 1ms, 0 retransmitted\n")
    user.leave()


def test_a_shell_on_a_topology_that_cannot_be_built_gives_the_reason(ready: PreparedEngine) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen([*XOFF, "shell", "star,2,3,4,5"], cwd=ROOT, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    seen = b""
    try:
        while True:
            seen += os.read(ours, 4096)
    except OSError:  # the terminal has no user any more
        pass
    assert process.wait() == 4
    assert b"topology star,2,3,4,5:" in seen
    assert b"Traceback" not in seen
    os.close(ours)
