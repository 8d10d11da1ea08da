#!/usr/bin/python3
"""Process 1 of the lab, in a virtual machine or under User-Mode Linux.

Part of the image, so it depends on as little as possible. In a virtual machine it prepares the machine, imports what is
slow to import, and stops the virtual machine at one exact instruction, where the snapshot is taken. Whoever loads that
snapshot has put a job into the shared-memory device; process 1 unpacks it and forks the supervisor that comes with it.

User-Mode Linux has no snapshot. Its root file system is a read-only disk; Xoff's code, compiled, is on a second one and
the job on a third. Process 1 lays the first two and a file system in memory over each other, unpacks the job and forks
the supervisor.
"""

import ctypes
import fcntl
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
UML_DEVICE, UML_CODE, UML_JOB = "/dev/xoff", "/dev/xoffcode", "/dev/xoffjob"
UML_SEAL = 0x7801  # _IO('x', 1)
MS_RDONLY, MS_MOVE = 1, 8192
POWER_OFF = 0x4321FEDC
libc = ctypes.CDLL(None, use_errno=True)


def say(text: str) -> None:
    print(f"xoff-init: [{time.monotonic():.3f}] {text}", flush=True)


def mount(kind: str, place: str, source: str = "", flags: int = 0, options: str = "") -> None:
    os.makedirs(place, exist_ok=True)
    if libc.mount((source or kind).encode(), place.encode(), kind.encode(), flags, options.encode()):
        say(f"cannot mount {kind} on {place}: {os.strerror(ctypes.get_errno())}")


def mount_overlay() -> None:
    """Make a root of the image, Xoff's code over it, and memory on top to write to."""
    mount("tmpfs", "/run")
    layers = "/"
    if os.path.exists(UML_CODE):
        mount("erofs", "/run/code", UML_CODE, MS_RDONLY)
        layers = "/run/code:/"
    for folder in ("/run/written", "/run/work"):
        os.mkdir(folder)
    mount("overlay", "/run/root", "overlay", 0, f"lowerdir={layers},upperdir=/run/written,workdir=/run/work")
    mount("devtmpfs", "/run/root/dev")
    # Over the root of the mount namespace: a process that enters a namespace, as mnexec does, starts at that root.
    os.chdir("/run/root")
    mount("none", "/", ".", MS_MOVE)
    os.chroot(".")
    os.chdir("/")


def prepare() -> None:
    for kind, place in (
        ("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev"), ("devpts", "/dev/pts"),
        ("tmpfs", "/dev/shm"), ("tmpfs", "/run"), ("tmpfs", "/tmp"), ("cgroup2", "/sys/fs/cgroup"),
        ("bpf", "/sys/fs/bpf"), ("tracefs", "/sys/kernel/tracing"), ("debugfs", "/sys/kernel/debug"),
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


def map_larger_parts() -> None:
    """A page fault is what costs most under User-Mode Linux."""
    for name, value in (
        ("/sys/kernel/debug/fault_around_bytes", 1 << 18),
        ("/sys/block/xoffroot/queue/read_ahead_kb", 512),
    ):
        with open(name, "w") as setting:
            setting.write(str(value))


def seal_kernel() -> None:
    """Put the kernel under its seccomp filter: it opens no file and reaches no process or network of its host."""
    with open(UML_DEVICE, "wb", buffering=0) as device:
        fcntl.ioctl(device, UML_SEAL)


def load_modules() -> None:
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
    content = open(UML_JOB, "rb").read() if on_uml() else from_shared_memory()
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        archive.extractall("/xoff")


def on_uml() -> bool:
    return os.path.exists(UML_DEVICE)


def from_shared_memory() -> bytes:
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
    return content


def main() -> None:
    if on_uml():
        mount_overlay()
        prepare()
        map_larger_parts()
        seal_kernel()
        checkpoint = time.monotonic_ns()
        unpack_job()
        if not os.path.exists(UML_CODE):
            write_compiled_code()
            return
    else:
        prepare()
        load_modules()
        checkpoint = stop_at_checkpoint()
        unpack_job()
    sys.path.insert(0, "/xoff/code")
    supervisor = os.fork()
    if supervisor == 0:
        try:
            from testbed.lab import guest_main

            guest_main.main(checkpoint)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(0)
    while os.wait()[0] != supervisor:
        pass  # orphans of the job
    libc.reboot(POWER_OFF)


def write_compiled_code() -> None:
    """Compile the code that came in the job's place, for this Python, and write all of it to the user's machine."""
    import compileall
    import py_compile

    compileall.compile_dir("/xoff/code", quiet=1, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    with open(UML_DEVICE, "wb") as device, tarfile.open(fileobj=device, mode="w|") as archive:
        archive.add("/xoff/code", "xoff/code")
    libc.reboot(POWER_OFF)


def stop_at_checkpoint() -> int:
    gc.collect()
    gc.freeze()  # what is here now stays: later collections need not look at it
    os.sync()
    checkpoint = time.monotonic_ns()
    stop_the_machine()
    return checkpoint


if __name__ == "__main__":
    try:
        main()
    except BaseException:
        traceback.print_exc()
    time.sleep(5)  # let the console drain before the kernel reports that process 1 is gone
