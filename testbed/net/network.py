"""A Mininet network that is stopped when the `with` block ends. Only the lab can import this."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mininet.link import TCLink
from mininet.log import setLogLevel
from mininet.net import Mininet
from mininet.node import OVSBridge
from mininet.topo import Topo

from testbed.linux import ovs
from testbed.net.topo import LosslessTopo


@contextmanager
def network(topo: Topo, log: str = "warning", **options: Any) -> Iterator[Mininet]:
    """Start `topo`; `log` and `options` are Mininet's. Without lossless parts it gets OVS bridges and shaped links."""
    setLogLevel(log)
    Mininet.inited = True  # its set-up tunes settings of the whole machine, which a sandbox has not
    chosen = {"controller": None, "autoSetMacs": True} | options
    if not isinstance(topo, LosslessTopo):
        ovs.ensure()
        chosen = {"switch": OVSBridge, "link": TCLink} | chosen
    net = Mininet(topo=topo, **chosen)
    try:
        net.start()
        yield net
    finally:
        net.stop()
