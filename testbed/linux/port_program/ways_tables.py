"""Groups of equal ways in the port program's tables: settings that go in, counters that come out."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Sequence
from typing import NamedTuple

from testbed.linux import bpf
from testbed.linux.port_program.records import (
    CHOICE,
    FIRST_INTERFACE,
    MEMBER,
    MEMBERS,
    TABLE,
    WAYS,
    WAYS_ENTRY,
    WAYS_HEAD,
    WAYS_SIZE_AT,
)

_SIZE = struct.Struct("=I")
_TABLE_AT = WAYS_HEAD.size
_MEMBERS_AT = _TABLE_AT + TABLE


class WayCounters(NamedTuple):
    """The frames and octets that one way of a group was given."""

    is_there: bool
    frames: int
    octets: int


class WaysTables:
    """The groups of equal ways of all switches of a network."""

    def __init__(self, memory: mmap.mmap | bytearray, choose: int) -> None:
        self.memory, self._choose = memory, choose
        self._used = 0

    def add(
        self, by: int, fields: int, seed: int, times: tuple[int, int], slots: Sequence[int], *, rule: int = 0
    ) -> int:
        """Add a group, without a table, and return its number. `times` are the gap of flowlets and the half-life, and
        `rule` is the number of the rule of one's own that chooses.
        """
        if self._used == WAYS:
            raise bpf.BpfError(f"a network has at most {WAYS} groups of equal ways")
        if len(slots) > MEMBERS:
            raise bpf.BpfError(f"a switch chooses among at most {MEMBERS} ways; these are {len(slots)}")
        number, self._used = self._used, self._used + 1
        start = number * WAYS_ENTRY.size
        WAYS_HEAD.pack_into(self.memory, start, by, fields, seed, 0, len(slots), 0, seed or 1, rule, *times, 0)
        for place, slot in enumerate(slots):
            _SIZE.pack_into(self.memory, start + _MEMBERS_AT + place * MEMBER.size, FIRST_INTERFACE + slot)
        return number

    def set_table(self, number: int, table: Sequence[int], slots: Sequence[int | None]) -> None:
        """Set the table of a group, and the slots of its members; None is one that has left.

        A member that has left is in no table.
        """
        if len(table) > TABLE:
            raise bpf.BpfError(f"a table of equal ways has at most {TABLE} entries; this one has {len(table)}")
        start = number * WAYS_ENTRY.size
        self.memory[start + _TABLE_AT : start + _TABLE_AT + len(table)] = bytes(table)
        _SIZE.pack_into(self.memory, start + WAYS_SIZE_AT, len(table))
        for place, slot in enumerate(slots):
            interface = 0 if slot is None else FIRST_INTERFACE + slot
            _SIZE.pack_into(self.memory, start + _MEMBERS_AT + place * MEMBER.size, interface)

    def counters(self, number: int) -> list[WayCounters]:
        """Return what each way of a group was given."""
        start = number * WAYS_ENTRY.size
        members = WAYS_HEAD.unpack_from(self.memory, start)[4]
        found = []
        for place in range(members):
            interface, _, frames, octets, *_ = MEMBER.unpack_from(
                self.memory, start + _MEMBERS_AT + place * MEMBER.size
            )
            found.append(WayCounters(bool(interface), frames, octets))
        return found

    def flowlets(self, number: int) -> int:
        """Return how many flowlets a group has begun."""
        return int(WAYS_HEAD.unpack_from(self.memory, number * WAYS_ENTRY.size)[10])

    def choose(self, number: int, words: Sequence[int], now_ns: int, length: int) -> tuple[int, int]:
        """Let the port program choose for a frame with these words; return the member, 255 for none, and the hash."""
        request = bytearray(CHOICE.pack(number, length, now_ns, *words, 0))
        member = bpf.run(self._choose, request)
        return member, CHOICE.unpack(request)[-1]
