"""The virtual machine's end of the lab: process 1 calls `main` when it has unpacked the code that labs hold.

That code is imported, and the machine stops: a snapshot is taken there (see `snapshot.py`). Every job wakes from it and
finds all modules imported, which was most of what a short job cost.
"""

from __future__ import annotations

import compileall
import fcntl
import gc
import hashlib
import importlib
import os
import pkgutil
import py_compile
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

import testbed
from testbed.lab.job import Job
from testbed.lab.supervisor import Supervisor
from testbed.lab.wire import Frame
from testbed.linux import kernel

_HOME = Path("/xoff")
OUT_PORT = "xoff.out"
COMMAND_PORT = "xoff.commands"
_KERNEL_URGENCY = {"rcu_": 60, "ksoftirqd": 46}
"""Real-time priorities, by the beginning of a thread's name. Agents have 50, speakers 30."""
_ROOMS = ("agent", "buffer", "dcbx", "ecn", "frames", "headroom", "linux", "net", "pfc", "priority", "srv6")
_NOT_IN_LABS = ("testbed.linux.port_program.build",)


def main(_: int) -> None:
    """Get ready, stop the machine, and do the job that is there when it goes on."""
    _hurry_kernel()
    _forbid_turns()
    _import_rooms()
    gc.collect()
    gc.freeze()  # what is here now stays: later collections need not look at it
    os.sync()
    process_1 = sys.modules["__main__"]  # guest/init.py, whose fork we are: it knows how to stop, and where jobs are
    checkpoint_ns = time.monotonic_ns()
    process_1.stop_the_machine()
    process_1.unpack_job()
    _do_job(checkpoint_ns)


def _do_job(checkpoint_ns: int) -> None:
    """Do the job and speak to the user's machine through two virtio ports."""
    job = Job.decode((_HOME / "job.json").read_text())
    out = os.open(_port(OUT_PORT), os.O_WRONLY)
    commands = PortCommands(_port(COMMAND_PORT))
    if job.reproducible:
        kernel.reseed_random(hashlib.sha256(f"xoff seed {job.seed}".encode()).digest())
        start_ns = _wait_for_round_moment(checkpoint_ns)
    else:
        start_ns = time.monotonic_ns()
    supervisor = Supervisor(job, _HOME / "code", _HOME / "work", start_ns, lambda frame: _write(out, frame))
    supervisor.run(commands)


def _import_rooms() -> None:
    """Import what jobs need, for those are forks of ours, and leave what is compiled for programs they start."""
    compileall.compile_dir(_HOME / "code", quiet=1, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    for room in _ROOMS:
        for module in pkgutil.walk_packages([f"{testbed.__path__[0]}/{room}"], f"testbed.{room}."):
            if module.name not in _NOT_IN_LABS:
                importlib.import_module(module.name)


def _hurry_kernel() -> None:
    """Put the kernel's own threads before all of Xoff's processes that might keep them from their work.

    Whoever changes a link waits for RCU's threads, and holds the lock meanwhile that an agent needs to stop a queue.
    And what interrupts leave of frames to be forwarded is done by ksoftirqd: wires do not wait for a DCBX speaker.
    """
    for name in Path("/proc").glob("[0-9]*/comm"):
        for prefix, urgency in _KERNEL_URGENCY.items():
            if name.read_text().startswith(prefix):
                with suppress(OSError):  # there are some that the kernel lets nobody touch
                    os.sched_setscheduler(int(name.parent.name), os.SCHED_FIFO, os.sched_param(urgency))


def _forbid_turns() -> None:
    """Switch off the kernel's fair server, which lets ordinary processes that waited long go before real-time ones."""
    kernel.mount("debugfs", "/sys/kernel/debug")
    for runtime in Path("/sys/kernel/debug/sched/fair_server").glob("cpu*/runtime"):
        runtime.write_text("0")


def _wait_for_round_moment(checkpoint_ns: int) -> int:
    """Start on a whole second some way after the snapshot.

    How long unpacking and importing takes depends on the code's size; the job's clock must not.
    """
    start_ns = (checkpoint_ns // 10**9 + 5) * 10**9
    time.sleep((start_ns - time.monotonic_ns()) / 1e9)
    return start_ns


def _port(name: str) -> str:
    for entry in Path("/sys/class/virtio-ports").iterdir():
        if (entry / "name").read_text().strip() == name:
            return f"/dev/{entry.name}"
    raise FileNotFoundError(f"the virtual machine has no port {name}")


def _write(port: int, frame: Frame) -> None:
    data = memoryview(frame.encode())
    while data:
        data = data[os.write(port, data) :]


class PortCommands:
    """Commands from a virtio port.

    An unconnected port polls as hung up for ever, so it cannot be watched itself. The kernel raises
    SIGIO when data arrives; its wake-up pipe is watched instead.
    """

    def __init__(self, path: str) -> None:
        self._port = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        self._woken, wakeup = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(wakeup, False)
        signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
        signal.signal(signal.SIGIO, lambda *_: None)
        fcntl.fcntl(self._port, fcntl.F_SETOWN, os.getpid())
        flags = fcntl.fcntl(self._port, fcntl.F_GETFL)
        fcntl.fcntl(self._port, fcntl.F_SETFL, flags | os.O_ASYNC)

    def fileno(self) -> int:
        return self._woken

    def read(self) -> bytes | None:
        data = b""
        with suppress(BlockingIOError):
            os.read(self._woken, 4096)
        with suppress(OSError):
            while piece := os.read(self._port, 4096):
                data += piece
        return data
