"""The routes that routers should have, by the protocols' rules."""

from __future__ import annotations

from ipaddress import IPv4Interface

from testbed.subjects.routing.expected import Routes, expected
from testbed.subjects.routing.protocols import Bgp, Ospf
from testbed.subjects.routing.router import Router, RouterPort

CABLES = (("leaf1", "spine1"), ("leaf1", "spine2"), ("leaf2", "spine1"), ("leaf2", "spine2"))
ASES = {"leaf1": 1, "leaf2": 2, "spine1": 9, "spine2": 9}


def routers(costs: dict[tuple[str, str], int] | None = None) -> dict[str, Router]:
    ports: dict[str, list[RouterPort]] = {}
    for number in (1, 2):
        address = IPv4Interface(f"10.{number}.0.1/24")
        ports[f"leaf{number}"] = [RouterPort(f"leaf{number}-host", f"h{number}", "h-eth0", False, address)]
    for one, other in CABLES:
        cost = (costs or {}).get((one, other), 1)
        for own, far in ((one, other), (other, one)):
            ports.setdefault(own, []).append(RouterPort(f"{own}-{far}", far, f"{far}-{own}", True, cost=cost))
    return {name: Router(name, number, tuple(own)) for number, (name, own) in enumerate(ports.items(), 1)}


def found(
    protocol: type, broken: tuple[str, ...] = (), ases: dict[str, int] | None = None, **more: object
) -> dict[str, Routes]:
    of = routers(more.get("costs"))  # type: ignore[arg-type]
    return expected(of, frozenset({protocol}), lambda one: (ases or ASES)[one.name], lambda port: port not in broken)


def test_all_equal_ways_are_there() -> None:
    for protocol in (Bgp, Ospf):
        assert found(protocol)["leaf1"] == {"10.2.0.0/24": frozenset({"leaf1-spine1", "leaf1-spine2"})}


def test_costs_count_for_ospf_and_not_for_bgp() -> None:
    costs = {("leaf1", "spine1"): 5}
    assert found(Ospf, costs=costs)["leaf1"] == {"10.2.0.0/24": frozenset({"leaf1-spine2"})}
    assert len(found(Bgp, costs=costs)["leaf1"]["10.2.0.0/24"]) == 2


def test_a_spine_takes_no_way_down_and_up_if_the_spines_share_an_as() -> None:
    broken = ("spine1-leaf2",)
    assert found(Bgp, broken)["leaf1"] == {"10.2.0.0/24": frozenset({"leaf1-spine2"})}
    assert "10.2.0.0/24" not in found(Bgp, broken)["spine1"]
    own = {name: number for number, name in enumerate(ASES, 1)}
    assert found(Bgp, broken, own)["spine1"]["10.2.0.0/24"] == frozenset({"spine1-leaf1"})
    assert found(Ospf, broken)["spine1"]["10.2.0.0/24"] == frozenset({"spine1-leaf1"})


def test_what_is_out_of_reach_has_no_route() -> None:
    for protocol in (Bgp, Ospf):
        assert found(protocol, ("spine1-leaf2", "spine2-leaf2"))["leaf1"] == {}
