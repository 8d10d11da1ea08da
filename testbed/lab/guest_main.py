"""The lab's side of a run. Process 1 calls `main` when it has unpacked the code.

In a virtual machine all of it is imported, and the machine stops: a snapshot is taken there (see `snapshot.py`). Every
job wakes from it and finds all modules imported, which was most of what a short job cost. User-Mode Linux has the job
already, and imports what that needs.
"""

from __future__ import annotations

import fcntl
import gc
import hashlib
import importlib
import os
import pkgutil
import signal
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import testbed
from testbed import subject
from testbed.experiment.demand import Board
from testbed.experiment.output import Record
from testbed.lab.job import job_stack
from testbed.lab.job.job import DEBIAN, Job
from testbed.lab.job.supervisor import Commands, Supervisor, Wait
from testbed.linux.parts_device import PartsDevice
from testbed.linux.process import kernel

_HOME = Path("/xoff")
_UML_DEVICE = Path("/dev/xoff")
OUT_PORT = "xoff.out"
COMMAND_PORT = "xoff.commands"
_EARLIEST_NS = 20 * 10**9
_KERNEL_PRIORITIES = {"rcu_": 60, "ksoftirqd": 46}
"""The real-time priorities, by the beginning of a thread's name. Agents have 50, speakers 30."""
_PACKAGES = ("agent", "experiment", "frames", "linux", "net", "switch")
_FIXED_CPU_FEATURES = {
    "OPENBLAS_CORETYPE": "Prescott",
    "OPENBLAS_NUM_THREADS": "1",
    "NPY_DISABLE_CPU_FEATURES": "AVX F16C FMA3 AVX2 AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL "
    "AVX512_SPR X86_V3 X86_V4",
}
"""The features that numpy may not use: the last digits of sums differ with them. No version of numpy has all."""
_NOT_IN_LABS = ("testbed.linux.port_program.build",)
"""Modules and packages for the host alone, some of whose imports are not in the image."""


def main(checkpoint_ns: int) -> None:
    """Prepare the lab and run the job; a virtual machine stops in between and resumes when it has one."""
    gc.disable()  # importing makes many objects and no garbage
    importlib.import_module(
        "testbed.lab.job.run_job"
    )  # with all that it takes to begin any job: no job's time pays for it
    gc.freeze()  # what is here stays; to look at it would copy its memory into each process that does
    gc.enable()
    _raise_kernel_threads()
    _disable_fair_server()
    _name_python()
    if _UML_DEVICE.exists():
        kernel.in_lab = True
        _fix_cpu_features()
        try:
            job = _job()
        except FileNotFoundError:  # a lab that is there to configure packages has none
            _configure_packages()
            return
        device = _take_device(_UML_DEVICE, os.O_RDWR | os.O_NONBLOCK)
        commands = UmlCommands(device)
        _do_job(job, checkpoint_ns, device, commands, commands.wait)
        return
    _install_packages()
    _import_packages()
    gc.collect()
    gc.freeze()  # what is here now stays: later collections need not look at it
    os.sync()
    # guest/init.py, of which this process is a fork; it has the code to stop the machine and to find jobs
    process_1 = sys.modules["__main__"]
    checkpoint_ns = time.monotonic_ns()
    process_1.stop_the_machine()
    process_1.unpack_job()
    out = _take_device(_port(OUT_PORT), os.O_WRONLY)
    _do_job(_job(), checkpoint_ns, out, PortCommands(_take_device(_port(COMMAND_PORT), os.O_RDONLY | os.O_NONBLOCK)))


def _job() -> Job:
    return Job.decode((_HOME / "job.json").read_text())


def _configure_packages() -> None:
    """Configure the Debian packages that are unpacked in the root, and write the changes to the user's machine."""
    from testbed.lab.job import debian

    with _UML_DEVICE.open("wb") as device:
        debian.configure_and_send_changes(device)


def _install_packages() -> None:
    """Put unpacked Debian packages that came with the code into the root, and configure them."""
    from testbed.lab.job import debian

    if (folder := _HOME / DEBIAN).is_dir():
        debian.move_into_root(folder)
        try:
            debian.configure()
        except debian.ConfigureError as error:
            print(f"xoff-init: {error}", flush=True)  # the snapshot is not taken then, and the user gets to read it


def _do_job(job: Job, checkpoint_ns: int, out: int, commands: Commands, wait: Wait | None = None) -> None:
    """Do the job; `out` and `commands` lead to the user's machine."""
    job_stack.prepare()
    board = Board()  # before the seed: the kernel draws a random number for its memory
    if job.reproducible:
        part = f" part {PartsDevice.own_number()}" if job.partitions > 1 else ""
        kernel.reseed_random(hashlib.sha256(f"xoff seed {job.seed}{part}".encode()).digest())
        start_ns = _wait_for_whole_second(checkpoint_ns)
    else:
        start_ns = time.monotonic_ns()
    supervisor = Supervisor(job, _HOME / "code", _HOME / "work", start_ns, partial(_write, out), board=board)
    supervisor.run(commands, wait)


def _import_packages() -> None:
    """Import what jobs need, for they are forks of this process."""
    for package in _PACKAGES:
        of_package = f"testbed.{package.replace('/', '.')}."
        for module in pkgutil.walk_packages([f"{testbed.__path__[0]}/{package}"], of_package):
            if not module.name.startswith(_NOT_IN_LABS):
                importlib.import_module(module.name)
    for one in subject.own():
        one.load("agent")


def _raise_kernel_threads() -> None:
    """Give the kernel's own threads a higher priority than all of Xoff's processes.

    A change of a link waits for RCU's threads and meanwhile holds the lock that an agent needs to stop a queue.
    And what interrupts leave of frames to be forwarded is done by ksoftirqd: frames on a
    wire must not wait for a DCBX speaker.
    """
    for name in Path("/proc").glob("[0-9]*/comm"):
        for prefix, priority in _KERNEL_PRIORITIES.items():
            if name.read_text().startswith(prefix):
                with suppress(OSError):  # the scheduling of some cannot be changed
                    os.sched_setscheduler(int(name.parent.name), os.SCHED_FIFO, os.sched_param(priority))


def _disable_fair_server() -> None:
    """Switch off the kernel's fair server, which lets ordinary processes that waited long go before real-time ones."""
    for runtime in Path("/sys/kernel/debug/sched/fair_server").glob("cpu*/runtime"):
        runtime.write_text("0")


def _name_python() -> None:
    """Let scripts and shebang lines call Python by the name that it has on machines with Debian's python-is-python3."""
    with suppress(FileExistsError):
        Path("/usr/bin/python").symlink_to("python3")


def _fix_cpu_features() -> None:
    """Keep every program's C library, and numpy, from choosing functions by what this machine's CPU has."""
    os.environ.update(_FIXED_CPU_FEATURES)
    for word in Path("/proc/cmdline").read_text().split():
        name, _, value = word.partition("=")
        if name == "GLIBC_TUNABLES":
            os.environ[name] = value


def _wait_for_whole_second(checkpoint_ns: int) -> int:
    """Start on a whole second some way after the snapshot.

    How long unpacking and importing takes depends on the code's size; the job's clock must not. Open vSwitch 3.1
    counts the CPU's cores at the earliest 10 s after the machine's start, and handles no frame before.
    """
    start_ns = max(_EARLIEST_NS, (checkpoint_ns // 10**9 + 5) * 10**9)
    time.sleep((start_ns - time.monotonic_ns()) / 1e9)
    return start_ns


def _take_device(path: Path, flags: int) -> int:
    """Open a device and remove its name: the job is root too, but has no capability to make the name anew."""
    descriptor = os.open(path, flags)
    path.unlink()
    return descriptor


def _port(name: str) -> Path:
    for entry in Path("/sys/class/virtio-ports").iterdir():
        if (entry / "name").read_text().strip() == name:
            return Path("/dev", entry.name)
    raise FileNotFoundError(f"the virtual machine has no port {name}")


def _write(port: int, *records: Record) -> None:
    data = memoryview(b"".join(record.encode() for record in records))
    while data:
        data = data[os.write(port, data) :]


class PortCommands:
    """The commands from a virtio port.

    An unconnected port polls as hung up for ever, so it cannot be watched itself. The kernel raises
    SIGIO when data arrives; its wake-up pipe is watched instead.
    """

    def __init__(self, port: int) -> None:
        self._port = port
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


class UmlCommands:
    """The commands from a device of User-Mode Linux."""

    def __init__(self, device: int) -> None:
        self._device = device

    def fileno(self) -> int:
        return self._device

    def read(self) -> bytes | None:
        try:
            return os.read(self._device, 65536) or None
        except BlockingIOError:
            return b""

    def wait(self) -> bytes | None:
        """Wait for a command. In a read without O_NONBLOCK User-Mode Linux itself waits, and with it all of the lab."""
        os.set_blocking(self._device, True)
        try:
            return os.read(self._device, 65536) or None
        finally:
            os.set_blocking(self._device, False)
