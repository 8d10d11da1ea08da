"""The structures of the port program in Python: each field is in its place, by the BTF of the object.

The size of a structure shows little: if two fields change places, it is the same.
"""

from __future__ import annotations

import re
import struct
from fractions import Fraction
from itertools import count
from typing import Any

import pytest

from testbed.linux.port_program import _OBJECT, DROP_REASONS, EVENT, GroupLimits, PortProgram, PortTables, QueueLimits
from testbed.linux.port_program.buffer_tables import BufferTables
from testbed.linux.port_program.build import SOURCE
from testbed.linux.port_program.records import RULED, TRIMMED

_INT, _ARRAY, _STRUCT = 1, 3, 4
_EXTRA = {1: 4, 14: 4, 17: 4, 3: 12}
_EXTRA_EACH = {4: 12, 5: 12, 6: 8, 13: 8, 15: 12, 19: 12}
"""The octets after a type's first 12, and those of each member, by the kind of type."""
Member = tuple[int, int, int]
"""A member's position, the octets of an element, and the number of elements."""


def _section(name: str) -> bytes:
    """Return a section of the object, which is a 64-bit ELF file."""
    data = _OBJECT.read_bytes()
    (table,) = struct.unpack_from("<Q", data, 40)
    size, number, names = struct.unpack_from("<HHH", data, 58)
    headers = [struct.unpack_from("<IIQQQQ", data, table + size * one) for one in range(number)]
    for at, _, _, _, start, length in headers:
        begin = headers[names][4] + at
        if data[begin : data.index(b"\0", begin)] == name.encode():
            return data[start : start + length]
    raise AssertionError(f"the object has no section {name}")


def _structures() -> dict[str, dict[str, Member]]:
    """Return the members of each structure."""
    data = _section(".BTF")
    _, _, _, header, type_at, type_length, text_at, _ = struct.unpack_from("<HBBIIIII", data)
    types: list[Any] = [None]
    at, end = header + type_at, header + type_at + type_length
    while at < end:
        name, info, size = struct.unpack_from("<III", data, at)
        kind, many = info >> 24 & 31, info & 0xFFFF
        types.append((kind, name, size, at + 12, many))
        at += 12 + _EXTRA.get(kind, 0) + _EXTRA_EACH.get(kind, 0) * many

    def text(offset: int) -> str:
        begin = header + text_at + offset
        return data[begin : data.index(b"\0", begin)].decode()

    def shape(number: int) -> tuple[int, int]:
        kind, _, size, more, _ = types[number]
        if kind == _ARRAY:
            of, _, elements = struct.unpack_from("<III", data, more)
            each, inner = shape(of)
            return each, inner * elements
        return (size, 1) if kind in (_INT, _STRUCT) else shape(size)

    found = {}
    for one in types[1:]:
        kind, name, _, more, many = one
        if kind == _STRUCT and text(name) in ("port", "group", "queue", "pool", "buffer"):
            members = [struct.unpack_from("<III", data, more + 12 * index) for index in range(many)]
            found[text(name)] = {text(label): (bits // 8, *shape(of)) for label, of, bits in members}
    return found


STRUCTURES = _structures()


class Entry:
    """A structure in which every element has another value."""

    def __init__(self, name: str) -> None:
        self.members = STRUCTURES[name]
        last = max(at + each * elements for at, each, elements in self.members.values())
        self.octets = bytearray(-(-last // 8) * 8)
        numbers = count(1)
        for at, each, elements in self.members.values():
            for element in range(elements):
                value = next(numbers) & 0xFF
                self.octets[at + element * each] = value

    def __getitem__(self, name: str) -> Any:
        return value(bytes(self.octets), self.members, name)


def value(octets: bytes, members: dict[str, Member], name: str) -> Any:
    at, each, elements = members[name]
    found = tuple(int.from_bytes(octets[at + each * one : at + each * (one + 1)], "little") for one in range(elements))
    return found if elements > 1 else found[0]


@pytest.fixture
def program() -> Any:
    """A port program without a kernel: it has only the shared memory."""
    made = PortProgram.__new__(PortProgram)
    made.buffers = BufferTables.__new__(BufferTables)
    return made


def test_a_groups_counters_are_read_where_the_program_writes_them(program: Any) -> None:
    group = Entry("group")
    program.buffers.group_memory = bytes(len(group.octets)) * 3 * 8 + bytes(len(group.octets)) * 5 + bytes(group.octets)
    found = vars(program.buffers.group(3, 5))
    assert found.pop("xoff") is True
    for name in ("dropped_frames", "dropped_cells"):
        assert found.pop(name) == group[name][: len(DROP_REASONS)]
        assert found.pop(name.replace("dropped", "trimmed")) == group[name][TRIMMED]
        assert found.pop(name.replace("dropped", "ruled")) == group[name][RULED]
    assert found == {name: group[name] for name in found}


def test_whether_a_group_is_congested_is_read_where_the_program_writes_it(program: Any) -> None:
    group = Entry("group")
    at, size = group.members["xoff"][0], len(group.octets)
    for place in range(size):
        octets = bytearray(size)
        octets[place] = 1
        program.buffers.group_memory = bytes(octets)
        assert program.buffers.is_congested(0, 0) is (place == at), place


def test_whether_a_lossless_group_holds_headroom_is_read_where_the_program_writes_it(program: Any) -> None:
    members = STRUCTURES["group"]
    (lossless, _, _), (used, each, _) = members["lossless"], members["used"]
    for is_lossless, kind, wanted in [(1, 2, True), (1, 0, False), (1, 1, False), (0, 2, False)]:
        octets = bytearray(2 * len(Entry("group").octets))  # two groups: the second one is looked at
        start = len(octets) // 2
        octets[start + lossless], octets[start + used + kind * each + 3] = is_lossless, 1
        program.buffers.group_memory = bytes(octets)
        assert program.buffers._holds_headroom(0, 1) is wanted


def test_a_groups_limits_are_written_where_the_program_reads_them(program: Any) -> None:
    members = STRUCTURES["group"]
    program.buffers.group_memory = bytearray(4096)
    program.buffers.set_group(0, 0, GroupLimits(True, 11, 0, Fraction(13, 17), 19, 23, 29, 3))
    written = {name: value(bytes(program.buffers.group_memory), members, name) for name in members}
    wanted = {"lossless": 1, "guaranteed": 11, "alpha_numerator": 13, "alpha_denominator": 17}
    wanted |= {"xon_offset": 19, "headroom": 23, "xon": 29, "pool": 3}
    assert {name: found for name, found in written.items() if isinstance(found, int) and found} == wanted
    assert program.buffers.limits(0, 0) == GroupLimits(True, 11, 0, Fraction(13, 17), 19, 23, 29, 3)


def test_a_ports_settings_are_written_where_the_program_reads_them(program: Any) -> None:
    members = STRUCTURES["port"]
    tables = bytes(range(100, 214))
    queues = tuple(range(40, 48))
    octets = PortTables(5, 6, 7, queues, tables, routed=True, counted=True).encode()
    octets += bytes(1024)
    written = {name: value(octets, members, name) for name in members}
    assert (written["node"], written["buffer"], written["control"]) == (5, 6, 7)
    assert written["queue"] == queues
    assert (written["charged"], written["switched"]) == (1, 2)
    assert (written["blocked"], written["defended"], written["applications"], written["lanes"]) == (0, 0, 0, 0)
    assert written["counted"] == 1
    names = ["trust", "port_priority", "dscp_to_dot1p", "dot1p_to_local", "rewrite_dot1p", "rewrite_dscp", "mark_dscp"]
    names += ["pcp_to_dot1p", "dot1p_to_group"]
    flat = b"".join(bytes([found] if isinstance(found, int) else found) for found in (written[name] for name in names))
    assert flat == tables, "in the order of PriorityMap.tables()"


def test_what_is_set_at_a_port_by_itself_is_where_the_program_reads_it(program: Any) -> None:
    members = STRUCTURES["port"]
    program.port_memory = bytearray(4096)
    program.set_blocked(0, 0x11)
    program.set_defended(0, 0x22)
    program.set_queues(0, range(60, 68))
    octets = bytes(program.port_memory)
    assert (value(octets, members, "blocked"), value(octets, members, "defended")) == (0x11, 0x22)
    assert value(octets, members, "queue") == tuple(range(60, 68))
    program._applications = {}
    program.set_applications(0, {}, {(3, 7): 1})
    assert value(bytes(program.port_memory), members, "applications") == 1 << 3
    program._lanes = {}
    program.set_lanes(0, {}, {7: tuple(range(16))})
    assert value(bytes(program.port_memory), members, "lanes") == 1
    assert program.lanes(0, 7) == tuple(range(16))
    assert list(program._lanes) == [(7 << 16).to_bytes(4, "little")], "input and output slot, as `lane_of` joins them"
    program.set_lanes(0, {7: tuple(range(16))}, {})
    assert (value(bytes(program.port_memory), members, "lanes"), program.lanes(0, 7)) == (0, None)
    assert program._lanes == {}


def test_a_ports_counters_are_read_where_the_program_writes_them(program: Any) -> None:
    port = Entry("port")
    program.port_memory = bytes(port.octets)
    found = vars(program.port(0))
    read = {name: port[name] for name in found}
    read["died_frames"] = read["died_frames"][: len(found["died_frames"])]  # the program has a power of two of them
    assert found == read


def test_a_pools_counters_are_read_where_the_program_writes_them(program: Any) -> None:
    pool, place = Entry("pool"), STRUCTURES["buffer"]["pools"][0]
    size = max(at + each * n for at, each, n in pool.members.values())
    octets = bytearray(place + 8 * size)
    for number in range(8):
        octets[place + number * size] = number  # its size of guaranteed cells
    octets[place + 5 * size : place + 6 * size] = pool.octets[:size]
    program.buffers._buffers = [bytes(octets)]
    found = program.buffers.pools(0)
    assert vars(found[5]) == {name: pool[name] for name in vars(found[5])}
    assert [one.size[0] for one in found] == [0, 1, 2, 3, 4, pool["size"][0], 6, 7]
    assert program.buffers.buffer(0) == found[0]


def test_pools_are_written_where_the_program_reads_them(program: Any) -> None:
    program.buffers._buffers = {}
    program.buffers.set_buffer(0, 208, [(1, 2, 3), (4, 5, 6)], [(7, 8, 0)])
    octets = program.buffers._buffers[0]
    assert value(octets, STRUCTURES["buffer"], "cell_bytes") == 208
    program.buffers._buffers = [octets]
    sizes = {number: pool.size for number, pool in enumerate(program.buffers.pools(0)) if any(pool.size)}
    assert sizes == {0: (1, 2, 3), 1: (4, 5, 6), 4: (7, 8, 0)}


def test_a_queues_settings_and_counters_are_where_the_program_has_them(program: Any) -> None:
    members, queue = STRUCTURES["queue"], Entry("queue")
    program.buffers.queue_memory = bytearray(8192)
    program.buffers.set_queue(0, 0, QueueLimits(2, 11, 0, Fraction(13, 17)))
    written = {name: value(bytes(program.buffers.queue_memory), members, name) for name in members}
    wanted = {"limited": 1, "pool": 2, "reserved": 11, "alpha_numerator": 13, "alpha_denominator": 17}
    assert {name: found for name, found in written.items() if isinstance(found, int) and found} == wanted
    program.buffers.queue_memory = bytes(len(queue.octets)) * (3 * 8 + 5) + bytes(queue.octets)
    found = vars(program.buffers.queue(3, 5))
    assert found == {name: queue[name] for name in found}


def test_an_event_is_read_as_the_program_wrote_it() -> None:
    """No map has events, so the object's BTF does not describe them: they are compared with the source."""
    found = re.search(r"struct event \{(.*?)\};", SOURCE.read_text(), re.DOTALL)
    assert found is not None
    members = re.findall(r"__u(\d+) (\w+);", found[1])
    names = ["time_ns", "kind", "slot", "priority", "reason", "length", "shared", "headroom"]
    assert [name for _, name in members] == names
    octets = [int(bits) // 8 for bits, _ in members]
    places = [sum(octets[:number]) for number in range(len(octets))]
    assert all(place % size == 0 for place, size in zip(places, octets, strict=True)), "there is padding between"
    assert EVENT.format == "=" + "".join({1: "B", 2: "H", 4: "I", 8: "Q"}[size] for size in octets)
