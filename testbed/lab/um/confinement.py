"""The confinement that this host gives a lab of `um`, found out without a lab.

The lab's kernel confines itself (`linux/xoff_confine.c`, `linux/xoff_user.c`) and goes on without what the host
refuses, except for the filters of system calls. Each part is tried here as the kernel asks for it. The lines
`confined: ...` in the file `console` of a running lab are the kernel's own word.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
from collections.abc import Callable
from contextlib import suppress
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
_OLDEST_LINUX = (5, 5)
_ACTIONS = "/proc/sys/kernel/seccomp/actions_avail"
_FILTERS_NEEDED = ("trap", "user_notif")
_libc = ctypes.CDLL(None, use_errno=True)


def checks() -> list[Check]:
    """Look at each part of the confinement; all but the filters of system calls are optional."""
    privileged = os.geteuid() == 0
    return [
        _filters(),
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
