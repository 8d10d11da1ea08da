"""A job that looks for its host: files, processes, network, clock and CPU of the machine that the lab runs on."""

import ctypes
import mmap
import os
import socket
import subprocess
import time
from pathlib import Path

from testbed.lab import Run, experiment
from testbed.linux.process import kernel

_RDTSC = b"\x0f\x31\x48\xc1\xe2\x20\x48\x09\xd0\xc3"  # rdtsc; shl rdx, 32; or rax, rdx; ret


@experiment()
def tries(run: Run, port: int = 0, secret: str = "") -> None:
    """Tries what a hostile job would try, as the lab's root, and reports what it got."""
    kinds = [line.split()[-1] for line in Path("/proc/filesystems").read_text().splitlines()]
    run.figure(
        "file systems of the host", [kind for kind in kinds if kind in ("hostfs", "humfs", "9p", "virtiofs", "fuse")]
    )
    run.figure("mounted from the host", _mounts("hostfs"))
    run.figure("modules", _succeeds("modprobe", "dummy_of_the_host"))
    run.figure("memory devices", [name for name in ("mem", "kmem", "port", "ubda") if Path("/dev", name).exists()])
    run.figure("written to the root disk", _opens_for_writing("/dev/xoffroot"))
    run.figure("connected to the host", _connects(port))
    run.figure("the secret is in", [str(path) for path in _places(secret)])
    run.figure("CPU", Path("/proc/cpuinfo").read_text())
    run.figure("environment", sorted(os.environ))


@experiment()
def counts(run: Run) -> None:
    """Reads the CPU's time stamp counter, which is the lab's clock, and what the kernel shows of itself."""
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(_RDTSC)
    read = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
    first = read()
    time.sleep(1)
    second = read()
    run.figure("counter", [first, second])
    run.claim("counted in a second of the lab", second - first, at_least=10**9, at_most=10**9 + 10**6)
    run.figure("command line", Path("/proc/cmdline").read_text())
    run.figure("memory", Path("/proc/meminfo").read_text())
    run.figure("listing", [(entry.name, entry.inode()) for entry in os.scandir("/usr/bin")])
    run.figure("boot", subprocess.run(["dmesg"], capture_output=True, text=True, check=False).stdout)


def _mounts(kind: str) -> bool:
    try:
        kernel.mount(kind, "/mnt")
        return True
    except OSError:
        return False


def _succeeds(*command: str) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _opens_for_writing(path: str) -> bool:
    try:
        with Path(path).open("r+b") as device:
            device.write(b"spoilt")
        return True
    except OSError:
        return False


def _connects(port: int) -> bool:
    for address in ("127.0.0.1", "10.0.2.2"):
        try:
            socket.create_connection((address, port), timeout=1).close()
            return True
        except OSError:
            continue
    return False


def _places(secret: str) -> list[Path]:
    """Yield the places that show a name of the host: environments, arguments and roots of processes, and mounts."""
    found = [path for path in Path("/proc").glob("[0-9]*/environ") if secret.encode() in path.read_bytes()]
    found += [path for path in Path("/proc").glob("[0-9]*/cmdline") if secret.encode() in path.read_bytes()]
    found += [path for path in (Path("/proc/mounts"), Path("/proc/cmdline")) if secret in path.read_text()]
    return found + [path for path in Path("/proc").glob(f"[0-9]*/root{secret}") if path.exists()]
