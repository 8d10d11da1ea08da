"""One port, and two on a cable: the draft's ladders, neighbours that come and go, new settings, events for agents."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from testbed.errors import XoffError
from testbed.frames import Mac
from testbed.frames.dcbx.values import AppEntry, DcbxVersion, Ets, EtsRecommendation, Selector
from testbed.frames.lldp import ChassisId, Lldpdu, LldpFrame, PortId, parse
from testbed.frames.lldp_timers import LldpTimers
from testbed.frames.lldp_tlvs import Organisational, Text, TextKind, Tlv, Unknown
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
from testbed.subjects.dcbx.port import DcbxPort
from testbed.subjects.dcbx.settings import (
    ApplicationAdmin,
    CnAdmin,
    DcbxSettings,
    EtsAdmin,
    LinkLayer,
    PfcAdmin,
    PortIdentity,
    Recommend,
    Shares,
    TieBreak,
    VirtualChannels,
)
from testbed.subjects.dcbx.tlvs import (
    ApplicationPriority,
    CongestionNotification,
    DcbxTlvs,
    EtsConfiguration,
    Pfc,
    encode,
)
from testbed.units import Duration
from tests.unit.subjects.dcbx.dcbx_link import HIGH, LOW, Link, S, make_port, said

DRAFT, PUBLISHED = DcbxVersion.DRAFT, DcbxVersion.PUBLISHED
GROUPS = Ets((0, 0, 0, 1, 1, 0, 0, 15), (70, 30, 0, 0, 0, 0, 0, 0))
CLASSES = Ets((0, 0, 0, 1, 1, 0, 0, 2), (70, 30, 0, 0, 0, 0, 0, 0), (2, 2, 0, 0, 0, 0, 0, 0))
ISCSI = (AppEntry(4, Selector.TCP, 3260),)
STRANGER = Mac.parse("02:00:00:00:00:0c")


def pfc(enabled: int, willing: bool = False, version: DcbxVersion = PUBLISHED, **more: bool) -> DcbxSettings:
    return DcbxSettings(version, pfc=PfcAdmin(enabled, willing, **more))


def frame_of(
    tlvs: DcbxTlvs | tuple[Tlv, ...],
    mac: Mac = HIGH,
    ttl: int = 121,
    version: DcbxVersion = PUBLISHED,
    name: str = "eth0",
) -> bytes:
    """Return a frame of a peer."""
    optional = tuple(encode(version, tlvs)) if isinstance(tlvs, DcbxTlvs) else tlvs
    return LldpFrame(mac, Lldpdu(ChassisId.of_mac(mac), PortId.interface(name), ttl, optional)).encode()


def running(settings: DcbxSettings, k: int = 1) -> DcbxPort:
    """Return a port that has started at 0 and sent its first frame."""
    port = make_port(LOW, settings, k)
    port.start(0)
    assert len(port.take_frames()) == 1
    port.take_events()
    return port


def told(port: DcbxPort, *kinds: type[Event]) -> list[Any]:
    return [event for event in port.take_events() if not kinds or isinstance(event, kinds)]


# The draft's ladders


def test_ladder_of_asymmetric_passing() -> None:
    """Two transfers in one direction and one in the other: configuration, recommendation, configuration as followed."""
    shares = Shares((20, 0, 0, 60, 0, 0, 0, 20))
    host = make_port(LOW, DcbxSettings(DRAFT, ets=EtsAdmin(GROUPS, willing=True)))
    bridge = make_port(HIGH, DcbxSettings(DRAFT, ets=EtsAdmin(GROUPS, recommend=shares)))
    bridge.start(0)
    (unheard,) = bridge.take_frames()  # no neighbour yet
    assert said(bridge, unheard).recommendation == EtsRecommendation(valid=False)
    link = Link(host, bridge, now=S)
    host.start(S)
    link.run_until(S)
    followed = Ets(GROUPS.assignment, (25, 75, 0, 0, 0, 0, 0, 0))
    ladder = [(name, said(host, frame)) for _, name, frame in link.sent]
    assert ladder == [
        ("a", DcbxTlvs(8, EtsConfiguration(GROUPS, willing=True))),
        ("b", DcbxTlvs(8, EtsConfiguration(GROUPS), EtsRecommendation(followed.bandwidth))),
        ("a", DcbxTlvs(8, EtsConfiguration(followed, willing=True))),
    ]
    assert host.state.ets.oper == bridge.state.ets.remote == followed
    assert not host.state.ets.pending
    assert not bridge.state.ets.pending


def test_recommendations_go_both_ways_and_the_ports_may_end_differently() -> None:
    tables = [EtsRecommendation((share, 100 - share, 0, 0, 0, 0, 0, 0)) for share in (10, 90)]
    left, right = (
        make_port(mac, DcbxSettings(DRAFT, ets=EtsAdmin(GROUPS, True, Recommend(table))))
        for mac, table in zip((LOW, HIGH), tables, strict=True)
    )
    link = Link(left, right)
    left.start(0)
    right.start(0)
    link.run_until(S)
    assert left.state.ets.oper == Ets(GROUPS.assignment, tables[1].bandwidth)
    assert right.state.ets.oper == Ets(GROUPS.assignment, tables[0].bandwidth)
    assert (left.state.ets.remote, left.state.ets.remote_willing) == (right.state.ets.oper, True)


@pytest.mark.parametrize("version", DcbxVersion)
def test_ladder_of_symmetric_passing(version: DcbxVersion) -> None:
    """The willing port receives the value, takes it, and announces it; only then is the other no longer pending."""
    host = make_port(LOW, pfc(0x00, True, version))
    bridge = make_port(HIGH, pfc(0x18, False, version))
    host.start(0)
    host.take_frames()
    link = Link(bridge, host, now=S)
    bridge.start(S)
    link.run_until(S)
    assert [(name, said(host, frame).pfc) for _, name, frame in link.sent] == [
        ("a", replace(_sent(version), enabled=0x18)),
        ("b", replace(_sent(version), enabled=0x18, willing=True)),
        ("a", replace(_sent(version), enabled=0x18)),  # the bridge's fast start: it has a new neighbour
    ]
    events: list[Any] = link.events["a"]
    pending = [(event.at_ns, event.pending) for event in events if _is_about_pfc(event)]
    assert pending == [(S, True), (S, False)]
    assert (host.state.pfc.oper, bridge.state.pfc.oper) == (0x18, 0x18)


def test_a_bridge_is_pending_until_the_willing_host_has_followed() -> None:
    bridge = running(pfc(0x18))
    bridge.receive(frame_of(DcbxTlvs(pfc=Pfc(0x00, willing=True))), 5)
    assert bridge.state.pfc.pending
    assert bridge.state.pfc.why == "local setting: the peer is willing and this port is not"
    bridge.receive(frame_of(DcbxTlvs(pfc=Pfc(0x18, willing=True))), 6)
    assert not bridge.state.pfc.pending


def test_ladder_of_defense() -> None:
    """Each end defends until it receives that the other has the feature on, and DefOn shows it."""
    left = make_port(LOW, DcbxSettings(DRAFT, pfc=PfcAdmin(0x08, defense=True), cn=CnAdmin(0x10)))
    right = make_port(HIGH, DcbxSettings(DRAFT, pfc=PfcAdmin(0x18, defense=True), cn=CnAdmin(0x10)))
    right.start(0)
    (unheard,) = right.take_frames()
    assert said(right, unheard) == DcbxTlvs(8, pfc=Pfc(0x18, defended=0x18), cn=CongestionNotification(0x10, 0x10))
    link = Link(left, right, now=S)
    left.start(S)
    link.run_until(S)
    assert [(name, said(left, frame)) for _, name, frame in link.sent] == [
        ("a", DcbxTlvs(8, pfc=Pfc(0x08, defended=0x08), cn=CongestionNotification(0x10, 0x10))),
        ("b", DcbxTlvs(8, pfc=Pfc(0x18, defended=0x10), cn=CongestionNotification(0x10, 0x00))),
        ("a", DcbxTlvs(8, pfc=Pfc(0x08, defended=0x00), cn=CongestionNotification(0x10, 0x00))),
    ]
    assert (left.state.pfc.defended, left.state.pfc.remote_defended) == (0x00, 0x10)
    assert (right.state.pfc.defended, right.state.pfc.remote_defended) == (0x10, 0x00)
    assert (left.state.cn.defended, right.state.cn.defended) == (0, 0)


def _sent(version: DcbxVersion) -> Pfc:
    return Pfc(0, defended=0 if version is DRAFT else None)


def _is_about_pfc(event: Event) -> bool:
    return isinstance(event, PendingChanged) and event.feature == "pfc"


# Events for an agent


def test_at_the_start_there_is_one_event_for_every_feature_that_is_run() -> None:
    port = make_port(
        LOW,
        DcbxSettings(
            PUBLISHED, None, 3, EtsAdmin(CLASSES), PfcAdmin(0x08, defense=True), ApplicationAdmin(ISCSI), CnAdmin(0x10)
        ),
    )
    assert port.take_events() == []
    port.start(7)
    nobody = "local setting: no LLDPDU has been received"
    features = [event for event in port.take_events() if not isinstance(event, PendingChanged)]
    assert features == [
        TrafficClassesChanged(7, 3, None),
        EtsChanged(7, CLASSES, "local setting: this port is not willing"),
        PfcChanged(7, 0x08, 0x08, None, None, nobody),
        ApplicationsChanged(7, ISCSI, "local setting: this port is not willing"),
        CnChanged(7, 0x10, 0x10, None, None, "local setting: this format does not negotiate it"),
        HeadroomChanged(7, False, "this port does not announce it"),
    ]
    port.start(8)
    assert port.take_events() == []


def test_after_another_start_all_events_come_again() -> None:
    port = running(pfc(0x08))
    port.link_down(1)
    told(port)
    port.start(2)
    assert told(port, TrafficClassesChanged, PfcChanged) == [
        TrafficClassesChanged(2, 8, None),
        PfcChanged(2, 0x08, 0, None, None, "local setting: no LLDPDU has been received"),
    ]


def test_a_port_that_runs_nothing_has_little_to_tell() -> None:
    port = make_port(LOW, DcbxSettings())
    port.start(0)
    assert told(port) == [TrafficClassesChanged(0, 8, None), PendingChanged(0, "traffic_classes", True)]


def test_each_change_of_a_peer_is_an_event_with_what_to_apply() -> None:
    port = running(
        DcbxSettings(
            DRAFT,
            None,
            8,
            EtsAdmin(GROUPS, True),
            PfcAdmin(0, True, headroom=True),
            ApplicationAdmin((), True),
            CnAdmin(0, True),
        )
    )
    advice = EtsRecommendation((50, 50, 0, 0, 0, 0, 0, 0))
    everything = DcbxTlvs(
        4,
        EtsConfiguration(GROUPS),
        advice,
        Pfc(0x08, defended=0x08, headroom=True),
        ApplicationPriority(ISCSI),
        CongestionNotification(0x20, 0x20),
    )
    port.receive(frame_of(everything, version=DRAFT), 9)
    symmetric = "the peer's: this port is willing and the peer is not"
    assert told(port) == [
        NeighbourFound(9, ChassisId.of_mac(HIGH), PortId.interface("eth0"), HIGH),
        PeerChanged(9, HIGH, everything),
        TrafficClassesChanged(9, 8, 4),
        EtsChanged(9, Ets(GROUPS.assignment, advice.bandwidth), "the peer's recommendation: this port is willing"),
        PfcChanged(9, 0x08, 0, 0x08, 0x08, symmetric),
        ApplicationsChanged(9, ISCSI, symmetric),
        CnChanged(9, 0x20, 0, 0x20, 0x20, symmetric),
        HeadroomChanged(9, True, "both ports announce it"),
        *(PendingChanged(9, name, False) for name in ("traffic_classes", "ets", "pfc", "applications", "cn")),
    ]
    port.receive(frame_of(everything, version=DRAFT), 10)
    assert told(port) == []


def test_a_peers_tlv_that_goes_away_takes_its_effect_along() -> None:
    port = running(DcbxSettings(DRAFT, ets=EtsAdmin(GROUPS, True), pfc=PfcAdmin(0, True)))
    both = DcbxTlvs(8, None, EtsRecommendation((50, 50, 0, 0, 0, 0, 0, 0)), Pfc(0x08, defended=0))
    port.receive(frame_of(both, version=DRAFT), 1)
    assert (port.state.pfc.oper, port.state.ets.oper) == (0x08, Ets(GROUPS.assignment, (50, 50, 0, 0, 0, 0, 0, 0)))
    port.receive(frame_of(DcbxTlvs(8), version=DRAFT), 2)
    assert (port.state.pfc.oper, port.state.ets.oper) == (0, GROUPS)
    assert (port.state.pfc.pending, port.state.pfc.remote, port.state.ets.remote) == (True, None, None)
    assert port.state.pfc.why == "local setting: the peer sends no PFC TLV that counts"


@pytest.mark.parametrize("rv", ["withdrawn", "absent"])
def test_a_recommendation_that_is_withdrawn_gives_the_local_setting_back(rv: str) -> None:
    port = running(DcbxSettings(DRAFT, ets=EtsAdmin(GROUPS, True)))
    port.receive(frame_of(DcbxTlvs(8, None, EtsRecommendation((50, 50, 0, 0, 0, 0, 0, 0))), version=DRAFT), 1)
    told(port)
    later = EtsRecommendation(valid=False) if rv == "withdrawn" else None
    port.receive(frame_of(DcbxTlvs(8, None, later), version=DRAFT), 2)
    (change,) = told(port, EtsChanged)
    assert isinstance(change, EtsChanged)
    assert change.ets == GROUPS


def test_taking_a_feature_out_of_the_settings_turns_it_off() -> None:
    port = running(DcbxSettings(DRAFT, ets=EtsAdmin(GROUPS), pfc=PfcAdmin(0x08, defense=True), cn=CnAdmin(1)))
    port.configure(DcbxSettings(DRAFT), 3)
    assert told(port, PfcChanged, EtsChanged, CnChanged) == [
        EtsChanged(3, None, "this port does not run ETS"),
        PfcChanged(3, 0, 0, None, None, "this port does not run PFC"),
        CnChanged(3, 0, 0, None, None, "this port does not run congestion notification"),
    ]


# New settings while running


def test_new_settings_are_sent_at_once_and_only_when_they_change_the_frame() -> None:
    port = running(pfc(0x08))
    port.configure(pfc(0x18), 5)
    (frame,) = port.take_frames()
    assert said(port, frame).pfc == Pfc(0x18)
    port.configure(pfc(0x18), 6)
    port.configure(pfc(0x18, defense=True), 7)  # the published format does not show it
    assert port.take_frames() == []
    assert port.state.pfc.defended == 0x18


def test_an_administrative_change_passes_on_to_the_willing_peer() -> None:
    link = Link(make_port(LOW, pfc(0x08)), make_port(HIGH, pfc(0x00, willing=True)))
    link.a.start(0)
    link.b.start(0)
    link.run_until(20 * S)
    assert link.b.state.pfc.oper == 0x08
    link.a.configure(pfc(0x30), link.now)
    link.run_until(link.now)
    assert (link.a.state.pfc.oper, link.b.state.pfc.oper) == (0x30, 0x30)
    assert not link.a.state.pfc.pending


def test_becoming_willing_or_unwilling_takes_effect_at_once() -> None:
    port = running(pfc(0x08))
    port.receive(frame_of(DcbxTlvs(pfc=Pfc(0x01))), 1)
    assert port.state.pfc.oper == 0x08
    port.configure(pfc(0x08, willing=True), 2)
    assert port.state.pfc.oper == 0x01
    port.configure(pfc(0x08), 3)
    assert port.state.pfc.oper == 0x08


@pytest.mark.parametrize(
    ("tie_break", "version", "oper"),
    [
        (None, PUBLISHED, 0x01),
        (None, DRAFT, 0x08),
        (TieBreak.NONE, PUBLISHED, 0x08),
        (TieBreak.LOWER, PUBLISHED, 0x08),
        (TieBreak.HIGHER, DRAFT, 0x01),
    ],
)
def test_two_willing_ports_and_the_tie_break(tie_break: TieBreak | None, version: DcbxVersion, oper: int) -> None:
    """The peer has the higher address."""
    port = running(replace(pfc(0x08, True, version), tie_break=tie_break))
    port.receive(frame_of(DcbxTlvs(pfc=Pfc(0x01, willing=True, cap=1)), version=version), 1)
    assert port.state.pfc.oper == oper


def test_two_ports_that_break_the_tie_differently_so_that_both_win_show_it_as_pending() -> None:
    left = make_port(LOW, replace(pfc(0x08, True), tie_break=TieBreak.LOWER))
    right = make_port(HIGH, replace(pfc(0x01, True), tie_break=TieBreak.HIGHER))
    link = Link(left, right)
    left.start(0)
    right.start(0)
    link.run_until(60 * S)
    assert (left.state.pfc.oper, right.state.pfc.oper) == (0x08, 0x01)
    assert left.state.pfc.pending
    assert right.state.pfc.pending


# One frame, one format


def test_a_peer_of_the_other_format_is_reported_and_nothing_of_it_counts() -> None:
    port = running(pfc(0x08, willing=True))
    port.receive(frame_of(DcbxTlvs(8, EtsConfiguration(GROUPS), pfc=Pfc(0x01, defended=0)), version=DRAFT), 1)
    assert told(port, VersionMismatch, PeerChanged, PfcChanged) == [VersionMismatch(1, DRAFT)]
    assert port.state.pfc.oper == 0x08
    assert port.state.pfc.why == "local setting: the peer speaks the draft format, and this port the published one"
    assert port.counters["version_mismatch"] == 1


def test_after_a_change_of_format_the_peer_is_read_and_answered_in_it() -> None:
    port = running(pfc(0x08, willing=True))
    port.receive(frame_of(DcbxTlvs(8, EtsConfiguration(GROUPS), pfc=Pfc(0x01, defended=0)), version=DRAFT), 1)
    port.take_frames()
    told(port)
    port.configure(pfc(0x08, True, DRAFT), 2)
    assert VersionMismatch(2, None) in told(port)
    assert port.state.pfc.oper == 0x01
    (frame,) = port.take_frames()
    assert said(port, frame) == DcbxTlvs(8, pfc=Pfc(0x01, True, defended=0))


def test_a_change_of_format_is_sent_even_with_the_same_content() -> None:
    port = running(DcbxSettings(PUBLISHED, cn=CnAdmin(0x08)))
    port.configure(DcbxSettings(DRAFT, cn=CnAdmin(0x08)), 1)
    assert [len((said(port, frame).cn and frame) or b"") for frame in port.take_frames()] == [60]


# Neighbours


def test_a_neighbour_stays_for_its_ttl_to_the_nanosecond() -> None:
    port = running(pfc(0x08, willing=True))
    port.receive(frame_of(DcbxTlvs(pfc=Pfc(0x01)), ttl=20), 3)
    told(port)
    port.expire(20 * S + 2)
    assert told(port, NeighbourLost) == []
    assert port.state.pfc.oper == 0x01
    assert port.deadline_ns == 20 * S + 3
    port.expire(20 * S + 3)
    assert told(port, NeighbourLost, PeerChanged, PfcChanged) == [
        NeighbourLost(20 * S + 3, ChassisId.of_mac(HIGH), PortId.interface("eth0"), Loss.EXPIRED),
        PeerChanged(20 * S + 3, None, DcbxTlvs()),
        PfcChanged(20 * S + 3, 0x08, 0, None, None, "local setting: no LLDPDU has been received"),
    ]
    assert port.counters["neighbours_lost.expired"] == 1


@pytest.mark.parametrize("k", [1, 1000])
def test_the_ttl_is_in_the_standards_seconds_and_lasts_them_in_lab_time(k: int) -> None:
    port = running(pfc(0x08), k)
    port.receive(frame_of(DcbxTlvs(), ttl=20), 0)
    for second in (1, 2):
        port.expire(second * k * S)
    assert port.deadline_ns == 20 * k * S
    assert [parse(frame).pdu.ttl for frame in port.take_frames()] == [121] * 3  # the answer, and two fast ones


def test_each_frame_renews_the_ttl_also_if_its_content_is_the_same() -> None:
    port = running(pfc(0x08))
    frame = frame_of(DcbxTlvs(pfc=Pfc(0x01)), ttl=10)
    for now in (0, 9 * S, 18 * S):
        port.receive(frame, now)
    for now in (19 * S, 28 * S - 1):
        port.expire(now)
    assert len(port.neighbours) == 1
    port.expire(28 * S)
    assert port.neighbours == ()


def test_a_frame_that_comes_before_anybody_looked_at_the_clock_still_counts() -> None:
    """An agent that was late must not see its peer vanish and come back."""
    port = running(pfc(0x08))
    frame = frame_of(DcbxTlvs(pfc=Pfc(0x01)), ttl=10)
    port.receive(frame, 0)
    told(port)
    port.receive(frame, 10 * S)
    port.expire(10 * S)
    assert told(port) == []


def test_ttl_0_takes_the_peer_away_at_once() -> None:
    port = running(pfc(0x08, willing=True))
    port.receive(frame_of(DcbxTlvs(pfc=Pfc(0x01))), 1)
    told(port)
    port.receive(frame_of(DcbxTlvs(pfc=Pfc(0x01)), ttl=0), 2)
    assert told(port, NeighbourLost) == [
        NeighbourLost(2, ChassisId.of_mac(HIGH), PortId.interface("eth0"), Loss.SHUTDOWN)
    ]
    assert port.state.pfc.oper == 0x08
    port.receive(frame_of((), ttl=0), 3)
    assert told(port) == []
    assert port.counters["refused.shutdown_of_stranger"] == 1


def test_stopping_sends_a_shutdown_frame_and_restores_local_settings() -> None:
    link = Link(make_port(LOW, pfc(0x08)), make_port(HIGH, pfc(0, willing=True)))
    link.a.start(0)
    link.b.start(0)
    link.run_until(10 * S)
    assert link.b.state.pfc.oper == 0x08
    link.a.stop(10 * S)
    link.collect()
    assert parse(link.sent[-2][2]).pdu.ttl == 0
    assert (link.b.state.pfc.oper, link.b.state.pfc.why) == (0, "local setting: no LLDPDU has been received")
    assert link.a.state.pfc.why == "local setting: DCBX is not running on this port"
    assert link.a.deadline_ns is None
    assert not link.a.is_running
    link.a.start(10 * S + 1)
    link.run_until(12 * S - 1)
    assert link.b.state.pfc.oper == 0
    link.run_until(12 * S)  # reinit_delay
    assert (link.a.state.pfc.remote, link.b.state.pfc.oper) == (0x08, 0x08)


def test_a_link_that_goes_down_is_forgotten_without_a_word() -> None:
    port = running(pfc(0x08, willing=True))
    port.receive(frame_of(DcbxTlvs(pfc=Pfc(0x01))), 1)
    port.take_frames()
    told(port)
    port.link_down(2)
    assert port.take_frames() == []
    assert told(port, NeighbourLost, PfcChanged) == [
        NeighbourLost(2, ChassisId.of_mac(HIGH), PortId.interface("eth0"), Loss.LINK),
        PfcChanged(2, 0x08, 0, None, None, "local setting: DCBX is not running on this port"),
    ]
    assert port.deadline_ns is None
    port.receive(frame_of(DcbxTlvs(pfc=Pfc(0x01))), 3)
    assert port.counters["refused.not_running"] == 1
    port.start(4)
    assert len(port.take_frames()) == 1


def test_another_neighbour_on_the_same_cable_turns_dcbx_off_until_only_one_is_left() -> None:
    port = running(pfc(0x08, willing=True, defense=True))
    port.receive(frame_of(DcbxTlvs(pfc=Pfc(0x01)), ttl=20), 0)
    assert port.state.pfc.oper == 0x01
    told(port)
    port.receive(frame_of(DcbxTlvs(pfc=Pfc(0x02)), STRANGER, ttl=50), 10 * S)
    assert told(port, CrowdChanged, PeerChanged, PfcChanged) == [
        CrowdChanged(10 * S, True, 2),
        PeerChanged(10 * S, None, DcbxTlvs()),
        PfcChanged(10 * S, 0x08, 0x08, None, None, "local setting: DCBX is off, because 2 neighbours are on the link"),
    ]
    port.expire(20 * S)
    assert told(port, CrowdChanged, NeighbourLost, PeerChanged, PfcChanged) == [
        NeighbourLost(20 * S, ChassisId.of_mac(HIGH), PortId.interface("eth0"), Loss.EXPIRED),
        CrowdChanged(20 * S, False, 1),
        PeerChanged(20 * S, STRANGER, DcbxTlvs(pfc=Pfc(0x02))),
        PfcChanged(20 * S, 0x02, 0, 0x02, None, "the peer's: this port is willing and the peer is not"),
    ]


def test_two_ports_of_one_neighbour_are_two() -> None:
    port = running(pfc(0x08))
    port.receive(frame_of(DcbxTlvs(), name="eth0"), 1)
    port.receive(frame_of(DcbxTlvs(), name="eth1"), 2)
    assert [str(neighbour) for neighbour in port.neighbours] == [f"{HIGH} port eth0", f"{HIGH} port eth1"]
    assert CrowdChanged(2, True, 2) in told(port)


def test_a_crowd_is_kept_small_and_lasts_as_long_as_the_longest_of_those_without_room() -> None:
    port = running(pfc(0x08, willing=True))
    for number in range(20):  # the longest that has no room ends at 60 s, and it is neither the first nor the last
        ttl = 60 - number - abs(number - 14)
        port.receive(frame_of((), Mac(bytes([2, 0, 0, 1, 0, number])), ttl=ttl), number * S)
    assert len(port.neighbours) == 8
    assert port.counters["refused.no_room"] == 12
    assert port.state.pfc.why == "local setting: DCBX is off, because 8 or more neighbours are on the link"
    told(port)
    ends = []
    while (deadline := port.deadline_ns) is not None and deadline < 61 * S:
        port.expire(deadline)
        ends += [event.at_ns for event in told(port, CrowdChanged)]
    assert ends == [60 * S]


# Neighbours that say too much, or want to be believed for too long (decision 0148)


def stranger(number: int, ttl: int = 65535) -> bytes:
    return frame_of((), Mac(bytes([2, 0, 0, 1, 0, number])), ttl=ttl)


def test_one_frame_of_a_second_neighbour_turns_dcbx_off_for_10_minutes_whatever_its_ttl() -> None:
    port = running(pfc(0x08, willing=True))
    peer = frame_of(DcbxTlvs(pfc=Pfc(0x10)))
    for second in range(0, 1201, 30):
        port.receive(peer, second * S)
        if second == 60:
            port.receive(stranger(1), 60 * S)
        port.expire(second * S)
        assert port.is_crowded == (60 <= second < 660)
    assert port.state.pfc.oper == 0x10
    assert [(event.at_ns, event.why) for event in told(port, NeighbourLost)] == [(660 * S, Loss.SILENT)]
    assert port.counters["neighbours_lost.silent"] == 1


def test_a_neighbour_that_sends_seldom_outlasts_a_second_one_that_came_later() -> None:
    """A legal interval of an hour: alone it is believed for its TTL, and of two silent ones the first stays."""
    port = running(pfc(0x08))
    port.receive(frame_of((), ttl=14401), 0)
    port.receive(stranger(1), 100 * S)
    assert port.deadline_ns is not None
    port.expire(700 * S)
    assert [neighbour.frame.source for neighbour in port.neighbours] == [HIGH]
    port.expire(14_400 * S)
    assert len(port.neighbours) == 1
    port.expire(14_401 * S)
    assert not port.neighbours


def test_neighbours_without_room_keep_the_port_crowded_for_10_minutes_at_most() -> None:
    port = running(pfc(0x08))
    for number in range(9):
        port.receive(stranger(number), number * S)
    for second in (607, 608):
        port.expire(second * S)
        assert port.is_crowded == (second == 607)


def test_an_administrator_has_all_neighbours_forgotten_and_the_peer_is_found_again() -> None:
    port = running(pfc(0x08, willing=True))
    port.receive(peer := frame_of(DcbxTlvs(pfc=Pfc(0x10))), 1)
    port.receive(stranger(1), 2)
    told(port)
    assert port.forget(3) == 2
    assert not port.is_crowded
    assert [event.why for event in told(port, NeighbourLost)] == [Loss.FORGOTTEN] * 2
    port.receive(peer, 4)
    assert port.state.pfc.oper == 0x10


def test_a_peer_that_changes_with_every_frame_is_followed_ten_times_at_once_and_then_once_a_second() -> None:
    port = running(pfc(0x08, willing=True))
    changes = []
    for number in range(5000):  # a thousand frames a second
        now = number * S // 1000
        port.receive(frame_of(DcbxTlvs(pfc=Pfc(number % 255 + 1))), now)
        port.expire(now)
        port.take_frames()
        changes += told(port, PfcChanged)
    assert len(changes) == 10 + 4
    assert port.counters["held_back"] > 4900
    while (deadline := port.deadline_ns) is not None and port.state.pfc.oper != 4999 % 255 + 1:
        assert deadline <= 6 * S
        port.expire(deadline)


def test_a_held_frame_is_replaced_by_a_later_one_of_its_neighbour() -> None:
    port = running(pfc(0x08, willing=True))
    for number in range(11):
        port.receive(frame_of(DcbxTlvs(pfc=Pfc(1 << number % 2))), number)
    assert port.state.pfc.oper == 0b10, "the eleventh frame is held"
    port.receive(frame_of(DcbxTlvs(pfc=Pfc(0b10))), 20)
    port.expire(2 * S)
    assert port.state.pfc.oper == 0b10


def test_other_stations_that_flood_a_port_do_not_suppress_its_neighbour() -> None:
    """Held are the last frames of eight neighbours, and they are read in turn."""
    port = running(pfc(0x08))
    for number in range(30):
        port.receive(stranger(number), number)
    port.receive(frame_of(()), 40)
    assert port.counters["refused.too_many_held"] > 0
    port.link_down(50)
    port.start(60)
    port.receive(frame_of(()), 70)
    assert len(port.neighbours) == 1, "another link begins anew"


def test_a_shutdown_frame_of_an_unknown_neighbour_uses_no_turn() -> None:
    port = running(pfc(0x08))
    for number in range(200):
        port.receive(stranger(number % 100, ttl=0), number)
    port.receive(frame_of(DcbxTlvs(pfc=Pfc(0x10))), 300)
    assert len(port.neighbours) == 1
    assert port.counters["refused.shutdown_of_stranger"] == 200


def test_a_neighbour_that_changes_its_address_is_still_the_same_and_may_win_the_tie() -> None:
    port = running(pfc(0x08, willing=True))
    identity = ChassisId.local("s1"), PortId.interface("eth0")
    tlvs = tuple(encode(PUBLISHED, DcbxTlvs(pfc=Pfc(0x01, willing=True))))
    lowest = Mac(bytes(5) + b"\x02")
    port.receive(LldpFrame(lowest, Lldpdu(*identity, 121, tlvs)).encode(), 1)
    assert port.state.pfc.oper == 0x08
    port.receive(LldpFrame(HIGH, Lldpdu(*identity, 121, tlvs)).encode(), 2)
    assert port.state.pfc.oper == 0x01
    assert len(port.neighbours) == 1


def test_its_own_frames_do_not_make_a_port_its_own_neighbour() -> None:
    port = make_port(LOW, pfc(0x08))
    port.start(0)
    (own,) = port.take_frames()
    port.receive(own, 1)
    assert (port.neighbours, port.counters["refused.own"]) == ((), 1)


# What is received wrong


def test_every_frame_is_counted_under_what_became_of_it() -> None:
    port = running(pfc(0x08, willing=True))
    good = frame_of(DcbxTlvs(pfc=Pfc(0x01)))
    oui = b"\x00\x80\xc2"
    flawed = frame_of(
        (
            Text(TextKind.SYSTEM_NAME, b"s1"),
            Unknown(9, b""),
            Organisational(oui, 11, b"\x01"),
            Organisational(oui, 11, b"\x01\x01"),
            Organisational(oui, 12, b"\x00\x00"),
        )
    )
    for frame in (b"", good[:20], good[:12] + b"\x08\x00" + good[14:], good, good, flawed, flawed):
        port.receive(frame, 1)
    assert port.counters == {
        "frames_in": 7,
        "frames_out": 3,
        "neighbours_found": 1,
        "oper_changes.pfc": 2,
        "refused.bad_chassis_id": 1,
        "refused.not_lldp": 1,
        "refused.too_short": 1,
        "tlv.application_priority.bad_length": 2,
        "tlv.pfc.bad_length": 2,
        "tlv.pfc.repeated": 2,
        "unknown_tlvs": 2,
    }
    assert port.state.pfc.oper == 0x08  # the PFC TLV that counts is the first, and it is wrong


def test_time_does_not_go_back() -> None:
    port = running(pfc(0x08))
    port.expire(10)
    with pytest.raises(XoffError) as caught:
        port.receive(b"", 9)
    assert str(caught.value) == "time went back from 10 to 9 ns; use a clock that does not"


# LLDP


def test_a_frame_carries_what_identifies_the_port_and_then_dcbx() -> None:
    name = Text(TextKind.SYSTEM_NAME, b"s1")
    identity = PortIdentity(LOW, ChassisId.local("s1"), PortId.interface("s1-eth1"), (name,))
    port = DcbxPort(identity, pfc(0x08), LldpTimers(Duration("10s"), 3))
    port.start(0)
    frame = parse(port.take_frames()[0])
    assert (frame.source, frame.pdu.chassis_id, frame.pdu.port_id) == (LOW, identity.chassis_id, identity.port_id)
    assert frame.pdu.ttl == 31
    assert frame.pdu.tlvs == (name, *encode(PUBLISHED, DcbxTlvs(pfc=Pfc(0x08))))


def test_the_longest_identity_and_the_longest_tables_fit_into_one_frame() -> None:
    texts = tuple(Text(kind, bytes(255)) for kind in TextKind)
    identity = PortIdentity(LOW, ChassisId.of_mac(LOW), PortId.interface("e" * 70), (*texts, Unknown(9, bytes(5))))
    entries = tuple(AppEntry(1, Selector.TCP, number) for number in range(168))
    advice = Recommend(EtsRecommendation(CLASSES.bandwidth, CLASSES.assignment, CLASSES.tsa))
    settings = DcbxSettings(
        PUBLISHED,
        ets=EtsAdmin(CLASSES, recommend=advice),
        pfc=PfcAdmin(0x08, headroom=True),
        applications=ApplicationAdmin(entries),
        cn=CnAdmin(1),
        link=LinkLayer(True, True),
        virtual_channels=VirtualChannels(32, 0xFFFF, frozenset({3})),
    )
    port = DcbxPort(identity, settings)
    port.start(0)
    (frame,) = port.take_frames()
    assert parse(frame).pdu.flaws == ()
    assert len(frame) <= 1514


def test_every_frame_of_a_port_that_recommends_has_the_recommendation() -> None:
    advice = Recommend(EtsRecommendation((50, 50, 0, 0, 0, 0, 0, 0)))
    link = Link(
        make_port(LOW, DcbxSettings(DRAFT, ets=EtsAdmin(GROUPS, recommend=advice))),
        make_port(HIGH, DcbxSettings(DRAFT, ets=EtsAdmin(GROUPS, willing=True))),
    )
    link.a.start(0)
    link.b.start(0)
    link.run_until(200 * S)
    sent = [said(link.a, frame) for _, name, frame in link.sent if name == "a"]
    assert len(sent) == 10  # at 0 twice, at 1 and 2, and six in the 198 seconds that follow
    assert {tlvs.recommendation for tlvs in sent} == {advice.table}


def test_two_ports_agree_within_the_first_instant_of_the_link_and_send_four_frames() -> None:
    link = Link(make_port(LOW, pfc(0x08)), make_port(HIGH, pfc(0, willing=True)))
    link.a.start(0)
    link.b.start(0)
    link.run_until(0)
    assert link.b.state.pfc.oper == 0x08
    assert not link.a.state.pfc.pending
    link.run_until(100 * S)
    # At 0 the first frame and the answer to a new neighbour, from b with what it adopted; both are of the fast series.
    for port in "ab":
        assert [when // S for when, name, _ in link.sent if name == port] == [0, 0, 1, 2, 32, 62, 92]


@pytest.mark.parametrize("lost", [0, 1, 2])
@pytest.mark.parametrize("late", [0, S // 2, 20 * S])
@pytest.mark.parametrize("k", [1, 1000])
def test_with_fast_start_a_link_agrees_in_under_three_seconds_of_protocol_time(lost: int, late: int, k: int) -> None:
    """Counted from when the second end is up, and though the first frames after that are lost."""
    left, right = make_port(LOW, pfc(0x08), k), make_port(HIGH, pfc(0, willing=True), k)
    link = Link(left, right, fate=lambda name: [])
    left.start(0)
    link.run_until(late * k)
    losses = iter(range(lost))
    link.fate = lambda name: [k * S // 1000] if next(losses, None) is None else []
    right.start(late * k)
    link.run_until((late + 3 * S) * k - 1)
    assert right.state.pfc.oper == 0x08
    assert left.state.pfc.remote == 0x08
    assert not left.state.pfc.pending


@pytest.mark.parametrize("version", DcbxVersion)
def test_two_ports_that_are_willing_in_everything_do_not_chase_each_other(version: DcbxVersion) -> None:
    """In the published format each uses the other's application table, and sends its own."""
    tables = ISCSI, (AppEntry(5, Selector.UDP, 4791),)
    left, right = (
        make_port(mac, DcbxSettings(version, pfc=PfcAdmin(enabled, True), applications=ApplicationAdmin(table, True)))
        for mac, enabled, table in zip((LOW, HIGH), (0x08, 0x10), tables, strict=True)
    )
    link = Link(left, right)
    left.start(0)
    right.start(0)
    link.run_until(10 * S)
    used = left.state.applications.oper, right.state.applications.oper
    assert used == (tables if version is DRAFT else tables[::-1])
    assert (left.state.pfc.oper, right.state.pfc.oper) == ((0x08, 0x10) if version is DRAFT else (0x10, 0x10))
    link.events = {"a": [], "b": []}
    sent = len(link.sent)
    link.run_until(310 * S)
    assert link.events == {"a": [], "b": []}
    assert len(link.sent) - sent == 2 * 10


def test_an_idle_port_wakes_for_nothing_but_its_own_frames() -> None:
    """The cost of a port at rest: one wake-up and one frame compared in each interval."""
    link = Link(make_port(LOW, pfc(0x08)), make_port(HIGH, pfc(0, willing=True)))
    link.a.start(0)
    link.b.start(0)
    link.run_until(100 * S)
    wakes = 0
    sent = len(link.sent)
    link.take_events("a")
    link.take_events("b")
    end = 100 * S + 3600 * S
    while (deadline := min(link.a.deadline_ns or end, link.b.deadline_ns or end)) < end:
        link.run_until(deadline)
        wakes += 1
    assert wakes <= 2 * 120
    assert len(link.sent) - sent == 2 * 120
    assert link.events == {"a": [], "b": []}
