"""The settings of cables, ports and buffers: those that are accepted and those that are refused."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest

from testbed.errors import UsageError
from testbed.net.fabric.bring_up import NodeSetup
from testbed.net.fabric.cable import Cable, CableError
from testbed.net.fabric.port import Buffer, Port, PortError, PortNeeds
from testbed.subjects.dcbx.settings import DcbxSettings
from testbed.switch.buffer.settings import BufferModelError, GroupSettings, Static
from testbed.switch.pfc.settings import PfcSettings
from testbed.switch.priority.settings import PriorityError, PriorityMap, Trust
from testbed.units import Duration, Rate, Scale


def test_a_cable_in_the_lab_is_slower_and_longer() -> None:
    cable = Cable("100Gb/s", "50km").in_lab(Scale(1000))
    assert (cable.rate, cable.delay) == (Rate("100Mb/s"), Duration("250us") * 1000)


def test_a_cable_is_printed_with_rate_and_length() -> None:
    assert str(Cable("10Gb/s", "5m")) == "10Gb/s over 5m"
    assert str(Cable("10Gb/s", delay="2us", loss="1/1000")) == "10Gb/s over 2us, losing 1/1000 of the frames"
    assert str(Cable("10Gb/s", "5m", mtu=9216)) == "10Gb/s over 5m, MTU 9216"


def test_a_cable_keeps_its_mtu() -> None:
    cable = Cable("10Gb/s", "5m", mtu=9216)
    assert (cable.in_lab(Scale(10)).mtu, cable.with_delay(Duration("1us")).mtu, Cable().mtu) == (9216, 9216, 1500)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"length": "5m", "delay": "1us"}, "a cable has a length (5m) or a delay (1us), not both"),
        ({"rate": "0b/s"}, "a cable of 0b/s carries nothing; give a rate above zero"),
        ({"loss": "2"}, "loss is '2'; it is a part of the frames, from 0 to 1, such as '1/1000'"),
        ({"mtu": 9217}, "mtu is 9217; a whole number of octets is expected, 1280 to 9216"),
        ({"mtu": "9000B"}, "mtu is '9000B'; a whole number of octets is expected, 1280 to 9216"),
        ({"loss": "none"}, "loss is 'none'; it is a part of the frames, from 0 to 1, such as '1/1000'"),
    ],
)
def test_an_impossible_cable_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(CableError) as refused:
        Cable(**options)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"strict": {3}, "shares": {3: 10}}, "priority 3 is strict and has a share; it can have one of them"),
        ({"shares": {9: 10}}, "priority 9 does not exist; there are 0 to 7"),
        ({"shares": {3: 0}}, "shares are {3: 0}; each is a whole number of percent, 1 to 100"),
        (
            {"shares": {3: 60, 4: 40}},
            "shares sum up to 100 %, and 6 priorities that are not named need 1 % each; lower the shares, or name them",
        ),
    ],
)
def test_an_impossible_port_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(PortError) as refused:
        Port(**options)
    assert str(refused.value) == message


def test_pfc_without_trust_is_refused() -> None:
    with pytest.raises(PriorityError, match="PFC on for priority 3 and no trust mode"):
        Port(priorities=PriorityMap(Trust.NONE))
    assert Port(PfcSettings(), PriorityMap(Trust.NONE)).pfc.enabled == frozenset()


def test_what_is_not_named_shares_the_rest_evenly() -> None:
    weights = Port(shares={3: 50}, strict=frozenset({7})).weights()
    assert weights == {0: 833, 1: 833, 2: 833, 3: 5000, 4: 833, 5: 833, 6: 833}


NEEDS = PortNeeds(frozenset({3}), Rate("10Mb/s"), Duration("1ms"))


def test_a_ports_headroom_follows_from_its_cable() -> None:
    # Two ways of 1 ms and two responses of 150 us at 10 Mb/s are 2875 octets; two frames of 1538 and a PFC frame of 84.
    octets = 2875 + 2 * 1538 + 84
    assert NEEDS.headroom_cells(Buffer()) == -(-octets // 84), "the smallest frames waste the most cells"
    settings = Buffer(total=1000).settings({1: NEEDS, 2: PortNeeds(frozenset(), Rate("10Mb/s"), Duration("0s"))})
    assert settings.group(1, 3).headroom == -(-octets // 84)
    assert settings.group(1, 3).lossless and not settings.group(2, 3).lossless
    assert settings.headroom_cells == -(-octets // 84)


def test_a_longer_cable_needs_more_headroom() -> None:
    longer = PortNeeds(frozenset({3}), Rate("10Mb/s"), Duration("10ms"))
    assert longer.headroom_cells(Buffer()) > 3 * NEEDS.headroom_cells(Buffer())


def test_single_groups_go_before_the_rest() -> None:
    own = GroupSettings(lossless=True, threshold=Static(7), headroom=5)
    settings = Buffer(total=1000, groups={(1, 4): own}).settings({1: NEEDS})
    assert settings.group(1, 4) == own


def test_a_buffer_too_small_for_its_headroom_is_refused_with_the_numbers() -> None:
    with pytest.raises(BufferModelError, match="the buffer has 10: 62 cells are missing") as refused:
        Buffer(total=10).settings({1: NEEDS})
    assert isinstance(refused.value, UsageError)


def test_an_alpha_is_exact() -> None:
    group = Buffer().settings({1: NEEDS}).group(1, 3)
    assert group.threshold.limit(1001) == Fraction(1001, 2) // 1


def test_each_port_has_a_receive_buffer_for_each_of_eight_priorities() -> None:
    """This is figure 1 of the End.X.PFC draft; each buffer has limits of its own, and those with PFC have headroom."""
    needs = PortNeeds(frozenset({3, 5}), Rate("10Mb/s"), Duration("0s"))
    groups = Buffer().settings({1: needs, 2: needs}).all_groups()
    assert set(groups) == {(port, priority) for port in (1, 2) for priority in range(8)}
    assert {key for key, group in groups.items() if group.lossless and group.headroom} == {
        (port, priority) for port in (1, 2) for priority in (3, 5)
    }


def test_sizing_a_buffer_that_a_host_does_not_have_is_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    setup, node = NodeSetup.__new__(NodeSetup), SimpleNamespace(name="h1", forwards=False)
    sized = Port(dcbx=DcbxSettings(buffer_by_classes=True))
    settings = {"h1-eth0": sized, "h1-eth1": Port()}
    ports: list[Any] = [SimpleNamespace(node=node, name=name, settings=one) for name, one in settings.items()]
    setup.set_up_buffer("h1", ports, memoryview(b""))
    assert capsys.readouterr().err == (
        "warning: h1-eth0: buffer_by_classes has no effect, since a host has no buffer\n"
    )


def test_with_pfc_without_a_priority_is_refused_and_names_what_turns_pfc_off() -> None:
    with pytest.raises(PortError, match=r"write with_pfc\(3\), or without_pfc\(\) for a port with PFC off"):
        Port().with_pfc()
    assert Port().with_pfc(3, 4).without_pfc().pfc.enabled == frozenset()
