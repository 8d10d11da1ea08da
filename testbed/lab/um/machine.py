"""Processes of User-Mode Linux: their command line, their commands and output, and their end.

Its disks, its output and its commands are file descriptors that it inherits. It confines itself: before it boots it
becomes an ordinary user in namespaces of its own (`linux/xoff_confine.c`), for which a guard outside of them waits; and
after it has booted it forbids itself every system call that opens a file, makes a connection or a process, or executes
a program (`linux/xoff_user.c`). What the host refused of this is said on its console.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Collection, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

from testbed.experiment.output import Record, RecordKind
from testbed.lab.host import cores, process_tree
from testbed.lab.um import spinning

MEMORY_MB = 4096
"""The lab's memory in MB, unless a job may have more than `JOB_MB`; that of the host is used only as far as the lab
touches it, and 1.6 % of it at once."""
JOB_MB = 3400
"""The memory of the largest job for which `MEMORY_MB` is enough."""
KERNEL_MB = 1536
"""The part of `MEMORY_MB` for the kernel itself. Processes have the rest, and then what is free of this part."""
_KERNELS_PART = 3
"""The kernel gets one MB more for each so many that the job may have beyond `JOB_MB`."""
_STEP_MB = 4
"""The kernel's part is a multiple of its largest page block."""
CONSOLE_MB = 64
"""The most that the console may have, in MB; of a lab that runs well it has some lines."""
WRITTEN_MB = 4096
"""The most that a lab without a job writes, in MB, as Debian packages that it has configured."""
_RECORDS = 1.25
"""The most octets that a lab writes for each of its job, with heads of records and samples of fidelity."""
SYSCALL_NS = 500
"""The lab time in ns that each system call of a process takes; all other work of the CPU takes none."""
EXCESS = "the lab wrote more than its job may print and leave, and was ended"
EXCESS_OF_CONSOLE = f"the lab wrote more than {CONSOLE_MB} MB to its console, and was ended"
_USUAL = re.compile(r"xoff-init: \[[0-9.]+\] cannot mount devtmpfs on /dev: Device or resource busy")
"""A line that process 1 prints in each lab, as its root has /dev already: it is the reason of no end."""
PANIC = "Kernel panic"
CONFINED = "confined: "
"""The beginning of those lines of the console that name what the kernel has given up of its host."""
_GUARD = "xoff-guard"
_END_S = 10.0
_LOOKS, _LOOK_S = 20, 0.05
_WORDS = 1 << 20
"""The octets at the end of the console among which the last words are."""
_ASLEEP, _RUNNING, _STOPPED = "S", "R", "T"
_START_NS = 1735689600 * 10**9
"""2025-01-01, as in the virtual machine."""

# The C library chooses among versions of its functions by what the CPU has, and the last digits of what these return
# differ. So what not every x86-64 CPU has is switched off; the names are those of Debian 12's C library.
_NOT_EVERYWHERE = ",".join(
    f"-{feature}"
    for feature in (
        "AVX", "AVX2", "AVX512F", "AVX512VL", "AVX512BW", "AVX512DQ", "AVX512CD", "AVX512ER", "BMI1", "BMI2", "ERMS",
        "FMA", "FMA4", "FSRM", "LZCNT", "MOVBE", "POPCNT", "RTM", "SSE4_1", "SSE4_2", "SSSE3", "XSAVE", "XSAVEC",
    )
)  # fmt: skip


def command_line(job_mb: int = JOB_MB) -> list[str]:
    """Return the kernel's command line for a job that may have so much memory.

    It has no path: the lab can read it, and it must be the same everywhere.
    """
    more_mb = max(0, job_mb - JOB_MB)
    kernel_mb = more_mb // _KERNELS_PART // _STEP_MB * _STEP_MB
    return [
        f"mem={MEMORY_MB + more_mb + kernel_mb}M", f"kernelcore={KERNEL_MB + kernel_mb}M",
        "root=/dev/xoffroot", "rootfstype=erofs", "ro", "init=/init",
        "seccomp=on", "time-travel=inf-cpu", f"time-travel-start={_START_NS}", f"um-syscall-ns={SYSCALL_NS}",
        "norandmaps", "rcupdate.rcu_expedited=1", "panic=-1", "quiet", "loglevel=4", "con=null", "con0=null,fd:1",
        "umid=lab", "ib_core.netns_mode=0", "PYTHONHASHSEED=0", "PYTHONDONTWRITEBYTECODE=1",
        f"GLIBC_TUNABLES=glibc.cpu.hwcaps={_NOT_EVERYWHERE}",
    ]  # fmt: skip


class Machine:
    """A running User-Mode Linux."""

    def __init__(
        self,
        kernel: Path,
        disks: Mapping[str, Path],
        folder: Path,
        own: Collection[int] | None = None,
        *,
        job_mb: int = JOB_MB,
        written_mb: int = WRITTEN_MB,
        part: tuple[int, int] | None = None,
    ) -> None:
        """Start the kernel with disks, by the names of the variables that its driver reads, on the cores `own`, for a
        job that may have so much memory, and print and leave so much. `part` is the descriptor of memory that it shares
        with the kernels of other parts of the network, and its own number among them.
        """
        self.stream = folder / "out"
        self._look: spinning.Look | None = None
        self._seen_s: float | None = None
        self._excess = ""
        self._console = folder / "console"
        reading, self._commands = os.pipe()
        with ExitStack() as ours:
            ours.callback(os.close, reading)
            descriptors = {"XOFF_COMMANDS": reading}
            for name, path in disks.items():
                descriptors[name] = ours.enter_context(path.open("rb")).fileno()
            descriptors["XOFF_OUT"] = ours.enter_context(self.stream.open("ab")).fileno()
            console = ours.enter_context(self._console.open("ab"))
            # The kernel forbids itself to have a larger file (`linux/xoff_user.c`); the host ends it if it goes on.
            numbers = {"XOFF_LARGEST": largest(written_mb)}
            if part is not None:
                descriptors["XOFF_CABLES"], numbers["XOFF_PART"] = part
            ours.enter_context(cores.pinned(own))
            # Should we be killed, the host kills it, and its processes with it. A session of its own: Ctrl-C is ours.
            self.process = subprocess.Popen(
                [str(kernel), *command_line(job_mb)],
                stdin=subprocess.DEVNULL, stdout=console, stderr=console, start_new_session=True, cwd=folder,
                pass_fds=tuple(descriptors.values()),
                env={"PATH": "/", **{name: str(value) for name, value in (descriptors | numbers).items()}},
            )  # fmt: skip

    def lost(self) -> str | None:
        """Return the reason for which nothing will come any more, or None while the lab runs."""
        if self.process.poll() is None and self._console.stat().st_size > CONSOLE_MB << 20:
            self._end()
            self._excess = EXCESS_OF_CONSOLE
        if self.process.poll() is None:
            return None
        if self._excess:
            return self._excess
        if self.process.returncode == -signal.SIGXFSZ:
            return EXCESS
        text = self.last_words()
        what = "the lab's kernel panicked" if PANIC in text else "the lab's kernel ended before the job did"
        return f"{what}{text}"

    def send(self, record: Record) -> None:
        """Send a command; the one that ends the job also interrupts a lab in which a process never waits."""
        with suppress(OSError):
            os.write(self._commands, record.encode())
        if record.kind is RecordKind.ABORT:
            self._interrupt_endless_loop()

    def cpu_s(self) -> float | None:
        """Return the CPU time in s of the kernel's process; None if the host does not show it."""
        try:
            return int(Path(f"/proc/{self.kernel}/schedstat").read_text().split()[0]) / 1e9
        except (OSError, ValueError, IndexError):
            return None

    def used_cpu_s(self) -> float | None:
        """Return the CPU time in s of the lab's processes; None if the host does not show it."""
        return process_tree.cpu_s(self.process.pid)

    def spins(self) -> str | None:
        """Return the command line of a program that has computed since the last call of this while the kernel did
        nothing, or nothing if that is not known; None if there is no such program."""
        before, self._look = self._look, spinning.look(self.kernel)
        if before is None or self._look is None or not self._look.goes_on(before):
            return None
        return spinning.command(before.running)

    def stopped(self) -> str | None:
        """Return what has been stopped by a signal: the kernel, or a process of the lab while the kernel did nothing
        since the last call of this; None if nothing is.
        """
        kernel = self.kernel
        if _state(kernel).startswith(_STOPPED):
            return f"the lab's kernel (process {kernel}) is stopped"
        before, self._seen_s = self._seen_s, self.cpu_s()
        if before is None or before != self._seen_s:
            return None
        halted = (pid for pid in _children(kernel) if _state(pid).startswith(_STOPPED))
        return next((f"process {pid} of the lab is stopped" for pid in halted), None)

    def close(self) -> None:
        """End it now, with all its processes."""
        self._end()
        with suppress(OSError):
            os.close(self._commands)

    def _end(self) -> None:
        if self.kernel != self.process.pid:
            self.process.send_signal(signal.SIGCONT)  # one that is stopped would not hear of its end
            # The guard has ended when the last process of the lab has.
            self.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(_END_S)
        self.process.kill()
        self.process.wait()

    @property
    def kernel(self) -> int:
        """The process of the kernel: the one that was started, or that one's only child if it is the guard."""
        pid = self.process.pid
        with suppress(OSError):
            if Path(f"/proc/{pid}/comm").read_text().strip() == _GUARD:
                return next(iter(_children(pid)), pid)
        return pid

    def _interrupt_endless_loop(self) -> None:
        """Give the kernel its turn if a process has made no system call for a while.

        In all other cases the kernel reads the command by itself. A process that waits for the kernel in stub_call(),
        where no signal may reach it, is not running. One that runs and has blocked the signal is hostile: its end is
        the lab's.
        """
        for _ in range(_LOOKS):
            before = _state(self.kernel)
            time.sleep(_LOOK_S)
            if before.startswith(_ASLEEP) and before == _state(self.kernel):
                for pid in _children(self.kernel):
                    if _state(pid).startswith(_RUNNING):
                        with suppress(OSError):
                            os.kill(pid, signal.SIGKILL if _blocks(pid, signal.SIGALRM) else signal.SIGALRM)
                return

    def last_words(self) -> str:
        """Return the last lines of the kernel and of process 1 on the console, to go behind a message."""
        try:
            with self._console.open("rb") as console:
                console.seek(-min(_WORDS, console.seek(0, os.SEEK_END)), os.SEEK_END)
                lines = [line for line in console.read().decode(errors="replace").splitlines() if line.strip()]
        except OSError:
            return ""
        lines = [line for line in lines if not line.startswith(CONFINED) and not _USUAL.fullmatch(line)]
        fatal = [number for number, line in enumerate(lines) if PANIC in line]
        lines = lines[fatal[0] :][:6] if fatal else lines[-12:]
        return "; its last output:\n  " + "\n  ".join(lines) if lines else ""


def largest(written_mb: int) -> int:
    """Return the octets that a lab's stream and its console may have, if its job prints and leaves so much."""
    return int(written_mb * _RECORDS) + CONSOLE_MB << 20


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _status(pid: int) -> dict[str, str]:
    """Return what the host shows of a process; empty if it has ended."""
    try:
        return dict(line.partition(":")[::2] for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    except OSError:
        return {}


def _blocks(pid: int, number: signal.Signals) -> bool:
    """Return True if a process has blocked a signal in two looks that are some time apart."""
    for _ in range(2):
        if not int(_status(pid).get("SigBlk", "0"), 16) >> number - 1 & 1:
            return False
        time.sleep(_LOOK_S)
    return True


def _state(pid: int) -> str:
    """Return the state of a process with the number of times that it has gone to sleep; empty if it has ended."""
    if not (lines := _status(pid)):
        return ""
    return f"{lines['State'].strip()[:1]} {lines.get('voluntary_ctxt_switches', '').strip()}"


def boot_alone(kernel: Path, disks: Mapping[str, Path], folder: Path, within_s: float) -> str | None:
    """Boot a lab without commands, which ends by itself and leaves its output in the folder's `out`.

    Return None, or the reason why it failed as the end of a message.
    """
    machine = Machine(kernel, disks, folder)
    try:
        code = machine.process.wait(within_s)
    except subprocess.TimeoutExpired:
        code = None
    finally:
        machine.close()
    if code == 0 and machine.stream.stat().st_size:
        return None
    late = f" within {within_s:g} s; is this machine very busy?" if code is None else ""
    return f"{late}{machine.last_words()}"
