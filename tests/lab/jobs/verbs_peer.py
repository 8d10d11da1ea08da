"""A program with verbs, by ctypes: the far end of the kernel's own queue pairs, in a test of both.

It makes eight pairs of queue pairs. Of each kind of work in `WORKS`, the far end does the first and this program the
second. It is told the far end's numbers by its arguments, says its own in a line of JSON, and goes on with each line
that it reads: the first has it post its works, the second has it print what its memory holds by then. The far end has
nothing that invalidates memory, and sends in its place.

Memory is registered with addresses from 0 on, as the queue pairs of Xoff's flows have it.
"""

from __future__ import annotations

import ctypes as c
import hashlib
import json
import mmap
import socket
import struct
import sys
import time
from pathlib import Path
from typing import Any

WRITE, WRITE_IMMEDIATE, SEND, SEND_IMMEDIATE, READ, COMPARE_SWAP, FETCH_ADD = range(7)
SEND_INVALIDATE = 9
WORKS = (WRITE, SEND, READ, FETCH_ADD, COMPARE_SWAP, WRITE_IMMEDIATE, SEND_IMMEDIATE, SEND_INVALIDATE)
SENDS = (SEND, SEND_IMMEDIATE, SEND_INVALIDATE)
IMMEDIATE = 0x01234567
"""The operations by their numbers in libibverbs; queue pairs come in this order, twice."""
_RC, _MTU_1024 = 2, 3
_WITH_IMMEDIATE = 2
_REMOTE_ACCESS_ERROR = 10
"""The status of a work that the far end refuses for its key."""
_INIT, _RTR, _RTS = 1, 2, 3
_ALL_ACCESS = 15
_ATOMIC = struct.Struct("<QQQI")
"""What a work has from its far address on, if it is atomic: address, what is added or compared, what is put, key."""
_SIGNALED = 2
_TO_INIT, _TO_RTR, _TO_RTS = 0x39, 0x129181, 0x12E01
"""The bits of the attributes that each state needs."""
_POLL, _POST_SEND, _POST_RECEIVE = 96, 208, 216
"""The places of these functions in a context."""


class Capacity(c.Structure):
    _fields_ = [(name, c.c_uint32) for name in ("sends", "receives", "send_parts", "receive_parts", "inline")]


class First(c.Structure):
    _fields_ = [
        ("context", c.c_void_p), ("send_cq", c.c_void_p), ("receive_cq", c.c_void_p), ("srq", c.c_void_p),
        ("capacity", Capacity), ("kind", c.c_int), ("signals_all", c.c_int),
    ]  # fmt: skip


class Way(c.Structure):
    _fields_ = [
        ("address", c.c_uint64 * 2), ("label", c.c_uint32), ("own_address", c.c_uint8), ("hops", c.c_uint8),
        ("traffic_class", c.c_uint8), ("lid", c.c_uint16), ("level", c.c_uint8), ("bits", c.c_uint8),
        ("rate", c.c_uint8), ("is_global", c.c_uint8), ("port", c.c_uint8), ("end", c.c_uint64 * 0),
    ]  # fmt: skip


class Attributes(c.Structure):
    _fields_ = [
        ("state", c.c_int), ("state_now", c.c_int), ("mtu", c.c_int), ("migration", c.c_int),
        *((name, c.c_uint32) for name in ("queue_key", "receive_psn", "send_psn", "far_number", "access")),
        ("capacity", Capacity), ("way", Way), ("other_way", Way), ("partition", c.c_uint16), ("other", c.c_uint16),
        *((name, c.c_uint8) for name in (
            "notifies", "draining", "reads", "far_reads", "rnr_timer", "port", "timeout", "retries", "rnr_retries",
        )),
        ("rest", c.c_uint8 * 16),
    ]  # fmt: skip


class Part(c.Structure):
    _fields_ = [("address", c.c_uint64), ("length", c.c_uint32), ("key", c.c_uint32)]


class Work(c.Structure):
    _fields_ = [
        ("number", c.c_uint64), ("next", c.c_void_p), ("parts", c.c_void_p), ("count", c.c_int), ("operation", c.c_int),
        ("flags", c.c_uint), ("immediate", c.c_uint32), ("far_address", c.c_uint64), ("far_key", c.c_uint32),
        ("rest", c.c_uint8 * 128),
    ]  # fmt: skip


class Done(c.Structure):
    _fields_ = [
        ("number", c.c_uint64), ("status", c.c_int),
        *((name, c.c_uint32) for name in ("operation", "error", "octets", "immediate", "pair", "far_pair", "flags")),
        ("rest", c.c_uint8 * 8),
    ]  # fmt: skip


class Verbs:
    """A device and all that is made of it."""

    def __init__(self) -> None:
        self.library = c.CDLL("libibverbs.so.1", use_errno=True)
        devices = self._made(self.library.ibv_get_device_list, None)
        self.context = self._made(self.library.ibv_open_device, c.c_uint64.from_address(devices).value)
        self.domain = self._made(self.library.ibv_alloc_pd, self.context)
        self.immediates: list[int] = []
        """The immediate data that came, but for zeros."""
        self.completions = self._made(self.library.ibv_create_cq, self.context, 256, None, None, 0)

    def _made(self, function: Any, *arguments: Any) -> int:
        function.restype = c.c_void_p
        found = function(*(c.c_void_p(one) if isinstance(one, int) and one >> 16 else one for one in arguments))
        if not found:
            raise OSError(c.get_errno(), f"{function} gives nothing")
        return int(found)

    def _call(self, place: int, *arguments: Any) -> int:
        function = c.CFUNCTYPE(c.c_int, c.c_void_p, *([c.c_void_p] * 2 if place != _POLL else [c.c_int, c.c_void_p]))
        found: int = function(c.c_uint64.from_address(self.context + place).value)(*arguments)
        return found

    def memory(self, octets: bytes) -> tuple[mmap.mmap, int, int]:
        """Register memory from address 0 on; returns it, and its own and its far key."""
        room = mmap.mmap(-1, len(octets))  # the address and the one that is registered have one place in their pages
        room[:] = octets
        register = self.library.ibv_reg_mr_iova2
        register.restype = c.c_void_p
        size = c.c_size_t(len(octets))
        begin = c.addressof(c.c_char.from_buffer(room))
        region = register(c.c_void_p(self.domain), c.c_void_p(begin), size, c.c_uint64(0), c.c_uint(_ALL_ACCESS))
        if not region:
            raise OSError(c.get_errno(), "memory cannot be registered")
        own, far = (c.c_uint32.from_address(region + place).value for place in (36, 40))
        return room, own, far

    def queue_pair(self) -> tuple[int, int]:
        """Make a queue pair; returns it and its number."""
        first = First(None, self.completions, self.completions, None, Capacity(64, 8, 1, 1, 0), _RC, 0)
        pair = self._made(self.library.ibv_create_qp, self.domain, c.byref(first))
        return pair, c.c_uint32.from_address(pair + 52).value

    def connect(self, pair: int, far_number: int, told: dict[str, Any]) -> None:
        ipv6 = told["address"] if ":" in told["address"] else f"::ffff:{told['address']}"
        target = (c.c_uint64 * 2).from_buffer_copy(socket.inet_pton(socket.AF_INET6, ipv6))
        way = Way(
            address=target,
            own_address=2 if ipv6 == told["address"] else 1,
            hops=64,
            traffic_class=told["traffic_class"],
            is_global=1,
            port=1,
        )
        steps = (
            (_TO_INIT, Attributes(state=_INIT, port=1, access=_ALL_ACCESS)),
            (_TO_RTR, Attributes(state=_RTR, mtu=_MTU_1024, way=way, far_number=far_number, receive_psn=told["far_psn"],
                                 far_reads=1, rnr_timer=1)),
            (_TO_RTS, Attributes(state=_RTS, send_psn=told["psn"], reads=1, timeout=14, retries=7, rnr_retries=7)),
        )  # fmt: skip
        for mask, attributes in steps:
            if error := self.library.ibv_modify_qp(c.c_void_p(pair), c.byref(attributes), mask):
                raise OSError(error, f"a queue pair does not go into state {attributes.state}")

    def post(self, pair: int, work: Work | None, address: int, length: int, key: int) -> None:
        """Post a work, or a receive if it is None."""
        part = Part(address, length, key)
        work, place = (work, _POST_SEND) if work else (Work(), _POST_RECEIVE)
        work.parts, work.count, work.flags = c.addressof(part), 1, _SIGNALED
        if error := self._call(place, pair, c.addressof(work), c.addressof(c.c_void_p())):
            raise OSError(error, "a work is not taken")

    def wait(self, many: int, status: int = 0) -> None:
        """Wait until so many works are done, with this status."""
        done = Done()
        while many:
            if self._call(_POLL, self.completions, 1, c.addressof(done)):
                if done.status != status:
                    raise RuntimeError(f"work {done.number} ended with status {done.status}")
                if done.flags & _WITH_IMMEDIATE and done.immediate:
                    self.immediates.append(socket.ntohl(done.immediate))
                many -= 1
            time.sleep(10e-6)


def main() -> None:
    told = json.loads(sys.argv[1])
    content = Path("content").read_bytes()
    verbs = Verbs()
    pairs = [verbs.queue_pair() for _ in range(2 * len(WORKS))]
    holds = (
        0,
        0,
        1,
        0,
        0,
        0,
        0,
        0,
        1,
        1,
        0,
        0,
        0,
        1,
        1,
        1,
    )  # the memory of these queue pairs is full or empty at first
    memory = [verbs.memory(content if full else bytes(len(content))) for full in holds]
    for place, (pair, _) in enumerate(pairs):
        verbs.connect(pair, told["far"] + place, told)
    for place in range(0, len(content), told["message"]):
        for at in (1, 5, 6, 7):  # what takes receives
            verbs.post(pairs[at][0], None, place, told["message"], memory[at][1])
    verbs.post(pairs[2][0], None, 0, 0, memory[2][1])  # who has read a flow of Xoff says so by an empty send
    say({"numbers": [number for _, number in pairs], "keys": [far for _, _, far in memory]})
    for at, operation in enumerate(WORKS, len(WORKS)):
        if operation in (FETCH_ADD, COMPARE_SWAP):
            for number in range(told["counts"]):
                verbs.post(pairs[at][0], atomic(operation, number, told["far_key"] + at), 8 * number, 8, memory[at][1])
            continue
        step = told["message"] if operation in SENDS else len(content)
        for place in range(0, len(content), step):
            work = Work(number=at, operation=operation, far_address=place, far_key=told["far_key"] + at)
            if operation in (WRITE_IMMEDIATE, SEND_IMMEDIATE):
                work.immediate = socket.htonl(IMMEDIATE)
            elif operation == SEND_INVALIDATE:  # the last one
                work.operation, work.immediate = (
                    (SEND_INVALIDATE if place + step == len(content) else SEND),
                    work.far_key,
                )
            verbs.post(pairs[at][0], work, place, step, memory[at][1])
    verbs.wait(4 + 7 * (len(content) // told["message"]) + 2 * told["counts"])
    at = len(pairs) - 1
    work = Work(number=at, operation=WRITE, far_address=len(content), far_key=told["far_key"] + at)
    verbs.post(pairs[at][0], work, 0, 8, memory[at][1])
    verbs.wait(1, _REMOTE_ACCESS_ERROR)
    say({"done": True})
    say({"immediates": verbs.immediates, "held": [hashlib.sha256(room[:]).hexdigest() for room, _, _ in memory]})


def atomic(operation: int, number: int, key: int) -> Work:
    """Return a work that makes a count of one more."""
    work = Work(number=number, operation=operation)
    changes = (number, number + 1) if operation == COMPARE_SWAP else (1, 0)
    _ATOMIC.pack_into(work, Work.far_address.offset, 0, *changes, key)
    return work


def say(what: dict[str, Any]) -> None:
    print(json.dumps(what), flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main()
