"""The area of telemetry in RoCEv2 packets: its octets, and the ICRC that stays right whatever ports write."""

from __future__ import annotations

import pytest

from testbed.frames import roce, telemetry
from testbed.frames.roce import Aeth, Opcode, Packet, Path, Reth, RocePacketError, RoceReason
from testbed.frames.telemetry import Stamp, Telemetry, TelemetryError

PATH = Path("10.0.0.1", "10.0.0.2", 0xC123)
FIRST, SECOND = Stamp(1, 2, 3, 4), Stamp(0xFFFFFFFF, 1082, 7, 10_000)
DATA = Packet(Opcode.WRITE_ONLY, 0x123, 77, b"four", reth=Reth(1, 2, 4), ack_request=True, telemetry=Telemetry())
AT = roce.BTH_OCTETS
"""The first octet of the area."""


def stamped(datagram: bytes, *stamps: Stamp) -> bytes:
    """Return a datagram that ports have stamped, octet by octet as a port does it."""
    made = bytearray(datagram)
    for stamp in stamps:
        start = AT + telemetry.HEAD_OCTETS + made[AT + 2] * telemetry.STAMP_OCTETS
        made[start : start + telemetry.STAMP_OCTETS] = b"".join(value.to_bytes(4, "big") for value in stamp)
        made[AT + 2] += 1
    return bytes(made)


def test_a_packet_that_collects_is_read_with_its_stamps_and_its_other_headers() -> None:
    sent = PATH.seal(roce.encode(DATA))
    assert len(sent) == 12 + 4 + 5 * 16 + 16 + 4 + 4
    assert sent[AT : AT + 4].hex() == "11050000"
    assert roce.parse(sent) == DATA
    found = roce.parse(stamped(sent, FIRST, SECOND))
    assert found == DATA._replace(telemetry=Telemetry((FIRST, SECOND)))
    assert (found.ack_request, found.psn, found.reth) == (True, 77, Reth(1, 2, 4))


def test_the_icrc_is_right_whatever_ports_write_and_covers_the_rest() -> None:
    sent = PATH.seal(roce.encode(DATA))
    assert PATH.intact(sent)
    assert PATH.intact(stamped(sent, FIRST, SECOND))
    for place in (AT, AT + 1, AT + telemetry.octets_of(5), len(sent) - 6):
        damaged = bytearray(sent)
        damaged[place] ^= 0x10 if place != AT + 1 else 1
        assert not PATH.intact(bytes(damaged)), place


def test_an_acknowledgement_brings_stamps_back_and_its_icrc_covers_them() -> None:
    area = Telemetry((FIRST,)).returned()
    sent = PATH.seal(roce.encode(Packet(Opcode.ACKNOWLEDGE, 5, 6, aeth=Aeth(9), telemetry=area)))
    assert roce.parse(sent).telemetry == area
    assert roce.parse(sent).aeth == Aeth(9)
    assert PATH.intact(sent)
    assert not PATH.intact(stamped(sent, SECOND))


def test_a_packet_without_telemetry_is_as_it_was() -> None:
    plain = roce.encode(DATA._replace(telemetry=None))
    assert plain[8] == 0x80
    assert len(plain) == 12 + 16 + 4
    assert roce.parse(PATH.seal(plain)).telemetry is None


def test_differences_of_stamps_are_right_where_their_clocks_wrap() -> None:
    assert Stamp(5, 0, 10, 1).since(Stamp((1 << 32) - 5, 0, (1 << 32) - 90, 1)) == (10, 100)


@pytest.mark.parametrize(
    ("octets", "why"),
    [
        ("21050000", "version 2"),
        ("13050000", "kind 3"),
        ("11050600", "6 stamps of 5"),
        ("11ff0000", "stamps of 255"),
        ("1105", "too few"),
    ],
)
def test_octets_that_are_not_an_area_are_refused(octets: str, why: str) -> None:
    with pytest.raises(TelemetryError, match=why):
        telemetry.parse(bytes.fromhex(octets))
    sent = bytearray(roce.encode(DATA) + bytes(4))
    sent[AT:] = bytes.fromhex(octets) + bytes(4)
    with pytest.raises(RocePacketError) as refused:
        roce.parse(bytes(sent))
    assert refused.value.reason is RoceReason.BAD_TELEMETRY


def test_more_stamps_than_there_is_room_for_are_not_encoded() -> None:
    with pytest.raises(TelemetryError, match="2 stamps in an area for 1"):
        telemetry.encode(Telemetry((FIRST, SECOND), room=1))
    assert telemetry.parse(telemetry.encode(Telemetry((FIRST,), room=1, overflowed=True))).overflowed
