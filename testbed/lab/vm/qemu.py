"""QEMU processes: their command line, their monitor, and their end, which comes at the latest with this process."""

from __future__ import annotations

import functools
import os
import re
import socket
import subprocess
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from testbed.errors import XoffError
from testbed.lab.guest_main import COMMAND_PORT, OUT_PORT
from testbed.lab.host import cores, prerequisites
from testbed.lab.image.image import Image

MEMORY_MB = 2048
JOB_SPACE_MB = 32
PROGRAM = "qemu-system-x86_64"
PANIC = "Kernel panic"
_PROMPT = "(qemu) "
_POLL_S = 0.1
_ANSWERS_WITHIN_S = 300.0

# What makes the guest's instruction stream, and so its time, the same everywhere.
_KERNEL_LINE = (
    "console=ttyS0 quiet loglevel=4 panic=-1 nokaslr norandmaps random.trust_cpu=off "
    "tsc=reliable mitigations=off rcupdate.rcu_expedited=1 PYTHONHASHSEED=0 PYTHONDONTWRITEBYTECODE=1"
)


class QemuError(XoffError):
    """QEMU is missing, too old, or broke down."""

    exit_code = 3


@dataclass(frozen=True)
class Accelerator:
    """A way to execute the guest's instructions."""

    name: str
    options: tuple[str, ...]
    deterministic: bool
    job_space_mb: int = JOB_SPACE_MB
    """The size in MB of the memory by which a job, or the code for a snapshot, gets into the machine."""


# The instruction clock: one instruction is one nanosecond, and idle time is skipped. The CPU is an old one: all that
# newer ones have makes each access to memory, or each change of the process, slower to emulate,
# and their copying by octets, each of which would be an instruction, makes the guest slower. It has no random numbers
# of its own either. Recording, to nowhere, makes QEMU's main thread wait for the guest's: without, it may skip idle
# time a little too far when the host takes the core from the guest's thread at an unlucky moment (decision 0007).
ICOUNT = Accelerator(
    "tcg-icount",
    ("-accel", "tcg,tb-size=256", "-icount", "shift=0,sleep=off,rr=record,rrfile=/dev/null",
     "-cpu", "Nehalem", "-seed", "1",
     "-rtc", "base=2025-01-01T00:00:00,clock=vm"),
    deterministic=True,
)  # fmt: skip
TCG = Accelerator("tcg", ("-accel", "tcg,tb-size=256", "-cpu", "max"), deterministic=False)
KVM = Accelerator("kvm", ("-accel", "kvm", "-cpu", "host"), deterministic=False)


def program() -> str:
    """Return the path of a QEMU that is new enough; QemuError if there is none."""
    path = prerequisites.find_program(PROGRAM)
    oldest = prerequisites.table()["machine"]["qemu"]["oldest"]
    if path is None:
        raise QemuError(
            f"{PROGRAM} is missing (it runs the lab); install the package qemu-system-x86, version {oldest} or newer"
        )
    if _numbers(version()) < _numbers(oldest):
        raise QemuError(f"{path} is version {version()}, and the lab needs {oldest} or newer; install a newer QEMU")
    return path


def version() -> str:
    """Return the version of the installed QEMU, as it prints it; empty if there is none."""
    path = prerequisites.find_program(PROGRAM)
    return "" if path is None else _ask_version(path)


@functools.cache
def _ask_version(path: str) -> str:
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    except OSError as error:
        raise QemuError(f"{path} cannot be executed: {error.strerror}") from error
    found = re.search(r"version (\S+)(?: \(([^)]*)\))?", done.stdout)
    if not found:
        raise QemuError(f"{path} does not print its version: {(done.stdout + done.stderr).strip()[:200]}")
    return found[1]


@functools.cache
def _sandbox(path: str) -> tuple[str, ...]:
    """Return the options that take system calls from QEMU that it does not need, if it was built with that."""
    options = ("-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny")
    done = subprocess.run([path, *options, "-version"], capture_output=True, check=False)
    return () if done.returncode else options


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:2])


def arguments(image: Image, accelerator: Accelerator, memory: Path, fresh: bool) -> list[str]:
    """Return QEMU's command line; the guest sees the same whether it boots or wakes from a snapshot.

    `fresh`: this machine writes the snapshot, so its memory is the file `memory` itself. Otherwise it
    sees a private copy that the file only backs. The job's memory is a file too: put in place before
    the machine starts, it is there at once, while any other device would deliver it byte by byte.
    Names without a directory are in the machine's folder, where QEMU is started.
    """
    share = "on" if fresh else "off"
    path = program()
    return [
        path, *_sandbox(path), "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-S",
        *accelerator.options,
        "-machine", f"{prerequisites.table()['machine']['qemu']['machine']},vmport=off,memory-backend=ram",
        "-m", str(MEMORY_MB), "-nic", "none",
        "-object", f"memory-backend-file,id=ram,size={MEMORY_MB}M,mem-path={_escaped(memory)},share={share}",
        "-kernel", str(image.vmlinuz), "-initrd", str(image.initrd), "-append", _KERNEL_LINE,
        "-chardev", "file,id=console,path=console", "-serial", "chardev:console",
        # Handling output in the CPU's own thread, not in another that the host wakes some time.
        "-device", "virtio-serial-pci,ioeventfd=off",
        "-chardev", "file,id=out,path=out",
        "-device", f"virtserialport,chardev=out,name={OUT_PORT}",
        "-chardev", "socket,id=commands,path=commands,server=on,wait=off",
        "-device", f"virtserialport,chardev=commands,name={COMMAND_PORT}",
        "-object", f"memory-backend-file,id=job,size={accelerator.job_space_mb}M,mem-path=job,share={share}",
        "-device", "ivshmem-plain,memdev=job,master=on",
        "-device", "pvpanic", "-action", "panic=pause" if fresh else "panic=exit-failure",
        "-monitor", "unix:monitor,server=on,wait=off",
    ]  # fmt: skip


def _escaped(path: Path) -> str:
    """Return a path as the value of a QEMU option, in which a comma begins the next one."""
    return str(path).replace(",", ",,")


class Machine:
    """A running QEMU and its monitor. Use it in a `with` block: leaving it ends the process."""

    def __init__(self, argv: Sequence[str], folder: Path, own: Collection[int] | None, *, batch: bool = False) -> None:
        """Start QEMU on the cores `own`; with `batch` its threads wait for each other to pause."""
        self.folder = folder
        self._has_drive = False
        with (folder / "qemu.log").open("wb") as log, cores.pinned(own):
            # setpriv: should we be killed, the kernel kills QEMU. A session of its own: Ctrl-C is
            # handled here, and QEMU is ended by its monitor.
            scheduled = ["chrt", "--batch", "0"] if batch else []
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *scheduled, *argv],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd=folder, umask=0o077,
            )  # fmt: skip
        try:
            self._monitor = self.connect("monitor")
            self._monitor.settimeout(_ANSWERS_WITHIN_S)
            self._until_prompt()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Machine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End QEMU now; the guest has no disk that could suffer."""
        self.process.kill()
        self.process.wait()
        with suppress(AttributeError, OSError):
            self._monitor.close()

    def command(self, line: str) -> str:
        """Give QEMU's monitor a command and return its output."""
        try:
            self._monitor.sendall(line.encode() + b"\n")
        except OSError as error:
            raise self.broken() from error
        return self._until_prompt()

    def _until_prompt(self) -> str:
        """Return the monitor's output behind the line that it echoes, or behind its greeting."""
        received = b""
        while not received.endswith(_PROMPT.encode()):
            try:
                data = self._monitor.recv(65536)
            except TimeoutError:
                self.process.kill()
                raise QemuError(f"QEMU did not answer within {_ANSWERS_WITHIN_S:g} s{self.last_words()}") from None
            except OSError as error:
                raise self.broken() from error
            if not data:
                raise self.broken()
            received += data
        return received.decode(errors="replace").partition("\n")[2].removesuffix(_PROMPT).replace("\r", "").strip()

    def status(self) -> str:
        """Return the guest's status by QEMU: running, or the reason for which it does not run."""
        return self.command("info status").removeprefix("VM status: ")

    def wait_for_stop(self, seconds: float) -> None:
        """Wait until the guest has stopped itself."""
        deadline = time.monotonic() + seconds
        while (status := self.status()) != "paused (guest-panicked)":
            if "internal-error" in status:
                raise QemuError(f"QEMU could not run the guest{self.last_words()}")
            if time.monotonic() > deadline:
                raise QemuError(f"the lab's machine did not get ready within {seconds:g} s{self.last_words()}")
            time.sleep(_POLL_S)

    def save(self, state: Path, name: str) -> None:
        """Write everything but the memory, which is a file already, under `name` to the file `state` in our folder.

        That is a new file, or the one that was loaded; then the name is one that it does not have yet. QEMU would
        delete the other state of that name, and from 10.1 on it aborts when it deletes one in record mode.
        """
        if not self._has_drive:
            self._create(state)
        self._snapshot("savevm", state, name)

    def _create(self, state: Path) -> None:
        tool = prerequisites.find_program("qemu-img")
        if tool is None:
            raise QemuError("qemu-img is missing (it makes the file for the snapshot); install the package qemu-utils")
        command = [tool, "create", "-q", "-f", "qcow2", str(state), "1M"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise QemuError(f"{tool} could not make {state}: {done.stderr.strip()}")

    def job_memory(self) -> tuple[int, int]:
        """Return the number of the PCI device with the job's memory, and the address that the firmware gave it."""
        told = self.command("info pci")
        found = re.search(
            r"device +(\d+), function 0:\s+[^:]+: PCI device 1af4:1110.*?BAR2: .*? at 0x([0-9a-f]+)", told, re.S
        )
        if found is None:
            raise QemuError(f"QEMU does not show where the job's memory is: {told.strip()[:200]}")
        return int(found[1]), int(found[2], 16)

    def place_job_memory(self, device: int, address: int) -> None:
        """Put the job's memory where it was when a state was saved, as the firmware would.

        Only a machine that writes snapshots needs it: QEMU loads no state with shared memory in another place, and the
        reset with which loading begins removes the memory's mapping, but not its address.
        """
        config = 1 << 31 | device << 11
        for register, value in ((0x18, address & 0xFFFF_FFFF), (0x1C, address >> 32), (0x04, 2)):
            self.command(f"o/w 0xcf8 {config | register:#x}")
            self.command(f"o/w 0xcfc {value:#x}")

    def load(self, state: Path, name: str) -> None:
        """Load a state that `save` has written. QEMU writes to the file a little, so it must be our own copy."""
        self._snapshot("loadvm", state, name)

    def _snapshot(self, command: str, state: Path, name: str) -> None:
        # These work in QEMU's main thread, while the commands of its other monitor for the same use threads and queues
        # that stand still in record mode when the machine is stopped. A name without a directory is in our folder.
        prepare = (
            "migrate_set_capability x-ignore-shared on",
            f"drive_add -n 0 driver=qcow2,node-name=state,file.driver=file,file.filename={state.name}",
        )
        for line in (*(() if self._has_drive else prepare), f"{command} {name}"):
            if said := self.command(line):
                raise QemuError(f"QEMU could not {command} the lab's state: {said}{self.last_words()}")
        self._has_drive = True

    def broken(self) -> QemuError:
        return QemuError(f"QEMU ended with {self.process.wait()}{self.last_words()}")

    def last_words(self) -> str:
        """Return the last lines of QEMU and of the guest's console, to go behind a message."""
        text = ""
        for name in ("qemu.log", "console"):
            with suppress(OSError):
                text += (self.folder / name).read_text(errors="replace")
        lines = [line for line in text.splitlines() if line.strip()]
        fatal = [number for number, line in enumerate(lines) if PANIC in line]
        lines = lines[fatal[0] :][:6] if fatal else lines[-12:]
        return "; its last output:\n  " + "\n  ".join(lines) if lines else ""

    def connect(self, name: str) -> socket.socket:
        """Connect to one of the machine's sockets, as soon as QEMU has made it."""
        deadline = time.monotonic() + 20
        here = os.open(self.folder, os.O_PATH)  # the name of a socket may not be long, a folder's may
        try:
            while True:
                connection = socket.socket(socket.AF_UNIX)
                try:
                    connection.connect(f"/proc/self/fd/{here}/{name}")
                    return connection
                except OSError:
                    connection.close()
                if self.process.poll() is not None or time.monotonic() > deadline:
                    self.process.kill()
                    raise self.broken()
                time.sleep(0.005)
        finally:
            os.close(here)
