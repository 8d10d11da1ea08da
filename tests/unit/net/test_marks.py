"""Warnings about ports on a flow's way that mark nothing. A run with the warning is in the lab's tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from testbed.errors import UsageError
from testbed.frames import Mac
from testbed.net.fabric.cable import Cable
from testbed.net.fabric.changes import with_dormant_ecn
from testbed.net.fabric.fabric import Fabric
from testbed.net.fabric.port import Port
from testbed.net.fabric.ports import PortState
from testbed.net.fabric.routes import Graph
from testbed.net.traffic import Flow, FlowOptionError, Flows
from testbed.net.traffic.roce import Roce
from testbed.roce.rates import Dcqcn, Fixed, Line, RateControl
from testbed.switch.ecn.curve import EcnCurve
from testbed.switch.ecn.field import Ecn
from testbed.switch.priority.settings import PriorityMap
from testbed.units import Rate, Scale

CURVE = EcnCurve("40kB", "160kB", "20%")
LEAVES = ("h1-s1", "h2-s1", "s1-s2", "s2-r", "s2-q")
"""Ports are numbered at each node in this order, from 1 on."""


class Own(RateControl):
    """A user's rate control, which needs marks."""

    needs_marks = True


def own(line: Line) -> RateControl:
    return Own(line)


def of_dcqcn(line: Line) -> RateControl:
    return Dcqcn(line)


class Node:
    """The attributes of Mininet's node that are used."""

    pid = 1

    def __init__(self, name: str, forwards: bool, bridges: bool) -> None:
        self.name, self.forwards, self.bridges = name, forwards, bridges
        self.params: dict[str, Any] = {}
        self.ports: dict[str, int] = {}

    def __str__(self) -> str:
        return self.name


def built(cables: Sequence[str], settings: dict[str, Port], router: str = "") -> Fabric:
    """Return a network as it is after its start, at a scale of 1000; nodes whose names begin with "s" are switches."""
    fabric: Any = Fabric.current()
    nodes: dict[str, Node] = {}
    slot = 0
    for cable in cables:
        link = SimpleNamespace()
        for end, name in enumerate(cable.split("-"), 1):
            is_switch = name.startswith("s")
            node = nodes.setdefault(name, Node(name, is_switch or name == router, is_switch))
            number = len(node.ports) + is_switch
            intf = SimpleNamespace(name=f"{name}-eth{number}", node=node, link=link, slot=slot)
            node.ports[intf.name] = number
            setattr(link, f"intf{end}", intf)
            port = PortState(slot, intf, Mac(bytes(6)), Cable("10Mb/s"), Scale(1000), Scale(1000))
            port.settings = settings.get(intf.name, Port())
            fabric.ports[slot], fabric.core.ports.slots[intf.name] = port, slot
            slot += 1
        fabric.cabling.links.append(link)
    fabric.core.ports.known_nodes, fabric.core.ports.graph = nodes, Graph.of(fabric.cabling.links)
    return fabric  # type: ignore[no-any-return]


@pytest.fixture(autouse=True)
def ended() -> Iterator[None]:
    yield
    Fabric.current().core.stop()


def warnings(
    *flows: Flow, cables: Sequence[str] = LEAVES, router: str = "", ports: dict[str, Port] | None = None
) -> list[str]:
    """Return the warnings of flows in a network in which these ports have other settings than the default."""
    fabric = built(cables, ports or {}, router)
    node = fabric.core.ports.node
    known = [Flow(node(flow.source), node(flow.target), flow.priority, transport=flow.transport,
                  rate_control=flow.rate_control, ecn=flow.ecn, dscp=flow.dscp) for flow in flows]  # fmt: skip
    return list(Roce.warnings(dict(enumerate(known))))


def dcqcn(source: str = "h1", target: str = "r", priority: int = 3, **options: Any) -> Flow:
    return Flow(source, target, priority, **{"transport": "roce", "rate_control": "dcqcn"} | options)


MARKING = Port(ecn={3: CURVE})


def test_a_flow_without_marks_on_its_way_is_named_with_the_ports_and_the_way_out() -> None:
    (found,) = warnings(dcqcn())
    assert found == (
        "rate control dcqcn of the flow from h1 to r slows down by marks alone, and will not: no port on the way marks "
        "priority 3: s1-eth3, s2-eth2. A curve at these ports does it, as in "
        'Port(ecn={3: EcnCurve("40kB", "160kB", "20%")})'
    )


def test_flows_with_one_rate_control_and_priority_share_a_warning() -> None:
    (found,) = warnings(dcqcn(), dcqcn("h2"), dcqcn("h1", "q"))
    assert "of h1 to r, h2 to r, h1 to q slows" in found
    assert ": s1-eth3, s2-eth2, s2-eth3." in found
    assert len(warnings(dcqcn(), dcqcn("h2", priority=4))) == 2


@pytest.mark.parametrize("port", ["s1-eth3", "s2-eth2", "h1-eth0"])
def test_one_port_on_the_way_that_marks_is_enough(port: str) -> None:
    assert not warnings(dcqcn(), ports={port: MARKING})


@pytest.mark.parametrize("port", ["s1-eth1", "s2-eth1", "s2-eth3", "r-eth0"])
def test_a_port_that_marks_in_another_direction_or_elsewhere_does_not_help(port: str) -> None:
    assert warnings(dcqcn(), ports={port: MARKING})


def test_a_curve_is_for_the_priority_that_packets_have_there() -> None:
    assert warnings(dcqcn(), ports={"s1-eth3": Port(ecn={4: CURVE})})
    assert not warnings(dcqcn(priority=4), ports={"s1-eth3": Port(ecn={4: CURVE})})
    maps = Port(priorities=PriorityMap("dscp", dscp_to_dot1p={24: 5}))
    five = Port(ecn={5: CURVE}, priorities=maps.priorities)
    (found,) = warnings(dcqcn(), ports={"s1-eth1": maps, "s1-eth3": MARKING, "s2-eth1": maps, "s2-eth2": Port()})
    assert "marks priority 5" in found
    assert not warnings(dcqcn(), ports={"s1-eth1": maps, "s1-eth3": five})


def test_a_rewritten_dscp_counts_at_the_next_switch() -> None:
    rewrites = Port(priorities=PriorityMap("dscp", rewrite_dscp={3: 40}))
    assert warnings(dcqcn(), ports={"s1-eth1": rewrites, "s2-eth2": MARKING})
    assert not warnings(dcqcn(), ports={"s1-eth1": rewrites, "s2-eth2": Port(ecn={5: CURVE})})


def test_a_curve_that_no_queue_reaches_marks_nothing() -> None:
    assert warnings(dcqcn(), ports={"s1-eth3": with_dormant_ecn(Port())})


@pytest.mark.parametrize(("rate_control", "name"), [(Own, "Own"), (own, "Own"), (of_dcqcn, "Dcqcn"), (Dcqcn, "Dcqcn")])
def test_a_rate_control_of_ones_own_needs_marks_by_an_attribute(rate_control: Any, name: str) -> None:
    (found,) = warnings(dcqcn(rate_control=rate_control))
    assert found.startswith(f"rate control {name} of the flow from h1 to r ")


@pytest.mark.parametrize("rate_control", [None, "fixed", "timely", Fixed])
def test_a_rate_control_that_needs_no_marks_is_not_warned_of(rate_control: Any) -> None:
    assert not warnings(dcqcn(rate_control=rate_control))


def test_packets_that_nothing_may_mark_are_warned_of_and_marked_ones_are_not() -> None:
    (found,) = warnings(dcqcn(ecn=Ecn.NOT_ECT), ports={"s1-eth3": MARKING})
    assert found.endswith("will not: with ecn=0 nothing may mark the packets; leave ecn out")
    assert not warnings(dcqcn(ecn=Ecn.CE))


def test_a_cable_between_two_hosts_has_no_port_that_marks() -> None:
    (found,) = warnings(dcqcn(), cables=["h1-r"])
    assert found.endswith("will not: there is no switch on the way, so nothing marks")


def test_behind_a_router_any_curve_of_the_network_may_be_on_the_way() -> None:
    cables = ["h1-s1", "s1-w", "w-s2", "s2-r"]
    (found,) = warnings(dcqcn(), cables=cables, router="w")
    assert ": s1-eth1, s1-eth2, w-eth0, w-eth1, s2-eth1, s2-eth2." in found
    assert not warnings(dcqcn(), cables=cables, router="w", ports={"s2-eth1": Port(ecn={1: CURVE})})


def test_a_host_without_a_lossless_port_has_no_roce() -> None:
    fabric = built(["h1-s1"], {})
    with pytest.raises(UsageError, match="x has no lossless port, as hosts of a LosslessTopo have"):
        target = fabric.core.ports.node("h1")
        Roce.warnings({0: Flow(SimpleNamespace(name="x"), target, transport="roce", rate_control="dcqcn")})


# Rates above the line


@pytest.mark.parametrize("transport", ["udp", "tcp", "roce"])
def test_a_rate_above_the_line_is_refused(transport: str) -> None:
    built(LEAVES, {})
    with pytest.raises(FlowOptionError) as caught:
        Flows([Flow("h1", "r", rate="25Gb/s", duration="1ms", transport=transport)])
    assert str(caught.value) == (
        "flow from h1 to r: rate is 25Gb/s, and the line of h1 is 10Gb/s; without rate a flow takes all of the line"
    )


def test_a_rate_of_all_of_the_line_is_one_that_a_flow_can_have() -> None:
    built(LEAVES, {})
    flows = Flows([Flow("h1", "r", rate="10Gb/s"), Flow("h2", "r", rate="9Gb/s")])._flows
    assert [flow.rate for flow in flows] == [Rate("10Mb/s"), Rate("9Mb/s")]


def test_hpcc_without_a_port_that_stamps_is_named_with_the_ports_and_with_one_it_is_not() -> None:
    hpcc = dcqcn(rate_control="hpcc")
    assert warnings(hpcc, hpcc) == [
        "rate control hpcc goes by telemetry alone, and keeps its first window: no port on the way stamps it: s1-eth3, "
        "s2-eth2. Port(telemetry=True) makes these ports stamp"
    ]
    assert warnings(hpcc, ports={"s2-eth2": Port(telemetry=True)}) == []
    assert len(warnings(hpcc, ports={"s2-eth3": Port(telemetry=True)})) == 1
    assert "no switch on the way" in warnings(hpcc, cables=["h1-r"])[0]
    assert warnings(dcqcn(rate_control="swift")) == []


def test_a_read_has_no_rate_control_that_goes_by_acknowledgements() -> None:
    node = built(LEAVES, {}).core.ports.node
    read = Flow(node("h1"), node("r"), transport=Roce(operation="read"), rate_control="swift")
    with pytest.raises(UsageError, match=r"flow 0 from h1 is a read.*rate control Swift goes by acknowledgements"):
        Roce.endpoints({0: read})
