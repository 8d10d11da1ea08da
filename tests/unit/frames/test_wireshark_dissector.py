"""Wireshark with our dissector, `testbed/frames/xoff.lua`, reads our private formats as our codecs do."""

from __future__ import annotations

import random
from ipaddress import IPv6Address
from pathlib import Path
from typing import Any

import pytest

from testbed.frames import Mac, headroom, ipv6, lldp, mac_control, roce, srh
from testbed.frames.dcbx.values import AppEntry, DcbxVersion, Ets, EtsRecommendation, Selector
from testbed.frames.ipv6 import ETHERNET, ROUTING, Packet
from testbed.frames.link import credits
from testbed.frames.telemetry import Stamp, Telemetry
from testbed.report.exports.frame_text import layers
from testbed.roce.selective import bitmap
from testbed.subjects.dcbx.tlvs import ApplicationPriority, CongestionNotification, DcbxTlvs, EtsConfiguration, Pfc
from testbed.subjects.dcbx.tlvs import encode as dcbx_tlvs
from testbed.subjects.link.esun import header as esun
from testbed.subjects.link.llr import ordered_set, record
from testbed.switch.trimming.cut import rest
from tests.unit.frames.test_roce import frame
from tests.unit.frames.tshark import TSHARK, decode
from tools.dissector_tables import SCRIPT

pytestmark = [
    pytest.mark.packages("tshark"),
    pytest.mark.skipif(TSHARK is None, reason="tshark is not installed: nothing runs our dissector"),
]

A, B = Mac.parse("02:00:00:00:00:01"), Mac.parse("02:00:00:00:00:02")
OURS = ["-X", f"lua_script:{SCRIPT}"]


def number(fields: dict[str, list[str]], name: str) -> int:
    (text,) = fields[name]
    return int(text, 0)


def severities(fields: dict[str, list[str]]) -> list[str]:
    return fields.get("_ws.expert.message", [])


@pytest.mark.parametrize("key", [b"", b"k", bytes(range(32))])
def test_every_field_of_a_measurement_frame_and_whether_its_tag_is_right(tmp_path: Path, key: bytes) -> None:
    dice = random.Random(113)
    sent: list[tuple[headroom.MeasurementRequest | headroom.Response, bytes, bool]] = []
    for _ in range(60):
        stamps = [dice.getrandbits(dice.choice([8, 40, 64])) for _ in range(3)]
        message: headroom.MeasurementRequest | headroom.Response
        message = headroom.MeasurementRequest(A, dice.getrandbits(32), dice.getrandbits(16), stamps[0])
        if dice.random() < 0.5:
            message = headroom.Response.to(message, B, stamps[1], stamps[2])
        damaged, good = bytearray(message.encode(key)), dice.random() < 0.7
        if not good:
            damaged[dice.choice([*range(6, 12), 21, *range(22, 60)])] ^= 1 << dice.randrange(8)
        sent.append((message, bytes(damaged), good))
    keyed = ["-o", f"xoff.key:{key.hex()}"] if key else []
    for (message, octets, good), fields in zip(
        sent, decode(tmp_path, [octets for _, octets, _ in sent], [*OURS, *keyed]), strict=True
    ):
        try:
            assert good == (headroom.parse(octets, key) == message)
        except headroom.MeasurementFrameError as error:
            assert not good and error.reason is headroom.MeasurementReason.WRONG_TAG
        assert fields["xoff.tag.good"] == [str(int(good))] or fields["xoff.tag.good"] == [str(good)]
        assert severities(fields) == ([] if good else ["The tag is wrong: another key, damaged or forged"])
        shown = octets if not good else message.encode(key)
        assert number(fields, "xoff.opcode") == headroom.EXTENSION_OPCODE
        assert number(fields, "xoff.extension") == int.from_bytes(headroom.EXTENSION)
        assert number(fields, "xoff.version") == headroom.VERSION
        assert bytes.fromhex(fields["xoff.tag"][0].replace(":", "")) == shown[52:60]
        if good:
            assert number(fields, "xoff.kind") == (1 if isinstance(message, headroom.MeasurementRequest) else 2)
            assert number(fields, "xoff.session") == message.session
            assert number(fields, "xoff.sequence") == message.sequence
            assert number(fields, "xoff.t1") == message.t1_ns
            if isinstance(message, headroom.Response):
                assert (number(fields, "xoff.t2"), number(fields, "xoff.t3")) == (message.t2_ns, message.t3_ns)
                assert number(fields, "xoff.held") == _signed(message.t3_ns - message.t2_ns)


def _signed(value: int) -> int:
    """Return a number as 64 bits hold it."""
    return (value + 2**63) % 2**64 - 2**63


def test_another_opcode_is_a_preference_and_pfc_stays_wiresharks(tmp_path: Path) -> None:
    request = headroom.MeasurementRequest(A, 1, 2, 3)
    frames = [request.encode(opcode=0xFFF0), mac_control.PfcFrame.xoff(A, [3], 7).encode(), request.encode()]
    other, pfc, usual = decode(tmp_path, frames, [*OURS, "-o", f"xoff.opcode:{0xFFF0}"])
    assert number(other, "xoff.sequence") == 2
    assert "xoff.sequence" not in pfc and "xoff.sequence" not in usual
    assert int(pfc["macc.cbfc.pause_time.c3"][0], 0) == 7


def test_a_measurement_frame_in_a_tunnel_has_its_own_addresses_under_the_tag(tmp_path: Path) -> None:
    one, two = IPv6Address("fd00::1"), IPv6Address("fd00::2")
    inner = headroom.MeasurementRequest(B, 9, 8, 7).encode()
    routed = srh.Srh.along([one, two], ETHERNET).encode() + inner
    outer = B.octets + A.octets + b"\x86\xdd" + Packet(two, one, ROUTING, routed).encode()
    (fields,) = decode(tmp_path, [outer], OURS)
    assert number(fields, "xoff.session") == 9 and not severities(fields)


@pytest.mark.parametrize("version", list(DcbxVersion))
@pytest.mark.parametrize("headroom_too", [True, False])
def test_the_capability_in_either_format_and_what_is_behind_it(
    tmp_path: Path, version: DcbxVersion, headroom_too: bool
) -> None:
    is_draft = version is DcbxVersion.DRAFT
    table = (0, 1, 2, 3, 4, 5, 6, 7)
    shares = (30, 20, 10, 10, 10, 10, 5, 5)
    algorithms = None if is_draft else (2,) * 8
    entries = (AppEntry(3, Selector.UDP, 4791), AppEntry(5, Selector.ETHERTYPE, 0x8906))
    tlvs = DcbxTlvs(
        traffic_classes=6,
        ets=EtsConfiguration(Ets(table, shares, algorithms), True),
        recommendation=EtsRecommendation(shares, None if is_draft else table, algorithms),
        pfc=Pfc(0b1010, True, 8, headroom=headroom_too, defended=0b1000 if is_draft else None),
        applications=ApplicationPriority(entries),
        cn=CongestionNotification(0b110, 0b10, is_draft),
    )
    pdu = lldp.Lldpdu(lldp.ChassisId.of_mac(A), lldp.PortId.interface("eth7"), 120, tuple(dcbx_tlvs(version, tlvs)))
    (fields,) = decode(tmp_path, [lldp.LldpFrame(A, pdu).encode()], OURS)
    assert not severities(fields) and "_ws.malformed" not in fields
    assert fields["lldp.port.id"] == ["eth7"]
    if headroom_too:
        assert number(fields, "xoff.capability") == 0xA1
        assert fields["xoff.capable"][0] in ("1", "True")
    else:
        assert "xoff.capability" not in fields
    if not is_draft:
        assert [int(one, 0) for one in fields["lldp.dcbx.ieee.app.prio"]] == [3, 5]
        assert "xoff.draft.subtype" not in fields
        return
    numbers = {name: [int(one, 0) for one in shown] for name, shown in fields.items() if name.startswith("xoff.draft.")
               and name not in ("xoff.draft.entry", "xoff.draft.willing", "xoff.draft.valid")}  # fmt: skip
    assert numbers == {
        "xoff.draft.subtype": [8, 9, 10, 11, 12, 13],
        "xoff.draft.classes": [6],
        "xoff.draft.assignment": list(table),
        "xoff.draft.bandwidth": [*shares, *shares],
        "xoff.draft.cap": [8],
        "xoff.draft.enabled": [0b1010, 0b110],
        "xoff.draft.defended": [0b1000, 0b10],
        "xoff.draft.priority": [3, 5],
        "xoff.draft.selector": [2, 0],
        "xoff.draft.protocol": [4791, 0x8906],
    }
    flags = [shown in ("1", "True") for shown in fields["xoff.draft.willing"]]
    assert flags == [True, True, False, True] and fields["xoff.draft.valid"][0] in ("1", "True")


def test_a_slice_and_whether_it_is_strict(tmp_path: Path) -> None:
    for strict in (False, True):
        named = ipv6.SliceOption(0x01020304, strict).option()
        packet = Packet(IPv6Address(1), IPv6Address(2), 0, ipv6.encode_header(59, [named])).encode()
        (fields,) = decode(tmp_path, [B.octets + A.octets + b"\x86\xdd" + packet], OURS)
        assert number(fields, "xoff.slice") == 0x01020304
        assert (fields["xoff.slice.strict"][0] in ("1", "True")) is strict


def test_every_stamp_of_telemetry_and_the_headers_behind_it(tmp_path: Path) -> None:
    area = Telemetry((Stamp(1, 2, 3, 10_000), Stamp(5, 0, 0xFFFFFFFF, 7)))
    data = roce.Packet(roce.Opcode.WRITE_FIRST, 17, 99, b"data" * 8, reth=roce.Reth(0x1000, 5, 64), telemetry=area)
    answer = roce.Packet(
        roce.Opcode.ACKNOWLEDGE, 18, 99, aeth=roce.Aeth(3), telemetry=area.returned()._replace(overflowed=True)
    )
    plain = data._replace(telemetry=None)
    sent = [frame(one) for one in (data, answer, plain)]
    collected, returned, without = decode(tmp_path, sent, OURS)
    for fields, kind, overflowed in ((collected, 1, "0"), (returned, 2, "1")):
        assert number(fields, "xoff.int.kind") == kind
        assert (number(fields, "xoff.int.room"), number(fields, "xoff.int.count")) == (5, 2)
        assert fields["xoff.int.overflowed"][0] in (overflowed, str(overflowed == "1"))
        for name, values in (("time", "1 5"), ("queue", "2 0"), ("sent", "3 4294967295"), ("rate", "10000 7")):
            assert fields[f"xoff.int.{name}"] == values.split()
        assert number(fields, "infiniband.bth.psn") == 99
        assert "_ws.malformed" not in fields and "_ws.expert" not in fields
    assert number(collected, "infiniband.reth.va") == 0x1000
    assert number(returned, "infiniband.aeth.msn") == 3
    assert "xoff.int.kind" not in without and number(without, "infiniband.reth.va") == 0x1000


@pytest.mark.slow
def test_octets_of_any_kind_give_no_error_of_the_script(tmp_path: Path) -> None:
    dice = random.Random(7)
    frames = []
    good = headroom.MeasurementRequest(A, 1, 2, 3).encode()
    tlvs = DcbxTlvs(traffic_classes=8, pfc=Pfc(8, True, 8, headroom=True, defended=0))
    own = tuple(dcbx_tlvs(DcbxVersion.DRAFT, tlvs))
    pdu = lldp.Lldpdu(lldp.ChassisId.of_mac(A), lldp.PortId.interface("eth7"), 120, own)
    stamped = frame(roce.Packet(roce.Opcode.SEND_ONLY, 17, 99, b"data", telemetry=Telemetry((Stamp(1, 2, 3, 4),))))
    for start in (good, lldp.LldpFrame(A, pdu).encode(), stamped):
        for _ in range(200):
            octets = bytearray(start[: dice.randrange(15, len(start) + 1)])
            for _ in range(dice.randrange(6)):
                octets[dice.randrange(14, len(octets))] = dice.randrange(256)
            frames.append(bytes(octets))
    for fields in decode(tmp_path, frames, OURS):
        assert not [message for message in severities(fields) if "Lua" in message]


def test_a_selective_acknowledgement_of_roce_names_the_packets_that_have_come(tmp_path: Path) -> None:
    behind = [101, 102, 105, 140, 601]
    payload = bitmap(0xFFFFF0, {0xFFFFF0 + place for place in behind}, 0xFFFFF0 + 601, 0xFFFFF0 + 601)
    opcode, nak = roce.Opcode.SELECTIVE_ACKNOWLEDGE, roce.Aeth(7, roce.Nak.SEQUENCE_ERROR)
    acknowledgement = roce.Packet(opcode, 0x123, 0xFFFFF0, payload, aeth=nak)
    usual = roce.Packet(roce.Opcode.ACKNOWLEDGE, 0x123, 5, aeth=roce.Aeth(9))
    ours, other = decode(tmp_path, [frame(acknowledgement), frame(usual)], OURS)
    assert number(ours, "infiniband.bth.opcode") == 0xD1
    assert number(ours, "xoff.roce.missing") == 0xFFFFF0
    assert number(ours, "xoff.roce.msn") == 7
    assert [int(text) for text in ours["xoff.roce.arrived"]] == [(0xFFFFF0 + place) % 2**24 for place in behind]
    assert severities(ours) == []
    assert "xoff.roce.missing" not in other
    assert number(other, "infiniband.aeth.msn") == 9


@pytest.mark.parametrize("version", [4, 6])
def test_a_rest_is_marked_and_a_packet_that_is_whole_is_not(tmp_path: Path, version: int) -> None:
    data = roce.Packet(roce.Opcode.WRITE_FIRST, 0x123, 77, bytes(256), reth=roce.Reth(4096, 5, 512))
    answer = roce.Packet(roce.Opcode.ACKNOWLEDGE, 0x124, 77, aeth=roce.Aeth(9))
    made = [frame(data, version), frame(data, version), frame(answer, version)]
    made = [rest(one, size, 48) or b"" for one, size in zip(made, (128, 1500, 1500), strict=True)]
    cut, whole, short = decode(tmp_path, made, OURS)
    assert (number(cut, "xoff.rest.psn"), number(cut, "xoff.rest.queue_pair")) == (77, 0x123)
    assert number(cut, "xoff.rest.octets") == 128 - 14 - (20 if version == 4 else 40) - 8
    assert "xoff.rest.psn" not in whole and "xoff.rest.psn" not in short
    (other,) = decode(tmp_path, made[:1], [*OURS, "-o", "xoff.rests:40"])
    assert "xoff.rest.psn" not in other
    words = [[layer.kind for layer in layers(one)][-1] for one in made]
    assert words == ["rest", "roce", "roce"]
    assert layers(made[0])[-1].text.startswith("RoCEv2 rest of a trimmed write first QP 291 PSN 77, ")


def test_every_field_of_esuns_header(tmp_path: Path) -> None:
    dice = random.Random(54)
    values: list[dict[str, Any]] = [
        {name: dice.getrandbits(bits) for name, bits in esun.WIDTHS.items()} for _ in range(20)
    ]
    sent = [esun.EsunFrame(B, A, esun.EsunHeader(**one), bytes(50), dice.choice([None, 5])).encode() for one in values]
    for one, fields in zip(values, decode(tmp_path, sent, OURS), strict=True):
        assert {name: number(fields, f"xoff.esun.{name}") for name in one} == one
        assert severities(fields) == []


def test_a_line_with_llr_is_read_with_its_preambles_replays_and_ordered_sets(tmp_path: Path) -> None:
    dice = random.Random(54)
    inside = frame(roce.Packet(roce.Opcode.ACKNOWLEDGE, 5, 6, aeth=roce.Aeth(7)))
    records = []
    for _ in range(60):
        kind = dice.choice([None, *ordered_set.Kind])
        sequence, fate = dice.randrange(ordered_set.SEQUENCES), dice.choice(list(record.Fate))
        if kind is None:
            content: Any = dice.choice([None, sequence])
            is_replay = content is not None and dice.random() < 0.5
            records.append(record.Record(A, B, content, fate, is_replay, inside))
        else:
            data = dice.randrange(1, 0x10000) if kind in (ordered_set.Kind.INIT, ordered_set.Kind.ECHO) else 0
            records.append(record.Record(A, B, ordered_set.OrderedSet(kind, sequence, data), fate))
    for one, fields in zip(records, decode(tmp_path, [one.encode() for one in records], OURS), strict=True):
        assert severities(fields) == []
        assert number(fields, "xoff.llr.version") == record.VERSION
        assert number(fields, "xoff.llr.fate") == one.fate
        assert fields["xoff.llr.replay"] in ([str(int(one.is_replay))], [str(one.is_replay)])
        if isinstance(one.content, ordered_set.OrderedSet):
            assert number(fields, "xoff.llr.set") == one.content.kind
            assert number(fields, "xoff.llr.sequence") == one.content.sequence
            assert [int(text, 0) for text in fields.get("xoff.llr.data", ["0"])] == [one.content.data]
            assert "infiniband" not in fields
            continue
        assert fields.get("xoff.llr.sequence", []) == ([] if one.content is None else [str(one.content)])
        assert fields["xoff.llr.preamble"] == [":".join(f"{octet:02x}" for octet in one.encode()[18:26])]
        assert fields["infiniband.bth.opcode"]


def test_messages_about_credits_are_read(tmp_path: Path) -> None:
    update = credits.both([credits.Freed(3, 0x7ABC), credits.Freed(5, 17)])
    used = credits.CcUpdate(A, 16, tuple(0xFEDCB if place == 9 else 0 for place in range(16)))
    first, second = decode(tmp_path, [credits.carried(A, update.encode()), used.encode()], OURS)
    assert first["xoff.credits.message"] == ["CF_Update"] and second["xoff.credits.message"] == ["CC_Update"]
    assert (first["xoff.credits.vc"], first["xoff.credits.freed"]) == (["3", "5"], [str(0x7ABC), "17"])
    assert (second["xoff.credits.vc"], second["xoff.credits.used"]) == (["25"], [str(0xFEDCB)])
    assert severities(first) == severities(second) == []
