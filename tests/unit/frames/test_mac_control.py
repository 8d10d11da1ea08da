"""MAC control frames: the octets of the standard, and no surprise from any others.

The known frames are written out here field by field, so that nothing of the codec is used to check it.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.errors import UsageError, XoffError
from testbed.frames import FieldError, Mac
from testbed.frames.mac_control import MacControlError, MacControlReason, Meaning, PauseFrame, PfcFrame, parse
from testbed.units import Duration, Rate

SOURCE = Mac.parse("02:00:00:00:0a:01")
#                      destination  source       type opcode
PFC_HEAD = bytes.fromhex("0180c2000001 020000000a01 8808 0101")
PAUSE_HEAD = bytes.fromhex("0180c2000001 020000000a01 8808 0001")

KNOWN = {
    #                          vector  time 0 to time 7                          padding
    "XOFF 3": (
        PfcFrame.xoff(SOURCE, [3]),
        PFC_HEAD + bytes.fromhex("0008  0000 0000 0000 ffff 0000 0000 0000 0000") + bytes(26),
    ),
    "XOFF 0 and 7": (
        PfcFrame.xoff(SOURCE, [7, 0], 0x1234),
        PFC_HEAD + bytes.fromhex("0081  1234 0000 0000 0000 0000 0000 0000 1234") + bytes(26),
    ),
    "XON 3 and 4": (
        PfcFrame.xon(SOURCE, {3, 4}),
        PFC_HEAD + bytes.fromhex("0018  0000 0000 0000 0000 0000 0000 0000 0000") + bytes(26),
    ),
    "XON 2 with XOFF 5": (
        PfcFrame.of(SOURCE, {5: 1, 2: 0}),
        PFC_HEAD + bytes.fromhex("0024  0000 0000 0000 0000 0000 0001 0000 0000") + bytes(26),
    ),
    "all different": (
        PfcFrame(SOURCE, 0xFF, (1, 2, 3, 4, 5, 6, 7, 8)),
        PFC_HEAD + bytes.fromhex("00ff  0001 0002 0003 0004 0005 0006 0007 0008") + bytes(26),
    ),
    "PAUSE": (PauseFrame(SOURCE, 0x0102), PAUSE_HEAD + bytes.fromhex("0102") + bytes(42)),
}
XOFF_3 = KNOWN["XOFF 3"][1]
PAUSE = KNOWN["PAUSE"][1]
known = pytest.mark.parametrize(("frame", "octets"), KNOWN.values(), ids=KNOWN)

macs = st.builds(Mac, st.binary(min_size=6, max_size=6))
quanta = st.integers(0, 0xFFFF)
pfc_frames = st.builds(PfcFrame, macs, st.integers(0, 0xFF), st.tuples(*[quanta] * 8))
frames = pfc_frames | st.builds(PauseFrame, macs, quanta)


def refusal(data: bytes) -> tuple[MacControlReason, str]:
    """Return the reason why a frame is refused, as the counter and as the message."""
    with pytest.raises(MacControlError) as caught:
        parse(data)
    assert isinstance(caught.value, XoffError)
    return caught.value.reason, str(caught.value)


# On the wire


@known
def test_known_frames_have_the_octets_of_the_standard(frame: PfcFrame | PauseFrame, octets: bytes) -> None:
    assert frame.encode().hex() == octets.hex()
    assert len(octets) == 60
    assert parse(octets) == frame


@given(frames)
def test_a_frame_is_read_as_it_was_built(frame: PfcFrame | PauseFrame) -> None:
    assert parse(frame.encode()) == frame


def test_a_frame_takes_672_bit_times_on_the_wire() -> None:
    fcs, preamble, gap = 4, 8, 12
    assert (len(PfcFrame.xoff(SOURCE, [3]).encode()) + fcs + preamble + gap) * 8 == 672


# What a frame has


def test_each_priority_is_left_resumed_or_stopped() -> None:
    frame = parse(KNOWN["XON 2 with XOFF 5"][1])
    assert isinstance(frame, PfcFrame)
    meanings = [frame.meaning(priority) for priority in range(8)]
    assert (
        meanings
        == [Meaning.UNCHANGED] * 2 + [Meaning.XON] + [Meaning.UNCHANGED] * 2 + [Meaning.XOFF] + [Meaning.UNCHANGED] * 2
    )
    assert list(frame.changes()) == [(2, 0), (5, 1)]


def test_the_time_of_a_priority_that_is_not_enabled_has_no_effect() -> None:
    frame = PfcFrame(SOURCE, 0x02, (7,) * 8)
    assert [frame.meaning(priority) for priority in (0, 1, 2)] == [Meaning.UNCHANGED, Meaning.XOFF, Meaning.UNCHANGED]
    assert list(frame.changes()) == [(1, 7)]
    assert parse(frame.encode()) == frame


@given(pfc_frames)
def test_changes_and_meanings_agree(frame: PfcFrame) -> None:
    changes = dict(frame.changes())
    for priority in range(8):
        if priority in changes:
            assert frame.meaning(priority) is (Meaning.XOFF if changes[priority] else Meaning.XON)
        else:
            assert frame.meaning(priority) is Meaning.UNCHANGED


def test_a_pause_lasts_512_bit_times_for_each_quantum_at_the_rate_of_the_port() -> None:
    frame = parse(XOFF_3)
    assert isinstance(frame, PfcFrame)
    ((priority, time),) = frame.changes()
    assert priority == 3
    assert Rate("100Mb/s").time_for_quanta(time) == Duration("335.5392ms")
    assert Rate("100Gb/s").time_for_quanta(time) == Duration("335.5392us")


# A receiver's strictness


@pytest.mark.parametrize("octets", [XOFF_3, PAUSE], ids=["PFC", "PAUSE"])
@pytest.mark.parametrize("length", range(60))
def test_a_truncated_frame_is_read_only_if_its_fields_are_whole(octets: bytes, length: int) -> None:
    end = 34 if octets is XOFF_3 else 18
    if length >= end:
        assert parse(octets[:length]) == parse(octets)
        return
    if length < 14:
        message = f"a frame of {length} octets is cut short: an Ethernet header would end at 14"
    elif length < 16:
        message = f"a frame of {length} octets is cut short: a MAC control opcode would end at 16"
    elif octets is XOFF_3:
        message = f"a frame of {length} octets is cut short: a PFC frame's fields would end at 34"
    else:
        message = f"a frame of {length} octets is cut short: a PAUSE frame's field would end at 18"
    assert refusal(octets[:length]) == (MacControlReason.TOO_SHORT, message)


@given(frames, st.binary(max_size=1500))
def test_padding_is_ignored_whatever_it_holds_and_however_long(frame: PfcFrame | PauseFrame, padding: bytes) -> None:
    fields = 34 if isinstance(frame, PfcFrame) else 18
    assert parse(frame.encode()[:fields] + padding) == frame


@pytest.mark.parametrize("reserved", [0x01, 0x80, 0xFF])
def test_the_reserved_octet_of_the_vector_is_ignored_and_sent_as_zero(reserved: int) -> None:
    frame = parse(XOFF_3[:16] + bytes([reserved]) + XOFF_3[17:])
    assert frame == parse(XOFF_3)
    assert frame.encode() == XOFF_3


def test_a_vector_without_any_priority_is_legal_and_changes_nothing() -> None:
    frame = parse(PFC_HEAD + bytes(44))
    assert isinstance(frame, PfcFrame)
    assert list(frame.changes()) == []


@pytest.mark.parametrize(
    ("octets", "reason", "message"),
    [
        (
            XOFF_3[:12] + bytes.fromhex("0800") + XOFF_3[14:],
            MacControlReason.NOT_MAC_CONTROL,
            "EtherType 0x0800 is not MAC control, 0x8808",
        ),
        (
            XOFF_3[:12] + bytes.fromhex("8100 6000") + XOFF_3[12:],
            MacControlReason.NOT_MAC_CONTROL,
            "EtherType 0x8100 is not MAC control, 0x8808",
        ),
        (
            bytes.fromhex("0180c200000e") + XOFF_3[6:],
            MacControlReason.WRONG_DESTINATION,
            "a MAC control frame to 01:80:c2:00:00:0e is refused: PFC and PAUSE go to 01:80:c2:00:00:01",
        ),
        (
            bytes.fromhex("020000000b01") + PAUSE[6:],
            MacControlReason.WRONG_DESTINATION,
            "a MAC control frame to 02:00:00:00:0b:01 is refused: PFC and PAUSE go to 01:80:c2:00:00:01",
        ),
        (
            XOFF_3[:14] + bytes.fromhex("0002") + XOFF_3[16:],
            MacControlReason.UNKNOWN_OPCODE,
            "MAC control opcode 0x0002 is neither PFC, 0x0101, nor PAUSE, 0x0001",
        ),
    ],
    ids=["IPv4", "VLAN tag", "LLDP's address", "unicast PAUSE", "EPON gate"],
)
def test_other_frames_are_refused_each_with_its_reason(octets: bytes, reason: MacControlReason, message: str) -> None:
    assert refusal(octets) == (reason, message)


def test_reasons_are_names_of_counters() -> None:
    assert [str(reason) for reason in MacControlReason] == [
        "too_short",
        "not_mac_control",
        "wrong_destination",
        "unknown_opcode",
    ]


@given(st.binary(max_size=80) | st.builds(bytes.__add__, st.sampled_from([PFC_HEAD, PAUSE_HEAD]), st.binary()))
def test_any_octets_are_a_frame_or_refused(data: bytes) -> None:
    try:
        frame = parse(data)
    except MacControlError as error:
        assert error.reason in MacControlReason
    else:
        assert parse(frame.encode()) == frame


@given(frames, st.integers(0, 59), st.integers(1, 255))
def test_a_damaged_octet_is_refused_read_or_ignored_as_its_field_demands(
    frame: PfcFrame | PauseFrame, place: int, damage: int
) -> None:
    octets = bytearray(frame.encode())
    octets[place] ^= damage
    try:
        found = parse(bytes(octets))
    except MacControlError as error:
        assert error.reason in MacControlReason
        assert place in {*range(6), *range(12, 16)}
    else:
        ignored = {16, *range(34, 60)} if isinstance(frame, PfcFrame) else range(18, 60)
        assert (found == frame) == (place in ignored)


# Building


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: PfcFrame.xoff(SOURCE, [8]), "8 is not a priority: there are 0 to 7"),
        (lambda: PfcFrame.xon(SOURCE, [-1]), "-1 is not a priority: there are 0 to 7"),
        (lambda: PfcFrame.xon(SOURCE, [3]).meaning(-1), "-1 is not a priority: there are 0 to 7"),
        (
            lambda: PfcFrame.xoff(SOURCE, [3], 0),
            "XOFF for 0 quanta would be XON; use PfcFrame.xon, or 1 to 65535 quanta",
        ),
        (
            lambda: PfcFrame.xoff(SOURCE, [3], 65536),
            "65536 quanta do not fit into a frame, which has room for 0 to 65535; "
            "refresh a pause that has to last longer",
        ),
        (
            lambda: PauseFrame(SOURCE, -1),
            "-1 quanta do not fit into a frame, which has room for 0 to 65535; refresh a pause that has to last longer",
        ),
        (
            lambda: PfcFrame.xoff(SOURCE, []),
            "a PFC frame for no priority changes nothing; name at least one from 0 to 7",
        ),
        (
            lambda: PfcFrame(SOURCE, 0x100, (0,) * 8),
            "0x100 is not a class enable vector: it has more than 8 bits",
        ),
        (
            lambda: PfcFrame(SOURCE, 0, (0,) * 7),
            "a PFC frame has 8 times, one for each priority, not 7",
        ),
    ],
)
def test_an_invalid_frame_is_not_built(build: object, message: str) -> None:
    assert callable(build)
    with pytest.raises(FieldError) as caught:
        build()
    assert str(caught.value) == message


# Addresses


@pytest.mark.parametrize("text", ["01:80:c2:00:00:01", "01:80:C2:00:00:01", "01-80-C2-00-00-01"])
def test_an_address_is_read_in_both_notations_and_printed_in_one(text: str) -> None:
    mac = Mac.parse(text)
    assert mac.octets == bytes.fromhex("0180c2000001")
    assert str(mac) == "01:80:c2:00:00:01"
    assert repr(mac) == "Mac.parse('01:80:c2:00:00:01')"


@given(macs, macs)
def test_addresses_survive_text_and_are_ordered_as_numbers(one: Mac, other: Mac) -> None:
    assert Mac.parse(str(one)) == one
    assert (one < other) == (int.from_bytes(one.octets, "big") < int.from_bytes(other.octets, "big"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "02:00:00:00:00",
        "02:00:00:00:00:01:02",
        "02:00:00-00-00-01",
        "020000000001",
        "2:0:0:0:0:1",
        "02:00:00:00:00:0g",
        " 02:00:00:00:00:01",
        "02:00:00:00:00:01\n",
        "02:00:00:00:00:0\u0661",
    ],
)
def test_nonsense_is_not_an_address(text: str) -> None:
    with pytest.raises(FieldError) as caught:
        Mac.parse(text)
    assert isinstance(caught.value, UsageError)
    assert str(caught.value) == (
        f"{text!r} is not a MAC address: write six pairs of hexadecimal digits, such as '02:00:00:00:00:01'"
    )


def test_octets_that_are_not_six_are_not_an_address() -> None:
    with pytest.raises(FieldError, match=r"^b'\\x02\\x00' is not a MAC address: it must be 6 octets$"):
        Mac(b"\x02\x00")
    with pytest.raises(FieldError, match=r"^'x{36}\.\.\. is not a MAC address: write six pairs"):
        Mac.parse("x" * 1000)
