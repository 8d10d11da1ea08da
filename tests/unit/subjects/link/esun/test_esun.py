"""ESUN's header and a switch that forwards by it: cases E1 to E6 of SONiC's test plan, against codec and model."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from testbed.frames import FieldError, Mac
from testbed.report.exports.frame_text import layers
from testbed.subjects.link.esun import header
from testbed.subjects.link.esun.header import (
    CE,
    EsunError,
    EsunFrame,
    EsunHeader,
    EsunReason,
    is_intact,
    parse,
    with_fcs,
)
from testbed.subjects.link.esun.switch import Drop, EsunSwitch, EsunSwitchError, Policy, Sent

A, B, C = (Mac.parse(f"02:00:00:00:00:0{number}") for number in (1, 2, 3))
FULL = EsunHeader(2, 5, True, 0xBEEF, 9, 6)


def sent(header: EsunHeader, target: Mac = B, pcp: int | None = None, port: int = 0, **settings: Any) -> list[Sent]:
    switch = settings.pop("switch", None) or EsunSwitch(4, {A: [0], B: [1], C: [2]}, **settings)
    waiting = settings.get("waiting")
    found: list[Sent] = switch.receive(
        port, with_fcs(EsunFrame(target, A, header, b"data" * 16, pcp).encode()), waiting
    )
    return found


def after(found: list[Sent]) -> EsunFrame:
    (one,) = found
    assert is_intact(one.frame)
    return parse(one.frame[:-4])


# E1: header processing


def test_e1_a_frame_is_identified_by_its_ethertype() -> None:
    switch = EsunSwitch(2, {B: [1]})
    other = B.octets + A.octets + b"\x08\x00" + bytes(50)
    assert switch.receive(0, with_fcs(other)) == []
    assert switch.counters == {"received": 1, Drop.NOT_ESUN: 1}


def test_e1_all_fields_are_in_four_octets_at_their_offsets() -> None:
    assert EsunHeader(3, 0, False, 0, 0, 0, 0).encode() == bytes.fromhex("c0000000")
    assert EsunHeader(0, 7, False, 0, 0, 0, 0).encode() == bytes.fromhex("38000000")
    assert EsunHeader(0, 0, True, 0, 0, 0, 0).encode() == bytes.fromhex("04000000")
    assert EsunHeader(0, 0, False, 0xFFFF, 0, 0, 0).encode() == bytes.fromhex("03fffc00")
    assert EsunHeader(0, 0, False, 0, 15, 0, 0).encode() == bytes.fromhex("000003c0")
    assert EsunHeader(0, 0, False, 0, 0, 15, 0).encode() == bytes.fromhex("0000003c")
    assert EsunHeader(0, 0, False, 0, 0, 0, 3).encode() == bytes.fromhex("00000003")
    assert sum(header.WIDTHS.values()) == 32


def test_e1_headers_come_back_as_they_were_and_wrong_ones_are_refused() -> None:
    dice = random.Random(54)
    for _ in range(2000):
        values: dict[str, Any] = {name: dice.getrandbits(bits) for name, bits in header.WIDTHS.items()}
        made = EsunHeader(**values | {"flow_bit": bool(values["flow_bit"])})
        frame = EsunFrame(B, A, made, dice.randbytes(dice.randrange(60)), dice.choice([None, 3]))
        assert parse(frame.encode()) == frame
        try:
            parse(dice.randbytes(dice.randrange(24)))
        except EsunError as error:
            assert error.reason in list(EsunReason)
    with pytest.raises(FieldError, match="ttl is 16; it has 4 bits, 0 to 15"):
        EsunHeader(ttl=16)


def test_e1_the_revision_that_is_known_is_forwarded_and_a_later_one_is_dropped_and_counted() -> None:
    switch = EsunSwitch(4, {B: [1]})
    assert len(sent(FULL, switch=switch)) == 1
    assert sent(replace(FULL, revision=1), switch=switch) == []
    assert switch.counters[Drop.REVISION] == 1


@pytest.mark.parametrize("ecn", range(4))
def test_e1_ecn_is_preserved(ecn: int) -> None:
    assert after(sent(replace(FULL, ecn=ecn))).header.ecn == ecn


def test_e1_user_defined_bits_and_all_others_pass_through() -> None:
    found = after(sent(FULL))
    assert found.header == replace(FULL, ttl=8)
    assert (found.payload, found.destination, found.source) == (b"data" * 16, B, A)


def test_e1_the_fcs_is_that_of_the_new_octets_and_a_frame_with_a_wrong_one_is_dropped() -> None:
    switch = EsunSwitch(2, {B: [1]})
    frame = with_fcs(EsunFrame(B, A, FULL, bytes(60)).encode())
    (out,) = switch.receive(0, frame)
    assert is_intact(out.frame) and out.frame[-4:] != frame[-4:]
    assert switch.receive(0, frame[:-1] + bytes([frame[-1] ^ 1])) == []
    assert switch.counters[Drop.FCS] == 1


# E2: static forwarding


def test_e2_the_table_decides_the_port() -> None:
    assert [sent(FULL, target)[0].port for target in (B, C)] == [1, 2]


def test_e2_sources_are_not_learned() -> None:
    switch = EsunSwitch(4, {B: [1]})
    switch.receive(2, with_fcs(EsunFrame(B, C, FULL).encode()))
    assert switch.receive(0, with_fcs(EsunFrame(C, A, FULL).encode())) == []
    assert switch.counters[Drop.NO_PORT] == 1 and C not in switch.table


@pytest.mark.parametrize("target", ["ff:ff:ff:ff:ff:ff", "02:00:00:00:00:09", "01:00:5e:00:00:01"])
def test_e2_broadcasts_unknown_destinations_and_groups_follow_the_policy(target: str) -> None:
    assert sent(FULL, Mac.parse(target)) == []
    assert [one.port for one in sent(FULL, Mac.parse(target), policy=Policy.FLOOD)] == [1, 2, 3]


# E3: CoS


def test_e3_each_cos_has_its_class() -> None:
    classes = (0, 0, 1, 1, 3, 3, 7, 6)
    found = [sent(replace(FULL, cos=cos), cos_to_class=classes)[0].traffic_class for cos in range(8)]
    assert found == list(classes)


@pytest.mark.parametrize("pcp", range(8))
def test_e3_cos_has_precedence_over_the_pcp_of_a_tag(pcp: int) -> None:
    (out,) = sent(replace(FULL, cos=5), pcp=pcp)
    assert out.traffic_class == 5
    assert parse(out.frame[:-4]).pcp == pcp, "the tag stays as it was"


# E4: flow label and F


def ways(labels: range, flow_bit: bool) -> list[int]:
    switch = EsunSwitch(8, {B: [4, 5, 6, 7]})
    return [sent(replace(FULL, flow_label=label, flow_bit=flow_bit), switch=switch)[0].port for label in labels]


def test_e4_labels_spread_over_all_ports_evenly() -> None:
    found = ways(range(4000), True)
    assert {*found} == {4, 5, 6, 7}
    assert all(900 <= found.count(port) <= 1100 for port in (4, 5, 6, 7))


def test_e4_a_label_has_always_the_same_port() -> None:
    assert ways(range(200), True) == ways(range(200), True)


def test_e4_without_f_the_label_changes_nothing() -> None:
    assert len({*ways(range(200), False)}) == 1


# E5: TTL


def test_e5_each_hop_takes_one_off() -> None:
    frame, hops = with_fcs(EsunFrame(B, A, FULL, bytes(60)).encode()), []
    switch = EsunSwitch(2, {B: [1]})
    while found := switch.receive(0, frame):
        frame = found[0].frame
        hops.append(parse(frame[:-4]).header.ttl)
    assert hops == [8, 7, 6, 5, 4, 3, 2, 1]
    assert switch.counters[Drop.TTL] == 1


@pytest.mark.parametrize("ttl", [0, 1])
def test_e5_a_frame_whose_ttl_is_over_is_dropped(ttl: int) -> None:
    assert sent(replace(FULL, ttl=ttl)) == []


# E6: ECN


@pytest.mark.parametrize(("ecn", "waiting", "expected"), [(2, 0, 2), (2, 1000, 2), (2, 1001, CE), (1, 1001, CE),
                                                          (0, 1001, 0), (CE, 0, CE)])  # fmt: skip
def test_e6_a_frame_is_marked_when_its_queue_is_longer_than_the_threshold(
    ecn: int, waiting: int, expected: int
) -> None:
    switch = EsunSwitch(2, {B: [1]}, marks_above={5: 1000})
    frame = with_fcs(EsunFrame(B, A, replace(FULL, ecn=ecn)).encode())
    found = after(switch.receive(0, frame, {(1, 5): waiting, (1, 4): 10**6}))
    assert found.header == replace(FULL, ttl=8, ecn=expected)
    assert switch.counters["marked"] == (expected != ecn)


def test_settings_that_cannot_be_are_refused() -> None:
    with pytest.raises(EsunSwitchError, match=r"02:00:00:00:00:02: ports are \[4\]; the switch has 0 to 3"):
        EsunSwitch(4, {B: [4]})
    with pytest.raises(EsunSwitchError, match="cos_to_class"):
        EsunSwitch(4, {}, cos_to_class=(0, 1))


def test_decode_has_the_header_in_words() -> None:
    found = layers(EsunFrame(B, A, FULL, bytes(8), 3).encode())
    assert [one.kind for one in found] == ["ethernet", "vlan", "esun"]
    assert found[-1].text == "ESUN (provisional) CoS 5 ECT(0) flow 0xbeef TTL 9 user 0x6, 8 octets"
    assert found[-1].fields["flow_label"] == 0xBEEF
