"""A topology prepared for a live view: ports of switches and routers have dormant ECN, which can be switched on."""

from __future__ import annotations

from testbed.net.build.topo import LosslessTopo
from testbed.net.fabric import changes
from testbed.net.fabric.port import Port


def prepare(topo: LosslessTopo) -> None:
    """Give ports of switches and routers dormant ECN."""
    buffered = {node for node in topo.nodes() if "buffer" in topo.nodeInfo(node)}
    for node in buffered:
        if isinstance(port := topo.nodeInfo(node).get("port"), Port):
            topo.nodeInfo(node)["port"] = changes.with_dormant_ecn(port)
    for _, _, info in topo.links(withInfo=True):
        for node, name in ((info["node1"], "settings1"), (info["node2"], "settings2")):
            if node in buffered and isinstance(port := info.get(name), Port):
                info[name] = changes.with_dormant_ecn(port)
