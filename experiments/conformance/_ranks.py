"""RoCEv2 between ranks, for the cases of SONiC's RoCEv2 plan.

Not an experiment. All ports are copies of the first port under test: four of them at one switch, or four and the
uplinks at each of two leaves, with spines whose ports are such copies too. Rank 0 is host h1, and so on.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from experiments.conformance._case import Bench
from testbed.subjects.sonic.lab.run import settles_at
from testbed.subjects.sonic.tables import MapKind, NeighbourRow, Tables
from xoff import (
    DCQCN_PAPER,
    Dcqcn,
    Duration,
    Ecn,
    Flow,
    Flows,
    Line,
    Network,
    Rate,
    Roce,
    RoceReport,
    RoceSettings,
    Size,
    SonicTopo,
    Trust,
)

RANKS, AT_ONE_SWITCH = 8, 4
"""The ranks of two leaves, and of one switch."""
FRAME = Size("4154B")
"""A frame of data with 4096 octets of payload, as most of a message are."""
SETTINGS = RoceSettings(mtu=4096, retransmit_after=Duration("10ms"))
"""The timer is for 100 Gb/s, and longer than the fullest switch takes to drain, as the plan has it."""
_FAR = Duration("1ms")
"""The longest way there and back, which takes the same time at each speed."""
_LINK_MTU = 4200
_HALF = RANKS // 2
_CNP, _ACK = 5, 6
KB, MB = 1 << 10, 1 << 20
INCOMPLETE, AGAIN, DROPPED = "messages that did not come to their end", "frames sent again", "frames dropped"


class Ranks:
    """The ranks with their switches."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        lossy = bench.lossy
        self.lossless = bench.lossless[0], bench.lossless[-1]
        """Two lossless priorities, or twice the only one."""
        self.cnp, self.ack = (wanted if wanted in lossy else lossy[-1] for wanted in (_CNP, _ACK))
        """The priorities of CNPs and of acknowledgements."""
        self.lossy = [one for one in lossy if one not in (self.cnp, self.ack)][:3] or lossy[:1]
        """Up to three lossy priorities for data."""
        self.settings = replace(SETTINGS, retransmit_after=bench.paced(SETTINGS.retransmit_after) + _FAR)
        """The settings of all NICs, if a case has no others."""
        self.quick_cnps = replace(self.settings, cnp_interval=bench.paced(SETTINGS.cnp_interval))
        """The same with an interval of CNPs that follows the speed of the line, for `dcqcn`."""

    def one_switch(self) -> Any:
        """Return the switch with its ranks."""
        switch = self.bench.switch_of(_copies(self.bench.tables, self.bench.ports[0], "dut1", AT_ONE_SWITCH))
        return self.bench.network(topo=SonicTopo(switch, mtu=_LINK_MTU))

    def leaf_spine(self, spines: int, **options: Any) -> Any:
        """Return two leaves with four ranks each, and one cable from each leaf to each spine."""
        names = [f"spine{number}" for number in range(1, spines + 1)]
        switches, port = [], self.bench.ports[0]
        for place, leaf in enumerate(("leaf1", "leaf2")):
            near = {_port(_HALF + at): NeighbourRow(spine, _port(place)) for at, spine in enumerate(names)}
            switches.append(_copies(self.bench.tables, port, leaf, _HALF + spines, near))
        for at, spine in enumerate(names):
            near = {_port(place): NeighbourRow(f"leaf{place + 1}", _port(_HALF + at)) for place in range(2)}
            switches.append(_copies(self.bench.tables, port, spine, 2, near))
        topo = SonicTopo(*map(self.bench.switch_of, switches), mtu=_LINK_MTU, **options)
        return self.bench.network(topo=topo)

    def flow(
        self,
        source: int,
        target: int,
        priority: int,
        octets: int | None = None,
        *,
        message: int = MB,
        rate: Rate | None = None,
        rate_control: Any = None,
        ecn: Ecn = Ecn.NOT_ECT,
        duration: Duration | None = None,
        start: Duration | str = "0s",
        ack: int | None = None,
        dscp: int | None = None,
        source_port: int | None = None,
        **options: Any,
    ) -> Flow:
        """Return the flow of one rank to another, with a DSCP that the switch takes for the priority."""
        given, acks = self.bench.given, self.ack if ack is None else ack
        transport = Roce(
            message=Size.from_bytes(message),
            cnp_priority=self.cnp,
            cnp_dscp=max(0, given.dscp(self.cnp)),
            ack_priority=acks,
            ack_dscp=max(0, given.dscp(acks)),
            **({"settings": self.settings} | options),
        )
        size = None if octets is None else Size.from_bytes(octets)
        return Flow(
            f"h{source + 1}", f"h{target + 1}", priority, rate=rate, rate_control=rate_control, transport=transport,
            size=size, duration=duration, start=start, dscp=given.dscp(priority) if dscp is None else dscp, ecn=ecn,
            source_port=source_port,
        )  # fmt: skip

    def dscps(self, priority: int) -> list[int]:
        """Return all DSCPs that the switch takes for a priority; -1 alone where its ports trust the tag."""
        settings = self.bench.given.ports[self.bench.ports[0]].settings.priorities
        found = [dscp for dscp, value in enumerate(settings.dscp_to_dot1p) if value == priority]
        return found if settings.trust is Trust.DSCP else [-1]

    def filling(self, net: Network, target: int, groups: int = 2, least: int = 2 * MB) -> int:
        """Return the octets of each of several senders with which their groups are full, so that XOFF is due.

        At least half of what comes goes out at once, so a group that holds so much has had twice as much; half of that
        again leaves time for pauses. So many `groups` fill together.
        """
        port = net.fabric.port(self.port(net, target))
        buffer = net.fabric.buffers[port.node.name]
        group = buffer.group(port.number, self.lossless[0])
        pool = buffer.pools[group.pool]
        held = group.guaranteed + settles_at(group.threshold, pool.total - (pool.headroom_pool or 0), groups)
        return max(least, -(-held * buffer.cell_bytes * 3 // MB) * MB)

    def run(self, net: Network, flows: Sequence[Flow]) -> Flows:
        """Run flows to their ends; what is on its way then has ten times the time that the switches take to drain."""
        return net.run(*flows, settle=self.bench.settle_time(self.bench.fill_time(net, FRAME)))

    # Counters

    def port(self, net: Network, rank: int) -> str:
        """Return the switch's port at which a rank is."""
        return self.bench.port(net, f"h{rank + 1}")

    def queue(self, priority: int) -> int:
        """Return the queue of a priority, as the tables of the user map it."""
        return self.bench.given.ports[self.bench.ports[0]].settings.priorities.dot1p_to_local[priority]

    def queued(self, net: Network, rank: int, priority: int) -> int:
        """Return the frames that were put into the queue of a priority at a rank's port."""
        return int(net.fabric.sent(self.port(net, rank)).sent_frames[self.queue(priority)])

    def control_frames(
        self, net: Network, receivers: Sequence[int], priority: int, others: Sequence[int] | None = None
    ) -> tuple[int, int]:
        """Return the acknowledgements, or CNPs, of these ranks: those on their queue at the ports of the `others` (all
        other ranks by default), and those that the NICs sent.
        """
        if others is None:
            others = [rank for rank in range(len(net.hosts)) if rank not in receivers]
        sent = (net.fabric.sent(f"h{rank + 1}-eth0").sent_frames[priority] for rank in receivers)
        return sum(self.queued(net, rank, priority) for rank in others), int(sum(sent))

    def pauses(self, net: Network, rank: int) -> tuple[list[int], list[int]]:
        """Return the PFC frames by priority at a rank's port: those that the switch sent, and those the rank received.

        XOFF, its repetitions and XON are PFC frames.
        """
        port, nic = self.port(net, rank), f"h{rank + 1}-eth0"
        at_switch, at_rank = (
            [net.fabric.pfc(name, priority) for priority in range(8)] for name in (port, nic)
        )  # fmt: skip
        return (
            [one["xoff_sent"] + one["xoff_refreshed"] + one["xon_sent"] for one in at_switch],
            [one["xoff_received"] + one["xon_received"] for one in at_rank],
        )

    def dropped(self, net: Network, priorities: Sequence[int]) -> int:
        """Return the frames of these priorities that all switches dropped."""
        switches = {switch.name for switch in net.switches}
        ports = [port.name for port in net.fabric.ports.values() if port.node.name in switches]
        return sum(sum(net.fabric.group(port, priority).dropped_frames) for port in ports for priority in priorities)

    @staticmethod
    def xoffs(net: Network, priorities: Sequence[int] = range(8)) -> int:
        """Return the PFC frames with XOFF that all switches sent."""
        switches = {switch.name for switch in net.switches}
        ports = [port.name for port in net.fabric.ports.values() if port.node.name in switches]
        return sum(net.fabric.pfc(port, priority)["xoff_sent"] for port in ports for priority in set(priorities))

    def complete(self, net: Network, flows: Sequence[Flow], running: Flows, step: str = "") -> None:
        """Claim that all messages came to their end, that none had to be sent again, and that nothing was dropped."""
        name = f"{step}: " if step else ""
        self.bench.claim(name + INCOMPLETE, missing(flows, running), equals=0)
        self.bench.claim(name + AGAIN, sum(report.retransmitted for report in reports(running)), equals=0)
        self.bench.claim(name + DROPPED, net.fabric.dropped(), equals=0)


def dcqcn(bench: Bench) -> Callable[[Line], Dcqcn]:
    """Return DCQCN with times and steps that follow the speed of the line, as the times of cases do.

    Those of the paper are for 40 Gb/s: steps of 40 Mb/s would bring no rate near to its share of 800 Gb/s.
    """
    faster, paper = bench.switch.scale.k, DCQCN_PAPER
    parameters = replace(
        paper,
        alpha_interval=bench.paced(paper.alpha_interval),
        increase_interval=bench.paced(paper.increase_interval),
        additive_increase=paper.additive_increase * faster // 1000,
        hyper_increase=paper.hyper_increase * faster // 1000,
    )
    return lambda line: Dcqcn(line, parameters)


def reports(running: Flows) -> list[RoceReport]:
    return running.reports_of(RoceReport)


def missing(flows: Sequence[Flow], running: Flows) -> int:
    """Return how many messages of flows with a size did not come to their end, octet by octet."""
    left = 0
    for flow, report in zip(flows, running.reports, strict=True):
        if isinstance(report, RoceReport) and isinstance(flow.transport, Roce) and flow.size is not None:
            wanted = -(-flow.size.bytes // flow.transport.message.bytes)
            left += wanted - report.messages if report.intact else max(1, wanted - report.messages)
    return left


def one_class(tables: Tables) -> Tables:
    """Return the tables with every DSCP in traffic class 0."""
    maps = {
        (kind, name): dict.fromkeys(rows, 0) if kind in (MapKind.DSCP_TO_TC, MapKind.DOT1P_TO_TC) else rows
        for (kind, name), rows in tables.maps.items()
    }
    return replace(tables, maps=maps)


def _port(number: int) -> str:
    return f"Ethernet{8 * number}"


def _copies(
    tables: Tables, port: str, hostname: str, many: int, neighbours: Mapping[str, NeighbourRow] | None = None
) -> Tables:
    """Return a switch whose ports are as many copies of one port, with profiles and maps as they are.

    If it has more ports than the tables have, its pools are as much larger. Static thresholds that fit the ports of
    the tables would else be more than the pool, and lossy frames would find no room beside lossless ones.
    """
    names = [_port(number) for number in range(many)]
    larger = max(Fraction(1), Fraction(many, len(tables.ports)))

    def rows(table: Mapping[str, Any]) -> dict[str, Any]:
        return dict.fromkeys(names, table[port]) if port in table else {}

    def places(table: Mapping[tuple[str, int], Any]) -> dict[tuple[str, int], Any]:
        own = {number: row for (name, number), row in table.items() if name == port}
        return {(name, number): row for name in names for number, row in own.items()}

    return replace(
        tables,
        hostname=hostname,
        pools={
            name: replace(pool, size=_times(pool.size, larger), xoff=_times(pool.xoff, larger))
            for name, pool in tables.pools.items()
        },
        ports=rows(tables.ports),
        cables=rows(tables.cables),
        neighbours=dict(neighbours or {}),
        groups=places(tables.groups),
        queue_profiles=places(tables.queue_profiles),
        qos=dict.fromkeys(names, tables.qos_of(port)),
        queues=places(tables.queues),
        watchdogs=rows(tables.watchdogs),
        channels={},
    )


def _times(octets: int | None, factor: Fraction) -> int | None:
    return None if octets is None else int(octets * factor)
