"""The confinement that this host gives a lab of `um`, found out without a lab.

The lab's kernel confines itself (`linux/xoff_confine.c`, `linux/xoff_user.c`) and goes on without what the host
refuses, except for the filters of system calls. Each part is tried here as the kernel asks for it. The lines
`confined: ...` in the file `console` of a running lab are the kernel's own word.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import platform
import re
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from testbed.lab.host.checks import Check, lines, user
from testbed.linux.process import kernel
from testbed.linux.process.child import Child

_ENGINE = "um"
_NOBODY = 65534
_CLONE_NEWUSER = 0x1000_0000
_NAMESPACES = (
    _CLONE_NEWUSER | kernel.CLONE_NEWPID | kernel.CLONE_NEWNS | kernel.CLONE_NEWNET | kernel.CLONE_NEWIPC
    | kernel.CLONE_NEWUTS
)  # fmt: skip
_PR_SET_DUMPABLE = 4
_LANDLOCK_CREATE_RULESET, _VERSION = 444, 1
_FILES, _SIGNALS = 1, 6
"""The first versions of Landlock that restrict paths, and signals."""
_CLONE, _SECCOMP = 56, 317
_CLONE_PIDFD = 0x1000
_PR_SET_TSC, _PR_TSC_ENABLE, _PR_TSC_SIGSEGV = 26, 1, 2
_PR_SET_NO_NEW_PRIVS = 38
_SET_MODE_FILTER, _NEW_LISTENER = 1, 8
_ALLOW = (ctypes.c_uint64 * 1)(0x7FFF_0000_0000_0006)
"""A filter of one instruction, which returns SECCOMP_RET_ALLOW."""
_OLDEST_LINUX = (5, 5)
_ACTIONS = "/proc/sys/kernel/seccomp/actions_avail"
_FILTERS_NEEDED = ("trap", "user_notif")
_libc = ctypes.CDLL(None, use_errno=True)


def checks() -> list[Check]:
    """Look at what the kernel cannot do without, and at each part of the confinement, which are optional."""
    privileged = os.geteuid() == 0
    return [
        _filters(),
        _calls(),
        Check(_ENGINE, "a user without rights", True, "nobody" if privileged else user(), optional=True),
        _optional(
            "namespaces", namespaces(),
            "allow user namespaces (sysctl kernel.unprivileged_userns_clone=1 or kernel.apparmor_restrict_"
            "unprivileged_userns=0; in a container, its seccomp profile); without, a lab sees names of processes and "
            "mounts, and can do nothing with them",
        ),
        _landlock("files", _FILES, "Linux 5.13 has it; without, only the filter of system calls forbids to open files"),
        _landlock(
            "signals", _SIGNALS,
            "Linux 6.12 has it; without, only the filter of system calls keeps signals to the lab's own processes",
        ),
    ]  # fmt: skip


def landlock() -> int:
    """Return the version of the host's Landlock, or 0 if there is none."""
    return max(0, int(_libc.syscall(_LANDLOCK_CREATE_RULESET, None, 0, _VERSION)))


def namespaces() -> str:
    """Try namespaces and mounts of a process's own, as the user that a lab runs as; return what the host refused."""
    return _in_child(_enter_namespaces)


def calls() -> str:
    """Try what the kernel and its stubs ask of the host and cannot do without; return what the host refused.

    `personality` is not among it: the default profile of containers forbids it, and the kernel does without.
    """
    return _in_child(_make_calls)


def _calls() -> Check:
    refused = calls()
    remedy = "in a container, allow it in the seccomp profile, as --security-opt seccomp=unconfined does"
    return Check(_ENGINE, "calls of the kernel", not refused, refused or "allowed", remedy if refused else "")


def _filters() -> Check:
    found = tuple(map(int, re.findall(r"\d+", platform.release())[:2]))
    missing = set(_FILTERS_NEEDED).difference(" ".join(lines(_ACTIONS)).split())
    ok = not missing and found >= _OLDEST_LINUX
    remedy = "boot Linux 5.5 or newer with CONFIG_SECCOMP_FILTER; in a container, allow seccomp()"
    return Check(_ENGINE, "filters of system calls", ok, platform.release(), "" if ok else remedy)


def _landlock(what: str, first: int, remedy: str) -> Check:
    version = landlock()
    ok = version >= first
    found = f"version {version}" if version else "none"
    return Check(_ENGINE, f"Landlock of {what}", ok, found, "" if ok else remedy, optional=True)


def _optional(what: str, refused: str, remedy: str) -> Check:
    return Check(_ENGINE, what, not refused, refused or "allowed", remedy if refused else "", optional=True)


def _enter_namespaces() -> None:
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(_NOBODY, _NOBODY, _NOBODY)
        os.setresuid(_NOBODY, _NOBODY, _NOBODY)
        _libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)  # or /proc/self is root's
    uid, gid = os.geteuid(), os.getegid()
    kernel.unshare(_NAMESPACES)
    with suppress(OSError):
        Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
    Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    # Where AppArmor restricts them, a process gets a namespace of users and no rights in it.
    kernel.mount("none", "/", kernel.MS_REC | kernel.MS_PRIVATE)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


def _make_calls() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    with _named("memory that can be executed"):
        memory = os.memfd_create("uml-memory")
        os.ftruncate(memory, mmap.PAGESIZE)
        mmap.mmap(memory, mmap.PAGESIZE, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_EXEC).close()
    with _named("processes with a descriptor (clone)"):
        pidfd = ctypes.c_int(-1)
        pid = _required(_libc.syscall(_CLONE, _CLONE_PIDFD | signal.SIGCHLD, None, ctypes.byref(pidfd), None, None))
        if pid == 0:
            signal.pause()
            os._exit(1)
        try:
            signal.pidfd_send_signal(pidfd.value, signal.SIGKILL)
        except OSError:
            os.kill(pid, signal.SIGKILL)
            raise
        finally:
            os.waitpid(pid, 0)
    with _named("no time stamp counter (prctl)"):
        _required(_libc.prctl(_PR_SET_TSC, _PR_TSC_SIGSEGV, 0, 0, 0))
        _required(_libc.prctl(_PR_SET_TSC, _PR_TSC_ENABLE, 0, 0, 0))
    with _named("filters that ask (seccomp)"):
        _required(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        filter_ = _Program(1, ctypes.cast(_ALLOW, ctypes.c_void_p))
        _required(_libc.syscall(_SECCOMP, _SET_MODE_FILTER, _NEW_LISTENER, ctypes.byref(filter_)))
    with _named("no heap (setrlimit)"):
        resource.setrlimit(resource.RLIMIT_DATA, (0, most))


def _required(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


@contextmanager
def _named(what: str) -> Iterator[None]:
    """Have an error of the host say what it refused."""
    try:
        yield
    except (OSError, ValueError) as error:
        number = error.errno if isinstance(error, OSError) and error.errno is not None else errno.EPERM
        raise OSError(number, f"{what}: {os.strerror(number)}") from error


def _in_child(attempt: Callable[[], None]) -> str:
    """Run a function in a process of its own; return the reason if the kernel refuses something, else nothing."""
    reading, writing = os.pipe()

    def perform() -> None:
        os.close(reading)
        try:
            attempt()
        except OSError as error:
            os.write(writing, str(error.strerror).encode())

    child = Child(perform)
    os.close(writing)
    with os.fdopen(reading, "rb") as answers:
        refused = answers.read().decode()
    return refused or ("" if child.wait() == 0 else "the process that tried it was killed")
