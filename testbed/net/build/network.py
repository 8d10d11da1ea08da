"""A Mininet network that is stopped when the `with` block ends."""

from __future__ import annotations

import errno
import os
import resource
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import fields
from functools import partial
from ipaddress import IPv6Address, IPv6Interface, IPv6Network
from typing import Any

from testbed import subject
from testbed.errors import UsageError, nearest, warn
from testbed.experiment.output import DCBX_LOG
from testbed.experiment.run import Run
from testbed.frames import Mac
from testbed.linux import vswitch
from testbed.linux.port_program import SLOTS
from testbed.linux.process.kernel import arp_entry, set_arp
from testbed.linux.process.observing import Observer
from testbed.net.build import flow_path, node_commands, router_ways, routing
from testbed.net.build.flow_path import FlowNames
from testbed.net.build.graph import Topo
from testbed.net.build.mininet_classes import Mininet, require_mininet
from testbed.net.build.node_shells import few_processes
from testbed.net.build.options import ipv6_addresses
from testbed.net.build.topo import LosslessTopo
from testbed.net.fabric.core import FabricCore
from testbed.net.fabric.fabric import Fabric
from testbed.net.fabric.ports import FabricError, address_of, rdma_of
from testbed.net.fabric.switch_ways import WayCount
from testbed.net.partition.core import core_of
from testbed.net.traffic import Flow, FlowOptionError, Flows
from testbed.net.watch import captures, description, progress
from testbed.net.watch.run_series import recorded
from testbed.switch.ways.path import FlowPath
from testbed.units import Duration, Scale

_DESCRIPTORS, _DESCRIPTORS_OF_NODE, _DESCRIPTORS_OF_PORT = 256 + SLOTS, 28, 4
"""The files that are open anyway with a socket for each port; those of each node in the process that starts agents: the
ends of its shell, its logs, the sockets of its agent, and some room; and those of a port: its programs and its tap."""
_MOST_DESCRIPTORS = 256 + _DESCRIPTORS_OF_PORT * SLOTS + 960 * _DESCRIPTORS_OF_NODE
"""The most files that a network may need. Root may raise the limit that a process starts with up to here."""
_OF_SUBJECTS = ("agent", "control_plane")
"""The members of subjects that a network asks for."""
_OF_TOPOLOGIES = ("hosts", "switches", "links", "nodes", "nodeInfo")
"""The methods that Mininet and we call: a topology is of our class or of Mininet's."""
_ROUND_NS = 10_000_000
_REPORTED = 4096
"""The octets that a connection needs for iperf to report it as a client's."""


class Network(Mininet):
    """Mininet's network with the fabric of its lossless ports: `net["h1"]` is a node."""

    fabric: Fabric
    routing: routing.ControlPlane
    """The routing daemons of its routers."""
    host: Any
    switch: Any
    """The classes of nodes that name none."""

    def addHost(self, name: str, cls: Any = None, **params: Any) -> Any:
        return super().addHost(name, FabricCore.current().class_of(name, cls or self.host), **params)

    def addSwitch(self, name: str, cls: Any = None, **params: Any) -> Any:
        return super().addSwitch(name, FabricCore.current().class_of(name, cls or self.switch), **params)

    def __getitem__(self, name: str) -> Any:
        return self.getNodeByName(name)

    def getNodeByName(self, *names: str) -> Any:
        """Return one node, or a list of several."""
        found = [self.fabric.core.ports.node(name) for name in names]
        return found[0] if len(found) == 1 else found

    get = getNodeByName

    def sleep(self, duration: Duration | str) -> None:
        """Wait for a time of the modelled hardware, which in the lab takes the scale times as long."""
        time.sleep(self.lab_ns(duration) / 1e9)

    def lab_ns(self, duration: Duration | str) -> int:
        """Return a time of the modelled hardware in ns of the lab, to add it to a moment of the lab's clock."""
        return self.fabric.units.lab(Duration(duration)).ns

    def port(self, node: str, neighbour: str) -> str:
        """Return the name of the port of a node that leads to a neighbour, the first one if there are several.

        `net.port("s1", "h1")` is "s1-eth1" in `Incast`.
        """
        return self.fabric.between(node, neighbour).name

    def ways(self, switch: str) -> list[WayCount]:
        """Return what a switch has given to each of its equal ways; nothing if it has none, or `ways` is not set."""
        core = self.fabric.core
        core.running_program()
        core.ports.node(switch)
        return core.ways.counts(switch) if core.ways else []

    def path(self, source: str, target: str, **flow: Any) -> FlowPath:
        """Return the way that a flow takes now, hop by hop, as switches choose it; `print` explains it.

        `flow` is `transport` ("roce", "udp" or "tcp"), `source_port`, `destination_port`, `queue_pair`, `flow_label`,
        `ip_version`, and `number`: that of a UDP or TCP flow among those that run together, which gives its destination
        port.
        """
        for name in flow:
            known = [one.name for one in fields(FlowNames)]
            if name not in known:
                raise FlowOptionError(f"net.path: there is no option {name}; {nearest(name, known)}")
        return flow_path.in_network(self, source, target, FlowNames(**flow))

    def converged(
        self, within: Duration | str = "60s", *, since_ns: int | None = None, quiet: Duration | str | None = None
    ) -> Duration:
        """Wait until routers have the routes that their daemons should find by the cables which have their link now.

        Returns the time of the lab from `since_ns`, a moment of its clock, or from the call on, to the last change of a
        route. With `quiet` it waits until each session of BGP, OSPF and IS-IS has been up and no route has changed for
        that time, whatever routes there are. Both are the lab's times, as the daemons' timers are.
        """
        return self.routing.converged(within, since_ns, quiet)

    def run(self, *flows: Flow, settle: Duration | str | None = None) -> Flows:
        """Run flows to their ends, and return them with their reports.

        Frames that are still under way then are waited for, for as long as `settle` at most.
        """
        for flow in flows:
            if flow.count is None and flow.size is None and flow.duration is None:
                raise FlowOptionError(
                    f"flow from {flow.source} to {flow.target}: net.run() waits for its end, and it has none; "
                    "give it a count, a size or a duration"
                )
        with Flows(flows, settle) as running:
            running.wait()
        return running

    def configHosts(self) -> None:
        super().configHosts()
        for name, address in ipv6_addresses(self.topo).items():
            self._give_ipv6(self.nameToNode[name], str(address))
        for host in self.hosts:
            route = host.params.get("defaultRoute6")
            if route and (failed := node_commands.run(host, [f"ip -6 route replace default {route}"])):
                raise FabricError(f"{host.name}: defaultRoute6={route!r}: {failed[1]}")

    def _give_ipv6(self, host: Any, address: str) -> None:
        port, given = host.defaultIntf(), host.params["ipv6"]
        if port is None or not hasattr(port, "setIPv6"):
            raise FabricError(f"{host.name}: ipv6={str(given)!r} needs a lossless port, as LosslessTopo makes them")
        far = next(end.node for end in (port.link.intf1, port.link.intf2) if end is not port)
        if isinstance(given, IPv6Network) and getattr(far, "forwards", False) and not getattr(far, "bridges", False):
            raise UsageError(
                f"ipv6={str(given)!r} is one network for all hosts, and {host.name} is at router {far.name}; give it "
                f'its own network: addHost("{host.name}", ipv6="fd00:1::2/64", defaultRoute6="via fd00:1::1")'
            )
        port.setIPv6(address)
        if rdma_of(host):  # RDMA devices have its GID in any case, as the first one
            self.fabric.core.cabling.add_address(port, f"{link_local_of(port.mac)}/64")

    def staticArp(self) -> None:
        """Tell each host the addresses of all others.

        Mininet would start a program for each pair of hosts, which takes most of the time of a large network.
        """
        known = [(host, host.IP(), host.MAC()) for host in self.hosts]
        entries = {host: arp_entry(address, mac) for host, address, mac in known if address and mac}
        for host in self.hosts:
            others = [entry for other, entry in entries.items() if other is not host]
            self.fabric.core.sockets.inside(host, partial(set_arp, others))
        self._introduce_over_ipv6()

    def _introduce_over_ipv6(self) -> None:
        known = [(host.defaultIntf(), Mac.parse(host.MAC())) for host in self.hosts if address_of(host, 6)]
        for port, _ in known:
            network, others = IPv6Interface(port.ipv6).network, [(far, mac) for far, mac in known if far is not port]
            addresses = [(IPv6Interface(far.ipv6).ip, mac) for far, mac in others]
            neighbours = {str(address): mac for address, mac in addresses if address in network}
            if rdma_of(port.node):
                neighbours |= {str(link_local_of(far.mac)): mac for far, mac in others}
            self.fabric.core.cabling.add_neighbours(port, neighbours)


def link_local_of(mac: str) -> IPv6Address:
    """Return the link-local address of a MAC address."""
    octets = Mac.parse(mac).octets
    return IPv6Address(b"\xfe\x80" + bytes(6) + bytes([octets[0] ^ 2]) + octets[1:3] + b"\xff\xfe" + octets[3:])


def prepare_mininet() -> None:
    """Prepare Mininet for a sandbox, whose settings it may not tune, and for the iperf that is here."""
    import mininet.net

    Mininet.inited = True  # its set-up tunes settings of the whole machine
    os.environ.setdefault("SHELL", "/bin/bash")  # its `popen(shell=True)` asks for it, and a job has none
    mininet.net.waitListening = _wait_listening


def _wait_listening(client: Any, server: str, port: int) -> bool:
    """Wait for a server of iperf as Mininet does, and then have it print a report.

    Mininet waits for two of them. The first was about the connection of telnet that found it listening, but since
    2.0.14 iperf reports none that brings nothing. The pause keeps the two reports from being summed up as one test.
    """
    from mininet.util import waitListening

    listens: bool = waitListening(client, server, port)
    if listens:
        client.cmd(f"head -c {_REPORTED} /dev/zero >/dev/tcp/{server}/{port}; sleep 0.5")
    return listens


def _require_possible(topo: Topo) -> None:
    """Refuse a network that needs more descriptors than the system allows, or more ports than the port program has."""
    ports, nodes = 2 * len(topo.links()), len(topo.nodes())
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = (max(hard, _MOST_DESCRIPTORS) - _anyway(min(ports, SLOTS))) // _DESCRIPTORS_OF_NODE
    if nodes > most:
        raise FabricError(f"a network of {nodes} nodes is too large: at most {most} are possible here")
    if isinstance(topo, LosslessTopo) and ports > SLOTS:
        raise FabricError(f"a network has at most {SLOTS} lossless ports; this one needs {ports}")


def _anyway(ports: int) -> int:
    """Return how many files are open beside those of nodes. A few ports need no more than what a limit always has."""
    return max(_DESCRIPTORS, 256 + ports * _DESCRIPTORS_OF_PORT)


def _require_descriptors(topo: Topo) -> None:
    """Raise the limit of open files, of which Mininet needs several for each node, and a port some for its programs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = _anyway(2 * len(topo.links())) + len(topo.nodes()) * _DESCRIPTORS_OF_NODE
    if needed > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, max(hard, needed)))


def wait_for_round_moment() -> None:
    """Wait for a whole hundredth of a second.

    Imports take some microseconds for each module, and who starts or ends an observer is chosen by the scheduler at
    other moments than who does not. What begins after such a sleep is at the same times with and without them.
    """
    time.sleep((_ROUND_NS - time.monotonic_ns() % _ROUND_NS) / 1e9)


class NetworkBlock(AbstractContextManager[Network]):
    """The network of a `with` block, which starts and stops it."""

    def __init__(self, block: AbstractContextManager[Network]) -> None:
        self._block, self._is_entered = block, False

    def __enter__(self) -> Network:
        self._is_entered = True
        return self._block.__enter__()

    def __exit__(self, *exception: Any) -> bool | None:
        return self._block.__exit__(*exception)

    def __getattr__(self, name: str) -> Any:
        raise FabricError(f"network(...) has no {name}: it starts and ends with a block, `with network(...) as net:`")

    def __getitem__(self, name: str) -> Any:
        return self.__getattr__(f"node {name}")

    def __del__(self) -> None:
        if not self._is_entered:
            warn("network(...) was called, and no network was started: use it as `with network(...) as net:`")


def network(topo: Topo, run: Run | None = None, log: str = "warning", case: str = "", **options: Any) -> NetworkBlock:
    """Start `topo`, and stop the network when the block ends; `log` and `options` are Mininet's.

    A topology without lossless parts gets OVS bridges and shaped links. In a lossless one hosts know each other's
    addresses from the start (`autoStaticArp=False`: they ask by ARP). `case` is the network's name in the run's report.
    What agents logged goes into the run's event log at the end, and the DCBX log into a file of its own; the run is the
    one at work, unless `run` is another.
    """
    return NetworkBlock(_network(topo, run, log, case, options))


@contextmanager
def _network(topo: Topo, run: Run | None, log: str, case: str, options: dict[str, Any]) -> Iterator[Network]:
    run = run or Run.current()
    if isinstance(topo, type) or not all(hasattr(topo, name) for name in _OF_TOPOLOGIES):
        raise FabricError(f"network({topo!r}): a topology is expected, as in network(Incast(2)), not its class or name")
    require_mininet()
    from mininet.link import TCLink
    from mininet.log import setLogLevel
    from mininet.node import OVSBridge

    setLogLevel(log)
    prepare_mininet()
    core = core_of(topo)
    if run is not None:
        run.sets_up(len(topo.nodes()))
    for member in _OF_SUBJECTS:
        list(subject.loaded(member))  # what a network needs of subjects is imported before its time begins
    wait_for_round_moment()
    chosen = {"controller": None, "autoSetMacs": True, "autoStaticArp": isinstance(topo, LosslessTopo)} | options
    shaped: AbstractContextManager[None] = nullcontext()
    if not isinstance(topo, LosslessTopo):
        from testbed.net.build import line_rate

        vswitch.ensure_daemons()
        chosen = {"switch": OVSBridge, "link": TCLink} | chosen
        shaped = line_rate.of_links(line_rate.DEFAULT)
    fabric = Fabric(core)
    core.ports.is_in_lab_time = run is not None and run.is_in_lab_time
    poll, scale = getattr(topo, "deadlock_poll", None), getattr(topo, "scale", Scale(1))
    core.options.deadlock_poll = poll if poll is None or core.ports.is_in_lab_time else scale.lab(poll)
    net, is_described, since_ns = None, False, time.monotonic_ns()
    counted: dict[str, dict[str, dict[str, int]]] = {}
    captured: Observer | None = None
    followed: Observer | None = None
    try:
        net = Network(topo=topo, build=False, **chosen)
        net.fabric, core.ports.known_nodes = fabric, net.nameToNode
        core.options.labels, core.options.pool_labels = getattr(topo, "names", {}), getattr(topo, "pools", {})
        nodes = len(topo.nodes())
        _require_possible(topo)
        _require_descriptors(topo)
        try:
            with few_processes(), shaped:
                net.build()
            router_ways.warn_of_polarisation(net.hosts, run.seed if run is not None else 1)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM):
                raise
            raise FabricError(
                f"a network of {nodes} nodes is too large here ({error.strerror}): each node is a process "
                "and has files open; --processes and --memory raise an experiment's limits"
            ) from error
        if run is not None and run.capture_octets:
            about = " ".join(filter(None, [type(topo).__name__, case]))
            captured = captures.capturing(net, run, about)
        core.parts.meet("the network is built")
        wait_for_round_moment()
        net.start()
        core.start()  # for a network without switches, whose start would have done it
        with core.together(run):
            if run is not None:
                run.lines(description.NETWORKS_LOG, [description.started(net, case, type(topo).__name__, since_ns)])
                is_described = True
                if run.follower >= 0:
                    followed = progress.reporting(net, run, case)
            with run.network_is_up() if run is not None else nullcontext():
                with (
                    routing.running(net.hosts, core, run) as net.routing,
                    recorded(fabric, run) if run is not None else nullcontext(),
                ):
                    yield net
                if run is not None:
                    description.account_for_losses(run, core.flows.lost, fabric.losses)
                    counted = {"soft_roce": core.soft_roce(), "llr": description.llr_counters(core.cabling.reports())}
    finally:
        if followed is not None:
            followed.stop()
        core.stop()
        if captured is not None:
            captured.stop()
        wait_for_round_moment()  # what follows is at the same moments with and without observers
        if net is not None:
            net.stop()
        core.leave()
        if run is not None:
            run.lines(description.NETWORKS_LOG, [description.ended(**counted)] if is_described else [])
            run.history(core.log.history)
            run.lines(DCBX_LOG, core.log.lines())
            run.agent_lateness(core.log.lateness_ns)
