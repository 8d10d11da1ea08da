"""The system calls that Python's library does not offer."""

from __future__ import annotations

import _thread
import ctypes
import errno
import fcntl
import os
import select
import signal
import socket
import struct
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import Protocol

from testbed.errors import UsageError

CLONE_NEWNS = 0x0002_0000
CLONE_NEWUTS = 0x0400_0000
CLONE_NEWIPC = 0x0800_0000
CLONE_NEWPID = 0x2000_0000
CLONE_NEWNET = 0x4000_0000

MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x4_0000

CAP_SYS_MODULE = 16
CAP_SYS_RAWIO = 17
CAP_SYS_PTRACE = 19
CAP_SYS_BOOT = 22
CAP_SYS_TIME = 25
CAP_MKNOD = 27

_PR_SET_PDEATHSIG = 1
_PR_CAPBSET_DROP = 24
_CAPABILITY_VERSION_3 = 0x2008_0522
_SYS_SCHED_SETATTR = 314  # x86-64
_SCHED_DEADLINE = 6
_SCHED_FLAG_RESET_ON_FORK = 1
_RNDADDENTROPY = 0x4008_5203
_RNDRESEEDCRNG = 0x5207
_SIOCGIFFLAGS = 0x8913
_SIOCSIFFLAGS = 0x8914
_SIOCSARP = 0x8955
_ARPHRD_ETHER, _ATF_COM, _ATF_PERM = 1, 2, 4
_ARP_REQUEST = struct.Struct("=H2x4s8xH6s8xi32x")
"""arpreq of linux/if_arp.h: address, hardware address, flags; no mask, and the interface that the route leads to."""
_IFF_UP = 1
_TIMER_ABSTIME = 1

_libc = ctypes.CDLL(None, use_errno=True)
_libc_with_gil = ctypes.PyDLL(None, use_errno=True)


class HasDescriptor(Protocol):
    """A file, a socket or the like."""

    def fileno(self) -> int:
        """Return the file descriptor."""
        ...


def _checked(result: int, what: str) -> None:
    if result:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def fork() -> int:
    """Fork as `os.fork` does, but without the handlers that Python's modules register. The child ends by `os._exit`.

    The handlers replace locks that other threads may hold, and seed `random`; without them, two children that draw
    from an unseeded `random` get the same numbers. Where page faults are what costs time, the handlers are most of the
    cost of a fork. If the process has several threads, it is `os.fork` with its handlers.
    """
    pid: int = forking()()
    if pid < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"fork: {os.strerror(code)}")
    return pid


def forking() -> Callable[[], int]:
    """Return the call that `fork` makes, which runs no Python; it returns -1 if it fails."""
    return os.fork if _thread._count() else _libc_with_gil.fork


def unshare(flags: int) -> None:
    """Move this process into new namespaces of the kinds in `flags`."""
    _checked(_libc.unshare(flags), "unshare")


def _network_of(pid: int) -> int:
    if not pid:
        raise UsageError(
            "this reads or sends in the network of a node that another part of the network has; it works in a network "
            "that one kernel has, so run it without partitions"
        )
    return os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def enter_network_of(pid: int) -> None:
    """Move this process into the network namespace of process `pid`."""
    namespace = _network_of(pid)
    try:
        _checked(_libc.setns(namespace, CLONE_NEWNET), f"entering the network of process {pid}")
    finally:
        os.close(namespace)


@contextmanager
def in_network(namespace: int) -> Iterator[None]:
    """Run the block in the network namespace that a file descriptor stands for; sockets created there stay in it."""
    own = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _checked(_libc.setns(namespace, CLONE_NEWNET), "entering a network namespace")
        try:
            yield
        finally:
            _checked(_libc.setns(own, CLONE_NEWNET), "returning to the own network namespace")
    finally:
        os.close(own)


@contextmanager
def in_network_of(pid: int) -> Iterator[None]:
    """Run the block in the network namespace of a process."""
    namespace = _network_of(pid)
    try:
        with in_network(namespace):
            yield
    finally:
        os.close(namespace)


def new_network() -> int:
    """Create a network namespace that lives as long as the returned file descriptor is open in any process."""
    own = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        unshare(CLONE_NEWNET)
        made = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        _checked(_libc.setns(own, CLONE_NEWNET), "returning to the own network namespace")
        return made
    finally:
        os.close(own)


def set_up(interface: str) -> None:
    """Set a network interface up."""
    request = struct.Struct("16sh22x")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        answer = fcntl.ioctl(handle, _SIOCGIFFLAGS, request.pack(interface.encode(), 0))
        flags = request.unpack(answer)[1]
        fcntl.ioctl(handle, _SIOCSIFFLAGS, request.pack(interface.encode(), flags | _IFF_UP))


def arp_entry(address: str, mac: str) -> bytes:
    """Return a permanent neighbour entry for `set_arp`, of an IPv4 address and a MAC address."""
    octets = bytes.fromhex(mac.replace(":", ""))
    return _ARP_REQUEST.pack(socket.AF_INET, socket.inet_aton(address), _ARPHRD_ETHER, octets, _ATF_COM | _ATF_PERM)


def set_arp(entries: Iterable[bytes]) -> None:
    """Add entries that `arp_entry` has made, as `arp -s` does, without a process for each.

    An address to which there is no route is left out.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        for request in entries:
            try:
                fcntl.ioctl(handle, _SIOCSARP, request)
            except OSError as error:
                if error.errno != errno.ENETUNREACH:
                    raise


def mount(kind: str, place: str, flags: int = 0) -> None:
    """Mount a file system that has no device, or change how `place` is mounted."""
    _checked(_libc.mount(kind.encode(), place.encode(), kind.encode(), flags, None), f"mount on {place}")


def bind(source: str, place: str) -> None:
    """Have a folder, with all that is mounted below it, at another place too."""
    flags = MS_BIND | MS_REC
    _checked(_libc.mount(source.encode(), place.encode(), b"none", flags, None), f"mount {source} on {place}")


in_lab = False
"""True in a lab on `um`, where each system call takes time and what follows a fork is the same in each run."""


@cache
def cpu_work_takes_no_time() -> bool:
    """Return True under User-Mode Linux with the clock of `testbed.lab.um`, which stands still while a program runs."""
    return Path("/sys/class/misc/xoff").exists()


def sleep_until(moment_ns: int) -> None:
    """Sleep until a moment of the monotonic clock, exact to the nanosecond; a signal may end the sleep early."""
    moment = struct.pack("=qq", *divmod(moment_ns, 10**9))
    _libc.clock_nanosleep(time.CLOCK_MONOTONIC, _TIMER_ABSTIME, moment, None)


def wait_readable(
    files: Iterable[int | HasDescriptor], timeout_s: float | None = None, writable: Iterable[int | HasDescriptor] = ()
) -> list[int]:
    """Wait until one of `files` is readable or one of `writable` is writable, and return the descriptors that are.

    The list is empty after a timeout, which is rounded up to whole milliseconds. Unlike select(), this takes
    descriptors above 1023, which a process of a large network has.
    """
    waiting = select.poll()
    for file in files:
        waiting.register(file, select.POLLIN)
    for file in writable:
        waiting.register(file, select.POLLOUT)
    return [file for file, _ in waiting.poll(None if timeout_s is None else timeout_s * 1000)]


class Timer:
    """A file descriptor that becomes readable at a moment of the monotonic clock, to the nanosecond."""

    def __init__(self) -> None:
        self.fd: int = _libc.timerfd_create(time.CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        _checked(self.fd < 0, "timerfd_create")
        self._value = bytearray(struct.pack("=qqqq", 0, 0, 0, 0))
        self._pointer = (ctypes.c_char * len(self._value)).from_buffer(self._value)

    def set(self, moment_ns: int) -> None:
        """Make the descriptor readable at this moment, or at once if it has passed."""
        struct.pack_into("=qq", self._value, 16, *divmod(max(1, moment_ns), 10**9))
        _checked(_libc.timerfd_settime(self.fd, _TIMER_ABSTIME, self._pointer, None), "timerfd_settime")

    def clear(self) -> None:
        """Make the descriptor unreadable until the timer is set again."""
        with suppress(BlockingIOError):
            os.read(self.fd, 8)


@contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Block SIGINT while the block runs. Processes that are started meanwhile inherit the mask and keep it blocked."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def die_with_parent(parent: int = 0) -> None:
    """Have the kernel kill this process when its parent ends; at once if it is not `parent` any more."""
    _checked(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")
    if parent and os.getppid() not in (parent, 0):  # 0 is a parent in another namespace of PIDs
        os._exit(1)


def drop_capabilities(*numbers: int) -> None:
    """Drop capabilities of this process and of every program that it or its children execute."""
    for number in numbers:
        _checked(_libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0), f"dropping capability {number} from the bounding set")
    header = ctypes.create_string_buffer(struct.pack("=Ii", _CAPABILITY_VERSION_3, 0))
    # Effective, permitted and inheritable capabilities 0 to 31, then the same of 32 to 63.
    sets = ctypes.create_string_buffer(24)
    _checked(_libc.capget(header, sets), "capget")
    low = ~sum(1 << number for number in numbers) & 0xFFFF_FFFF
    words = [word & low if place < 3 else word for place, word in enumerate(struct.unpack("=6I", sets.raw[:24]))]
    _checked(_libc.capset(header, struct.pack("=6I", *words)), "capset")


def reserve_cpu(runtime_ns: int, period_ns: int, pid: int = 0) -> None:
    """Schedule a process by SCHED_DEADLINE, ahead of all SCHED_FIFO ones, for at most `runtime_ns` in each period."""
    attributes = struct.pack(
        "=IIQiIQQQ", 48, _SCHED_DEADLINE, _SCHED_FLAG_RESET_ON_FORK, 0, 0, runtime_ns, period_ns, period_ns
    )
    _checked(_libc.syscall(_SYS_SCHED_SETATTR, pid, attributes, 0), f"SCHED_DEADLINE for process {pid}")


def close_descriptors(keep: Collection[int]) -> None:
    """Close every file descriptor of this process except those in `keep`."""
    before = 0
    for descriptor in sorted(keep):
        if before < descriptor:  # CPython 3.11 takes an empty range that begins at 0 for the whole range
            os.closerange(before, descriptor)
        before = descriptor + 1
    os.closerange(before, os.sysconf("SC_OPEN_MAX"))


def real_time(priority: int, for_children: bool = False, pid: int = 0) -> None:
    """Schedule a process by SCHED_FIFO, ahead of all ordinary ones; with `for_children` its children inherit that."""
    policy = os.SCHED_FIFO if for_children else os.SCHED_FIFO | os.SCHED_RESET_ON_FORK
    os.sched_setscheduler(pid, policy, os.sched_param(priority))


def getting_real_time(priority: int) -> Callable[[], object]:
    """Return `real_time` for the process that makes the call, as a call that runs no Python."""
    return partial(os.sched_setscheduler, 0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(priority))


@contextmanager
def urgently(priority: int) -> Iterator[None]:
    """Run the block ahead of ordinary processes: for holding a lock that more urgent processes wait for."""
    policy, parameters = os.sched_getscheduler(0), os.sched_getparam(0)
    real_time(priority)
    try:
        yield
    finally:
        os.sched_setscheduler(0, policy, parameters)


def reseed_random(seed: bytes) -> None:
    """Make all random numbers of the kernel depend on `seed` from now on."""
    with open("/dev/random", "wb", buffering=0) as device:
        fcntl.ioctl(device, _RNDADDENTROPY, struct.pack("ii", 8 * len(seed), len(seed)) + seed)
        fcntl.ioctl(device, _RNDRESEEDCRNG)
