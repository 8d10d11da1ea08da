"""The two walls around a job on `um`: what its processes can reach of the lab's memory, and its kernel of the host.

The first is tried from inside, by a program (`jobs/attack.c`) that has the host's processes make system calls as the
kernel's own code does. The second has to hold whatever the first leaves, so it is tried where an attacker would be who
has got through: system calls are made in the name of the kernel's process, of the one that makes stubs, and of stubs.
"""

from __future__ import annotations

import ctypes
import os
import random
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from testbed import lab
from testbed.experiment import definition
from testbed.lab import Status
from testbed.lab.engines import table
from testbed.lab.engines.engine import PreparedEngine
from testbed.lab.um import machine

from ..conftest import JOBS, Output, Runner
from ..injection import Ended, injected
from ..um_processes import NoLabError, UmProcesses, status

pytestmark = [pytest.mark.engines("um"), pytest.mark.packages("clang-14")]
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may act in another process's name")

NOBODY = "65534"
CLANG = "clang-14"
PROCESSES_MB = machine.MEMORY_MB - machine.KERNEL_MB
REFUSED = -1  # EPERM
ANONYMOUS, O_ASYNC, F_SETOWN, F_SETFL, F_SETSIG = 0x20, 0o20000, 8, 4, 10


@pytest.fixture(scope="session")
def ready() -> PreparedEngine:
    return table.prepare("um", print)


@pytest.fixture(scope="session")
def attack(tmp_path_factory: pytest.TempPathFactory) -> definition.Experiment:
    """The experiment, in a folder with the program that it runs."""
    if shutil.which(CLANG) is None:
        pytest.skip(f"{CLANG} is missing")
    folder = tmp_path_factory.mktemp("attack")
    options = ("-O1", "-static", "-nostdlib", "-ffreestanding", "-fno-stack-protector", "-fno-pic")
    subprocess.run([CLANG, *options, "-o", folder / "attack", JOBS / "attack.c"], check=True)
    shutil.copy(JOBS / "attacks.py", folder)
    return definition.load_file(folder / "attacks.py", "attacks")


@pytest.mark.parametrize("uid", [0, 65534])
def test_a_process_maps_memory_of_processes_and_none_of_the_kernels(
    run: Runner, attack: definition.Experiment, uid: int
) -> None:
    """A message that waits in a socket is in the kernel's memory; the page that it came from is the process's own."""
    result = run(attack, words="processes,kernel,kernel-code,thread", megabytes=PROCESSES_MB, uid=uid).check()
    assert result.figure("processes") == 1
    assert [result.figure(name) for name in ("kernel", "kernel-code", "thread")] == [REFUSED] * 3


FORBIDDEN = ("kernel-high", "other-file", "anonymous", "write", "open", "fork", "x32", "int80-stub")


@pytest.mark.parametrize("uid", [0, 65534])
def test_a_process_that_makes_another_call_of_the_stubs_ends_and_the_lab_goes_on(
    run: Runner, attack: definition.Experiment, uid: int
) -> None:
    begun = time.monotonic()
    result = run(attack, words=",".join(FORBIDDEN), megabytes=PROCESSES_MB, uid=uid).check()
    assert {name: result.figure(name) for name in FORBIDDEN} == dict.fromkeys(FORBIDDEN, "SIGSEGV")
    assert time.monotonic() - begun < 5 * len(FORBIDDEN) + 60


@pytest.mark.parametrize("way", ["ring", "map", "perf", "events", "memory"])
def test_memory_of_the_kernels_that_a_process_leaves_mapped_is_used_for_nothing_else(
    run: Runner, attack: definition.Experiment, way: str
) -> None:
    """The process does not do what the kernel tells its stub to do, and reads what it should not have any more.

    It got that memory as a ring of packets, a BPF map, a buffer of events, a ring of asynchronous calls; and because
    there was no more of the memory that only processes have.
    """
    assert run(attack, words=way, megabytes=PROCESSES_MB + 200).check().figure(way) == 0


STUB = (
    "unmap-stub", "unmap-all", "unmap-across", "replace-stub", "overlap-stub", "sleep", "sleep-in-turn", "overwrite",
)  # fmt: skip


def test_a_process_that_tampers_with_its_stub_ends_and_the_lab_goes_on(
    run: Runner, attack: definition.Experiment
) -> None:
    begun = time.monotonic()
    result = run(attack, words=",".join((*STUB, "below-stub"))).check()
    assert {name: result.figure(name) for name in STUB} == dict.fromkeys(STUB, "SIGSEGV")
    assert result.figure("below-stub") == 1
    assert time.monotonic() - begun < 5 * len(STUB) + 60


def test_a_program_that_blocks_the_signal_by_which_the_kernel_gets_its_turn_ends_with_the_first_ctrl_c(
    ready: PreparedEngine, attack: definition.Experiment, tmp_path: Path
) -> None:
    with at_work(ready, tmp_path, attack, words="spin-deaf") as end:
        while not any(deaf(pid) for pid in UmProcesses(os.getpid()).stubs):
            time.sleep(0.05)
        begun = time.monotonic()
        assert end().status is Status.INTERRUPTED
        assert time.monotonic() - begun < 8, "the lab that does not end by itself is killed after 20 s"


def deaf(pid: int) -> bool:
    """Return True if a process runs and has blocked SIGALRM."""
    with suppress(OSError, KeyError):
        found = status(pid)
        return found["State"].startswith("R") and int(found["SigBlk"], 16) >> signal.SIGALRM - 1 & 1 == 1
    return False


def test_calls_of_32_bit_programs_and_by_the_page_of_old_ones_reach_the_lab_alone(
    run: Runner, attack: definition.Experiment
) -> None:
    results = [run(attack, words="int80,vsyscall") for _ in range(2)]
    assert results[0].digest == results[1].digest  # the host's time of day is not in it
    assert results[0].figure("int80") != 1  # no 32-bit getpid, neither the host's nor the lab's


@contextmanager
def at_work(
    ready: PreparedEngine, out: Path, job: definition.Experiment, **parameters: str
) -> Iterator[Callable[[], lab.Result]]:
    """A lab at work since its job has said that it has begun; a function that ends it and gives its result."""
    ended, output, results = threading.Event(), Output(), []

    def work() -> None:
        results.append(lab.run(job, parameters=parameters, on=ready, out=out, cancel=ended, watcher=output))

    def end() -> lab.Result:
        ended.set()
        working.join()
        return results[0]

    working = threading.Thread(target=work)
    working.start()
    try:
        while b"begun" not in output.out:
            assert working.is_alive()
            time.sleep(0.05)
        yield end
    finally:
        end()


@contextmanager
def spinning(ready: PreparedEngine, out: Path) -> Iterator[tuple[UmProcesses, Callable[[], lab.Result]]]:
    """A lab in which a process spins, with a function that ends it and gives its result."""
    with at_work(ready, out, definition.load_file(JOBS / "misbehave.py", "spins")) as end:
        yield UmProcesses(os.getpid()), end


_CALLS: dict[str, tuple[int | bytes, ...]] = {
    "read a file": (2, b"/etc/hostname\0", 0), "openat": (257, -100, b"/etc/hostname\0", 0, 0),
    "openat2": (437, -100, b"/etc/hostname\0", b"\0" * 24, 24), "open_by_handle_at": (304, -1, 0, 0),
    "execve": (59, b"/bin/true\0", 0, 0), "execveat": (322, -100, b"/bin/true\0", 0, 0, 0), "fork": (57,),
    "vfork": (58,), "clone": (56, 0, 0, 0, 0, 0), "clone3": (435, b"\0" * 64, 64), "socket": (41, 2, 1, 0),
    "socketpair": (53, 1, 1, 0, 0), "connect": (42, 0, 0, 0), "sendto": (44, 0, 0, 0, 0, 0, 0),
    "ptrace": (101, 16, 1, 0, 0), "process_vm_readv": (310, 1, 0, 0, 0, 0, 0),
    "process_vm_writev": (311, 1, 0, 0, 0, 0, 0), "process_madvise": (440, -1, 0, 0, 0, 0),
    "pidfd_open": (434, 1, 0), "pidfd_getfd": (438, 0, 0, 0), "kill": (62, -1, 9), "tkill": (200, 1, 9),
    "tgkill": (234, 1, 1, 9), "rt_sigqueueinfo": (129, 1, 9, 0), "unshare": (272, 0x10000000), "setns": (308, 0, 0),
    "mount": (165, 0, 0, 0, 0, 0), "umount2": (166, b"/\0", 2), "pivot_root": (155, b"/\0", b"/\0"),
    "chroot": (161, b"/\0"), "fsopen": (430, b"tmpfs\0", 0), "chdir": (80, b"/\0"),
    "io_uring_setup": (425, 8, b"\0" * 120), "bpf": (321, 0, 0, 0), "perf_event_open": (298, 0, 0, -1, -1, 0),
    "userfaultfd": (323, 0), "memfd_create": (319, b"more\0", 0),
    "more memory": (9, 0, 4096, 3, 2 | ANONYMOUS, -1, 0), "brk": (12, 0), "shmget": (29, 0, 4096, 0o1700),
    "ftruncate": (77, 0, 1 << 40), "fallocate": (285, 0, 0, 0, 1 << 40), "keyctl": (250, 0, 0, 0),
    "prctl": (157, 4, 1), "setuid": (105, 0), "capset": (126, 0, 0), "prlimit64": (302, 0, 7, 0, 0),
    "signals by a file": (72, 0, F_SETOWN, 1), "which signal": (72, 0, F_SETSIG, 9),
    "when": (72, 0, F_SETFL, O_ASYNC), "seccomp": (317, 0, 0, 0), "personality": (135, 0),
    "init_module": (175, 0, 0, 0), "kexec_load": (246, 0, 0, 0, 0),
    "sched_setaffinity": (203, 1, 8, b"\1" + b"\0" * 7), "terminal": (16, 0, 0x5412, b"x"),
}  # fmt: skip
GETPID = 39


@as_root
def test_the_kernel_of_the_lab_can_do_nothing_to_its_host(ready: PreparedEngine, tmp_path: Path) -> None:
    with spinning(ready, tmp_path) as (found, end):
        with injected(found.kernel) as kernel:
            first = kernel.call(GETPID)
            assert first == (found.kernel if found.guard is None else 1)  # calls do arrive
            done = {name: kernel.call(*call) for name, call in _CALLS.items()}
        assert done == dict.fromkeys(_CALLS, REFUSED)
        assert end().status is Status.INTERRUPTED


@as_root
def test_the_process_that_makes_stubs_can_do_nothing_to_its_host(ready: PreparedEngine, tmp_path: Path) -> None:
    with spinning(ready, tmp_path) as (found, end):
        with injected(found.maker) as maker:
            done = {name: maker.call(*call) for name, call in _CALLS.items()}
        assert done == dict.fromkeys(_CALLS, REFUSED)
        assert end().status is Status.INTERRUPTED


@as_root
def test_a_stub_ends_at_what_it_may_not(ready: PreparedEngine, tmp_path: Path) -> None:
    names = ("read a file", "execveat", "kill", "more memory")
    with spinning(ready, tmp_path) as (found, _):
        for name, pid in zip(names, list(found.waiting())[: len(names)], strict=True):
            with injected(pid) as stub, pytest.raises(Ended, match="SIGSYS"):
                stub.call(*_CALLS[name])


LANDLOCK = max(0, ctypes.CDLL(None).syscall(444, None, 0, 1))
"""The version of this host's Landlock; its first that restricts signals is 6."""
CONFINEMENTS = (
    f"confined: user {NOBODY}",
    "confined: namespaces",
    "confined: empty root, error 0",
    f"confined: Landlock of files, version {LANDLOCK}",
    f"confined: Landlock of signals, version {LANDLOCK if LANDLOCK >= 6 else 0}",
)


def test_the_processes_of_a_lab_have_given_up_their_host(ready: PreparedEngine, tmp_path: Path) -> None:
    with spinning(ready, tmp_path) as (found, _):
        for pid in (found.kernel, found.maker, *found.stubs):
            said = status(pid)
            assert (said["Seccomp"], said["NoNewPrivs"]) == ("2", "1")
            assert set(said["Uid"].split()) == {NOBODY if os.geteuid() == 0 else str(os.geteuid())}
            assert int(said["CapEff"], 16) == 0
            if os.geteuid() != 0:
                continue  # only root may look into them
            assert said["Groups"] == ""
            if found.guard is not None:
                for name in ("user", "pid", "mnt", "net", "ipc", "uts"):
                    ours, theirs = (Path(f"/proc/{each}/ns/{name}").readlink() for each in ("self", pid))
                    assert ours != theirs, name
                assert list(Path(f"/proc/{pid}/root").iterdir()) == []
            if pid == found.kernel and found.guard is not None:
                assert set(CONFINEMENTS) <= set(Path(f"/proc/{found.guard}/cwd/console").read_text().splitlines())
            if pid == found.kernel:
                largest = next(
                    line for line in Path(f"/proc/{pid}/limits").read_text().splitlines() if "file size" in line
                )
                assert largest.split()[3:5] == [str(int((512 + 1024) * 1.25) + 64 << 20)] * 2
            if pid in found.stubs:
                assert len(list(Path(f"/proc/{pid}/fd").iterdir())) == 2


def test_a_lab_that_loses_a_process_ends_with_the_reason(ready: PreparedEngine, tmp_path: Path) -> None:
    """The one that runs, by a signal that could as well be of a host without memory."""
    with spinning(ready, tmp_path) as (found, end):
        busy = [pid for pid in found.stubs if status(pid)["State"].startswith("R")]
        os.kill(busy[0], signal.SIGKILL)
        killed = time.monotonic()
        while any(Path(f"/proc/{pid}").exists() for pid in (found.kernel, *found.stubs)):
            assert time.monotonic() - killed < 30
            time.sleep(0.02)
        result = end()
    assert result.status is Status.LOST
    assert "the host ended a process of the lab (signal 9)" in result.reason


@pytest.mark.parametrize("seed", range(4))
def test_the_loss_of_any_process_ends_the_lab_or_does_not_matter(run: Runner, undisturbed: str, seed: int) -> None:
    """With two cores a stub that looks for its turn is the one that wakes the next: none may wait for it."""
    chance, is_over = random.Random(seed), threading.Event()

    def shoot() -> None:
        moment_s = chance.uniform(0.5, 3)
        while not is_over.wait(moment_s):
            moment_s = 0.01  # if there is none yet: a busy machine takes its time to start a lab
            with suppress(NoLabError, OSError):
                os.kill(chance.choice(UmProcesses(os.getpid()).stubs), signal.SIGKILL)
                return

    shooting = threading.Thread(target=shoot)
    shooting.start()
    try:
        result = run("behave:mixes")
    finally:
        is_over.set()
        shooting.join()
    if result.status is Status.OK:
        assert result.digest == undisturbed
    else:
        assert "the host ended a process of the lab (signal 9)" in result.reason


def test_a_stop_of_all_processes_does_not_matter(run: Runner, undisturbed: str) -> None:
    """A debugger, a terminal or the freezer of a container stops processes so."""
    stopped: list[UmProcesses] = []

    def stop() -> None:
        while not done.wait(0.3):
            with suppress(NoLabError, OSError):
                found = UmProcesses(os.getpid())
                for number in (signal.SIGSTOP, signal.SIGCONT):
                    for pid in (found.kernel, *found.stubs):
                        os.kill(pid, number)
                    time.sleep(0.1)
                stopped.append(found)

    done = threading.Event()
    stopping = threading.Thread(target=stop)
    stopping.start()
    try:
        disturbed = run("behave:mixes")
    finally:
        done.set()
        stopping.join()
    assert stopped
    assert disturbed.digest == undisturbed
