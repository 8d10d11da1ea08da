"""The part of the usual seccomp profile of containers that matters to labs, put on a process and all that it starts.

containers-common, Docker and Kubernetes' RuntimeDefault let `personality` through for five values only, none of which
turns off that addresses are random; and refuse `unshare` and `mount` to processes without the capabilities for it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterator, Sequence

PERSONALITY, UNSHARE = 135, 272
PERSONALITIES = (0x0, 0x8, 0x20000, 0x20008, 0xFFFFFFFF)
_NUMBER, _FIRST_ARGUMENT = 0, 16
_LOAD, _IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM
_NO_NEW_PRIVS, _SET_SECCOMP, _FILTER = 38, 22, 2
_libc = ctypes.CDLL(None, use_errno=True)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


def refuse(calls: Sequence[int] = ()) -> None:
    """Refuse this process all but the usual personalities, and some system calls."""
    code = b"".join(_instructions(calls))
    content = ctypes.create_string_buffer(code, len(code))
    program = _Program(len(code) // 8, ctypes.cast(content, ctypes.c_void_p))
    for words in ((_NO_NEW_PRIVS, 1, 0, 0, 0), (_SET_SECCOMP, _FILTER, ctypes.byref(program), 0, 0)):
        if _libc.prctl(*words):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _instructions(calls: Sequence[int]) -> Iterator[bytes]:
    yield _instruction(_LOAD, _NUMBER)
    for number in calls:
        yield _instruction(_IF_EQUAL, number, 0, 1)
        yield _instruction(_RETURN, _REFUSE)
    yield _instruction(_IF_EQUAL, PERSONALITY, 1, 0)
    yield _instruction(_RETURN, _ALLOW)
    yield _instruction(_LOAD, _FIRST_ARGUMENT)
    for value in PERSONALITIES:
        yield _instruction(_IF_EQUAL, value, 0, 1)
        yield _instruction(_RETURN, _ALLOW)
    yield _instruction(_RETURN, _REFUSE)


def _instruction(code: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("<HBBI", code, then, otherwise, value)
