"""Mininet's nodes for lossless networks.

A host needs no class of its own: what is lossless about it is its link. Only one whose programs use verbs has a class.
Switches and routers have a buffer.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from testbed.experiment.run import Run
from testbed.linux import rdma_devices
from testbed.linux.netlink.rdma import SOFT_IWARP
from testbed.linux.vswitch import Vswitch
from testbed.net.build import node_commands, router_ways
from testbed.net.build.mininet_classes import Host, Node, Switch
from testbed.net.build.options import LEAF, ROUTER, SWITCH, refuse_unknown
from testbed.net.build.routing import RoutingDaemons
from testbed.net.fabric.core import FabricCore
from testbed.net.fabric.ports import FabricError
from testbed.switch.ways.network import seed_in_force
from testbed.switch.ways.settings import Ways

_GIVEN_BY_MININET = ("listenPort", "batch", "isSwitch")
"""Options that Mininet gives nodes, whatever their class."""
_GIVEN_BY_TOPOLOGIES = ("ways_source", "configuration")
"""Options that `LosslessTopo` gives switches, and nobody writes."""


RDMA = (False, True, "dcqcn", "dcqcn-mlx", "fixed", SOFT_IWARP)
"""The values of `rdma` of a host: Soft-RoCE with True, which is "dcqcn", or a rate control, of which "fixed" reacts to
no marks; and software iWARP."""


class RdmaHost(Host):
    """A host with RDMA devices on its lossless ports: `addHost("h1", rdma=True)`, or "siw" for verbs over TCP.

    Its programs, from its shell or by `popen`, have the library that lets time go on while they poll, and UCX does not
    look for the kind of packets where only adapters of one vendor say it.
    """

    def __init__(self, name: str, **params: Any) -> None:
        params = {"rdma": True} | params
        if not rdma_devices.is_there():
            wanted = f"rdma={params['rdma']!r}"
            raise FabricError(
                f"host {name}: {wanted} needs RDMA by software, which the kernel of the engine um has and this one has "
                f"not; run it with --engine um, or leave {wanted} out"
            )
        self._environment = {
            "LD_PRELOAD": str(rdma_devices.provide_library()),
            "UCX_UD_VERBS_ETH_DGID_CHECK": "n",
            rdma_devices.HOST_VARIABLE: name,
        }
        super().__init__(name, **params)

    def _popen(self, cmd: Any, **params: Any) -> Any:
        environment = {**self._environment, **(params.pop("env", None) or os.environ)}
        return super()._popen(cmd, env=environment, **params)


class LosslessSwitch(Switch):
    """A learning switch with lossless ports and one buffer over all of them, in a namespace of its own.

    Options: `buffer`, and `port`, the settings of ports whose links have none.
    """

    forwards = bridges = True

    known: tuple[str, ...] = SWITCH

    def __init__(self, name: str, **params: Any) -> None:
        refuse_unknown(f"switch {name}", params, (*self.known, *_GIVEN_BY_MININET, *_GIVEN_BY_TOPOLOGIES), "switch")
        super().__init__(name, **params | {"inNamespace": True})

    def start(self, controllers: Sequence[Any]) -> None:
        """Do nothing: `batchStartup` starts all switches together."""

    @classmethod
    def batchStartup(cls, switches: Sequence[Any]) -> Sequence[Any]:
        FabricCore.current().start()
        return switches

    @classmethod
    def batchShutdown(cls, switches: Sequence[Any]) -> Sequence[Any]:
        FabricCore.current().stop()
        for switch in switches:
            switch.terminate()
        return switches

    def stop(self, deleteIntfs: bool = True) -> None:
        self.terminate()

    def connected(self) -> bool:
        return True

    def dpctl(self, *_: str) -> str:
        return f"{self.name} is a learning switch and has no flow table; try `bridge fdb`\n"


class LosslessLeaf(LosslessSwitch):
    """A switch with the same ports and buffer whose forwarding is Open vSwitch's, by OpenFlow 1.3.

    Options as for LosslessSwitch, and `controller`, as in "unix:/run/controller" or "tcp:192.0.2.1:6653", to be reached
    from the switch's own namespace. The queue that it gives a frame is the frame's priority here, whatever the
    port trusts. Without a controller Open vSwitch learns by itself.
    """

    steered = True
    known = LEAF

    @property
    def vswitch(self) -> Vswitch:
        """Open vSwitch's daemons of this switch, while the network runs."""
        return FabricCore.current().vswitch(self.name)

    def dpctl(self, *args: str) -> str:
        """Return the output of `ovs-ofctl` for Mininet's `dpctl dump-flows`."""
        return self.vswitch.ofctl(*args or ("show",))


class LosslessRouter(Node):
    """An IPv4 and IPv6 router with lossless ports and a buffer. Options as for LosslessSwitch.

    And `routes`, static ones from destinations to neighbours on the way, {"10.2.0.0/16": "10.0.1.2"}, or to a list of
    neighbours, among which Linux chooses by `ways`; `commands` to be run when its ports are there, and other steps of
    set-up (`node_commands.Step`); `routing`, the daemons that find routes. Subjects add others, as SRv6 adds `wan`.
    """

    forwards = True
    bridges = False
    daemons: RoutingDaemons | None = None
    """The router's routing daemons, while the network runs."""

    def __init__(self, name: str, **params: Any) -> None:
        refuse_unknown(f"router {name}", params, (*ROUTER, *_GIVEN_BY_MININET, *_GIVEN_BY_TOPOLOGIES), "router")
        super().__init__(name, **params)

    def config(self, **params: Any) -> Any:
        done = super().config(**params)
        routes: router_ways.Routes = params.get("routes") or {}
        settings = router_ways.in_force(params)
        by_address = router_ways.neighbours_of(self) if settings is not None and settings.weights else {}
        self._run(
            "sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 net.ipv4.conf.all.rp_filter=0",
            *(router_ways.settings_of_kernel(settings, self._seed(settings)) if settings is not None else ()),
            *(router_ways.settings_for_daemons(self.intfNames()) if params.get("routing") is not None else ()),
            *(
                router_ways.route_command(destination, neighbours, settings, by_address)
                for destination, neighbours in routes.items()
            ),
        )
        for are_commands, steps in groupby(params.get("commands") or (), key=lambda step: isinstance(step, str)):
            if are_commands:
                self._run(*steps)
            else:
                for step in steps:
                    node_commands.send(self, step)
        return done

    def vtysh(self, *commands: str) -> str:
        """Return the answer of FRR's daemons, as in `net["r1"].vtysh("show bgp summary")`; several commands follow
        each other, as in `vtysh("configure", "router bgp 65001", "no neighbor r1-eth0 interface")`."""
        return self._running().ask("vtysh", *commands)

    def birdc(self, *words: str) -> str:
        """Return the answer of BIRD, as in `net["r1"].birdc("show protocols")`."""
        return self._running().ask("birdc", *words)

    def _running(self) -> RoutingDaemons:
        if self.daemons is None:
            raise FabricError(
                f"router {self.name} has no routing daemons that run; add it with them, as in "
                f'addRouter("{self.name}", routing=Frr(Bgp()))'
            )
        return self.daemons

    def _seed(self, settings: Ways) -> int:
        run = Run.current()
        return seed_in_force(settings, run.seed if run else 1, self.name)

    def _run(self, *commands: str) -> None:
        if failed := node_commands.run(self, commands):
            raise FabricError(f"router {self.name}: {failed[0]}: {failed[1]}")
