"""A router's End.X.PFC SIDs beside a kernel: the errors that are sent, their senders, and their number."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.frames import ipv6
from testbed.frames.icmpv6 import Echo, EchoType
from testbed.frames.ipv6 import Packet
from testbed.subjects.srv6.protocol import endx_pfc
from testbed.subjects.srv6.protocol.domain import Srv6Error
from testbed.subjects.srv6.protocol.endx_pfc import (
    Cause,
    Drop,
    DropReason,
    Forward,
    LocalSid,
    PauseJ,
    SendIcmp,
    process,
)
from testbed.subjects.srv6.protocol.local_sids import EndXPfc, ErrorLimit, Silence, Silent
from testbed.subjects.srv6.protocol.sid import Flavours
from tests.unit.subjects.srv6.srv6_world import (
    AT_R1,
    DATA_AFTER_R1,
    DATA_AT_R1,
    DOMAIN,
    R1_PFC,
    R3,
    address,
    changed,
    with_flavours,
)

LOCAL = LocalSid(R1_PFC, DOMAIN)
SIDS = {R1_PFC.address}
HOP_LIMIT, TYPE, LEFT, LAST = 7, 42, 43, 44
TRANSIT = DATA_AT_R1[:8] + R3.packed + DATA_AT_R1[24:]
PADDED = bytes([43, 0, 1, 4, 0, 0, 0, 0])
"""Hop-by-hop options of padding, before a routing header."""
PING = Echo(EchoType.REQUEST, 1, 1, b"").encode(R3, R1_PFC.address)
UNKNOWN = bytes([43, 0, 0x9E, 4, 0, 0, 0, 0])
"""A hop-by-hop option that must be known (RFC 8200: its first bits are 10)."""


def behind(options: bytes, packet: bytes) -> bytes:
    """Return the packet with these hop-by-hop options before its routing header."""
    length = int.from_bytes(packet[4:6]) + len(options)
    return packet[:4] + length.to_bytes(2) + bytes([ipv6.HOP_BY_HOP]) + packet[7:40] + options + packet[40:]


def upper(protocol: int) -> bytes:
    return Packet(R3, R1_PFC.address, protocol, bytes(8)).encode()


def beside(**settings: object) -> EndXPfc:
    return EndXPfc([replace(LOCAL, **settings)], beside_kernel=True)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("packet", "cause"),
    [
        (changed(TRANSIT, HOP_LIMIT, 1), Cause.HOP_LIMIT),
        (changed(TRANSIT, HOP_LIMIT, 0), Cause.HOP_LIMIT),
        (changed(behind(PADDED, TRANSIT), HOP_LIMIT, 1), Cause.HOP_LIMIT),
        (behind(UNKNOWN, TRANSIT), Cause.HEADER),
    ],
)
def test_what_the_kernel_answers_is_left_to_it(packet: bytes, cause: Cause) -> None:
    router = beside()
    assert router.receive(packet) == Silent(cause, Silence.KERNEL)
    assert router.counters()[str(R1_PFC.address)] == {f"left_to_kernel {cause}": 1}
    assert isinstance(EndXPfc([LOCAL]).receive(packet), SendIcmp), "without a kernel beside it the error is sent"


@pytest.mark.parametrize(
    ("packet", "cause"),
    [
        (changed(changed(TRANSIT, HOP_LIMIT, 1), LEFT, 4), Cause.HOP_LIMIT),  # the kernel looks at the list first
        (changed(changed(TRANSIT, HOP_LIMIT, 1), LAST, 3), Cause.HOP_LIMIT),
        (changed(TRANSIT, LEFT, 4), Cause.SEGMENTS_LEFT),
        (changed(TRANSIT, LAST, 3), Cause.SEGMENTS_LEFT),
        (behind(PADDED, changed(TRANSIT, LEFT, 4)), Cause.SEGMENTS_LEFT),
        (changed(changed(TRANSIT, TYPE, 0), HOP_LIMIT, 1), Cause.ROUTING_TYPE),
        (upper(6), Cause.UPPER_LAYER),
        (upper(41), Cause.UPPER_LAYER),
        (upper(ipv6.UDP), Cause.TRACEROUTE),
        (Packet(R3, R1_PFC.address, ipv6.DESTINATION_OPTIONS, UNKNOWN).encode(), Cause.HEADER),
    ],
)
def test_what_the_kernel_drops_without_a_word_is_answered(packet: bytes, cause: Cause) -> None:
    router = beside()
    result = router.receive(packet)
    assert isinstance(result, SendIcmp)
    assert result.cause is cause
    assert router.counters()[str(R1_PFC.address)] == {f"answered {cause}": 1}


def test_a_packet_that_the_kernel_has_advanced_is_read_as_it_came() -> None:
    assert endx_pfc.as_it_came(changed(DATA_AFTER_R1, HOP_LIMIT, 64), SIDS) == DATA_AT_R1
    for packet in (DATA_AT_R1, AT_R1, upper(6), behind(UNKNOWN, TRANSIT)):
        assert endx_pfc.as_it_came(packet, SIDS) == packet
    advanced = changed(DATA_AFTER_R1, HOP_LIMIT, 1)
    assert beside().receive(advanced) == Silent(Cause.HOP_LIMIT, Silence.KERNEL)


def test_a_step_from_beyond_the_list_is_taken_back_where_there_is_one_sid() -> None:
    """Check the reduced encapsulation, which leaves the first segment out of the list."""
    first = 80  # where the list has the SID itself
    came = changed(TRANSIT[:first] + address("fd00:a:2:2::").packed + TRANSIT[first + 16 :], LEFT, 3)
    passed = process(came, LOCAL)
    assert isinstance(passed, Forward)
    advanced = changed(passed.packet, HOP_LIMIT, came[HOP_LIMIT])
    assert endx_pfc.as_it_came(advanced, SIDS) == came
    two = [R1_PFC.address, address("fd00:a:1:7::")]
    assert endx_pfc.as_it_came(advanced, two) == advanced, "which of the two it was cannot be determined"


@given(st.integers(0, 3), st.integers(0, 3), st.binary(max_size=120))
def test_any_octets_are_left_as_they_are_or_become_a_packet_to_the_sid(left: int, last: int, data: bytes) -> None:
    for packet in (data, changed(changed(DATA_AFTER_R1, LEFT, left), LAST, last)):
        found = endx_pfc.as_it_came(packet, SIDS)
        assert found == packet or found[24:40] == R1_PFC.address.packed


def test_psp_is_refused_where_linux_has_to_do_it_and_usp_is_not() -> None:
    for flavours in (Flavours.NONE, Flavours.USP):
        endx_pfc.check(with_flavours(R1_PFC, flavours))
    for flavours in (Flavours.PSP, Flavours.PSP | Flavours.USP):
        with pytest.raises(Srv6Error, match=re.escape("has the flavour PSP, and the End.X of Linux takes no")):
            endx_pfc.check(with_flavours(R1_PFC, flavours))


# How many


def test_ten_errors_go_at_once_and_then_one_in_each_tenth_of_a_second() -> None:
    router = EndXPfc([LOCAL], beside_kernel=True, limit=ErrorLimit())
    sent = [isinstance(router.receive(upper(6), now_ns), SendIcmp) for now_ns in [0] * 12]
    assert sent == [True] * 10 + [False] * 2
    assert isinstance(router.receive(upper(6), 99_999_999), Silent)
    assert isinstance(router.receive(upper(6), 100_000_000), SendIcmp)
    assert router.receive(upper(6), 100_000_001) == Silent(Cause.UPPER_LAYER, Silence.LIMIT)
    assert router.counters()[str(R1_PFC.address)] == {"answered upper_layer": 11, "limited upper_layer": 4}


def test_all_sids_of_a_router_share_the_limit_and_pings_are_not_under_it() -> None:
    other = LocalSid(replace(R1_PFC, address=address("fd00:a:1:7::")), DOMAIN)
    router = EndXPfc([LOCAL, other], limit=ErrorLimit(at_once=1))
    assert isinstance(router.receive(upper(6)), SendIcmp)
    assert isinstance(router.receive(Packet(R3, other.sid.address, 6, bytes(8)).encode()), Silent)
    ping = Packet(R3, R1_PFC.address, ipv6.ICMPV6, PING).encode()
    assert all(isinstance(router.receive(ping), SendIcmp) for _ in range(20))
    assert router.counters()[str(R1_PFC.address)]["answered ping"] == 20


def test_what_is_not_sent_anyway_uses_nothing_of_the_limit() -> None:
    router = EndXPfc([LOCAL], beside_kernel=True, limit=ErrorLimit(at_once=1))
    assert isinstance(router.receive(changed(TRANSIT, HOP_LIMIT, 1)), Silent)
    assert router.receive(upper(6), from_outside=True) == Drop(DropReason.OUTSIDE_DOMAIN)
    error = Packet(R3, R1_PFC.address, ipv6.ICMPV6, bytes([1, 0, 0, 0, 0, 0, 0, 0])).encode()
    assert router.receive(error) == Drop(Cause.UPPER_LAYER)
    assert isinstance(router.receive(AT_R1), PauseJ)
    assert isinstance(router.receive(upper(6)), SendIcmp)


@given(st.lists(st.integers(0, 400_000_000), max_size=60), st.integers(1, 4))
def test_the_limit_holds_over_any_time(gaps: list[int], at_once: int) -> None:
    limit, now_ns, sent = ErrorLimit(at_once, 100_000_000), 0, list[int]()
    for gap in gaps:
        now_ns += gap
        if limit.allows(now_ns):
            sent.append(now_ns)
    for first, begin_ns in enumerate(sent):
        for last, end_ns in enumerate(sent[first:], 1):
            assert last <= at_once + (end_ns - begin_ns) // 100_000_000
