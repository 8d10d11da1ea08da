"""RoCEv2 packets and messages of the connection manager; Scapy and Wireshark read the same from the same octets."""

from __future__ import annotations

import struct
import warnings
from collections.abc import Iterator
from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.frames import FieldError, roce, roce_cm
from testbed.frames.roce import Aeth, AtomicEth, Deth, Nak, Opcode, Packet, Reth, RocePacketError, RoceReason
from tests.unit.frames.tshark import TSHARK, decode

A4, B4 = "10.0.0.1", "10.0.0.2"
A6, B6 = "2001:db8::1", "2001:db8::2"
SOURCE_PORT = 0xC123
REQUEST = roce_cm.Request(
    0x01020304,
    roce_cm.service_id(5000),
    0x000102,
    0x123456,
    1024,
    IPv4Address(A4),
    IPv4Address(B4),
    4000,
    bytes(range(roce_cm.PRIVATE_OCTETS)),
    traffic_class=0x62,
    service_level=3,
    ca_guid=0x0200_00FF_FE00_0001,
    retries=5,
)
REPLY = roce_cm.Reply(0x0A0B0C0D, 0x01020304, 0x000203, 0x654321, bytes(196))
MESSAGES = (
    REQUEST,
    replace(REQUEST, source=IPv6Address(A6), destination=IPv6Address(B6)),
    REPLY,
    roce_cm.Ready(0x01020304, 0x0A0B0C0D),
    roce_cm.Reject(0x0A0B0C0D, 0x01020304, roce_cm.RejectReason.CONSUMER_REJECT),
    replace(REQUEST, service=roce.Service.UC),
    roce_cm.DatagramRequest(
        0x0A0B0C0D, roce_cm.service_id(5000, roce.Service.UD), IPv4Address(A4), IPv4Address(B4), 4000, bytes(180)
    ),
    roce_cm.DatagramReply(0x0A0B0C0D, 0x000203, roce_cm.service_id(5000), roce_cm.DATAGRAM_KEY, bytes(136)),
    roce_cm.DatagramReply(0x0A0B0C0D, 0, roce_cm.service_id(5000), 0, bytes(136), status=1),
)


def with_headers(opcode: Opcode, payload: bytes, number: int, psn: int) -> Packet:
    """Return a packet with the headers that its opcode needs."""
    needs_reth = "WRITE_FIRST" in opcode.name or "WRITE_ONLY" in opcode.name or opcode == Opcode.READ_REQUEST
    answers = (Opcode.ACKNOWLEDGE, Opcode.SELECTIVE_ACKNOWLEDGE, Opcode.ATOMIC_ACKNOWLEDGE)
    has_aeth = opcode in answers or (opcode in roce.READ_RESPONSES and opcode != Opcode.READ_RESPONSE_MIDDLE)
    return Packet(
        opcode,
        number,
        psn,
        roce.CNP_PAYLOAD if opcode == Opcode.CNP else payload,
        reth=Reth(number << 32, number, 77) if needs_reth else None,
        aeth=Aeth(psn, None if psn % 2 else Nak.SEQUENCE_ERROR) if has_aeth else None,
        deth=Deth(number, psn) if opcode in roce.DATAGRAMS else None,
        immediate=psn if "IMMEDIATE" in opcode.name else None,
        ack_request=bool(psn % 3),
        becn=opcode == Opcode.CNP,
        atomic=AtomicEth(number << 32, number, psn << 40, psn) if opcode in roce.ATOMICS else None,
        original=psn << 24 if opcode == Opcode.ATOMIC_ACKNOWLEDGE else None,
        invalidate=number if "INVALIDATE" in opcode.name else None,
    )


def every_packet() -> Iterator[Packet]:
    """Yield packets of each opcode, with payloads of several lengths where it has one."""
    for opcode in Opcode:
        without = opcode in (Opcode.READ_REQUEST, Opcode.ACKNOWLEDGE, Opcode.ATOMIC_ACKNOWLEDGE, *roce.ATOMICS)
        for length in (0,) if without else (1024,) if opcode.name.endswith(("FIRST", "MIDDLE")) else (1, 63, 64, 1024):
            yield with_headers(opcode, bytes(range(256)) * 4 if length == 1024 else bytes(length), 0xABCDEF, 0x123457)


def frame(packet: Packet, version: int = 4, dscp: int = 24) -> bytes:
    """Return the packet in an Ethernet frame as the kernel would send it, ECT(0)."""
    source, destination = (A4, B4) if version == 4 else (A6, B6)
    datagram = roce.Path(source, destination, SOURCE_PORT).seal(roce.encode(packet))
    udp_length = 8 + len(datagram)
    ds_field = dscp << 2 | 2
    if version == 4:
        addresses = IPv4Address(source).packed + IPv4Address(destination).packed
        header = struct.pack("!BBHHHBBH", 0x45, ds_field, 20 + udp_length, 0, 0x4000, 64, 17, 0) + addresses
        header = header[:10] + checksum(header) + header[12:]
        pseudo = addresses + struct.pack("!HH", 17, udp_length)
    else:
        addresses = IPv6Address(source).packed + IPv6Address(destination).packed
        header = struct.pack("!IHBB", 6 << 28 | ds_field << 20, udp_length, 17, 64) + addresses
        pseudo = addresses + struct.pack("!II", udp_length, 17)
    udp = struct.pack("!HHH", SOURCE_PORT, roce.PORT, udp_length)
    udp += checksum(pseudo + udp + b"\0\0" + datagram)
    ethernet = bytes.fromhex("020000000002 020000000001") + (b"\x08\x00" if version == 4 else b"\x86\xdd")
    return ethernet + header + udp + datagram


def checksum(octets: bytes) -> bytes:
    octets += bytes(len(octets) % 2)
    total = sum(struct.unpack(f"!{len(octets) // 2}H", octets))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return struct.pack("!H", ~total & 0xFFFF)


def rnr_nak(code: int) -> Packet:
    return Packet(Opcode.ACKNOWLEDGE, 5, 6, aeth=Aeth(7, rnr=code))


@given(st.integers(0, 31))
def test_an_rnr_nak_is_read_as_written(code: int) -> None:
    assert roce.parse(roce.encode(rnr_nak(code)) + bytes(4)) == rnr_nak(code)


@given(st.sampled_from(list(Opcode)), st.binary(max_size=1500), st.integers(0, 2**24 - 1), st.integers(0, 2**24 - 1))
def test_what_was_written_is_read_as_the_same(opcode: Opcode, payload: bytes, number: int, psn: int) -> None:
    packet = with_headers(opcode, payload, number, psn)
    octets = roce.encode(packet)
    assert len(octets) % 4 == 0
    assert roce.parse(octets + bytes(4)) == packet


@pytest.mark.parametrize("version", [4, 6])
def test_the_icrc_of_every_packet_is_what_scapy_computes(version: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from scapy.contrib.roce import BTH
        from scapy.layers.l2 import Ether
    for packet in every_packet():
        octets = frame(packet, version)
        read = Ether(octets)
        assert read[BTH].opcode == packet.opcode
        assert (read[BTH].dqpn, read[BTH].psn) == (packet.destination_qp, packet.psn)
        sent = octets[-4:]
        # Without the payload classes of Scapy, which know neither RETH nor DETH.
        header = read[BTH]
        rest = octets[octets.index(roce.encode(packet)[:12]) + 12 : -4]
        header.remove_payload()
        header.add_payload(rest)
        assert header.compute_icrc(bytes(header)) == sent


def test_what_a_network_changes_leaves_the_icrc_as_it_is_and_the_rest_does_not() -> None:
    path = roce.Path(A4, B4, SOURCE_PORT)
    datagram = bytearray(path.seal(roce.encode(Packet(Opcode.SEND_ONLY, 5, 6, b"data"))))
    datagram[4] = 0xC0  # FECN and BECN
    assert path.intact(bytes(datagram))
    for place in {*range(len(datagram))} - {4}:
        damaged = bytearray(datagram)
        damaged[place] ^= 1
        assert not path.intact(bytes(damaged))
    for other in (roce.Path(B4, A4, SOURCE_PORT), roce.Path(A4, B4, SOURCE_PORT + 1)):
        assert not other.intact(bytes(datagram))


@pytest.mark.parametrize(
    ("octets", "reason"),
    [
        (bytes(15), RoceReason.TOO_SHORT),
        (bytes([0x15]) + bytes(19), RoceReason.OPCODE_NOT_KNOWN),
        (bytes([0x04, 0x01]) + bytes(18), RoceReason.WRONG_VERSION),
        (bytes([0x0A]) + bytes(30), RoceReason.TOO_SHORT),
        (bytes([0x12]) + bytes(22), RoceReason.TOO_SHORT),
        (bytes([0x13]) + bytes(42), RoceReason.TOO_SHORT),
        (bytes([0x17]) + bytes(18), RoceReason.TOO_SHORT),
        (bytes([0x04]) + bytes(17), RoceReason.BAD_PADDING),
        (bytes([0x04, 0x30]) + bytes(14), RoceReason.BAD_PADDING),
        (bytes([0x11]) + bytes(11) + b"\x40" + bytes(7), RoceReason.BAD_SYNDROME),
        (bytes([0x11]) + bytes(11) + b"\x64" + bytes(7), RoceReason.BAD_SYNDROME),
    ],
)
def test_octets_that_are_not_a_packet_are_refused_with_a_reason(octets: bytes, reason: RoceReason) -> None:
    with pytest.raises(RocePacketError) as caught:
        roce.parse(octets)
    assert caught.value.reason is reason


@pytest.mark.parametrize(
    ("packet", "message"),
    [
        (Packet(Opcode.SEND_ONLY, 2**24, 0), "destination_qp is 16777216"),
        (Packet(Opcode.SEND_ONLY, 0, -1), "psn is -1"),
        (Packet(Opcode.WRITE_ONLY, 0, 0), "WRITE_ONLY needs RETH"),
        (Packet(Opcode.FETCH_ADD, 0, 0), "FETCH_ADD needs AtomicETH"),
        (Packet(Opcode.SEND_ONLY_INVALIDATE, 0, 0), "SEND_ONLY_INVALIDATE needs IETH"),
        (Packet(Opcode.SEND_ONLY, 0, 0, original=1), "SEND_ONLY has no room for AtomicAckETH"),
        (Packet(Opcode.SEND_ONLY, 0, 0, immediate=1), "SEND_ONLY has no room for immediate data"),
        (Packet(Opcode.WRITE_ONLY, 0, 0, reth=Reth(0, 0, 2**32)), "WRITE_ONLY has a value that does not fit"),
    ],
)
def test_an_invalid_packet_is_refused(packet: Packet, message: str) -> None:
    with pytest.raises(FieldError, match=message):
        roce.encode(packet)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_of_the_connection_manager_is_read_as_written(message: roce_cm.Message) -> None:
    packet = roce_cm.packet(message, 0x99, 3)
    assert (packet.destination_qp, packet.deth, len(packet.payload)) == (1, Deth(roce_cm.Q_KEY, 1), 256)
    assert roce_cm.parse(packet.payload) == (message, 0x99)


def test_damaged_messages_of_the_connection_manager_are_refused_with_a_reason() -> None:
    mad = roce_cm.packet(REQUEST, 1, 1).payload
    cases = {
        mad[:-1]: roce_cm.CmReason.NOT_A_MAD,
        b"\1\4" + mad[2:]: roce_cm.CmReason.NOT_CM,
        mad[:16] + b"\0\x55" + mad[18:]: roce_cm.CmReason.ATTRIBUTE_NOT_KNOWN,
        mad[: 24 + 50] + b"\xf0" + mad[24 + 51 :]: roce_cm.CmReason.BAD_FIELD,
        mad[: 24 + 141] + b"\x70" + mad[24 + 142 :]: roce_cm.CmReason.BAD_FIELD,
    }
    for octets, reason in cases.items():
        with pytest.raises(roce_cm.CmError) as caught:
            roce_cm.parse(octets)
        assert caught.value.reason is reason


@pytest.mark.packages("tshark")
@pytest.mark.skipif(TSHARK is None, reason="tshark is not installed: RoCEv2 packets meet no independent decoder")
@pytest.mark.slow
def test_wireshark_reads_every_packet_without_an_expert_warning(tmp_path: Path) -> None:
    packets = [*every_packet(), rnr_nak(12)]
    # Wireshark looks into the payload of a send for an EtherType, and stumbles over one octet.
    packets = [packet for packet in packets if packet.opcode != Opcode.DATAGRAM and len(packet.payload) != 1]
    packets += [roce_cm.packet(message, 0x1122334455667788, 9) for message in MESSAGES]
    frames = [frame(packet, version) for version in (4, 6) for packet in packets]
    for packet, fields in zip(packets * 2, decode(tmp_path, frames), strict=True):
        assert "_ws.malformed" not in fields, packet
        assert "_ws.expert" not in fields, (packet, fields["_ws.expert.message"])
        assert int(fields["infiniband.bth.opcode"][0], 0) == packet.opcode
        assert int(fields["infiniband.bth.destqp"][0], 0) == packet.destination_qp
        assert int(fields["infiniband.bth.psn"][0]) == packet.psn
        assert int(fields["infiniband.bth.p_key"][0], 0) == packet.p_key
        assert int(fields["infiniband.bth.padcnt"][0], 0) == -len(packet.payload) % 4
        if packet.reth:
            assert int(fields["infiniband.reth.va"][0], 0) == packet.reth.address
            assert int(fields["infiniband.reth.r_key"][0], 0) == packet.reth.r_key
            assert int(fields["infiniband.reth.dmalen"][0]) == packet.reth.length
        if packet.aeth and packet.opcode != Opcode.SELECTIVE_ACKNOWLEDGE:  # of which Wireshark knows the BTH alone
            assert int(fields["infiniband.aeth.msn"][0]) == packet.aeth.msn
            assert int(fields["infiniband.aeth.syndrome.opcode"][0], 0) == packet.aeth.syndrome >> 5
        if packet.immediate is not None:
            assert "infiniband.immdt" in fields
        if packet.atomic is not None:
            assert int(fields["infiniband.reth.va"][0], 0) == packet.atomic.address
            assert int(fields["infiniband.reth.r_key"][0], 0) == packet.atomic.r_key
            assert int(fields["infiniband.atomiceth.swapdt"][0]) == packet.atomic.data
            assert int(fields["infiniband.atomiceth.cmpdt"][0]) == packet.atomic.compare
        if packet.original is not None:
            assert int(fields["infiniband.atomicacketh.origremdt"][0]) == packet.original
        if packet.invalidate is not None:
            assert fields["infiniband.ieth"][0] == packet.invalidate.to_bytes(4, "big").hex(":")
        if packet.opcode == Opcode.DATAGRAM:
            message, _ = roce_cm.parse(packet.payload)
            assert int(fields["infiniband.mad.attributeid"][0], 0) == message.attribute
            if isinstance(message, roce_cm.Request):
                assert int(fields["infiniband.cm.req.localqpn"][0], 0) == message.qp
                assert int(fields["infiniband.cm.req.startpsn"][0], 0) == message.psn
