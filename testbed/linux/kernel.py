"""The few system calls that Python's library does not offer."""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import socket
import struct

CLONE_NEWNS = 0x0002_0000
CLONE_NEWUTS = 0x0400_0000
CLONE_NEWIPC = 0x0800_0000
CLONE_NEWPID = 0x2000_0000
CLONE_NEWNET = 0x4000_0000

MS_REC = 0x4000
MS_PRIVATE = 0x4_0000

_PR_SET_PDEATHSIG = 1
_RNDADDENTROPY = 0x4008_5203
_RNDRESEEDCRNG = 0x5207
_SIOCGIFFLAGS = 0x8913
_SIOCSIFFLAGS = 0x8914
_IFF_UP = 1

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> None:
    if result:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def unshare(flags: int) -> None:
    """Leave the namespaces that `flags` names for new ones."""
    _checked(_libc.unshare(flags), "unshare")


def enter_network_of(pid: int) -> None:
    """Move this process into the network namespace of process `pid`."""
    with open(f"/proc/{pid}/ns/net", "rb") as namespace:
        _checked(_libc.setns(namespace.fileno(), CLONE_NEWNET), f"entering the network of process {pid}")


def set_up(interface: str) -> None:
    """Set a network interface up."""
    request = struct.Struct("16sh22x")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        answer = fcntl.ioctl(handle, _SIOCGIFFLAGS, request.pack(interface.encode(), 0))
        flags = request.unpack(answer)[1]
        fcntl.ioctl(handle, _SIOCSIFFLAGS, request.pack(interface.encode(), flags | _IFF_UP))


def mount(kind: str, place: str, flags: int = 0) -> None:
    """Mount a file system that has no device, or change how `place` is mounted."""
    _checked(_libc.mount(kind.encode(), place.encode(), kind.encode(), flags, None), f"mount on {place}")


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent ends."""
    _checked(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")


def real_time(priority: int) -> None:
    """Schedule this process before all ordinary ones; its children start as ordinary ones."""
    os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(priority))


def reseed_random(seed: bytes) -> None:
    """Make every random number that the kernel gives from now on depend on `seed`."""
    with open("/dev/random", "wb", buffering=0) as device:
        fcntl.ioctl(device, _RNDADDENTROPY, struct.pack("ii", 8 * len(seed), len(seed)) + seed)
        fcntl.ioctl(device, _RNDRESEEDCRNG)
