"""Execution traces of training jobs in the form of Chakra (MLCommons): computing, collectives, sends and receives.

A rank has a file of nodes with dependencies. It is protobuf (`.et`, gzipped or not), of which this module reads what a
network needs by the wire format itself, or JSON: the form of Chakra's feeder (`workload_graph`), or that of its
jsonizer, one object after the other. Tensors, memory and the operators' own attributes are left out.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from testbed.errors import XoffError, listed
from testbed.strict.numbers import DECODER
from testbed.workload.transfers import WorkloadError

LARGEST = 64 << 20
"""The most octets of a trace, unpacked."""
_GZIP = b"\x1f\x8b"
_VARINT, _I64, _LEN, _I32 = 0, 1, 2, 5
_METADATA_FIELDS = 2
_LONGEST_MICROS = 10**13
"""The most microseconds of a node: some four months."""
_MOST_OCTETS = 10**15


class Kind(IntEnum):
    """The types of nodes, with Chakra's numbers."""

    INVALID = 0
    METADATA = 1
    MEM_LOAD = 2
    MEM_STORE = 3
    COMP = 4
    SEND = 5
    RECV = 6
    COLLECTIVE = 7


class Collective(IntEnum):
    """The collectives, with Chakra's numbers."""

    ALL_REDUCE = 0
    REDUCE = 1
    ALL_GATHER = 2
    GATHER = 3
    SCATTER = 4
    BROADCAST = 5
    ALL_TO_ALL = 6
    REDUCE_SCATTER = 7
    REDUCE_SCATTER_BLOCK = 8
    BARRIER = 9


@dataclass(frozen=True)
class TraceNode:
    """A node of one rank's trace."""

    id: int
    name: str
    kind: Kind
    after: tuple[int, ...]
    """The nodes that have to end before: data and control dependencies."""
    micros: int = 0
    """The time of computing or of memory; that of communication is what the lab finds."""
    collective: Collective = Collective.ALL_REDUCE
    octets: int = 0
    source: int = 0
    target: int = 0
    tag: int = 0
    group: str = ""
    """The process group of a collective; empty for all ranks."""


def read_trace(octets: bytes, name: str) -> tuple[TraceNode, ...]:
    """Return the nodes of one rank's trace; WorkloadError names the file and what is wrong."""
    try:
        if octets.startswith(_GZIP):
            octets = zlib.decompressobj(wbits=31).decompress(octets, LARGEST + 1)
        if len(octets) > LARGEST:
            raise WorkloadError(f"{name} has more than {LARGEST >> 20} MB; cut the trace to some iterations")
        nodes = _of_json(octets, name) if octets.lstrip()[:1] in (b"{", b"[") else _of_protobuf(octets)
    except (
        ValueError,
        KeyError,
        TypeError,
        IndexError,
        AttributeError,
        struct.error,
        zlib.error,
        gzip.BadGzipFile,
    ) as error:
        if isinstance(error, XoffError):
            raise
        raise WorkloadError(f"{name} is no execution trace of Chakra, protobuf or JSON: {error}") from None
    _require_graph(nodes, name)
    return tuple(nodes)


def _require_graph(nodes: Sequence[TraceNode], name: str) -> None:
    """Refuse traces that no job can have run: nodes twice, or dependencies that are missing or go in a circle."""
    known = {node.id: node for node in nodes}
    if not nodes:
        raise WorkloadError(f"{name} has no nodes")
    if len(known) < len(nodes):
        raise WorkloadError(f"{name} has {len(nodes)} nodes with {len(known)} different numbers")
    waiting = {node.id: len(set(node.after)) for node in nodes}
    children: dict[int, list[int]] = {}
    for node in nodes:
        if not (0 <= node.micros <= _LONGEST_MICROS and 0 <= node.octets <= _MOST_OCTETS):
            raise WorkloadError(
                f"{name}: node {node.id} {node.name[:40]} takes a time or an amount that no job has: at most "
                f"{_LONGEST_MICROS} us and {_MOST_OCTETS} octets"
            )
        for other in set(node.after):
            if other not in known:
                raise WorkloadError(
                    f"{name}: node {node.id} {node.name[:40]} waits for node {other}, which is not there"
                )
            children.setdefault(other, []).append(node.id)
    free = [number for number, many in waiting.items() if not many]
    done = 0
    while free:
        done += 1
        for child in children.get(free.pop(), ()):
            waiting[child] -= 1
            if not waiting[child]:
                free.append(child)
    if done < len(nodes):
        stuck = min(number for number, many in waiting.items() if many)
        raise WorkloadError(f"{name}: node {stuck} {known[stuck].name[:40]} waits for itself, by others")


# JSON


def _of_json(octets: bytes, name: str) -> list[TraceNode]:
    text = octets.decode()
    place, objects = 0, []
    while place < len(text):
        if text[place].isspace():
            place += 1
            continue
        found, place = DECODER.raw_decode(text, place)
        objects.append(found)
    while len(objects) == 1 and (found := _nodes_of(objects[0])) is not None:
        objects = found
    nodes = [one for one in objects if _OF_NODE & {*one}]
    if objects and not nodes:
        raise WorkloadError(
            f"{name} has no nodes where they are looked for: in a list, as {', '.join(_LISTS)}, or one object behind "
            f"the other, each with Id or id and a type; its first object has {listed(map(str, objects[0]), 8)}"
        )
    if len(objects) - len(nodes) > 1 or nodes != objects[len(objects) - len(nodes) :]:  # the first may be metadata
        lacking = next(one for one in objects[1:] if not _OF_NODE & {*one})
        raise WorkloadError(f"{name}: a node has neither a number nor a type; it has {listed(map(str, lacking), 8)}")
    return [_of_feeder(one) if {"Id", "NodeType"} & {*one} else _of_message(one) for one in nodes]


_OF_NODE = {"Id", "NodeType", "id", "type"}  # protobuf's JSON leaves out numbers that are 0
_LISTS = ("workload_graph", "nodes", "node")


def _nodes_of(whole: Any) -> list[Any] | None:
    """Return the nodes of an object that has them in a list, or of a list; None if it is a node itself."""
    if isinstance(whole, list):
        return whole
    return next((whole[name] for name in _LISTS if isinstance(whole.get(name), list)), None)


def _of_feeder(one: Mapping[str, Any]) -> TraceNode:
    return TraceNode(
        int(one["Id"]), str(one.get("Name", "")), Kind(int(one["NodeType"])),
        tuple(int(other) for name in ("data_deps", "ctrl_deps") for other in one.get(name, ())),
        int(one.get("runtime", 0)), Collective(int(one.get("comm_type", 0))), int(one.get("comm_size", 0)),
        int(one.get("comm_src", 0)), int(one.get("comm_dst", 0)), int(one.get("comm_tag", 0)),
        str(one.get("pg_name", "")),
    )  # fmt: skip


_KINDS = {
    "INVALID_NODE": Kind.INVALID, "METADATA_NODE": Kind.METADATA, "MEM_LOAD_NODE": Kind.MEM_LOAD,
    "MEM_STORE_NODE": Kind.MEM_STORE, "COMP_NODE": Kind.COMP, "COMM_SEND_NODE": Kind.SEND,
    "COMM_RECV_NODE": Kind.RECV, "COMM_COLL_NODE": Kind.COLLECTIVE,
}  # fmt: skip


def _of_message(one: Mapping[str, Any]) -> TraceNode:
    """Return a node of protobuf's own JSON, in which 64-bit numbers are texts and names are in camel case."""
    attributes = {}
    for attribute in one.get("attr", ()):
        values = [value for key, value in attribute.items() if key.lower().replace("_", "").endswith("val")]
        if values:
            attributes[str(attribute["name"])] = values[0]
    deps = [one.get(name, ()) for name in ("dataDeps", "data_deps", "ctrlDeps", "ctrl_deps")]
    kind = one.get("type", 0)
    return _node(
        int(one.get("id", 0)), str(one.get("name", "")), _KINDS[kind] if kind in _KINDS else Kind(int(kind)),
        tuple(int(other) for some in deps for other in some),
        micros=int(one.get("durationMicros", one.get("duration_micros", 0))), attributes=attributes,
    )  # fmt: skip


def _node(
    number: int, name: str, kind: Kind, after: tuple[int, ...], *, micros: int, attributes: Mapping[str, Any]
) -> TraceNode:
    group = attributes.get("pg_name", "")
    return TraceNode(
        number, name, kind, after, micros, Collective(int(attributes.get("comm_type", 0))),
        int(attributes.get("comm_size", 0)), int(attributes.get("comm_src", 0)), int(attributes.get("comm_dst", 0)),
        int(attributes.get("comm_tag", 0)), group.decode() if isinstance(group, bytes) else str(group),
    )  # fmt: skip


# Protobuf


def _of_protobuf(octets: bytes) -> list[TraceNode]:
    """Return the nodes of a row of messages, each behind its length; the first is the metadata of the whole."""
    place, messages = 0, []
    while place < len(octets):
        size, place = _varint(octets, place)
        if size > len(octets) - place:
            raise ValueError(f"a message of {size} octets begins {len(octets) - place} before the end")
        messages.append(octets[place : place + size])
        place += size
    if not messages:
        raise ValueError("it is empty")
    if all(number <= _METADATA_FIELDS and kind == _LEN for number, kind, _ in _fields(messages[0])):
        messages = messages[1:]
    return [_of_octets(one) for one in messages]


def _of_octets(message: bytes) -> TraceNode:
    number, name, kind, micros = 0, "", 0, 0
    after: list[int] = []
    attributes: dict[str, Any] = {}
    for field, wire, value in _fields(message):
        if field == 1:
            number = value
        elif field == 2:
            name = value.decode(errors="replace")
        elif field == 3:
            kind = value
        elif field in (4, 5):
            after += [value] if wire == _VARINT else _packed(value)
        elif field == 7:
            micros = value
        elif field == 10:
            key, found = _attribute(value)
            attributes[key] = found
    return _node(number, name, Kind(kind), tuple(after), micros=micros, attributes=attributes)


_ZIGZAG = (15, 17)
"""The fields of an attribute whose sign is in the lowest bit: sint32 and sint64."""


def _attribute(message: bytes) -> tuple[str, Any]:
    """Return the name and the value of an attribute; lists are of no use to a network."""
    name, content = "", None
    for field, wire, value in _fields(message):
        if field == 1:
            name = value.decode(errors="replace")
        elif field in _ZIGZAG:
            content = value >> 1 ^ -(value & 1)
        elif field == 3:
            (content,) = struct.unpack("<d", struct.pack("<Q", value))
        elif field == 5:
            (content,) = struct.unpack("<f", struct.pack("<I", value))
        elif field > 2 and (wire != _LEN or field in (29, 31)):
            content = value - (1 << 64) if wire == _VARINT and value >> 63 else value
    return name, content


def _fields(message: bytes) -> Iterator[tuple[int, int, Any]]:
    """Yield number, wire type and value of each field."""
    place = 0
    while place < len(message):
        key, place = _varint(message, place)
        number, wire = key >> 3, key & 7
        value: int | bytes
        if wire == _VARINT:
            value, place = _varint(message, place)
        elif wire in (_I64, _I32):
            size = 8 if wire == _I64 else 4
            value = int.from_bytes(_part(message, place, size), "little")
            place += size
        elif wire == _LEN:
            size, place = _varint(message, place)
            value = _part(message, place, size)
            place += size
        else:
            raise ValueError(f"wire type {wire} at octet {place}")
        yield number, wire, value


def _part(message: bytes, place: int, size: int) -> bytes:
    if size > len(message) - place:
        raise ValueError(f"a field of {size} octets is longer than its message")
    return message[place : place + size]


def _packed(octets: bytes) -> list[int]:
    found, place = [], 0
    while place < len(octets):
        value, place = _varint(octets, place)
        found.append(value)
    return found


def _varint(octets: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        octet = octets[place]
        place += 1
        value |= (octet & 0x7F) << shift
        if not octet & 0x80:
            return value & (1 << 64) - 1, place
        shift += 7
        if shift > 63:
            raise ValueError("a number has more than 64 bits")
