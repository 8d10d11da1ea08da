"""The line that describes a network has its nodes, cables, ports and buffers."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from testbed.net.fabric.cable import Cable
from testbed.net.fabric.port import Buffer, Port, PortNeeds
from testbed.net.watch import description
from testbed.switch.ecn.curve import EcnCurve
from testbed.units import Duration, Scale


def network() -> Any:
    """Return objects like those of Mininet and of the fabric: a host and a switch at a scale of 1000."""
    scale = Scale(1000)
    cable = Cable("10Gb/s", "2km").in_lab(scale)
    host, switch = SimpleNamespace(name="h1"), SimpleNamespace(name="s1", forwards=True, bridges=True)
    settings = Port(ecn={3: EcnCurve("20kB", "80kB", "10%")})
    ports = {
        slot: SimpleNamespace(
            slot=slot, name=name, node=node, lab_cable=cable, scale=scale, units=scale, settings=settings
        )
        for slot, (name, node) in enumerate([("h1-eth0", host), ("s1-eth1", switch)])
    }
    needs = PortNeeds(frozenset({3}), cable.rate, cable.delay)
    buffers = {"s1": Buffer(total=2000).settings({1: needs})}
    link = SimpleNamespace(intf1=ports[0], intf2=ports[1])
    fabric = SimpleNamespace(ports=ports, buffers=buffers)
    nodes = {"h1": host, "s1": switch, "r1": SimpleNamespace(name="r1", forwards=True, bridges=False)}
    return SimpleNamespace(fabric=fabric, nameToNode=nodes, links=[link], topo=None)


def test_the_line_has_nodes_with_their_kinds_and_cables_in_both_units() -> None:
    line = description.started(network(), "with PFC", "Incast", 17)
    assert (line["case"], line["topology"], line["network"], line["t_ns"]) == ("with PFC", "Incast", "started", 17)
    assert line["nodes"] == {"h1": "host", "s1": "switch", "r1": "router"}
    (cable,) = line["cables"]
    assert cable["ends"] == ["h1-eth0", "s1-eth1"] and cable["nodes"] == ["h1", "s1"]
    assert (cable["lab_rate_bps"], cable["hardware_rate_bps"]) == (10_000_000, 10_000_000_000)
    assert (cable["lab_delay_ns"], cable["hardware_delay_ns"]) == (Duration("10ms").ns, Duration("10us").ns)
    assert cable["hardware_length_m"] == 2000


def test_a_port_has_thresholds_in_cells_and_a_host_has_none() -> None:
    line = description.started(network(), "", "Incast", 17)
    needs = PortNeeds(frozenset({3}), Cable("10Gb/s", "2km").in_lab(Scale(1000)).rate, Duration("10ms"))
    group = line["ports"]["s1-eth1"]["groups"]["3"]
    assert (group["alpha"], group["xon_offset_cells"]) == ("1/2", 96)
    assert (
        group["headroom_cells"] == needs.headroom_cells(Buffer(total=2000)) == line["buffers"]["s1"]["headroom_cells"]
    )
    assert line["ports"]["h1-eth0"]["groups"] == {} and line["ports"]["h1-eth0"]["lossless"] == [3]
    assert line["ports"]["s1-eth1"]["ecn"] == {"3": {"kmin_bytes": 20000, "kmax_bytes": 80000, "pmax": "1/10"}}
    assert json.loads(json.dumps(line)) == line, "plain JSON, with keys that are text"


def test_mininets_own_link_has_only_its_ends() -> None:
    net = network()
    net.fabric.ports.clear()
    assert description.started(net, "", "Single", 17)["cables"] == [
        {"ends": ["h1-eth0", "s1-eth1"], "nodes": ["h1", "s1"]}
    ]
