"""The state that `negotiate` computes of settings and a peer: the machine of each feature in each format, and what is
sent."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.frames import FieldError, Mac
from testbed.frames.dcbx.values import AppEntry, DcbxVersion, Ets, EtsRecommendation, Selector
from testbed.frames.lldp_timers import LldpTimers, LldpTimersError
from testbed.frames.lldp_tlvs import Text, TextKind
from testbed.subjects.dcbx.events import PfcChanged, TrafficClassesChanged, changes
from testbed.subjects.dcbx.features.feature import FeatureState
from testbed.subjects.dcbx.features.recommendation import of_shares
from testbed.subjects.dcbx.negotiation import Peer, PortState, negotiate
from testbed.subjects.dcbx.settings import (
    ApplicationAdmin,
    CnAdmin,
    DcbxSettings,
    DcbxSettingsError,
    EtsAdmin,
    PfcAdmin,
    PortIdentity,
    Recommend,
    Shares,
    TieBreak,
)
from testbed.subjects.dcbx.tlvs import (
    ApplicationPriority,
    CongestionNotification,
    DcbxTlvs,
    EtsConfiguration,
    Pfc,
    encode,
    read,
)
from testbed.units import Duration

DRAFT, PUBLISHED = DcbxVersion.DRAFT, DcbxVersion.PUBLISHED
LOW, HIGH = Mac.parse("02:00:00:00:00:01"), Mac.parse("02:00:00:00:00:02")
BOTH = list(itertools.product([True, False], repeat=2))
NOBODY = "no LLDPDU has been received"

GROUPS = Ets((0, 0, 1, 1, 2, 2, 15, 15), (50, 30, 20, 0, 0, 0, 0, 0))
CLASSES = Ets((0, 0, 1, 1, 2, 2, 3, 3), (50, 30, 20, 0, 0, 0, 0, 0), (2, 2, 2, 0, 0, 0, 0, 0))
OTHER_BANDWIDTH = (10, 10, 80, 0, 0, 0, 0, 0)
OTHER_CLASSES = Ets((3, 2, 1, 0, 3, 2, 1, 0), (25, 25, 25, 25, 0, 0, 0, 0), (2, 2, 2, 2, 0, 0, 0, 0))
TABLE = (AppEntry(3, Selector.ETHERTYPE, 0x8906),)
OTHER_TABLE = (AppEntry(4, Selector.TCP, 3260), AppEntry(5, Selector.UDP, 4791))


def ets_of(version: DcbxVersion) -> Ets:
    return GROUPS if version is DRAFT else CLASSES


def settings(version: DcbxVersion, willing: bool = False, **more: object) -> DcbxSettings:
    """Return settings with every feature on; `more` replaces some."""
    everything = DcbxSettings(
        version,
        None,
        8,
        EtsAdmin(ets_of(version), willing),
        PfcAdmin(0x08, willing),
        ApplicationAdmin(TABLE, willing),
        CnAdmin(0x10, willing and version is DRAFT),
    )
    return replace(everything, **more)  # type: ignore[arg-type]


def peer(version: DcbxVersion, tlvs: DcbxTlvs, mac: Mac = HIGH) -> Peer:
    """Return a peer with TLVs as they come from the wire."""
    return Peer(mac, read(version, encode(version, tlvs)).tlvs)


def hears(own: DcbxSettings, **tlvs: object) -> PortState:
    """Return the state with a peer that sends these TLVs."""
    return negotiate(own, LOW, peer(own.version, DcbxTlvs(**tlvs)))  # type: ignore[arg-type]


# Alone


@pytest.mark.parametrize("version", DcbxVersion)
@pytest.mark.parametrize("willing", [True, False])
def test_without_a_peer_every_feature_is_as_it_was_set(version: DcbxVersion, willing: bool) -> None:
    state = negotiate(settings(version, willing), LOW, None)
    assert (state.traffic_classes.oper, state.ets.oper, state.pfc.oper) == (8, ets_of(version), 0x08)
    assert (state.applications.oper, state.cn.oper, state.headroom.oper) == (TABLE, 0x10, False)
    assert [feature.remote for feature in state.states.values()] == [None] * 9
    assert {name for name, feature in state.states.items() if feature.pending} == {
        "traffic_classes",
        "ets",
        "pfc",
        "applications",
        "cn",
    }
    if willing:
        assert (state.pfc.why, state.ets.why) == (f"local setting: {NOBODY}",) * 2


@pytest.mark.parametrize("version", DcbxVersion)
def test_a_feature_that_is_not_run_is_not_sent_and_only_shown(version: DcbxVersion) -> None:
    nothing = DcbxSettings(version)
    state = negotiate(nothing, LOW, peer(version, negotiate(settings(version), HIGH, None).sent))
    assert state.sent == DcbxTlvs(traffic_classes=8 if version is DRAFT else None)
    for name in ("ets", "pfc", "applications", "cn"):
        feature = state.states[name]
        assert (feature.admin, feature.oper, feature.pending, feature.defended) == (None, None, False, None)
        assert feature.remote is not None
        assert feature.why.startswith("this port ")


@pytest.mark.parametrize("version", DcbxVersion)
def test_a_peer_without_a_tlv_is_as_good_as_none_for_that_feature(version: DcbxVersion) -> None:
    state = hears(settings(version, True), pfc=Pfc(0x01, cap=1))
    assert state.pfc.oper == 0x01
    assert (state.ets.oper, state.applications.oper, state.cn.oper) == (ets_of(version), TABLE, 0x10)
    assert state.ets.why == "local setting: the peer sends no ETS Configuration that counts"
    assert state.ets.pending


# PFC, Application Priority and CN: symmetric


@pytest.mark.parametrize("version", DcbxVersion)
@pytest.mark.parametrize(("local", "remote"), BOTH)
@pytest.mark.parametrize("tie_break", [None, *TieBreak])
@pytest.mark.parametrize("mac", [LOW, HIGH])
def test_pfc_is_passed_symmetrically(
    version: DcbxVersion, local: bool, remote: bool, tie_break: TieBreak | None, mac: Mac
) -> None:
    own = settings(version, local, tie_break=tie_break)
    far = HIGH if mac is LOW else LOW
    state = negotiate(own, mac, peer(version, DcbxTlvs(pfc=Pfc(0xF0, remote, cap=4)), far))
    rule = tie_break or (TieBreak.NONE if version is DRAFT else TieBreak.HIGHER)
    peer_wins = {TieBreak.NONE: None, TieBreak.LOWER: mac is HIGH, TieBreak.HIGHER: mac is LOW}[rule]
    adopts = local and (not remote or peer_wins is True)
    assert state.pfc.oper == (0xF0 if adopts else 0x08)
    assert state.pfc.pending == (remote and (not local or peer_wins is False))
    assert (state.pfc.admin, state.pfc.remote, state.pfc.willing, state.pfc.remote_willing) == (
        0x08,
        0xF0,
        local,
        remote,
    )
    assert state.sent.pfc is not None
    assert (state.sent.pfc.enabled, state.sent.pfc.willing) == (state.pfc.oper, local)


@pytest.mark.parametrize(("local", "remote"), BOTH)
def test_in_the_draft_applications_and_cn_use_the_same_machine_as_pfc(local: bool, remote: bool) -> None:
    state = hears(
        settings(DRAFT, local),
        pfc=Pfc(0xF0, remote),
        applications=ApplicationPriority(OTHER_TABLE, remote),
        cn=CongestionNotification(0xF0, 0, remote),
    )
    assert state.applications.oper == (OTHER_TABLE if state.pfc.oper == 0xF0 else TABLE)
    assert state.cn.oper == (0xF0 if state.pfc.oper == 0xF0 else 0x10)
    for feature in (state.applications, state.cn):
        assert (feature.pending, feature.why) == (state.pfc.pending, state.pfc.why)
    assert state.sent.applications == ApplicationPriority(state.applications.oper or (), local)
    assert state.sent.cn is not None
    assert (state.sent.cn.enabled, state.sent.cn.willing) == (state.cn.oper, local)


def test_pfc_capability_is_announced_and_not_negotiated() -> None:
    own = settings(DRAFT, pfc=PfcAdmin(0x08, willing=True, cap=2))
    state = hears(own, pfc=Pfc(0x3C, cap=6))
    assert state.sent.pfc == Pfc(0x3C, True, 2, defended=0)


def test_a_published_application_table_is_announced_and_a_willing_port_uses_the_peers() -> None:
    unwilling = hears(settings(PUBLISHED), applications=ApplicationPriority(OTHER_TABLE))
    assert (unwilling.applications.oper, unwilling.applications.remote) == (TABLE, OTHER_TABLE)
    assert unwilling.applications.why == "local setting: this port is not willing"
    willing = hears(settings(PUBLISHED, True), applications=ApplicationPriority(OTHER_TABLE))
    assert (willing.applications.oper, willing.applications.pending) == (OTHER_TABLE, False)
    assert willing.applications.why == "the peer's: this port is willing"
    assert unwilling.sent.applications == willing.sent.applications == ApplicationPriority(TABLE)
    emptied = hears(settings(PUBLISHED, True), applications=ApplicationPriority(()))
    assert emptied.applications.oper == ()
    lost = hears(settings(PUBLISHED, True), pfc=Pfc(0))
    assert lost.applications.oper == TABLE
    assert lost.applications.why == "local setting: the peer sends no Application Priority that counts"


# Defense


@pytest.mark.parametrize("version", DcbxVersion)
@pytest.mark.parametrize(("remote", "defended"), [(None, 0x0C), (0x00, 0x0C), (0x08, 0x04), (0xF8, 0x04), (0x0C, 0)])
def test_pfc_defense_is_optional_and_on_where_the_peer_has_no_pfc(
    version: DcbxVersion, remote: int | None, defended: int
) -> None:
    for enabled in (True, False):
        own = settings(version, pfc=PfcAdmin(0x0C, defense=enabled))
        state = hears(own, pfc=None if remote is None else Pfc(remote, cap=1))
        assert state.pfc.defended == (defended if enabled else 0)
        assert state.sent.pfc is not None
        assert state.sent.pfc.defended == (state.pfc.defended if version is DRAFT else None)


@pytest.mark.parametrize("version", DcbxVersion)
@pytest.mark.parametrize(("remote", "defended"), [(None, 0x0C), (0x00, 0x0C), (0x08, 0x04), (0xF8, 0x04), (0x0C, 0)])
def test_cn_defense_is_always_enabled(version: DcbxVersion, remote: int | None, defended: int) -> None:
    state = hears(
        settings(version, cn=CnAdmin(0x0C)), cn=None if remote is None else CongestionNotification(remote, remote)
    )
    assert (state.cn.oper, state.cn.defended, state.cn.remote_defended) == (0x0C, defended, remote)
    assert state.sent.cn == CongestionNotification(0x0C, defended)
    assert not hasattr(CnAdmin(0x0C), "defense")


def test_defense_follows_the_adopted_value_too() -> None:
    """A willing port has what its peer has, so it has nothing to defend, whatever its own setting was."""
    own = settings(DRAFT, pfc=PfcAdmin(0xFF, willing=True, defense=True), cn=CnAdmin(0xFF, willing=True))
    state = hears(own, pfc=Pfc(0x08, defended=0), cn=CongestionNotification(0x10))
    assert (state.pfc.oper, state.pfc.defended, state.cn.oper, state.cn.defended) == (0x08, 0, 0x10, 0)


def test_the_peers_defense_is_known_where_the_format_has_it() -> None:
    assert hears(settings(DRAFT), pfc=Pfc(0x18, cap=1, defended=0x10)).pfc.remote_defended == 0x10
    assert hears(settings(DRAFT), pfc=Pfc(0x18, cap=1)).pfc.remote_defended is None
    assert hears(settings(PUBLISHED), pfc=Pfc(0x18)).pfc.remote_defended is None
    assert hears(settings(PUBLISHED), cn=CongestionNotification(0x18, 0x08)).cn.remote_defended == 0x08


def test_a_port_that_is_set_to_hold_sends_nothing_until_the_peer_shows_that_its_defense_is_off() -> None:
    pfc, cn = PfcAdmin(0x18, hold=True), CnAdmin(0x20, hold=True)
    held = settings(DRAFT, pfc=pfc, cn=cn)
    alone = negotiate(held, LOW, None)
    assert (alone.pfc.held, alone.cn.held) == (0x18, 0x20)
    assert hears(held, pfc=Pfc(0x18, cap=1, defended=0x10)).pfc.held == 0x10
    assert hears(held, pfc=Pfc(0x18, cap=1, defended=0)).pfc.held == 0
    assert hears(held, pfc=Pfc(0x08, cap=1, defended=0x10)).pfc.held == 0, "DefOn is reserved where PFC is off"
    assert hears(held, pfc=Pfc(0x18, cap=1)).pfc.held == 0, "a TLV of 6 octets has no defenses to show"
    assert hears(held, cn=CongestionNotification(0x20, 0x20)).cn.held == 0x20
    ready = settings(PUBLISHED, cn=cn)
    assert hears(ready, cn=CongestionNotification(0x20, 0x20)).cn.held == 0x20
    assert hears(ready, cn=CongestionNotification(0x20, 0)).cn.held == 0
    usual = negotiate(settings(DRAFT), LOW, None)
    assert (usual.pfc.held, usual.cn.held) == (None, None)


def test_the_peers_traffic_classes_size_the_buffer_of_a_port_that_is_set_so() -> None:
    for version in DcbxVersion:
        sized, ets = settings(version, buffer_by_classes=True), EtsConfiguration(ets_of(version))
        assert hears(sized, traffic_classes=4, ets=ets).traffic_classes.buffered == 4
        assert negotiate(sized, LOW, None).traffic_classes.buffered is None
        assert hears(settings(version), traffic_classes=4, ets=ets).traffic_classes.buffered is None


def test_what_a_port_is_set_to_do_about_its_peer_is_in_its_events() -> None:
    held = settings(DRAFT, pfc=PfcAdmin(0x08, hold=True), buffer_by_classes=True)
    before = negotiate(held, LOW, None)
    first = [event for event in changes(None, before, 1) if isinstance(event, PfcChanged | TrafficClassesChanged)]
    assert [(one.buffered if isinstance(one, TrafficClassesChanged) else one.held) for one in first] == [None, 8]
    after = hears(held, traffic_classes=2, pfc=Pfc(0x08, cap=1, defended=0))
    then = [event for event in changes(before, after, 2) if isinstance(event, PfcChanged | TrafficClassesChanged)]
    assert [(one.buffered if isinstance(one, TrafficClassesChanged) else one.held) for one in then] == [2, 0]


def test_the_draft_pfc_tlv_is_sent_without_defon_on_demand() -> None:
    state = negotiate(settings(DRAFT, pfc=PfcAdmin(0x08, defense=True, defon_octet=False)), LOW, None)
    assert state.pfc.defended == 0x08
    assert state.sent.pfc == Pfc(0x08)


def test_published_cn_is_not_negotiated() -> None:
    state = hears(settings(PUBLISHED), cn=CongestionNotification(0xFF))
    assert (state.cn.oper, state.cn.willing, state.cn.remote_willing, state.cn.pending) == (0x10, None, None, False)
    assert state.cn.why == "local setting: this format does not negotiate it"


# ETS


@pytest.mark.parametrize("version", DcbxVersion)
@pytest.mark.parametrize(("local", "remote"), BOTH)
def test_a_willing_port_follows_the_recommendation_whatever_the_peers_w_bit(
    version: DcbxVersion, local: bool, remote: bool
) -> None:
    advice = EtsRecommendation(OTHER_BANDWIDTH)
    if version is PUBLISHED:
        advice = EtsRecommendation(OTHER_CLASSES.bandwidth, OTHER_CLASSES.assignment, OTHER_CLASSES.tsa)
    state = hears(
        settings(version, local),
        traffic_classes=4,
        ets=EtsConfiguration(ets_of(version), remote),
        recommendation=advice,
    )
    followed = Ets(GROUPS.assignment, OTHER_BANDWIDTH) if version is DRAFT else OTHER_CLASSES
    assert state.ets.oper == (followed if local else ets_of(version))
    assert (state.ets.admin, state.ets.remote) == (ets_of(version), ets_of(version))
    assert (state.ets.willing, state.ets.remote_willing, state.ets.pending) == (local, remote, False)
    assert state.sent.ets == EtsConfiguration(state.ets.oper or GROUPS, local)


def test_a_recommendation_counts_without_the_peers_configuration() -> None:
    state = hears(settings(DRAFT, True), recommendation=EtsRecommendation(OTHER_BANDWIDTH))
    assert state.ets.oper == Ets(GROUPS.assignment, OTHER_BANDWIDTH)
    assert (state.ets.remote, state.ets.pending) == (None, True)


def test_rv_is_true_false_or_null_as_in_the_last_frame() -> None:
    own = settings(DRAFT, True)
    valid, held = EtsRecommendation(OTHER_BANDWIDTH), EtsRecommendation(valid=False)
    for sent, oper, pending in (
        (valid, OTHER_BANDWIDTH, False),
        (held, GROUPS.bandwidth, True),
        (None, GROUPS.bandwidth, False),
    ):
        state = hears(own, ets=EtsConfiguration(GROUPS), recommendation=sent)
        assert state.recommendation.remote == sent
        assert (state.ets.oper, state.ets.pending) == (Ets(GROUPS.assignment, oper), pending)
    assert negotiate(own, LOW, None).recommendation.remote is None


def test_a_recommendation_of_a_class_that_is_not_there_does_not_count() -> None:
    own = DcbxSettings(PUBLISHED, None, 4, EtsAdmin(CLASSES, True))
    assignment = (0, 0, 0, 0, 0, 0, 0, 4)
    state = hears(own, recommendation=EtsRecommendation(CLASSES.bandwidth, assignment, CLASSES.tsa))
    assert state.ets.oper == CLASSES
    assert state.ets.why == "local setting: the peer recommends traffic class 4, and this port has 4"


def test_number_of_traffic_classes_is_announced_and_not_negotiated() -> None:
    own = settings(DRAFT, True, traffic_classes=3)
    state = hears(own, traffic_classes=5)
    assert state.traffic_classes == FeatureState(3, 3, 5, "local setting: it is announced only")
    assert state.sent.traffic_classes == 3
    published = hears(settings(PUBLISHED, True), traffic_classes=5, ets=EtsConfiguration(CLASSES))
    assert (published.traffic_classes.remote, published.sent.traffic_classes) == (5, 8)


# Recommending


def test_a_port_that_is_not_set_to_recommend_sends_no_recommendation() -> None:
    for version in DcbxVersion:
        state = hears(settings(version), ets=EtsConfiguration(ets_of(version), True), traffic_classes=8)
        assert state.sent.recommendation is None
        assert state.recommendation.why == "this port is not set to recommend"


@pytest.mark.parametrize("willing", [True, False])
def test_a_fixed_recommendation_is_sent_at_once_and_whether_or_not_the_peer_is_willing(willing: bool) -> None:
    own = settings(DRAFT, ets=EtsAdmin(GROUPS, recommend=Recommend(EtsRecommendation(OTHER_BANDWIDTH))))
    alone = negotiate(own, LOW, None)
    together = hears(own, ets=EtsConfiguration(GROUPS, willing))
    assert alone.sent.recommendation == together.sent.recommendation == EtsRecommendation(OTHER_BANDWIDTH)


WAITING = [
    (None, "held back until the peer's ETS Configuration is known"),
    (DcbxTlvs(traffic_classes=8), "held back until the peer's ETS Configuration is known"),
    (
        DcbxTlvs(2, EtsConfiguration(GROUPS)),
        "held back: the table needs 3 traffic classes, and the peer has 2",
    ),
    (DcbxTlvs(3, EtsConfiguration(GROUPS)), ""),
    (DcbxTlvs(None, EtsConfiguration(GROUPS)), ""),
    (
        DcbxTlvs(8, EtsConfiguration(Ets((9,) + (0,) * 7, (100,) + (0,) * 7))),
        "held back: the peer's ETS Configuration is wrong, priority 0 is assigned to 9, which is not defined",
    ),
    (
        DcbxTlvs(8, EtsConfiguration(Ets((0,) * 8, (99,) + (0,) * 7))),
        "held back: the peer's ETS Configuration is wrong, its bandwidths sum to 99, not 100",
    ),
]


@pytest.mark.parametrize(("tlvs", "why"), WAITING)
def test_with_rv_0_a_recommendation_waits_for_the_peers_configuration(tlvs: DcbxTlvs | None, why: str) -> None:
    advice = EtsRecommendation(OTHER_BANDWIDTH)
    own = settings(DRAFT, ets=EtsAdmin(GROUPS, recommend=Recommend(advice, wait=True)))
    state = negotiate(own, LOW, None if tlvs is None else peer(DRAFT, tlvs))
    assert state.sent.recommendation == (EtsRecommendation(valid=False) if why else advice)
    assert state.recommendation.pending == bool(why)
    assert state.recommendation.why == (why or "local setting, and it fits the peer")


def test_the_published_tlv_is_left_out_while_it_waits() -> None:
    advice = EtsRecommendation(OTHER_CLASSES.bandwidth, OTHER_CLASSES.assignment, OTHER_CLASSES.tsa)
    own = settings(PUBLISHED, ets=EtsAdmin(CLASSES, recommend=Recommend(advice, wait=True)))
    assert negotiate(own, LOW, None).sent.recommendation is None
    few = hears(own, traffic_classes=3, ets=EtsConfiguration(CLASSES))
    assert few.sent.recommendation is None
    assert few.recommendation.why == "held back: the table needs 4 traffic classes, and the peer has 3"
    assert hears(own, traffic_classes=4, ets=EtsConfiguration(CLASSES)).sent.recommendation == advice


def test_a_recommended_class_with_bandwidth_is_needed_though_no_priority_is_assigned_to_it() -> None:
    advice = EtsRecommendation((50, 0, 0, 0, 0, 50, 0, 0), (0,) * 8, (2,) * 8)
    own = settings(PUBLISHED, ets=EtsAdmin(CLASSES, recommend=Recommend(advice, wait=True)))
    assert hears(own, traffic_classes=5, ets=EtsConfiguration(CLASSES)).sent.recommendation is None
    assert hears(own, traffic_classes=6, ets=EtsConfiguration(CLASSES)).sent.recommendation == advice


def test_shares_of_priorities_become_bandwidths_of_the_peers_groups() -> None:
    own = settings(DRAFT, ets=EtsAdmin(GROUPS, recommend=Shares((10, 0, 0, 60, 0, 10, 20, 0))))
    assert negotiate(own, LOW, None).sent.recommendation == EtsRecommendation(valid=False)
    state = hears(own, ets=EtsConfiguration(GROUPS))
    # Groups 0, 1 and 2 are to get 10, 60 and 10; priority 6 is strict, and its 20 are spread over them: 12.5, 75, 12.5.
    assert state.sent.recommendation == EtsRecommendation((13, 75, 12, 0, 0, 0, 0, 0))
    assert state.recommendation.why == "worked out from the shares and the peer's priority groups"
    strict = hears(own, ets=EtsConfiguration(Ets((15,) * 8, (100,) + (0,) * 7)))
    assert strict.sent.recommendation == EtsRecommendation(valid=False)
    assert strict.recommendation.why == "held back: the peer has no priority with a share in a priority group"


@given(
    st.lists(st.integers(0, 100), min_size=7, max_size=7).map(sorted),
    st.tuples(*[st.sampled_from([*range(8), 13, 14, 15])] * 8),
)
def test_shares_always_sum_to_100_and_are_right_to_a_percent(cuts: list[int], assignment: tuple[int, ...]) -> None:
    percent = tuple(high - low for low, high in zip([0, *cuts], [*cuts, 100], strict=True))
    wanted = [sum(share for share, place in zip(percent, assignment, strict=True) if place == n) for n in range(8)]
    bandwidth = of_shares(percent, assignment)
    if sum(wanted) == 0:
        assert bandwidth is None
        return
    assert bandwidth is not None
    assert sum(bandwidth) == 100
    for got, want in zip(bandwidth, wanted, strict=True):
        assert abs(got - 100 * want / sum(wanted)) < 1
        assert want or not got


def test_what_a_recommendation_is_made_of_does_not_depend_on_what_it_changes() -> None:
    own = settings(DRAFT, ets=EtsAdmin(GROUPS, recommend=Shares((10, 0, 0, 60, 0, 10, 20, 0))))
    first = hears(own, ets=EtsConfiguration(GROUPS, True)).sent.recommendation
    assert first is not None
    followed = EtsConfiguration(first.applied_to(GROUPS), True)
    assert hears(own, ets=followed).sent.recommendation == first


# Headroom capability


@pytest.mark.parametrize("version", DcbxVersion)
@pytest.mark.parametrize(("local", "remote"), BOTH)
def test_headroom_is_on_if_both_announce_it(version: DcbxVersion, local: bool, remote: bool) -> None:
    defended = 0 if version is DRAFT else None
    own = settings(version, pfc=PfcAdmin(0x08, headroom=local))
    state = hears(own, pfc=Pfc(0x08, cap=1, defended=defended, headroom=remote))
    assert state.headroom.oper is (local and remote)
    assert state.headroom.why == {
        (True, True): "both ports announce it",
        (True, False): "the peer sends no headroom capability that counts",
    }.get((local, remote), "this port does not announce it")
    assert state.sent.pfc is not None
    assert state.sent.pfc.headroom is local


def test_headroom_is_off_by_default() -> None:
    assert not PfcAdmin(0x08).headroom


# What may be set


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: DcbxSettings(traffic_classes=9), "9 traffic classes are invalid: there are 1 to 8"),
        (
            lambda: DcbxSettings(PUBLISHED, ets=EtsAdmin(GROUPS)),
            "this ETS table is for the draft format, and the port speaks the published one; "
            "give assignment, bandwidth and `tsa`",
        ),
        (
            lambda: DcbxSettings(DRAFT, ets=EtsAdmin(CLASSES)),
            "this ETS table is for the published format, and the port speaks the draft one; leave `tsa` out",
        ),
        (
            lambda: DcbxSettings(DRAFT, ets=EtsAdmin(Ets((0,) * 8, (99,) + (0,) * 7))),
            "ETS table: its bandwidths sum to 99, not 100",
        ),
        (
            lambda: DcbxSettings(DRAFT, ets=EtsAdmin(Ets((0, 8, 0, 0, 0, 0, 0, 0), (100,) + (0,) * 7))),
            "ETS table: priority 1 is assigned to 8, which is not defined",
        ),
        (
            lambda: DcbxSettings(PUBLISHED, None, 3, EtsAdmin(CLASSES)),
            "ETS table: priority 6 is assigned to class 3, and this port has 3, 0 to 2",
        ),
        (lambda: DcbxSettings(DRAFT, ets=EtsAdmin(GROUPS, cbs=True)), "the draft has no CBS bit; leave `cbs` at False"),
        (
            lambda: DcbxSettings(PUBLISHED, ets=EtsAdmin(CLASSES, recommend=Shares((100, 0, 0, 0, 0, 0, 0, 0)))),
            "this recommendation by shares is for the draft format, and the port speaks the published one; "
            "give assignment, bandwidth and `tsa`",
        ),
        (
            lambda: DcbxSettings(DRAFT, ets=EtsAdmin(GROUPS, recommend=Recommend(EtsRecommendation(valid=False)))),
            "a recommendation to send has to be one: leave `valid` at True",
        ),
        (
            lambda: DcbxSettings(
                DRAFT, ets=EtsAdmin(GROUPS, recommend=Recommend(EtsRecommendation((101,) + (0,) * 7)))
            ),
            "ETS recommendation: its bandwidths sum to 101, not 100",
        ),
        (
            lambda: Shares((50, 49, 0, 0, 0, 0, 0, 0)),
            "shares (50, 49, 0, 0, 0, 0, 0, 0) are invalid: give one for each of 8 priorities, 100 in sum",
        ),
        (
            lambda: PfcAdmin(0x08, cap=0),
            "PFC capability is 0, and has to be 1 to 8; a port without PFC has no PFC settings at all",
        ),
        (
            lambda: DcbxSettings(DRAFT, pfc=PfcAdmin(0x08, defon_octet=False, headroom=True)),
            "the headroom capability comes after DefOn in the draft's PFC TLV, and defon_octet is off; "
            "turn it on, or headroom off",
        ),
        (
            lambda: DcbxSettings(PUBLISHED, pfc=PfcAdmin(0x08, hold=True)),
            "PFC's hold waits for DefOn 0, which the published format has not, so it would never end; "
            "turn it off, or set the version to draft",
        ),
        (
            lambda: DcbxSettings(DRAFT, applications=ApplicationAdmin((AppEntry(3, Selector.DSCP, 26),))),
            "the draft format has no selector for DSCP",
        ),
        (
            lambda: DcbxSettings(PUBLISHED, applications=ApplicationAdmin((AppEntry(3, Selector.OTHER_PORT, 26),))),
            "the published format has no selector for port of neither TCP nor UDP",
        ),
        (
            lambda: DcbxSettings(PUBLISHED, cn=CnAdmin(0x08, willing=True)),
            "the published format cannot pass CN on; leave `willing` of CN at False",
        ),
        (lambda: LldpTimers(Duration("0.5s")), "LLDP interval is 500ms, and has to be 1s to 3600s"),
        (
            lambda: LldpTimers(Duration("1.5s")),
            "LLDP interval is 1.5s, and has to be whole seconds: the TTL counts them",
        ),
        (lambda: LldpTimers(hold=101), "LLDP hold is 101, and has to be 1 to 100"),
        (lambda: LldpTimers(reinit_delay=Duration("11s")), "LLDP reinit_delay is 11s, and has to be 1s to 10s"),
        (
            lambda: PortIdentity(
                LOW,
                PortIdentity.of(LOW, "e").chassis_id,
                PortIdentity.of(LOW, "e").port_id,
                (Text(TextKind.SYSTEM_NAME, bytes(255)),) * 4,
            ),
            "the TLVs that are not DCBX take 1047 octets of a frame, and 880 are theirs; "
            "shorten descriptions or leave some out",
        ),
    ],
)
def test_invalid_settings_are_refused(build: object, message: str) -> None:
    assert callable(build)
    with pytest.raises((DcbxSettingsError, FieldError, LldpTimersError)) as caught:
        build()
    assert str(caught.value) == message


@pytest.mark.parametrize(("interval", "hold", "ttl"), [("30s", 4, 121), ("1s", 1, 2), ("3600s", 100, 65535)])
def test_ttl_is_interval_times_hold_and_one(interval: str, hold: int, ttl: int) -> None:
    assert LldpTimers(Duration(interval), hold).ttl == ttl
