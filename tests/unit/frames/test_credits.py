"""Messages about credits: octets of examples, refusals, and every value there and back."""

from __future__ import annotations

import random

import pytest

from testbed.frames import FieldError, Mac, headroom, mac_control
from testbed.frames.link import credits
from testbed.frames.link.credits import CcUpdate, CfUpdate, CreditMessageError, CreditReason, Freed

SOURCE = Mac.parse("02:00:00:00:00:01")


def test_a_cf_update_has_two_channels_in_eight_octets() -> None:
    update = CfUpdate(Freed(3, 0x7FFF), Freed(31, 0x1234))
    assert update.encode().hex() == "5c101ffff6f92340"
    assert credits.parse_set(update.encode()) == update


def test_reserved_bits_of_a_cf_update_are_ignored() -> None:
    octets = bytearray(CfUpdate(Freed(3, 1), Freed(4, 2)).encode())
    octets[7] |= 0xF
    assert credits.parse_set(bytes(octets)) == CfUpdate(Freed(3, 1), Freed(4, 2))


def test_a_cc_update_has_sixteen_counters_of_twenty_bits() -> None:
    update = CcUpdate(SOURCE, 0, (0x12345, *[0] * 14, 0xFFFFF))
    octets = update.encode()
    assert len(octets) == 60
    assert octets[:20].hex() == "0180c20000010200000000018808fffefa7acb01"
    assert octets[20:23].hex() == "123450"
    assert octets[-3:].hex() == "0fffff"
    assert credits.parse(octets) == update
    assert credits.parse(octets + bytes(4)) == update  # with FCS


def test_the_second_type_is_about_channels_from_16_on() -> None:
    update = CcUpdate(SOURCE, 16, tuple(range(16)))
    assert update.encode()[19] == 2
    assert credits.parse(update.encode()) == update


def test_an_ordered_set_travels_in_a_frame_of_its_own() -> None:
    update = CfUpdate(Freed(0, 9), Freed(0, 9))
    frame = credits.carried(SOURCE, update.encode())
    assert len(frame) == 27
    assert credits.parse_carried(frame) == (SOURCE, update)
    assert credits.extension_of(frame) == credits.CARRIER
    assert not headroom.is_measurement(frame)


@pytest.mark.parametrize(
    ("octets", "reason"),
    [
        (b"\x5c\x10", CreditReason.TOO_SHORT),
        (bytes(8), CreditReason.OTHER_CONTROL),
        (bytes.fromhex("5c01000006000000"), CreditReason.UNKNOWN_TYPE),
        (bytes.fromhex("5c10000005000000"), CreditReason.OTHER_O_CODE),
    ],
)
def test_an_ordered_set_that_is_no_cf_update_is_refused(octets: bytes, reason: CreditReason) -> None:
    with pytest.raises(CreditMessageError) as refused:
        credits.parse_set(octets)
    assert refused.value.reason is reason


def changed(at: int, octets: str) -> bytes:
    frame = bytearray(CcUpdate(SOURCE, 0, (1,) * 16).encode())
    new = bytes.fromhex(octets)
    frame[at : at + len(new)] = new
    return bytes(frame)


@pytest.mark.parametrize(
    ("octets", "reason"),
    [
        (b"", CreditReason.TOO_SHORT),
        (changed(0, "")[:59], CreditReason.TOO_SHORT),
        (changed(0, "02"), CreditReason.WRONG_DESTINATION),
        (changed(12, "0800"), CreditReason.NOT_MAC_CONTROL),
        (changed(14, "0101"), CreditReason.OTHER_OPCODE),
        (changed(16, "02584f"), CreditReason.OTHER_EXTENSION),
        (changed(19, "03"), CreditReason.UNKNOWN_TYPE),
    ],
)
def test_a_frame_that_is_no_cc_update_is_refused(octets: bytes, reason: CreditReason) -> None:
    with pytest.raises(CreditMessageError) as refused:
        credits.parse(octets)
    assert refused.value.reason is reason


def test_a_pfc_frame_is_no_message_about_credits_and_the_other_way_round() -> None:
    with pytest.raises(CreditMessageError):
        credits.parse(mac_control.PfcFrame.xoff(SOURCE, [3]).encode())
    with pytest.raises(mac_control.MacControlError):
        mac_control.parse(CcUpdate(SOURCE, 0, (0,) * 16).encode())


def test_values_that_do_not_fit_are_refused_by_name() -> None:
    with pytest.raises(FieldError, match="32 is not a virtual channel"):
        Freed(32, 0)
    with pytest.raises(FieldError, match="15 bits"):
        Freed(0, 1 << 15)
    with pytest.raises(FieldError, match="20 bits"):
        CcUpdate(SOURCE, 0, (1 << 20, *[0] * 15))
    with pytest.raises(FieldError, match="16 counters"):
        CcUpdate(SOURCE, 0, (1,))
    with pytest.raises(FieldError, match="from 0 or from 16"):
        CcUpdate(SOURCE, 1, (0,) * 16)


def test_random_messages_come_back_as_they_were() -> None:
    rng = random.Random(5)
    for _ in range(2000):
        freed = [Freed(rng.randrange(32), rng.randrange(1 << 15)) for _ in range(2)]
        update = credits.both(freed)
        assert credits.parse_set(update.encode()) == update
        used = CcUpdate(SOURCE, rng.choice((0, 16)), tuple(rng.randrange(1 << 20) for _ in range(16)))
        assert credits.parse(used.encode()) == used
