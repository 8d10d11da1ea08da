"""Gives up root for another user with a few of root's capabilities (capabilities(7)).

Files and sockets that are open stay open. Nothing gives the other capabilities back, neither the execution of another
program nor a bug.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable
from enum import IntEnum

from testbed.errors import XoffError

_libc = ctypes.CDLL(None, use_errno=True)
_PR_SET_KEEPCAPS, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT = 8, 24, 38, 47
_AMBIENT_CLEAR_ALL = 4
_HEADER = struct.pack("=Ii", 0x20080522, 0)  # _LINUX_CAPABILITY_VERSION_3, this process
_LAST = 63


class Capability(IntEnum):
    """Capabilities, by their numbers in linux/capability.h."""

    NET_ADMIN = 12
    NET_RAW = 13


class PrivilegeError(XoffError):
    """The kernel does not let this process become another user."""

    exit_code = 3


def drop(uid: int, gid: int, keep: Iterable[Capability]) -> None:
    """Become this user, with this group as the only one, and keep those of the capabilities that the process has."""
    kept = sum(1 << number for number in keep) & _permitted()
    try:
        # This comes first because it needs a capability itself. The kernel refuses numbers that it does not know.
        for number in range(_LAST + 1):
            if not kept >> number & 1:
                _libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0)
        _checked(_libc.prctl(_PR_SET_KEEPCAPS, 1, 0, 0, 0))
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
        _checked(_libc.prctl(_PR_CAP_AMBIENT, _AMBIENT_CLEAR_ALL, 0, 0, 0))
        low, high = kept & 0xFFFFFFFF, kept >> 32
        _checked(_libc.capset(_HEADER, struct.pack("=6I", low, low, 0, high, high, 0)))
        _checked(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    except OSError as error:
        raise PrivilegeError(
            f"this process cannot become user {uid}: {error.strerror}; start with --user root"
        ) from None


def has(capability: Capability, pid: int | None = None) -> bool:
    """Return True if a process, by default this one, exists and has the capability in effect."""
    try:
        with open(f"/proc/{pid or 'thread-self'}/status", "rb") as status:
            found = next((line for line in status if line.startswith(b"CapEff:")), b"CapEff: 0")
    except OSError:
        return False
    return bool(int(found.split()[1], 16) >> capability & 1)


def _permitted() -> int:
    data = ctypes.create_string_buffer(24)
    _checked(_libc.capget(_HEADER, data))
    words = struct.unpack("=6I", data.raw)
    return int(words[1] | words[4] << 32)


def _checked(result: int) -> None:
    if result:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
