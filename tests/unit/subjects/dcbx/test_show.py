"""The views of DCBX: the state of a port as data and as a table, and the lines of a log."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.frames import Mac
from testbed.frames.dcbx.values import AppEntry, DcbxVersion, Ets, EtsRecommendation, Selector
from testbed.frames.lldp import ChassisId, Lldpdu, LldpFrame, PortId
from testbed.frames.lldp_tlvs import Capabilities, ManagementAddress, Organisational, Text, TextKind
from testbed.subjects.dcbx import features
from testbed.subjects.dcbx.events import (
    ApplicationsChanged,
    CnChanged,
    CrowdChanged,
    EtsChanged,
    Event,
    HeadroomChanged,
    Loss,
    NeighbourFound,
    NeighbourLost,
    PeerChanged,
    PendingChanged,
    PfcChanged,
    TrafficClassesChanged,
    VersionMismatch,
)
from testbed.subjects.dcbx.features.link_layer import LinkLayer, LinkLayerChanged
from testbed.subjects.dcbx.features.priority_sets import PrioritiesChanged
from testbed.subjects.dcbx.features.virtual_channels import VirtualChannels, VirtualChannelsChanged
from testbed.subjects.dcbx.port import DcbxPort
from testbed.subjects.dcbx.settings import (
    ApplicationAdmin,
    CnAdmin,
    DcbxSettings,
    EtsAdmin,
    PfcAdmin,
    PortIdentity,
    Recommend,
    Shares,
)
from testbed.subjects.dcbx.show import Direction, details, frame_record, record, snapshot, table
from testbed.subjects.dcbx.tlvs import (
    ApplicationPriority,
    CongestionNotification,
    DcbxTlvs,
    EtsConfiguration,
    Pfc,
    encode,
    read,
)
from tests.unit.subjects.dcbx.dcbx_link import HIGH, LOW, Link, S, make_port
from tests.unit.subjects.dcbx.dcbx_strategies import drafts, publisheds

DRAFT, PUBLISHED = DcbxVersion.DRAFT, DcbxVersion.PUBLISHED
GROUPS = Ets((0, 0, 0, 1, 1, 0, 13, 15), (70, 30, 0, 0, 0, 0, 0, 0))
CLASSES = Ets((0, 0, 0, 1, 1, 0, 0, 2), (70, 30, 0, 0, 0, 0, 0, 0), (2, 2, 0, 0, 0, 0, 0, 0))
APPLICATIONS = (
    AppEntry(4, Selector.TCP, 3260),
    AppEntry(3, Selector.ETHERTYPE, 0x8906),
    AppEntry(0, Selector.ETHERTYPE, 0),
    AppEntry(5, Selector.DSCP, 46),
)


def frame_of(tlvs: DcbxTlvs, version: DcbxVersion = PUBLISHED, mac: Mac = HIGH, ttl: int = 121) -> bytes:
    identity = ChassisId.of_mac(mac), PortId.interface("eth0")
    return LldpFrame(mac, Lldpdu(*identity, ttl, tuple(encode(version, tlvs)))).encode()


def through_json(plain: Any) -> Any:
    return json.loads(json.dumps(plain))


def shown(**ports: DcbxPort) -> list[str]:
    """Return the table of these ports, by way of JSON."""
    return table(through_json({name.replace("_", "-"): snapshot(port) for name, port in ports.items()})).splitlines()


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


def settled(a: DcbxSettings, b: DcbxSettings) -> Link:
    link = Link(make_port(LOW, a), make_port(HIGH, b))
    link.a.start(0)
    link.b.start(0)
    link.run_until(10 * S)
    return link


# The table


def test_the_table_has_a_row_for_each_port_and_tlv() -> None:
    everything = DcbxSettings(
        ets=EtsAdmin(CLASSES),
        pfc=PfcAdmin(0x18, defense=True),
        applications=ApplicationAdmin(APPLICATIONS),
        cn=CnAdmin(0x10),
    )
    host = DcbxSettings(pfc=PfcAdmin(0x08, willing=True), applications=ApplicationAdmin(willing=True))
    link = settled(everything, host)
    heads, *rows, legend = shown(s1_eth1=link.a, h1_eth0=link.b)
    assert cells(heads) == [
        "port", "TLV", "local", "oper", "remote", "willing l/r", "pending", "defended l/r", "why",
    ]  # fmt: skip
    ets = "0:70 1:30 2:strict / 00011002"
    follow = "the peer's: this port is willing"
    apps = "4:tcp/3260 3:0x8906 0:default +1"
    neither = "local setting: this port is not willing"
    assert [cells(row) for row in rows] == [
        ["s1-eth1", "TC", "8", "8", "-", "-", "yes", "-", "local setting: it is announced only"],
        ["s1-eth1", "ETS", ets, ets, "-", "no/-", "yes", "-", neither],
        ["s1-eth1", "PFC", "3,4", "3,4", "3,4", "no/yes", "no", "none/-",
         "local setting: the peer is willing and this port is not"],
        ["s1-eth1", "APP", apps, apps, "none", "no/-", "no", "-", neither],
        ["s1-eth1", "CN", "4", "4", "-", "-", "yes", "4/-", "local setting: this format does not negotiate it"],
        ["h1-eth0", "TC", "8", "8", "8", "-", "no", "-", "local setting: it is announced only"],
        ["h1-eth0", "ETS", "-", "-", ets, "-/no", "-", "-", "this port does not run ETS"],
        ["h1-eth0", "PFC", "3", "3,4", "3,4", "yes/no", "no", "none/-",
         "the peer's: this port is willing and the peer is not"],
        ["h1-eth0", "APP", "none", apps, apps, "yes/-", "no", "-", follow],
        ["h1-eth0", "CN", "-", "-", "4", "-", "-", "-", "this port does not run congestion notification"],
    ]  # fmt: skip
    assert legend == "ETS is class:percent / class of priority 0 to 7"


def test_columns_stand_under_their_heads() -> None:
    link = settled(DcbxSettings(pfc=PfcAdmin(0xFF)), DcbxSettings(pfc=PfcAdmin(0x00)))
    heads, *rows = shown(a_port_with_a_long_name=link.a, b=link.b)
    for head in ("port", "TLV", "local", "oper", "remote", "why"):
        at = heads.index(head)
        assert all(row[at] != " " and (at == 0 or row[at - 1] == " ") for row in rows)


def test_a_recommendation_is_shown_where_it_is_made_and_where_it_is_received() -> None:
    shares = Shares((20, 0, 0, 60, 0, 0, 0, 20))
    bridge = DcbxSettings(DRAFT, ets=EtsAdmin(GROUPS, recommend=shares))
    host = DcbxSettings(DRAFT, ets=EtsAdmin(GROUPS, willing=True))
    alone = make_port(LOW, bridge)
    alone.start(0)
    assert cells(shown(s1=alone)[3])[:7] == ["s1", "ETS rec", "-", "-", "-", "-", "yes"]
    link = settled(bridge, host)
    rows = [cells(row) for row in shown(s1=link.a, h1=link.b)]
    configured, followed = "0:70 1:30 / 000110AS", "0:25 1:75 / 000110AS"
    assert rows[2][:7] == ["s1", "ETS", configured, configured, followed, "no/yes", "no"]
    assert rows[3] == ["s1", "ETS rec", "-", "0:25 1:75", "-", "-", "no", "-",
                       "worked out from the shares and the peer's priority groups"]  # fmt: skip
    assert rows[5][:7] == ["h1", "ETS", configured, followed, configured, "yes/no", "no"]
    assert rows[6][:7] == ["h1", "ETS rec", "-", "-", "0:25 1:75", "-", "-"]
    assert rows[7] == ["ETS is class:percent / class of priority 0 to 7; S is strict, A and B are the AVB groups"]
    fixed = EtsRecommendation(CLASSES.bandwidth, CLASSES.assignment, CLASSES.tsa)
    published = make_port(LOW, DcbxSettings(ets=EtsAdmin(CLASSES, recommend=Recommend(fixed))))
    assert cells(shown(s1=published)[3])[2:4] == ["0:70 1:30 2:strict / 00011002"] * 2


def test_rv_0_is_shown() -> None:
    host = make_port(LOW, DcbxSettings(DRAFT, ets=EtsAdmin(GROUPS, willing=True)))
    host.start(0)
    host.receive(frame_of(DcbxTlvs(8, recommendation=EtsRecommendation(valid=False)), DRAFT), 1)
    assert cells(shown(h=host)[3])[:5] == ["h", "ETS rec", "-", "-", "RV 0"]


@pytest.mark.parametrize(
    ("ets", "text"),
    [
        (Ets((0,) * 8, (100, *[0] * 7)), "0:100 / 00000000"),
        (Ets((8, 9, 12, 13, 14, 15, 7, 0), (0, 100, *[0] * 6)), "0:0 1:100 7:0 / 89cABS70"),
        (Ets((0, 1, 2, 3, 4, 5, 6, 7), (5, 0, 0, 7, 0, 88, 0, 0), (2, 0, 1, 0, 255, 2, 9, 2)),
         "0:5 1:strict 2:cbs 3:strict(7) 4:vendor 5:88 6:tsa9 7:0 / 01234567"),
        (Ets((0,) * 7 + (15,), (100, *[0] * 7), (2,) * 8), "0:100 / 0000000f"),
    ],
)  # fmt: skip
def test_ets_of_any_peer_in_short(ets: Ets, text: str) -> None:
    port = make_port(LOW, DcbxSettings(ets.version))
    port.start(0)
    port.receive(frame_of(DcbxTlvs(8, EtsConfiguration(ets)), ets.version), 1)
    assert cells(shown(s1=port)[2])[:5] == ["s1", "ETS", "-", "-", text]


def test_each_selector_has_a_short_form() -> None:
    def remote(version: DcbxVersion, selector: Selector) -> str:
        port = make_port(LOW, DcbxSettings(version))
        port.start(0)
        tlvs = DcbxTlvs(applications=ApplicationPriority((AppEntry(1, selector, 300),)))
        port.receive(frame_of(tlvs, version), 1)
        return cells(shown(s1=port)[2])[4]

    assert [remote(PUBLISHED, selector) for selector in Selector if selector is not Selector.OTHER_PORT] == [
        "1:0x012c", "1:tcp/300", "1:udp/300", "1:tcp+udp/300", "1:dscp/300",
    ]  # fmt: skip
    assert remote(DRAFT, Selector.OTHER_PORT) == "1:other/300"


def test_defenses_of_both_ends_are_shown() -> None:
    bridge = DcbxSettings(DRAFT, pfc=PfcAdmin(0x18, defense=True))
    link = settled(bridge, DcbxSettings(DRAFT, pfc=PfcAdmin(0x0C, defense=True)))
    assert [cells(row)[7] for row in shown(s1=link.a) if "PFC" in row] == ["4/2"]


def test_the_headroom_capability_is_a_row_where_an_end_announces_it() -> None:
    quiet = settled(DcbxSettings(pfc=PfcAdmin(0)), DcbxSettings(pfc=PfcAdmin(0)))
    assert not any("headroom" in row for row in shown(s1=quiet.a))
    link = settled(DcbxSettings(pfc=PfcAdmin(0)), DcbxSettings(pfc=PfcAdmin(0, headroom=True)))
    assert [cells(row)[:8] for row in shown(s1=link.a, h1=link.b) if "headroom" in cells(row)[1:2]] == [
        ["s1", "headroom", "no", "no", "yes", "-", "no", "-"],
        ["h1", "headroom", "yes", "no", "no", "-", "no", "-"],
    ]


def test_a_port_that_does_not_run_is_noted_below() -> None:
    assert shown(s1=make_port(LOW, DcbxSettings()))[2:] == ["s1: DCBX is not running"]


def test_several_neighbours_are_noted_below_with_their_names() -> None:
    port = make_port(LOW, DcbxSettings())
    port.start(0)
    for last in (0x0B, 0x0C):
        port.receive(frame_of(DcbxTlvs(pfc=Pfc(0x08)), mac=Mac(bytes([2, 0, 0, 0, 0, last]))), 1)
    assert snapshot(port)["crowded"]
    assert shown(s1=port)[2:] == [
        "s1: DCBX is off: 2 neighbours are on the link, 02:00:00:00:00:0b port eth0, 02:00:00:00:00:0c port eth0"
    ]


def test_a_peer_of_the_other_format_is_noted_below() -> None:
    port = make_port(LOW, DcbxSettings())
    port.start(0)
    port.receive(frame_of(DcbxTlvs(8), DRAFT), 1)
    assert snapshot(port)["peer_speaks"] == "draft"
    assert shown(s1=port)[2:] == [
        "s1: the peer speaks the draft format and this port the published one, so its DCBX TLVs are ignored; "
        "set `version` of one end to that of the other"
    ]


def test_errors_in_a_neighbours_tlvs_are_noted_below() -> None:
    port = make_port(LOW, DcbxSettings())
    port.start(0)
    wrong = replace(CLASSES, bandwidth=(70, 31, 0, 0, 0, 0, 0, 0))
    port.receive(frame_of(DcbxTlvs(8, EtsConfiguration(wrong))), 1)
    (note, _legend) = shown(s1=port)[3:]
    assert note.startswith("s1: 02:00:00:00:00:0b port eth0: ")
    assert "its bandwidths sum to 101, not 100" in note


def test_no_ports_make_no_table() -> None:
    assert table({}) == "no port with DCBX\n"


# The data


def test_a_snapshot_has_every_feature_and_what_was_counted() -> None:
    link = settled(DcbxSettings(pfc=PfcAdmin(0x18)), DcbxSettings(pfc=PfcAdmin(0x08, willing=True)))
    seen = snapshot(link.b)
    assert list(seen["features"]) == [feature.name for feature in features.every()]
    assert seen["features"]["pfc"] == {
        "admin": [3],
        "oper": [3, 4],
        "remote": [3, 4],
        "willing": True,
        "remote_willing": False,
        "pending": False,
        "defended": [],
        "remote_defended": None,
        "why": "the peer's: this port is willing and the peer is not",
    }
    (neighbour,) = seen["neighbours"]
    assert neighbour == {
        "chassis_id": "02:00:00:00:00:0a",
        "port_id": "eth0",
        "mac": "02:00:00:00:00:0a",
        "ttl": 121,
        "expires_ns": link.b.neighbours[0].expires_ns,
        "flaws": [],
        "port_description": None,
        "system_name": None,
        "system_description": None,
        "capabilities": None,
        "addresses": [],
    }
    assert seen["pfc_capability"] == {"local": 8, "remote": 8, "remote_mbc": False}
    assert (seen["running"], seen["version"], seen["tie_break"]) == (True, "published", "higher")
    assert (seen["crowded"], seen["peer_speaks"], seen["counters"]) == (False, None, link.b.counters)
    assert (seen["mac"], seen["chassis_id"], seen["port_id"]) == (str(HIGH), str(HIGH), "eth0")


def test_the_details_have_the_peers_identity_its_ttl_and_counters() -> None:
    texts = Text(TextKind.SYSTEM_NAME, b"leaf1"), Text(TextKind.PORT_DESCRIPTION, b"up\x1b[2Jlink")
    mine = Capabilities(0x14, 0x04), ManagementAddress.ip("192.0.2.1")
    identity = replace(PortIdentity.of(HIGH, "eth7"), tlvs=(*texts, *mine))
    peer = DcbxPort(identity, DcbxSettings(pfc=PfcAdmin(0x18, cap=2)))
    peer.start(0)
    port = make_port(LOW, DcbxSettings(pfc=PfcAdmin(0x08)))
    port.start(0)
    port.receive(peer.take_frames()[0], 0)
    assert details(snapshot(port), 21 * S + 1) == [
        "neighbour 02:00:00:00:00:0b port eth7, from 02:00:00:00:00:0b, port description up?[2Jlink, "
        "system name leaf1, bridge, at 192.0.2.1; TTL 121 s, 99 s left",
        "PFC in up to 8 traffic classes here, 2 at the peer",
        "counters: frames_in 1, frames_out 2, neighbours_found 1",
    ]


@pytest.mark.slow
@given(st.sampled_from(DcbxVersion), drafts() | publisheds())
def test_any_tlvs_of_a_peer_survive_json_and_fit_the_table(version: DcbxVersion, tlvs: DcbxTlvs) -> None:
    ets = Ets((0,) * 8, (100, *[0] * 7), None if version is DRAFT else (2,) * 8)
    mine = DcbxSettings(version, ets=EtsAdmin(ets, True), pfc=PfcAdmin(8, True), cn=CnAdmin(8))
    port = make_port(LOW, mine)
    port.start(0)
    spoken = DRAFT if _is_draft(tlvs) else PUBLISHED
    octets = frame_of(tlvs, spoken)
    port.receive(octets, 1)
    seen = snapshot(port)
    assert through_json(seen) == seen
    assert table({"s1": through_json(seen)}) == table({"s1": seen})
    lines = [record(event) for event in port.take_events()]
    lines.append(frame_record(octets, spoken, "received", 1))
    assert through_json(lines) == lines


def _is_draft(tlvs: DcbxTlvs) -> bool:
    try:
        encode(DRAFT, tlvs)
    except ValueError:
        return False
    return True


# The log

ID = ChassisId.of_mac(HIGH), PortId.interface("eth0")
NAMED = {"chassis_id": "02:00:00:00:00:0b", "port_id": "eth0"}
MASKS = {"enabled": [3, 4], "defended": [], "remote": None, "remote_defended": [3]}
PLAIN_ETS = {"assignment": [0, 0, 0, 1, 1, 0, 0, 2], "bandwidth": [70, 30] + [0] * 6, "tsa": [2, 2] + [0] * 6}

LINES: list[tuple[Event, dict[str, Any]]] = [
    (PfcChanged(5, 0x18, 0, None, 0x08, "w"), {"what": "pfc_changed", **MASKS, "why": "w"}),
    (CnChanged(5, 0x18, 0, None, 0x08, "w"), {"what": "cn_changed", **MASKS, "why": "w"}),
    (EtsChanged(5, CLASSES, "w"), {"what": "ets_changed", "ets": PLAIN_ETS, "why": "w"}),
    (EtsChanged(5, None, "w"), {"what": "ets_changed", "ets": None, "why": "w"}),
    (
        ApplicationsChanged(5, APPLICATIONS[:1], "w"),
        {
            "what": "applications_changed",
            "entries": [{"priority": 4, "selector": "TCP port", "protocol": 3260}],
            "why": "w",
        },
    ),
    (TrafficClassesChanged(5, 8, None), {"what": "traffic_classes_changed", "local": 8, "remote": None}),
    (HeadroomChanged(5, True, "w"), {"what": "headroom_changed", "both": True, "why": "w"}),
    (
        LinkLayerChanged(5, LinkLayer(True), None, ("m",), "w"),
        {
            "what": "link_changed",
            "oper": {"llr": True, "cbfc": False, "version": 1},
            "remote": None,
            "mismatch": ["m"],
            "why": "w",
        },
    ),
    (
        VirtualChannelsChanged(5, VirtualChannels(8, 9, frozenset({4, 3})), None, (), "w"),
        {
            "what": "virtual_channels_changed",
            "oper": {"vcs": 8, "pool": 9, "lossless": [3, 4]},
            "remote": None,
            "mismatch": [],
            "why": "w",
        },
    ),
    (PendingChanged(5, "pfc", True), {"what": "pending_changed", "feature": "pfc", "pending": True}),
    (PeerChanged(5, None, DcbxTlvs()), {"what": "peer_changed", "mac": None, "tlvs": {}}),
    (PeerChanged(5, HIGH, DcbxTlvs(8)), {"what": "peer_changed", "mac": str(HIGH), "tlvs": {"traffic_classes": 8}}),
    (NeighbourFound(5, *ID, HIGH), {"what": "neighbour_found", **NAMED, "mac": str(HIGH)}),
    (NeighbourLost(5, *ID, Loss.EXPIRED), {"what": "neighbour_lost", **NAMED, "why": "its TTL is over"}),
    (CrowdChanged(5, True, 2), {"what": "crowd_changed", "crowded": True, "neighbours": 2}),
    (VersionMismatch(5, DRAFT), {"what": "version_mismatch", "peer_speaks": "draft"}),
    (VersionMismatch(5, None), {"what": "version_mismatch", "peer_speaks": None}),
]


@pytest.mark.parametrize(("event", "line"), LINES, ids=[type(event).__name__ for event, _ in LINES])
def test_an_event_is_a_line(event: Event, line: dict[str, Any]) -> None:
    assert record(event) == {"t_ns": 5} | line
    assert through_json(record(event)) == record(event)


def test_every_event_has_a_line() -> None:
    made = {type(event).__name__ for event, _ in LINES}
    kinds = [*Event.__subclasses__(), *PrioritiesChanged.__subclasses__()]
    ours = {kind.__name__ for kind in kinds if kind.__module__.startswith("testbed.")}
    assert made == ours - {"PrioritiesChanged"}  # by name: slots make each class twice


def test_a_frame_is_a_line_with_its_content() -> None:
    tlvs = DcbxTlvs(
        8,
        EtsConfiguration(CLASSES, willing=True),
        EtsRecommendation(CLASSES.bandwidth, CLASSES.assignment, CLASSES.tsa),
        Pfc(0x18, True, headroom=True),
        ApplicationPriority(APPLICATIONS[:1]),
        CongestionNotification(0x10, 0x10),
    )
    line = frame_record(frame_of(tlvs), PUBLISHED, "sent", 7)
    number = line.pop("id")
    assert (len(number), int(number, 16) > 0) == (8, True)
    pfc = {"willing": True, "enabled": [3, 4], "defended": None, "cap": 8, "mbc": False, "headroom": True}
    assert line == {
        "t_ns": 7,
        "what": "frame",
        "direction": "sent",
        "source": "02:00:00:00:00:0b",
        **NAMED,
        "ttl": 121,
        "version": "published",
        "mismatch": False,
        "tlvs": {
            "traffic_classes": 8,
            "ets": {"willing": True, **PLAIN_ETS, "cbs": False},
            "recommendation": {"valid": True, **PLAIN_ETS},
            "pfc": pfc,
            "applications": {
                "willing": False,
                "entries": [{"priority": 4, "selector": "TCP port", "protocol": 3260}],
            },
            "cn": {"willing": False, "enabled": [4], "defended": [4]},
        },
    }


def test_drafts_rv_and_defon_are_in_the_line_of_a_frame() -> None:
    tlvs = DcbxTlvs(recommendation=EtsRecommendation(valid=False), pfc=Pfc(0x18, defended=0x10))
    said = frame_record(frame_of(tlvs, DRAFT), DRAFT, "received", 7)["tlvs"]
    assert (said["recommendation"]["valid"], said["pfc"]["defended"]) == (False, [4])


def test_equal_frames_have_the_same_id_and_others_have_not() -> None:
    made: tuple[tuple[int, Direction, int], ...] = ((8, "sent", 1), (8, "received", 2), (16, "sent", 3))
    lines = [
        frame_record(frame_of(DcbxTlvs(pfc=Pfc(mask))), PUBLISHED, direction, now) for mask, direction, now in made
    ]
    assert lines[0]["id"] == lines[1]["id"] != lines[2]["id"]


def test_flaws_mismatch_and_shutdown_are_in_the_line_of_a_frame() -> None:
    short = LldpFrame(HIGH, Lldpdu(*ID, 0, (Organisational(b"\x00\x80\xc2", 11, b"\x08"),))).encode()
    line = frame_record(short, PUBLISHED, "received", 1)
    assert (line["ttl"], line["tlvs"], len(line["flaws"])) == (0, {}, 1)
    other = frame_record(frame_of(DcbxTlvs(8), DRAFT), PUBLISHED, "received", 1)
    assert (other["mismatch"], other["tlvs"]) == (True, {})


@given(st.binary(max_size=80) | st.integers(0, 60).map(lambda end: frame_of(DcbxTlvs(pfc=Pfc(8)))[:end]))
def test_any_octets_are_a_line(octets: bytes) -> None:
    line = frame_record(octets, PUBLISHED, "received", 1)
    assert through_json(line) == line
    assert ("tlvs" in line) is ("refused" not in line)


def test_a_refused_frame_has_a_reason() -> None:
    line = frame_record(b"\0" * 9, PUBLISHED, "received", 1)
    assert line["refused"] == "too_short"
    assert line["why"] == "a frame of 9 octets is cut short: an Ethernet header would end at 14"


@pytest.mark.slow
@given(drafts())
def test_what_the_line_of_a_frame_has_is_what_the_codec_reads(tlvs: DcbxTlvs) -> None:
    found = read(DRAFT, encode(DRAFT, tlvs)).tlvs
    line = frame_record(frame_of(tlvs, DRAFT), DRAFT, "sent", 1)["tlvs"]
    assert set(line) == {feature.name for feature in features.every() if found.get(feature.name) is not None}
