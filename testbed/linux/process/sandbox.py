"""A process tree in namespaces and a control group of its own.

The job of a lab runs in one. It has its own network, mounts, processes and host name, so two labs on one machine do not
meet; and however it ends, the kernel removes everything that it created.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

from testbed.linux.process import kernel

_CGROUPS = Path("/sys/fs/cgroup")
_FORBIDDEN = (
    kernel.CAP_SYS_PTRACE,  # reaches memory, descriptors and namespaces of the supervisor by an outer /proc
    kernel.CAP_MKNOD,  # the device of the supervisor's frames
    kernel.CAP_SYS_MODULE, kernel.CAP_SYS_RAWIO, kernel.CAP_SYS_BOOT, kernel.CAP_SYS_TIME,
)  # fmt: skip
"""The capabilities that no process of a sandbox has. A process can trace only processes that have no capability beyond
its own, so no process of a sandbox can trace one outside it.
"""
_NAMESPACES = kernel.CLONE_NEWNS | kernel.CLONE_NEWPID | kernel.CLONE_NEWNET | kernel.CLONE_NEWUTS | kernel.CLONE_NEWIPC


class ControlGroup:
    """The control group of a process tree: its limits, and counters of events. Without cgroup v2 it limits nothing."""

    def __init__(self, name: str, processes: int, memory_mb: int | None) -> None:
        self.path = _CGROUPS / name
        self.limited = (_CGROUPS / "cgroup.controllers").exists()
        if self.limited:
            with suppress(OSError):  # a controller that is missing limits nothing
                (_CGROUPS / "cgroup.subtree_control").write_text("+memory +pids")
            self.path.mkdir(exist_ok=True)
            for file, value in (
                ("pids.max", processes),
                ("memory.max", "max" if memory_mb is None else memory_mb << 20),
                ("memory.oom.group", 1),
            ):
                with suppress(OSError):
                    (self.path / file).write_text(str(value))

    def enter(self) -> None:
        """Move this process, and with it its future children, into the group."""
        if self.limited:
            (self.path / "cgroup.procs").write_text("0")

    def count(self, file: str, event: str) -> int:
        """Return how often an event of a file happened, as in count("memory.events", "oom_kill")."""
        try:
            lines = (self.path / file).read_text().splitlines()
        except OSError:
            return 0
        return sum(int(line.split()[1]) for line in lines if line.split()[0] == event)

    def processes(self) -> dict[int, str]:
        """Return the names of the processes in the group, by process ID."""
        found = {}
        with suppress(OSError):
            for pid in map(int, (self.path / "cgroup.procs").read_text().split()):
                with suppress(OSError):  # it has just ended
                    found[pid] = Path(f"/proc/{pid}/comm").read_text().strip()
        return found

    def signal(self, number: int) -> None:
        """Send a signal to all processes in the group."""
        with suppress(OSError):
            for pid in (self.path / "cgroup.procs").read_text().split():
                with suppress(OSError):  # it has just ended
                    os.kill(int(pid), number)

    def kill(self) -> None:
        """Kill all processes in the group."""
        with suppress(OSError):
            (self.path / "cgroup.kill").write_text("1")

    def remove(self) -> None:
        """Remove the group, which has to be empty or be about to be."""
        if not self.limited:
            return
        for _ in range(100):  # the group is busy until the kernel has reaped the last of them
            try:
                self.path.rmdir()
                return
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(0.01)


class Sandbox:
    """Runs one function in a process tree of its own."""

    def __init__(self, group: ControlGroup) -> None:
        self.group = group
        self.pid = 0

    def start(self, body: Callable[[], int], descriptors: Collection[int]) -> None:
        """Fork, and run `body`, which returns the exit code, in the sandbox.

        It inherits only `descriptors` and standard input, output and error.
        """
        self.pid = kernel.fork()
        if self.pid == 0:
            code = 1
            try:
                kernel.close_descriptors({0, 1, 2, *descriptors})
                code = self._enter_and_run(body)
            finally:
                os._exit(code)

    def _enter_and_run(self, body: Callable[[], int]) -> int:
        kernel.die_with_parent()
        os.setsid()
        self.group.enter()
        kernel.unshare(_NAMESPACES)
        first = kernel.fork()  # the first process of the new PID namespace: when it ends, the kernel kills all others
        if first == 0:
            code = 1
            try:
                kernel.die_with_parent()
                _prepare_namespaces()
                kernel.drop_capabilities(*_FORBIDDEN)
                code = _reap(body)
            finally:
                os._exit(code)
        return _exit_code(os.waitpid(first, 0)[1])

    def end_first(self, name: str, seconds: float) -> None:
        """Stop all processes but those of this name, send those SIGTERM, and wait until they end, `seconds` at most."""
        found = self.group.processes()
        for pid, own in found.items():
            with suppress(OSError):
                os.kill(pid, signal.SIGTERM if own == name else signal.SIGSTOP)
        deadline_s = time.monotonic() + seconds
        for pid in [pid for pid, own in found.items() if own == name]:
            with suppress(OSError):
                process = os.pidfd_open(pid)
                kernel.wait_readable([process], max(0.0, deadline_s - time.monotonic()))
                os.close(process)

    def interrupt(self, number: int) -> bool:
        """Send a signal to the process of the function, and stop all others; return False if it has ended."""
        # This comes first, and reads one file once: a process of the sandbox may keep this one from the CPU.
        self.group.signal(signal.SIGSTOP)
        first = _children(self.pid)[:1]
        own = _children(first[0])[:1] if first else []
        try:
            for pid in own:
                os.kill(pid, number)
            for pid in (self.pid, *first, *own):  # its ancestors have to wait for its exit code
                os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            return False
        return bool(own)

    def kill(self) -> None:
        """Kill all processes of the sandbox."""
        self.group.kill()
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        """Wait until the sandbox ends, and return the exit code: 128 and a signal's number if a signal killed it."""
        pid, self.pid = self.pid, 0
        return _exit_code(os.waitpid(pid, 0)[1])


def _children(parent: int) -> list[int]:
    """Return the children of a process, the oldest first."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has just ended
            if int(entry.read_text(errors="replace").rpartition(")")[2].split()[1]) == parent:
                found.append(int(entry.parent.name))
    return sorted(found)


def _prepare_namespaces() -> None:
    kernel.mount("none", "/", kernel.MS_REC | kernel.MS_PRIVATE)
    kernel.mount("proc", "/proc")
    kernel.mount("sysfs", "/sys")  # of this network namespace
    for kind, place in (
        ("cgroup2", "/sys/fs/cgroup"),
        ("bpf", "/sys/fs/bpf"),
        ("tracefs", "/sys/kernel/tracing"),
    ):
        with suppress(OSError):
            kernel.mount(kind, place)
    kernel.mount("tmpfs", "/run")  # sockets and databases of daemons the job starts
    for place in ("/run/netns", "/run/openvswitch", "/run/lock"):
        Path(place).mkdir()
    kernel.set_up("lo")


def _reap(body: Callable[[], int]) -> int:
    """Run `body` in a child, reap orphans until it ends, and return its exit code."""
    child = kernel.fork()
    if child == 0:
        code = 1
        try:
            code = body()
        finally:
            os._exit(code)
    while True:
        pid, status = os.wait()
        if pid == child:
            return _exit_code(status)


def _exit_code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code
