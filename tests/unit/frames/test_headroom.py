"""Frames of headroom measurement: the documented octets, a tag that holds, and no surprise from any others.

The known frames are written out field by field, so that nothing of the codec is used to check it.
"""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from testbed.errors import XoffError
from testbed.frames import FieldError, Mac, mac_control
from testbed.frames.headroom import (
    MeasurementFrameError,
    MeasurementReason,
    MeasurementRequest,
    Response,
    check_key,
    parse,
)

ASKING = Mac.parse("02:00:00:00:0a:01")
ANSWERING = Mac.parse("02:00:00:00:0b:02")
KEY = b"of both ends"

REQUEST = MeasurementRequest(ASKING, session=0x01020304, sequence=7, t1_ns=0x1122334455667788)
RESPONSE = Response.to(REQUEST, ANSWERING, t2_ns=0xA0, t3_ns=0xB0)
#                               destination  source       type opcode own  version kind reserved sequence
REQUEST_FIELDS = bytes.fromhex(
    "0180c2000001 020000000a01 8808 fffe 02584f 01 01 00 0007"
    # session  T1               T2               T3
    "01020304 1122334455667788 0000000000000000 0000000000000000"
)
RESPONSE_FIELDS = bytes.fromhex(
    "0180c2000001 020000000b02 8808 fffe 02584f 01 02 00 0007"
    "01020304 1122334455667788 00000000000000a0 00000000000000b0"
)
KNOWN = {"request": (REQUEST, REQUEST_FIELDS), "response": (RESPONSE, RESPONSE_FIELDS)}
known = pytest.mark.parametrize(("message", "fields"), KNOWN.values(), ids=KNOWN)

macs = st.builds(Mac, st.binary(min_size=6, max_size=6))
sessions, sequences, stamps = (st.integers(0, (1 << bits) - 1) for bits in (32, 16, 64))
requests = st.builds(MeasurementRequest, macs, sessions, sequences, stamps)
messages = requests | st.builds(Response, macs, sessions, sequences, stamps, stamps, stamps)
keys = st.binary(max_size=32)


def tag(fields: bytes, key: bytes = b"") -> bytes:
    return hashlib.blake2s(fields, digest_size=8, key=key, person=b"xoffhdrm").digest()


def refusal(data: bytes, key: bytes = b"") -> tuple[MeasurementReason, str]:
    """Return the reason why a frame is refused, as the counter and as the message."""
    with pytest.raises(MeasurementFrameError) as caught:
        parse(data, key)
    assert isinstance(caught.value, XoffError)
    return caught.value.reason, str(caught.value)


# On the wire


@known
@pytest.mark.parametrize("key", [b"", KEY], ids=["no key", "key"])
def test_known_frames_have_the_documented_octets(
    message: MeasurementRequest | Response, fields: bytes, key: bytes
) -> None:
    assert message.encode(key).hex() == (fields + tag(fields, key)).hex()
    assert parse(fields + tag(fields, key), key) == message


def test_a_frame_takes_as_long_on_the_wire_as_a_pfc_frame() -> None:
    assert len(REQUEST.encode()) == len(RESPONSE.encode()) == len(mac_control.PfcFrame.xoff(ASKING, [3]).encode())


@given(messages, keys)
def test_a_frame_is_read_as_it_was_built(message: MeasurementRequest | Response, key: bytes) -> None:
    assert parse(message.encode(key), key) == message


def test_a_response_repeats_what_identifies_its_request() -> None:
    assert (RESPONSE.session, RESPONSE.sequence, RESPONSE.t1_ns) == (REQUEST.session, REQUEST.sequence, REQUEST.t1_ns)
    assert RESPONSE.source == ANSWERING


def test_a_receiver_of_pfc_takes_it_for_an_opcode_that_it_does_not_know() -> None:
    with pytest.raises(mac_control.MacControlError) as caught:
        mac_control.parse(REQUEST.encode())
    assert caught.value.reason is mac_control.MacControlReason.UNKNOWN_OPCODE


def test_another_opcode_can_be_configured() -> None:
    data = REQUEST.encode(opcode=0x0F0F)
    assert data[14:16] == b"\x0f\x0f"
    assert parse(data, opcode=0x0F0F) == REQUEST
    message = "MAC control opcode 0x0f0f is not that of measurement, 0xfffe"
    assert refusal(data) == (MeasurementReason.OTHER_OPCODE, message)


# The tag


@given(messages, keys, keys)
def test_a_frame_with_another_key_is_refused(message: MeasurementRequest | Response, key: bytes, other: bytes) -> None:
    assume(key != other)
    assert refusal(message.encode(key), other)[0] is MeasurementReason.WRONG_TAG


@given(messages, keys, st.integers(0, 59), st.integers(1, 255))
def test_a_damaged_octet_is_always_refused(
    message: MeasurementRequest | Response, key: bytes, place: int, damage: int
) -> None:
    octets = bytearray(message.encode(key))
    octets[place] ^= damage
    reason, _ = refusal(bytes(octets), key)
    named = {
        **dict.fromkeys(range(6), MeasurementReason.WRONG_DESTINATION),
        **dict.fromkeys((12, 13), MeasurementReason.NOT_MAC_CONTROL),
    }
    named |= {
        **dict.fromkeys((14, 15), MeasurementReason.OTHER_OPCODE),
        **dict.fromkeys((16, 17, 18), MeasurementReason.OTHER_EXTENSION),
    }
    named |= {19: MeasurementReason.UNKNOWN_VERSION}
    if place == 20 and octets[20] not in (1, 2):
        named |= {20: MeasurementReason.UNKNOWN_KIND}
    assert reason is named.get(place, MeasurementReason.WRONG_TAG)


def test_a_request_that_is_sent_back_as_a_response_is_refused() -> None:
    reflected = REQUEST_FIELDS[:20] + b"\x02" + REQUEST_FIELDS[21:] + tag(REQUEST_FIELDS, KEY)
    assert refusal(reflected, KEY) == (
        MeasurementReason.WRONG_TAG,
        "a measurement frame from 02:00:00:00:0a:01 has the wrong tag: it is forged or damaged, "
        "or the other end has another key",
    )


# A receiver's strictness


@known
@pytest.mark.parametrize("length", range(60))
def test_a_truncated_frame_is_refused(message: MeasurementRequest | Response, fields: bytes, length: int) -> None:
    expected = f"a frame of {length} octets is not a measurement frame, which has 60"
    assert refusal(message.encode()[:length]) == (MeasurementReason.TOO_SHORT, expected)


@given(messages, st.binary(max_size=100))
def test_what_follows_the_tag_is_ignored(message: MeasurementRequest | Response, more: bytes) -> None:
    assert parse(message.encode(KEY) + more, KEY) == message


def test_reserved_octets_are_ignored_if_they_were_sent_so() -> None:
    for fields, message in ((REQUEST_FIELDS, REQUEST), (RESPONSE_FIELDS, RESPONSE)):
        changed = fields[:21] + b"\xff" + fields[22:]
        assert parse(changed + tag(changed)) == message
    stamped = REQUEST_FIELDS[:36] + bytes(range(16))
    assert parse(stamped + tag(stamped)) == REQUEST


@pytest.mark.parametrize(
    ("place", "octets", "reason", "message"),
    [
        (12, "0800", MeasurementReason.NOT_MAC_CONTROL, "EtherType 0x0800 is not MAC control, 0x8808"),
        (
            0,
            "0180c200000e",
            MeasurementReason.WRONG_DESTINATION,
            "a MAC control frame to 01:80:c2:00:00:0e is refused: measurement frames go to 01:80:c2:00:00:01",
        ),
        (14, "0101", MeasurementReason.OTHER_OPCODE, "MAC control opcode 0x0101 is not that of measurement, 0xfffe"),
        (
            16,
            "0080c2",
            MeasurementReason.OTHER_EXTENSION,
            "MAC control extension 00-80-c2 is not that of Xoff, 02-58-4f",
        ),
        (19, "02", MeasurementReason.UNKNOWN_VERSION, "version 2 of the measurement frame is not known; it is 1 here"),
        (20, "03", MeasurementReason.UNKNOWN_KIND, "kind 3 is neither request nor response"),
    ],
    ids=["IPv4", "LLDP's address", "PFC", "another extension", "version 2", "kind 3"],
)
def test_other_frames_are_refused_each_with_its_reason(
    place: int, octets: str, reason: MeasurementReason, message: str
) -> None:
    changed = bytes.fromhex(octets)
    fields = REQUEST_FIELDS[:place] + changed + REQUEST_FIELDS[place + len(changed) :]
    assert refusal(fields + tag(fields)) == (reason, message)


HEADS = [b"", REQUEST_FIELDS[:16], REQUEST_FIELDS[:20], REQUEST_FIELDS[:21], RESPONSE_FIELDS]


@given(st.sampled_from(HEADS), st.binary(max_size=80), keys)
def test_any_octets_are_a_frame_or_refused(head: bytes, rest: bytes, key: bytes) -> None:
    try:
        message = parse(head + rest, key)
    except MeasurementFrameError as error:
        assert error.reason in MeasurementReason
    else:
        assert parse(message.encode(key), key) == message


# Building


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: MeasurementRequest(ASKING, 1 << 32, 0, 0),
            "session is 4294967296, which does not fit into the 32 bits of its field",
        ),
        (
            lambda: MeasurementRequest(ASKING, 0, -1, 0),
            "sequence is -1, which does not fit into the 16 bits of its field",
        ),
        (lambda: MeasurementRequest(ASKING, 0, 0, -5), "t1_ns is -5, which does not fit into the 64 bits of its field"),
        (
            lambda: Response(ASKING, 0, 0, 0, 0, 1 << 64),
            "t3_ns is 18446744073709551616, which does not fit into the 64 bits of its field",
        ),
        (
            lambda: REQUEST.encode(opcode=0x10000),
            "0x10000 is not a MAC control opcode: it has more than 16 bits",
        ),
        (lambda: REQUEST.encode(bytes(33)), "a measurement key is at most 32 octets; this one has 33"),
        (lambda: check_key(bytes(40)), "a measurement key is at most 32 octets; this one has 40"),
    ],
)
def test_an_invalid_frame_is_not_built(build: object, message: str) -> None:
    assert callable(build)
    with pytest.raises(FieldError) as caught:
        build()
    assert str(caught.value) == message
