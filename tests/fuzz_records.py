"""Fuzzing of the codecs of path records, RoCEv2 packets and connection messages, in the frame of `tests.fuzz`."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv4Address

from testbed.frames import roce, roce_cm
from testbed.frames.path_record import Attribute, ClassPortInfo, Method, MultiPathRecord, PathRecord, SaMad


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
    requests = tuple(roce_cm.packet(message, 9, 1).payload for message in messages)
    return {
        "path record": ((path.pack(),), _path_record),
        "multipath record": ((several.pack(),), _multipath_record),
        "subnet administration": ((query.pack(), query.answer(0, [path.pack()]).pack()), _mad),
        "class port info": ((ClassPortInfo().pack(),), _class_port_info),
        "roce": (tuple(roce.encode(packet) + bytes(roce.ICRC_OCTETS) for packet in packets), _roce),
        "roce connection": (requests, _roce_cm),
    }
