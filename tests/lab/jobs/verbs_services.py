"""A program with verbs, by ctypes: the far end of queue pairs of Xoff's kernel, of any service and operation.

Its argument is a list of queue pairs, each with one row of messages of equal length that one end asks for. It says the
numbers and keys of its own ends in a line of JSON; the first line that it reads has it post its works, the second one
has it say what came and what its memory holds. Content is that of a file, from its begin on for each queue pair.

Receives are slots of memory, one for each message and some more, or those of one shared receive queue.
"""

from __future__ import annotations

import ctypes as c
import json
import select
import socket
import struct
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.lab.jobs.verbs_peer import (
        FETCH_ADD,
        READ,
        SEND,
        SEND_IMMEDIATE,
        WRITE,
        WRITE_IMMEDIATE,
        Attributes,
        Capacity,
        Done,
        First,
        Part,
        Verbs,
        Way,
        Work,
        atomic,
        say,
    )
else:
    from verbs_peer import (
        FETCH_ADD,
        READ,
        SEND,
        SEND_IMMEDIATE,
        WRITE,
        WRITE_IMMEDIATE,
        Attributes,
        Capacity,
        Done,
        First,
        Part,
        Verbs,
        Way,
        Work,
        atomic,
        say,
    )

COMPARE_SWAP = 5
SERVICES = {"RC": 2, "UC": 3, "UD": 4}
OPERATIONS = {"write": WRITE, "send": SEND, "read": READ, "fetch and add": FETCH_ADD, "compare and swap": COMPARE_SWAP}
IMMEDIATE = 0x01234567
GRH = 40
_STEPS = {"RC": (0x39, 0x129181, 0x12E01), "UC": (0x39, 0x101181, 0x10001), "UD": (0x71, 1, 0x10001)}
"""The bits of the attributes that the states INIT, RTR and RTS need."""
_INIT, _RTR, _RTS = 1, 2, 3
_POST_SHARED = 168
_SHARED = 0xFF << 16
"""The offset of the numbers of receives of the shared receive queue."""
_HANDLE = struct.Struct("<QII")
_OF_RECEIVES = 128
"""The bit of a completion's operation that a receive has."""
_UNDER_WAY = 32


class SharedFirst(c.Structure):
    _fields_ = [("context", c.c_void_p), *((name, c.c_uint32) for name in ("receives", "parts", "limit"))]


class End:
    """One queue pair and its row of messages."""

    def __init__(self, services: Services, place: int, row: dict[str, Any]) -> None:
        self.services, self.place, self.row = services, place, row
        self.message, self.many, self.service = row["message"], row["many"], row["service"]
        self.asks = not row["ours"]
        octets = max(8, self.message * self.many)
        content = services.content[:octets]
        gives = self.asks is (row["operation"] != "read") and "and" not in row["operation"]
        self.memory, self.key, self.far_key = services.verbs.memory(content if gives else bytes(octets))
        takes = row["operation"] == "send" or row["immediate"]
        self.receives = not self.asks and (takes or row["operation"] == "read")
        self.slot = self.message + (GRH if self.service == "UD" else 0)
        self.is_shared = bool(row["shared"] and self.receives)
        self.slots = (
            services.verbs.memory(bytes(self.slot * self.room)) if self.receives and not self.is_shared else None
        )
        shared = services.shared if self.is_shared else None
        first = First(None, services.verbs.completions, services.verbs.completions, shared,
                      Capacity(_UNDER_WAY, 0 if self.is_shared else max(1, self.room), 1, 1, 0),
                      SERVICES[self.service], 0)  # fmt: skip
        verbs = services.verbs
        self.pair = verbs._made(verbs.library.ibv_create_qp, verbs.domain, c.byref(first))
        self.number = c.c_uint32.from_address(self.pair + 52).value
        self.came: list[int] = []
        """The messages that came, by their places in the row; -1 for what is none of them."""
        self.immediates = 0
        self.posted = self.done = 0
        self.by_content = {
            bytes(services.content[at * self.message : (at + 1) * self.message]): at for at in range(self.many)
        }

    @property
    def room(self) -> int:
        return int(self.many + self.many // 4 + 4)

    def connect(self, told: dict[str, Any]) -> None:
        verbs, service = self.services.verbs, self.service
        way = self.services.way(told)
        steps = (
            Attributes(state=_INIT, port=1, access=15, queue_key=told["q_key"]),
            Attributes(state=_RTR, mtu=3, way=way, far_number=told["far"] + self.place, receive_psn=told["far_psn"],
                       far_reads=16, rnr_timer=1),
            Attributes(state=_RTS, send_psn=told["psn"], reads=8, timeout=15, retries=7, rnr_retries=7),
        )  # fmt: skip
        for mask, attributes in zip(_STEPS[service], steps, strict=True):
            if error := verbs.library.ibv_modify_qp(c.c_void_p(self.pair), c.byref(attributes), mask):
                raise OSError(error, f"queue pair {self.place} does not go into state {attributes.state}")
        if self.receives and not self.is_shared:
            assert self.slots is not None
            for slot in range(self.room):
                part = Part(slot * self.slot, self.slot, self.slots[1])
                self.services.receive(self.pair, self.place << 16 | slot, part)
        self.far_key_there = told["far_key"] + self.place

    def post(self, told: dict[str, Any]) -> None:
        """Keep messages under way."""
        while self.asks and self.posted < self.many and self.posted - self.done < _UNDER_WAY:
            row, at = self.row, self.posted * self.message
            operation = OPERATIONS[row["operation"]]
            if row["immediate"]:
                operation = {WRITE: WRITE_IMMEDIATE, SEND: SEND_IMMEDIATE}[operation]
            work = Work(number=self.place << 16, operation=operation, far_address=at, far_key=self.far_key_there)
            if operation in (FETCH_ADD, COMPARE_SWAP):
                work = atomic(operation, self.posted, self.far_key_there)
                work.number = self.place << 16
            work.immediate = socket.htonl(IMMEDIATE)
            if self.service == "UD":
                number = told["far"] + self.place
                _HANDLE.pack_into(work, Work.far_address.offset, self.services.handle(told), number, told["q_key"])
            self.services.verbs.post(self.pair, work, at, self.message, self.key)
            self.posted += 1

    def take(self, done: Done) -> None:
        """A receive has been used."""
        slots, size = (self.services.pool, self.services.slot) if self.is_shared else (self.slots, self.slot)
        assert slots is not None
        slot = done.number & 0xFFFF
        begin = slot * size + (GRH if self.service == "UD" else 0)
        octets = bytes(slots[0][begin : slot * size + done.octets])
        if self.row["operation"] == "send":
            self.came.append(self.by_content.get(octets, -1))
        self.immediates += done.flags & 2 and socket.ntohl(done.immediate) == IMMEDIATE
        if self.is_shared:
            self.services.post_shared(slot)

    def said(self) -> dict[str, Any]:
        """Return what came here."""
        content, whole = self.services.content, 0
        pieces = True  # each packet of each message is there, or nothing of it
        for begin in range(0, self.message * self.many, self.message):
            for at in range(begin, begin + self.message, 1024):
                end = min(at + 1024, begin + self.message)
                pieces &= self.memory[at:end] in (content[at:end], bytes(end - at))
        for at in range(0, self.message * self.many, self.message):
            whole += self.memory[at : at + self.message] == content[at : at + self.message]
        return {
            "came": self.came, "immediates": self.immediates, "whole": whole, "pieces": pieces,
            "memory": self.memory[: 8 * self.many].hex() if "and" in self.row["operation"] else "",
        }  # fmt: skip


class Services:
    """A device, and the queue pairs of all rows."""

    def __init__(self, told: dict[str, Any]) -> None:
        self.content = Path("content").read_bytes()
        self.verbs = Verbs()
        self.verbs.completions = self.verbs._made(
            self.verbs.library.ibv_create_cq, self.verbs.context, 8192, None, None, 0
        )
        rows = told["rows"]
        self.slot = GRH + max(row["message"] for row in rows)
        self.pool = self.verbs.memory(bytes(self.slot * told["shared"]))
        first = SharedFirst(None, 64, 1, 0)
        self.shared = self.verbs._made(self.verbs.library.ibv_create_srq, self.verbs.domain, c.byref(first))
        self._handle = 0
        self.ends = [End(self, place, row) for place, row in enumerate(rows)]
        self.by_number = {end.number: end for end in self.ends}
        for end in self.ends:
            end.connect(told)
        for slot in range(told["shared"]):
            self.post_shared(slot)

    def way(self, told: dict[str, Any]) -> Way:
        ipv6 = told["address"] if ":" in told["address"] else f"::ffff:{told['address']}"
        target = (c.c_uint64 * 2).from_buffer_copy(socket.inet_pton(socket.AF_INET6, ipv6))
        return Way(address=target, own_address=2 if ipv6 == told["address"] else 1, hops=64,
                   traffic_class=told["traffic_class"], is_global=1, port=1)  # fmt: skip

    def handle(self, told: dict[str, Any]) -> int:
        if not self._handle:
            way = self.way(told)
            self._handle = self.verbs._made(self.verbs.library.ibv_create_ah, self.verbs.domain, c.byref(way))
        return self._handle

    def receive(self, pair: int, number: int, part: Part, place: int = 216) -> None:
        """Post a receive, by the function at this place of a context."""
        work = Work(number=number, parts=c.addressof(part), count=1)
        if error := self.verbs._call(place, pair, c.addressof(work), c.addressof(c.c_void_p())):
            raise OSError(error, "a receive is not taken")

    def post_shared(self, slot: int) -> None:
        self.receive(self.shared, _SHARED | slot, Part(slot * self.slot, self.slot, self.pool[1]), _POST_SHARED)

    def serve(self, told: dict[str, Any]) -> None:
        """Post works and take completions until a line comes and all works are done."""
        done, is_told = Done(), False
        while not is_told or any(end.asks and end.done < end.many for end in self.ends):
            for end in self.ends:
                end.post(told)
            while self.verbs._call(96, self.verbs.completions, 1, c.addressof(done)):
                if done.status and done.number >= _SHARED:
                    self.post_shared(done.number & 0xFFFF)  # of an unreliable message whose end is lost
                elif done.status:
                    raise RuntimeError(f"a work of queue pair {done.number >> 16} ended with status {done.status}")
                elif done.operation & _OF_RECEIVES:
                    self.by_number[done.pair].take(done)
                else:
                    self.ends[done.number >> 16].done += 1
            if not is_told and select.select([sys.stdin], [], [], 0)[0]:
                is_told = bool(sys.stdin.readline())
            time.sleep(10e-6)


def main() -> None:
    told = json.loads(Path(sys.argv[1]).read_text())
    services = Services(told)
    say({"numbers": [end.number for end in services.ends], "keys": [end.far_key for end in services.ends]})
    services.serve(told)
    time.sleep(0.02)
    print(json.dumps([end.said() for end in services.ends]), flush=True)


if __name__ == "__main__":
    main()
