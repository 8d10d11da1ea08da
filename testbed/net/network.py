"""A Mininet network that is stopped when the `with` block ends. Only the lab can import this."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Protocol

from mininet.link import TCLink
from mininet.log import setLogLevel
from mininet.net import Mininet
from mininet.node import OVSBridge
from mininet.topo import Topo

from testbed.linux import ovs
from testbed.net.fabric import Fabric
from testbed.net.losses import account
from testbed.net.topo import LosslessTopo

DCBX_LOG = "dcbx.jsonl"
"""In a result folder: every LLDP frame and every change, for `xoff ladder`."""


class Notebook(Protocol):
    """Where a network's history goes: a `Run`."""

    def history(self, lines: Callable[[int], Iterable[str]]) -> None: ...
    def agent_lateness(self, worst_ns: int) -> None: ...
    def lines(self, file: str, events: Iterable[Mapping[str, Any]]) -> None: ...
    def figure(self, name: str, value: Any) -> None: ...
    def claim(self, name: str, measured: Any, *, equals: Any) -> object: ...
    def network_is_up(self) -> AbstractContextManager[None]: ...


@contextmanager
def network(topo: Topo, run: Notebook | None = None, log: str = "warning", **options: Any) -> Iterator[Mininet]:
    """Start `topo`; `log` and `options` are Mininet's. Without lossless parts it gets OVS bridges and shaped links.

    With `run`, what the agents logged goes into the run's event log at the end, and what was said in DCBX into a
    file of its own.
    """
    setLogLevel(log)
    Mininet.inited = True  # its set-up tunes settings of the whole machine, which a sandbox has not
    chosen = {"controller": None, "autoSetMacs": True} | options
    if not isinstance(topo, LosslessTopo):
        ovs.ensure()
        chosen = {"switch": OVSBridge, "link": TCLink} | chosen
    fabric = Fabric.current()
    net = None
    try:
        net = Mininet(topo=topo, build=False, **chosen)
        net.fabric = fabric
        net.build()
        net.start()
        fabric.start()  # for a network without switches, whose start would have done it
        with run.network_is_up() if run is not None else nullcontext():
            yield net
            if run is not None:
                account(run, fabric)
    finally:
        fabric.stop()
        if net is not None:
            net.stop()
        if run is not None:
            run.history(fabric.history)
            run.lines(DCBX_LOG, fabric.story())
            run.agent_lateness(fabric.lateness_ns)
