"""System calls of the lab's C library that reach User-Mode Linux's kernel by a jump instead of a signal.

In User-Mode Linux each `syscall` instruction raises SIGSYS, which takes several microseconds of the host's time. At
`ENTRY` the kernel has code that reaches it without a signal (stub_call() in linux/uml.patch). On the disk that the
engine `um` mounts, frequent calls of the C library jump there:

            before                            after
            mov $NUMBER, %eax                 jmp thunk
            syscall                           syscall
    next:   ...                       next:   ...
                                      thunk:  mov $NUMBER, %eax
                                              lea next(%rip), %rcx
                                              jmp common
                                      common: movabs $ENTRY, %r11
                                              jmp *%r11

One instruction is replaced by another of the same length. The `syscall` stays: what jumps to it still works, and the
kernel's code goes back to it for a call that needs all registers. A system call changes %rcx and %r11 anyway. The
thunks are in the unused part of the last page of the library's code.
"""

from __future__ import annotations

import re
import struct

from testbed.lab.image.recipe import ImageError

ENTRY = 0x7FFF_FFFF_8000
"""The address of the kernel's code: STUB_ADDRESS in its source."""
LIBRARY = "usr/lib/x86_64-linux-gnu/libc.so.6"

_PAGE = 4096
# These return to their caller with nothing changed but the result, and none of them makes a process.
_CALLS = {
    "read": 0, "write": 1, "close": 3, "fstat": 5, "poll": 7, "lseek": 8, "mmap": 9, "mprotect": 10, "munmap": 11,
    "brk": 12, "rt_sigaction": 13, "rt_sigprocmask": 14, "ioctl": 16, "pread64": 17, "readv": 19, "writev": 20,
    "select": 23, "madvise": 28, "getpid": 39, "socket": 41, "connect": 42, "sendto": 44, "recvfrom": 45,
    "sendmsg": 46, "recvmsg": 47, "bind": 49, "setsockopt": 54, "getsockopt": 55, "fcntl": 72, "getdents64": 217,
    "clock_gettime": 228, "clock_nanosleep": 230, "epoll_wait": 232, "epoll_ctl": 233, "openat": 257,
    "newfstatat": 262, "pselect6": 270, "ppoll": 271, "epoll_pwait": 281, "timerfd_settime": 286, "recvmmsg": 299,
    "sendmmsg": 307, "statx": 332,
}  # fmt: skip
_FEWEST = 40
"""The fewest sites that the lab's library must have."""

_PLAIN = re.compile(rb"\xb8(....)\x0f\x05", re.DOTALL)
# read() has no such instruction: cmpb $0, FLAG(%rip); je SEVERAL_THREADS; xor %eax, %eax; syscall.
_READ = re.compile(rb"\x80\x3d(....)\x00\x74(.)\x31\xc0\x0f\x05", re.DOTALL)
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SEGMENTS_AT, _SEGMENTS_COUNT_AT = 32, 56
_LOADED, _EXECUTABLE = 1, 1


def rewrite(library: bytes) -> bytes:
    """Return the C library with its frequent system calls as jumps; its length stays."""
    begin, end = _code(library)
    room_end = -(-end // _PAGE) * _PAGE
    if any(library[end:room_end]):
        raise ImageError("the C library has no unused room behind its code")
    out = bytearray(library)
    common = end
    thunks = bytearray(b"\x49\xbb" + struct.pack("<Q", ENTRY) + b"\x41\xff\xe3")
    sites = 0

    def redirect(site: re.Match[bytes], replaced: int, head: bytes) -> None:
        """Have a site jump to a new thunk, which begins with `head`."""
        nonlocal sites
        thunk = end + len(thunks)
        out[site.start() : site.start() + replaced] = _jump(site.start(), thunk).ljust(replaced, b"\x90")
        thunks.extend(head)
        thunks.extend(b"\x48\x8d\x0d" + _relative(end + len(thunks) + 7, site.end()))
        thunks.extend(_jump(end + len(thunks), common))
        sites += 1

    numbers = {struct.pack("<I", number) for number in _CALLS.values()}
    for site in _PLAIN.finditer(library, begin, end):
        if site[1] in numbers:
            redirect(site, 5, b"\xb8" + site[1])
    for site in _READ.finditer(library, begin, end):
        thunk = end + len(thunks)
        flag = site.start() + 7 + int.from_bytes(site[1], "little", signed=True)
        several_threads = site.start() + 9 + int.from_bytes(site[2], "little", signed=True)
        compare = b"\x80\x3d" + _relative(thunk + 7, flag) + b"\x00"
        redirect(site, 7, compare + b"\x0f\x84" + _relative(thunk + 13, several_threads) + b"\x31\xc0")
    if sites < _FEWEST or end + len(thunks) > room_end:
        raise ImageError(f"{sites} system calls were found in the C library; {_FEWEST} or more that fit are expected")
    out[end : end + len(thunks)] = thunks
    return bytes(out)


def _code(library: bytes) -> tuple[int, int]:
    """Return the begin and end of the executable segment, which are the same in the file and in memory."""
    if library[:6] == b"\x7fELF\x02\x01":
        (at,) = struct.unpack_from("<Q", library, _SEGMENTS_AT)
        size, count = struct.unpack_from("<HH", library, _SEGMENTS_COUNT_AT - 2)
        for index in range(count):
            kind, flags, offset, address, _, length, _, _ = _SEGMENT.unpack_from(library, at + index * size)
            if kind == _LOADED and flags & _EXECUTABLE and offset == address:
                return offset, offset + length
    raise ImageError("the lab's C library is not a 64-bit ELF library with one segment of code")


def _jump(place: int, target: int) -> bytes:
    return b"\xe9" + _relative(place + 5, target)


def _relative(next_instruction: int, target: int) -> bytes:
    return struct.pack("<i", target - next_instruction)
