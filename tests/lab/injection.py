"""System calls made in another process's name, as an attacker who has got control of it would make them.

The process is stopped by ptrace, at a system call that it waits in, and its registers are set so that it makes another
one by the same instruction. Whatever confines the process decides on it: filters, namespaces, Landlock. Needs root.
"""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SINGLE_STEP, _GET_REGISTERS, _SET_REGISTERS, _ATTACH, _DETACH = 9, 12, 13, 16, 17
_WALL = 0x40000000
_NAMES = (
    "r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx", "rdx", "rsi", "rdi", "orig_rax",
    "rip", "cs", "eflags", "rsp", "ss", "fs_base", "gs_base", "ds", "es", "fs", "gs",
)  # fmt: skip
_ARGUMENTS = ("rdi", "rsi", "rdx", "r10", "r8", "r9")
_SYSCALL = b"\x0f\x05"
_STACK_ROOM = 4096

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.restype = ctypes.c_long
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


class Registers(ctypes.Structure):
    """The registers of a process: `struct user_regs_struct` of x86-64."""

    _fields_ = [(name, ctypes.c_ulonglong) for name in _NAMES]


class Ended(Exception):
    """The host ended the process for its system call."""


class Injected:
    """A stopped process."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._before = self._registers()
        self._memory = Path(f"/proc/{pid}/mem").open("r+b", buffering=0)  # noqa: SIM115
        self._memory.seek(self._before.rip - len(_SYSCALL))
        assert self._memory.read(len(_SYSCALL)) == _SYSCALL, "the process does not wait in a system call"

    def call(self, *call: int | bytes) -> int:
        """Make a system call, given by its number and arguments, and return its result.

        Of octets the address is passed; they are written below the process's stack.
        """
        registers = Registers.from_buffer_copy(self._before)
        registers.rip -= len(_SYSCALL)
        registers.orig_rax = 2**64 - 1
        room = self._before.rsp - _STACK_ROOM
        for name, word in zip(("rax", *_ARGUMENTS), call, strict=False):
            if isinstance(word, bytes):
                self._memory.seek(room)
                self._memory.write(word)
                setattr(registers, name, room)
                room += len(word)
            else:
                setattr(registers, name, word % 2**64)
        _ptrace(_SET_REGISTERS, self.pid, ctypes.addressof(registers))
        _ptrace(_SINGLE_STEP, self.pid)
        _, status = os.waitpid(self.pid, _WALL)
        if not os.WIFSTOPPED(status):
            raise Ended(signal.Signals(os.WTERMSIG(status)).name)
        result = int(self._registers().rax)
        return result - 2**64 if result >= 2**63 else result

    def close(self) -> None:
        """Let it go on as if nothing had been."""
        self._memory.close()
        if Path(f"/proc/{self.pid}").exists():
            _libc.ptrace(_SET_REGISTERS, self.pid, None, ctypes.addressof(self._before))
            _libc.ptrace(_DETACH, self.pid, None, None)

    def _registers(self) -> Registers:
        registers = Registers()
        _ptrace(_GET_REGISTERS, self.pid, ctypes.addressof(registers))
        return registers


@contextmanager
def injected(pid: int) -> Iterator[Injected]:
    """Stop a process that waits in a system call; it goes on afterwards."""
    _ptrace(_ATTACH, pid)
    os.waitpid(pid, _WALL)
    process = Injected(pid)
    try:
        yield process
    finally:
        process.close()


def _ptrace(request: int, pid: int, data: int = 0) -> None:
    if _libc.ptrace(request, pid, None, data or None) < 0:
        raise OSError(ctypes.get_errno(), f"ptrace {request} of {pid}: {os.strerror(ctypes.get_errno())}")
