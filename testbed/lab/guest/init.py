#!/usr/bin/python3
"""Process 1 of the lab's virtual machine.

Part of the image, so it knows as little as possible: it prepares the machine, imports what is slow
to import, and stops the virtual machine at one exact instruction, where the snapshot is taken. Whoever
loads that snapshot has put a job into the shared-memory device; process 1 unpacks it and forks the
supervisor that comes with it.
"""

import ctypes
import gc
import glob
import importlib
import io
import json
import mmap
import os
import subprocess
import sys
import tarfile
import time
import traceback

JOB_DEVICE = ("0x1af4", "0x1110")  # ivshmem: vendor, device
PVPANIC = 0x505
libc = ctypes.CDLL(None, use_errno=True)


def say(text: str) -> None:
    print(f"xoff-init: [{time.monotonic():.3f}] {text}", flush=True)


def mount(kind: str, place: str) -> None:
    os.makedirs(place, exist_ok=True)
    if libc.mount(kind.encode(), place.encode(), kind.encode(), 0, None):
        say(f"cannot mount {kind} on {place}: {os.strerror(ctypes.get_errno())}")


def prepare() -> None:
    for kind, place in (
        ("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev"), ("devpts", "/dev/pts"),
        ("tmpfs", "/dev/shm"), ("tmpfs", "/run"), ("tmpfs", "/tmp"), ("cgroup2", "/sys/fs/cgroup"),
        ("bpf", "/sys/fs/bpf"), ("tracefs", "/sys/kernel/tracing"),
    ):  # fmt: skip
        mount(kind, place)
    os.environ.clear()
    os.environ.update(
        PATH="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        HOME="/root", LANG="C.UTF-8", TERM="linux", PYTHONDONTWRITEBYTECODE="1", PYTHONWARNINGS="ignore",
    )  # fmt: skip
    os.chdir("/")
    with open("/sys/fs/cgroup/cgroup.subtree_control", "w") as control:
        control.write("+memory +pids")
    with open("/proc/sys/kernel/hostname", "w") as name:
        name.write("lab")
    lab = json.load(open("/xoff/lab.json"))
    for module in [*lab["modules"], "pvpanic-mmio"]:
        done = subprocess.run(["modprobe", module], capture_output=True, text=True)
        if done.returncode:
            say(f"modprobe {module}: {done.stderr.strip()}")
    subprocess.run(["ip", "link", "set", "lo", "up"])
    for module in lab["preload"]:
        importlib.import_module(module)


def stop_the_machine() -> None:
    """Write the panic device's port: QEMU stops the virtual CPU right after this instruction."""
    code = b"\x66\xba" + PVPANIC.to_bytes(2, "little") + b"\xb0\x01\xee\xc3"  # mov dx; mov al,1; out; ret
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    if libc.ioperm(PVPANIC, 1, 1):
        say("cannot reach the panic device")
    ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
    libc.ioperm(PVPANIC, 1, 0)


def unpack_job() -> None:
    for device in glob.glob("/sys/bus/pci/devices/*"):
        ids = tuple(open(f"{device}/{part}").read().strip() for part in ("vendor", "device"))
        if ids == JOB_DEVICE:
            break
    else:
        raise RuntimeError("no job device")
    open(f"{device}/enable", "w").write("1")
    with open(f"{device}/resource2", "r+b") as memory:
        shared = mmap.mmap(memory.fileno(), 0)
        length = int.from_bytes(shared[:8], "little")
        content = shared[8 : 8 + length]
        shared.close()
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        archive.extractall("/xoff")


def main() -> None:
    prepare()
    gc.collect()
    gc.freeze()  # what is here now stays: later collections need not look at it
    os.sync()
    checkpoint = time.monotonic_ns()
    stop_the_machine()
    unpack_job()
    sys.path.insert(0, "/xoff/code")
    supervisor = os.fork()
    if supervisor == 0:
        try:
            from testbed.lab import inside

            inside.main(checkpoint)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(0)
    while os.wait()[0] != supervisor:
        pass  # orphans of the job
    libc.reboot(0x4321FEDC)  # power off


if __name__ == "__main__":
    try:
        main()
    except BaseException:
        traceback.print_exc()
    time.sleep(5)  # let the console drain before the kernel reports that process 1 is gone
