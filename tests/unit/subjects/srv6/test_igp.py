"""What IS-IS says of routers, as the controller takes it: SIDs of all, and links of routers without an agent."""

from __future__ import annotations

from ipaddress import IPv6Address as Ip

import pytest

from testbed.subjects.srv6.controller import network as reports
from testbed.subjects.srv6.controller.manager import Manager
from testbed.subjects.srv6.controller.network import IgpNeighbour, IgpRouter, build
from testbed.subjects.srv6.lab.igp_reader import described
from testbed.subjects.srv6.protocol import behaviours
from testbed.subjects.srv6.protocol.sid import Adjacency, Sid
from testbed.subjects.srv6.session.messages import LinkEnd, Report, RouterPort
from testbed.typed_json.text import InvalidError

NAMES = {f"0000.0000.000{number}": f"r{number}" for number in (1, 2, 3)}


def packet(number: int, neighbours: dict[int, int]) -> dict[str, object]:
    """Return a link state packet as FRR shows it; neighbours by their numbers, with metrics."""
    return {
        "lsp": {"id": f"0000.0000.000{number}.00-00"},
        "extReach": [
            {
                "id": f"0000.0000.000{other}.00",
                "metric": metric,
                "srv6EndXSID": [{"sid": f"fd00:5:{number}:{other}::"}],
            }
            for other, metric in neighbours.items()
        ],
        "ipv6Reach": [{"prefix": f"fd00:5:{number}::/48"}, {"prefix": f"fd00:6:{number}::1/128"}],
        "srv6Locator": {"subtlvs": {"srv6EndSid": {"sidValue": f"fd00:5:{number}::"}}},
    }


def database(*packets: dict[str, object]) -> dict[str, object]:
    return {"areas": [{"levels": [{"id": 2, "lsps": list(packets)}]}]}


WHOLE = described(database(packet(1, {2: 50}), packet(2, {1: 50, 3: 70}), packet(3, {2: 70})), NAMES)


def edge(number: int) -> Report:
    """Return the report of an agent of r1 or r3, whose only link leads to r2."""
    name = f"r{number}"
    interface = f"{name}-eth1"
    sid = Sid(
        name, Ip(f"fd00:5:{number}:8000::"), behaviours.END_X_PFC, adjacencies=(Adjacency(interface, Ip("fd00:c::2")),)
    )
    return Report(name, (sid,), (LinkEnd(interface, RouterPort("r2", reports.to(name)), 50_000, pfc=True),))


def test_a_database_has_sids_neighbours_and_an_address() -> None:
    assert WHOLE[1] == IgpRouter(
        "r2",
        Ip("fd00:6:2::1"),
        (Ip("fd00:5:2::"),),
        (IgpNeighbour("r1", 50, (Ip("fd00:5:2:1::"),)), IgpNeighbour("r3", 70, (Ip("fd00:5:2:3::"),))),
    )
    assert reports.read(reports.write(WHOLE)) == tuple(WHOLE)


def test_systems_without_a_name_or_a_locator_are_left_out() -> None:
    bare: dict[str, object] = {"lsp": {"id": "0000.0000.0003.00-00"}}
    found = described(database(packet(1, {2: 50, 9: 5}), packet(9, {1: 5}), bare), NAMES)
    assert [(one.router, [other.router for other in one.neighbours]) for one in found] == [("r1", ["r2"])]
    assert described({}, NAMES) == []


def test_a_router_without_an_agent_has_links_that_fit_those_of_its_neighbours() -> None:
    network = build(reports.joined({"r1": edge(1), "r3": edge(3)}, WHOLE))
    assert network.problems == network.unreported == ()
    assert sorted(str(link) for link in network.topology.links) == ["r1:r1-eth1-r2:to-r1", "r2:to-r3-r3:r3-eth1"]
    assert {str(sid.address) for sid in network.topology.sids("r2")} == {"fd00:5:2::", "fd00:5:2:1::", "fd00:5:2:3::"}
    assert {sid.behaviour for sid in network.topology.sids("r1")} == {
        behaviours.END, behaviours.END_X, behaviours.END_X_PFC,
    }  # fmt: skip
    assert not network.topology.is_pfc_capable("r2")


def test_the_manager_waits_for_the_igp_and_follows_it() -> None:
    manager = Manager()
    manager.receive("r1", edge(1), 1)
    manager.receive("r3", edge(3), 1)
    manager.step(1)
    assert (manager.network.unreported, manager.is_settled) == (("r2",), False)
    manager.take_igp(tuple(WHOLE), 2)
    manager.step(2)
    assert (manager.network.unreported, manager.is_settled) == ((), True)
    assert len(manager.network.topology.links) == 2
    without = (WHOLE[0], IgpRouter("r2", WHOLE[1].address, WHOLE[1].end, WHOLE[1].neighbours[:1]), WHOLE[2])
    manager.take_igp(without, 3)
    manager.step(3)
    assert [str(link) for link in manager.network.topology.links] == ["r1:r1-eth1-r2:to-r1"]
    manager.take_igp((), 4)
    manager.step(4)
    assert sorted(manager.reports) == ["r1", "r3"]
    assert manager.reports["r1"].sids == edge(1).sids


@pytest.mark.parametrize("text", ["no JSON", "[1]", '[{"router": "r1"}]', '[{"router": "", "address": "fd00::1"}]'])
def test_a_text_that_describes_no_routers_is_refused(text: str) -> None:
    with pytest.raises(InvalidError):
        reports.read(text)
