"""Fuzzing of the codecs of path records, RoCEv2 packets, connection messages and ordered sets, for `tests.fuzz`."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv4Address

from testbed.frames import Mac, roce, roce_cm
from testbed.frames.path_record import Attribute, ClassPortInfo, Method, MultiPathRecord, PathRecord, SaMad
from testbed.report.exports import frame_text
from testbed.subjects.link.llr import ordered_set, record


def _same(found: object, again: object) -> None:
    if found != again:
        raise AssertionError(f"{found} was written and read as {again}")


def _path_record(octets: bytes) -> str:
    found = PathRecord.unpack(octets)
    _same(found, PathRecord.unpack(found.pack()))
    return "read"


def _multipath_record(octets: bytes) -> str:
    found = MultiPathRecord.unpack(octets)
    _same(found, MultiPathRecord.unpack(found.pack()))
    return "read"


def _mad(octets: bytes) -> str:
    found = SaMad.unpack(octets)
    if found.attribute is Attribute.PATH_RECORD and len(found.data) >= 64:
        PathRecord.unpack(found.data)
    found.answer(0, [])
    return found.method.name


def _class_port_info(octets: bytes) -> str:
    found = ClassPortInfo.unpack(octets)
    _same(found, ClassPortInfo.unpack(found.pack()))
    return "read"


def _roce(octets: bytes) -> str:
    found = roce.parse(octets)
    _same(found, roce.parse(roce.encode(found) + bytes(roce.ICRC_OCTETS)))
    return found.opcode.name


def _roce_cm(octets: bytes) -> str:
    message, _ = roce_cm.parse(octets)
    return type(message).__name__


def _ordered_set(octets: bytes) -> str:
    found = ordered_set.parse(octets)
    _same(found, ordered_set.parse(found.encode()))
    return found.kind.label


def _llr_record(octets: bytes) -> str:
    frame_text.layers(octets)
    found = record.parse(octets)
    _same(found, record.parse(found.encode()))
    return type(found.content).__name__


def record_seeds() -> dict[str, tuple[tuple[bytes, ...], Callable[[bytes], str]]]:
    """Return valid octets and the decoder, for each decoder by its name."""
    path = PathRecord(service_id=7, dgid=1 << 64, sgid=2 << 64, dlid=3, slid=4, reversible=True, paths=2, pkey=0x8001)
    several = MultiPathRecord(sgids=(1 << 64, 2 << 64), dgids=(3 << 64,), service_id=7, pkey=0x8001)
    query = SaMad(Method.GET, Attribute.PATH_RECORD, 5, 3, path.pack())
    packets = (
        roce.Packet(roce.Opcode.SEND_ONLY, 5, 6, b"data"),
        roce.Packet(roce.Opcode.WRITE_ONLY, 5, 6, b"more data", reth=roce.Reth(1, 2, 9)),
        roce.Packet(roce.Opcode.ACKNOWLEDGE, 5, 6, aeth=roce.Aeth(7)),
    )
    here, there = IPv4Address("10.0.0.1"), IPv4Address("10.0.0.2")
    messages = (
        roce_cm.Request(1, roce_cm.service_id(7), 2, 3, 1024, here, there),
        roce_cm.Reply(1, 2, 3, 4),
        roce_cm.Ready(1, 2),
        roce_cm.Reject(1, 2, roce_cm.RejectReason.CONSUMER_REJECT),
    )
    sets = [ordered_set.OrderedSet(kind, 0xABCDE, 7 if kind > 2 else 0) for kind in ordered_set.Kind]
    carried = [record.Record(Mac(bytes(6)), Mac(bytes(6)), content) for content in (*sets, 5, None)]
    frame = record.Record(
        Mac(bytes(6)), Mac(bytes(6)), 9, record.Fate.POISONED, True, bytes(12) + b"\x08\x00" + bytes(50)
    )
    requests = tuple(roce_cm.packet(message, 9, 1).payload for message in messages)
    return {
        "path record": ((path.pack(),), _path_record),
        "multipath record": ((several.pack(),), _multipath_record),
        "subnet administration": ((query.pack(), query.answer(0, [path.pack()]).pack()), _mad),
        "class port info": ((ClassPortInfo().pack(),), _class_port_info),
        "roce": (tuple(roce.encode(packet) + bytes(roce.ICRC_OCTETS) for packet in packets), _roce),
        "roce connection": (requests, _roce_cm),
        "ordered set": (tuple(one.encode() for one in sets), _ordered_set),
        "llr record": (tuple(one.encode() for one in (*carried, frame)), _llr_record),
    }
