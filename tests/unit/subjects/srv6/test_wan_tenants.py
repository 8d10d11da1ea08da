"""Tenants of the SRv6 WAN by the IP versions of their hosts, and what their options refuse."""

from __future__ import annotations

from typing import Any

import pytest

from testbed.errors import UsageError
from testbed.switch.ecn.curve import EcnCurve
from topologies.srv6_ring import Srv6Ring
from topologies.srv6_wan import Srv6Wan


def cables_of(wan: Srv6Wan) -> set[int]:
    """Return the MTUs of the cables between routers."""
    return {info["cable"].mtu for one, other, info in wan.links(withInfo=True) if one[0] == other[0] == "r"}


def test_each_tenant_has_the_versions_that_its_vpn_carries() -> None:
    wan = Srv6Wan(1, tenants=3, vpn=("End.DT4", "End.DT6", "End.DT46"))
    hosts = {name: wan.nodeInfo(name) for name in ("a1", "c1", "e1", "f1")}
    assert [hosts[name].get("ip") for name in hosts] == ["10.1.0.1/16", None, "10.5.0.1/16", "10.6.0.1/16"]
    assert [str(hosts[name].get("ipv6")) for name in hosts] == ["None", "fd01:3::1/64", "fd01:5::1/64", "fd01:6::1/64"]
    assert hosts["c1"]["defaultRoute6"] == "via fd01:3::fffe" and "defaultRoute" not in hosts["c1"]
    (vpns, _) = wan.intents()
    assert [vpn["behaviour"] for vpn in vpns] == ["End.DT4", "End.DT6", "End.DT46"]
    assert [vpn["sites"][1]["prefixes"] for vpn in vpns] == [
        ["10.2.0.0/16"], ["fd01:4::/64"], ["10.6.0.0/16", "fd01:6::/64"],
    ]  # fmt: skip


def test_ipv6_for_all_is_end_dt46_with_room_for_the_tunnels_header() -> None:
    assert [one.name for one in Srv6Wan(1, ipv6=True, tenants=2).vpns] == ["End.DT46"] * 2
    assert [cables_of(Srv6Wan(1, **options)) for options in ({}, {"ipv6": True}, {"wan_mtu": 1600})] == [
        {1500}, {1628}, {1600},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"vpn": "End.DT5"}, "vpn is 'End.DT5'; did you mean"),
        ({"vpn": "End"}, "vpn is 'End'"),
        ({"vpn": ("End.DT6",), "tenants": 2}, "there are 2 tenants, and each has one"),
        ({"vpn": "End.DT4", "ipv6": True}, "'End.DT4' carries no IPv6; leave one of them out"),
        ({"ipv6": "fd00:7::/64"}, "ipv6 is 'fd00:7::/64', and data centres have networks of their own; write True"),
        ({"tunnel_ecn": "yes"}, "tunnel_ecn"),
    ],
    ids=str,
)
def test_what_contradicts_itself_is_refused(options: dict[str, Any], error: str) -> None:
    with pytest.raises(UsageError) as caught:
        Srv6Wan(1, **options)
    assert error in str(caught.value)


def test_a_ring_has_both_versions_by_the_same_option() -> None:
    ring = Srv6Ring(1, ipv6=True)
    assert (ring.vpn.name, str(ring.nodeInfo("b1")["ipv6"])) == ("End.DT46", "fd01:2::1/64")
    assert (Srv6Ring(1).vpn.name, Srv6Ring(1).nodeInfo("b1").get("ipv6")) == ("End.DT4", None)
    with pytest.raises(UsageError, match="data centres have networks of their own; write True"):
        Srv6Ring(1, ipv6="fd00:7::/64")


def test_copying_marks_without_any_is_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    Srv6Wan(1, tunnel_ecn=True)
    assert "tunnel_ecn=True has no effect, as no port of the WAN marks" in capsys.readouterr().err


def test_edges_copy_marks_where_the_wan_marks() -> None:
    curve = EcnCurve("4kB", "16kB", "20%")
    edges = [Srv6Wan(1, wan_ecn=curve, tunnel_ecn=copies).nodeInfo("r3") for copies in (None, False)]
    assert [edge.get("tunnel_ecn", False) for edge in edges] == [True, False]
    assert "tunnel_ecn" not in Srv6Wan(1).nodeInfo("r3")
