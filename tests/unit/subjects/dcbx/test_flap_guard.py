"""A port that sees its peer take over its values keeps them for a while, and then follows again: decision 0102."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from testbed.frames import Mac
from testbed.frames.dcbx.values import DcbxVersion
from testbed.frames.lldp import ChassisId, Lldpdu, LldpFrame, PortId
from testbed.subjects.dcbx.port import DcbxPort
from testbed.subjects.dcbx.settings import CnAdmin, DcbxSettings, PfcAdmin, TieBreak
from testbed.subjects.dcbx.tlvs import CongestionNotification, DcbxTlvs, Pfc, encode
from tests.unit.subjects.dcbx.dcbx_link import HIGH, LOW, S, make_port, said

OWN, FIRST, SECOND = 0x08, 0x10, 0x20
FOLLOWS = "the peer's: both ports are willing, and the peer wins the tie-break"
STANDS = "kept for now: both ports are willing, and the same values come again and again"


def settings(mac: Mac, own: int = OWN) -> DcbxSettings:
    """Return settings of a port that follows a willing peer with the other of the two addresses."""
    rule = TieBreak.HIGHER if mac == LOW else TieBreak.LOWER
    return DcbxSettings(DcbxVersion.DRAFT, rule, pfc=PfcAdmin(own, willing=True), cn=CnAdmin(own, willing=True))


def follower(mac: Mac = LOW, k: int = 1) -> DcbxPort:
    port = make_port(mac, settings(mac), k)
    port.start(0)
    return port


def hear(port: DcbxPort, at_ns: int, pfc: int, cn: int = FIRST, *, willing: bool = True, ttl: int = 121) -> None:
    mac = HIGH if port.identity.mac == LOW else LOW
    tlvs = DcbxTlvs(8, pfc=Pfc(pfc, willing, defended=0), cn=CongestionNotification(cn, 0, willing))
    optional = tuple(encode(DcbxVersion.DRAFT, tlvs))
    port.receive(LldpFrame(mac, Lldpdu(ChassisId.of_mac(mac), PortId.interface("p"), ttl, optional)).encode(), at_ns)


def in_doubt(mac: Mac = LOW, k: int = 1) -> DcbxPort:
    """Return a port that holds PFC since 2 s."""
    port = follower(mac, k)
    hear(port, 1 * S * k, FIRST)
    assert (port.state.pfc.oper, port.state.pfc.why) == (FIRST, FOLLOWS)
    hear(port, 3 * S * k // 2, OWN)
    assert (port.state.pfc.oper, port.state.pfc.why) == (OWN, FOLLOWS)
    hear(port, 2 * S * k, FIRST)
    return port


def is_in_doubt(port: DcbxPort) -> bool:
    return port.state.pfc.why == STANDS


@pytest.mark.parametrize("k", [1, 1000])
@pytest.mark.parametrize(("mac", "seconds"), [(LOW, 5), (HIGH, 10)])
def test_after_a_swap_a_port_stands_by_its_own_value_for_a_time_and_then_follows(
    mac: Mac, seconds: int, k: int
) -> None:
    port = in_doubt(mac, k)
    pfc = port.state.pfc
    assert (pfc.oper, pfc.why, pfc.pending) == (FIRST, STANDS, False)
    assert port.counters["swapped.pfc"] == 1
    hear(port, 3 * S * k, SECOND)
    pfc = port.state.pfc
    assert (pfc.oper, pfc.remote, pfc.why, pfc.pending) == (FIRST, SECOND, STANDS, True)
    port.take_frames()
    now = 3 * S * k
    while port.state.pfc.why == STANDS:
        assert port.deadline_ns is not None
        now = port.deadline_ns
        port.expire(now)
    assert now == (2 + seconds) * S * k
    assert (port.state.pfc.oper, port.state.pfc.why, port.state.pfc.pending) == (SECOND, FOLLOWS, False)
    assert said(port, port.take_frames()[-1]).pfc == Pfc(SECOND, willing=True, defended=0)
    assert port.counters["swapped.pfc"] == 1


def test_a_value_that_is_not_the_ports_own_can_be_swapped_too_and_is_kept() -> None:
    port = follower()
    for second, value in enumerate((FIRST, SECOND, FIRST, SECOND)):
        hear(port, second * S, value)
    assert (port.state.pfc.oper, port.state.pfc.why) == (SECOND, STANDS)
    hear(port, 4 * S, FIRST)
    assert (port.state.pfc.oper, port.state.pfc.pending) == (SECOND, True)
    port.expire(8 * S)
    assert (port.state.pfc.oper, port.state.pfc.why) == (FIRST, FOLLOWS)


@pytest.mark.parametrize("before", [0, FIRST])
def test_a_peer_that_chooses_our_value_and_then_another_is_followed_at_once(before: int) -> None:
    """Its administrator changed it twice within 3 s; nothing went round."""
    port = follower()
    for second, value in enumerate((before, OWN, SECOND)):
        hear(port, second * S, value)
        assert (port.state.pfc.oper, port.state.pfc.why) == (value, FOLLOWS)
    assert not any(name.startswith("swapped") for name in port.counters)


def test_values_that_come_back_count_only_one_after_the_other() -> None:
    port = follower()
    for second, value in enumerate((FIRST, OWN, SECOND, FIRST, 0x40, OWN)):
        hear(port, second * S, value)
        assert (port.state.pfc.oper, port.state.pfc.why) == (value, FOLLOWS)


def test_a_frame_that_comes_after_the_hold_counts_though_the_deadline_was_missed() -> None:
    port = in_doubt()
    hear(port, 8 * S, SECOND)
    assert (port.state.pfc.oper, port.state.pfc.why) == (SECOND, FOLLOWS)


def test_what_was_not_swapped_is_not_held() -> None:
    port = in_doubt()
    assert (port.state.cn.oper, port.state.cn.why) == (FIRST, FOLLOWS)
    assert "swapped.cn" not in port.counters
    hear(port, 3 * S, FIRST, cn=OWN)
    hear(port, 4 * S, FIRST, cn=FIRST)
    assert [port.state.pfc.why, port.state.cn.why] == [STANDS, STANDS]
    hear(port, 7 * S, SECOND, cn=SECOND)
    assert [port.state.pfc.oper, port.state.cn.oper] == [SECOND, FIRST], "each doubt has its own end"


@pytest.mark.parametrize(
    "story",
    [
        pytest.param([(FIRST, True), (SECOND, True), (0x40, True)], id="the peer changes, to nothing of ours"),
        pytest.param([(OWN, True), (FIRST, True), (FIRST, True)], id="the peer leaves our value"),
        pytest.param([(FIRST, False), (OWN, True)], id="the peer was not willing, so we followed for another reason"),
        pytest.param([(FIRST, True), (OWN, False)], id="the peer is not willing any more"),
    ],
)
def test_what_is_not_a_swap_makes_no_hold(story: list[tuple[int, bool]]) -> None:
    port = follower()
    for second, (value, willing) in enumerate(story):
        hear(port, second * S, value, willing=willing)
        assert port.state.pfc.oper == value
    assert not any(name.startswith("swapped") for name in port.counters)


def test_a_peer_that_is_not_willing_is_followed_in_spite_of_a_hold() -> None:
    port = in_doubt()
    hear(port, 3 * S, SECOND, willing=False)
    assert port.state.pfc.oper == SECOND


def test_an_administrators_change_is_not_a_swap_and_ends_a_hold() -> None:
    port = in_doubt()
    port.configure(settings(LOW, own=SECOND), 3 * S)
    assert (port.state.pfc.oper, port.state.pfc.why) == (FIRST, FOLLOWS)
    hear(port, 4 * S, OWN)
    port.configure(settings(LOW, own=FIRST), 5 * S)
    assert not is_in_doubt(port)
    assert port.counters["swapped.pfc"] == 1


def test_a_hold_does_not_outlive_the_peer() -> None:
    for lose in ("link", "stop", "goodbye"):
        port = in_doubt()
        assert is_in_doubt(port)
        match lose:
            case "link":
                port.link_down(3 * S)
                port.start(3 * S)
            case "stop":
                port.stop(3 * S)
                port.start(3 * S)
            case "goodbye":
                hear(port, 3 * S, OWN, ttl=0)
        hear(port, 4 * S, SECOND)
        assert (port.state.pfc.oper, port.state.pfc.why) == (SECOND, FOLLOWS)


@pytest.mark.parametrize("mac", [LOW, HIGH])
def test_a_peer_that_follows_at_once_and_never_holds_converges_on_the_value_kept_here(mac: Mac) -> None:
    """An independent peer may be like this. Each frame takes a tenth of a second."""
    port, theirs, heard = follower(mac), FIRST, []
    under_way = port.take_frames()
    for tenth in range(300):
        hear(port, tenth * S // 10, theirs, theirs)
        port.expire(tenth * S // 10)
        heard.append(theirs)
        for frame in under_way:
            enabled = said(port, frame).pfc
            assert enabled is not None
            theirs = enabled.enabled
        under_way = port.take_frames()
    values = [value for value, _ in itertools.groupby(heard)]
    assert values == [FIRST, OWN, FIRST, OWN, FIRST]
    assert heard[-1] == port.state.pfc.oper == port.state.cn.oper == FIRST


def test_only_a_port_that_follows_holds() -> None:
    """The one whose configuration wins may receive its own value any number of times."""
    port = make_port(HIGH, replace(settings(HIGH), tie_break=TieBreak.HIGHER))
    port.start(0)
    for second in range(20):
        hear(port, second * S, (OWN, FIRST)[second % 2])
        assert port.state.pfc.oper == OWN
    assert not any(name.startswith("swapped") for name in port.counters)
