"""A training job of several ranks: which transfers its traces ask for, when, and what of the time is communication.

A job is played in waves. A wave is all communication whose dependencies have ended; each of its transfers begins when
its rank is ready, so a rank that computes longer holds up those that need its data. When the network has carried the
wave, the player knows when each rank has what it waited for, and computes on. Computing of a rank is one thing at a
time. Communication of different waves does not meet in the network, though parts of it might on hardware.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from testbed.units import Duration, Size
from testbed.workload import transfers
from testbed.workload.chakra import Collective, Kind, TraceNode
from testbed.workload.transfers import Transfer, WorkloadError

_COMPUTING = (Kind.COMP, Kind.MEM_LOAD, Kind.MEM_STORE)
_US = 10**6
MOST_NODES = 20_000
LARGEST = 64 << 20
"""The most octets of one operation at one rank."""
_At = tuple[int, int]
"""A rank, and the number of a node of it."""


@dataclass(frozen=True)
class Operation:
    """A collective or a message: the nodes of all ranks that take part, by rank."""

    name: str
    nodes: Mapping[int, TraceNode]


@dataclass(frozen=True)
class Wave:
    """Communication that the network is to carry at once."""

    operations: tuple[Operation, ...]
    transfers: tuple[Transfer, ...]
    """Their starts are counted from the wave's own begin."""
    begin: Duration
    """The begin of the wave in the time of the job."""
    owners: tuple[int, ...]
    """The operation of each transfer, by its place."""
    ranks: tuple[tuple[int, int], ...]
    """The ranks that send and receive each transfer."""


class TrainingJob:
    """Traces of all ranks, played wave by wave: `wave()` has what to send, and `ended` is told when it arrived."""

    def __init__(
        self,
        traces: Sequence[Sequence[TraceNode]],
        hosts: Sequence[str],
        *,
        shrink: int = 1,
        stragglers: Mapping[int, float] | None = None,
    ) -> None:
        """Check traces and return the job; `shrink` divides sizes and times, and stragglers compute longer by a
        factor."""
        if len(traces) < 2:
            raise WorkloadError(f"there are {len(traces)} ranks; a job has two at the least")
        if len(hosts) < len(traces):
            raise WorkloadError(
                f"the job has {len(traces)} ranks, and the topology {len(hosts)} hosts; take a larger one"
            )
        if (many := sum(map(len, traces))) > MOST_NODES:
            raise WorkloadError(
                f"the traces have {many} nodes; a job has {MOST_NODES} at most: cut them to an iteration"
            )
        for rank, trace in enumerate(traces):
            for node in trace:
                if node.octets // max(1, shrink) > LARGEST:
                    raise WorkloadError(
                        f"rank {rank}: node {node.id} {node.name[:40]} is of {Size.from_bytes(node.octets)}, which no "
                        f"lab can send; --shrink {-(-node.octets // LARGEST)} makes {LARGEST // 10**6} MB of it"
                    )
        self._hosts, self._shrink, self._factors = hosts, max(1, shrink), dict(stragglers or {})
        for rank in self._factors:
            if not 0 <= rank < len(traces):
                raise WorkloadError(f"straggler {rank}: ranks are 0 to {len(traces) - 1}")
        self._nodes = {(rank, node.id): node for rank, trace in enumerate(traces) for node in trace}
        self._waits = {at: {(at[0], other) for other in node.after} for at, node in self._nodes.items()}
        self._children: dict[_At, list[_At]] = {}
        for at, others in self._waits.items():
            for other in others:
                self._children.setdefault(other, []).append(at)
        self._operations = self._matched(traces)
        self._of = {(rank, node.id): one for one in self._operations for rank, node in one.nodes.items()}
        self._ready_ps = {at: 0 for at, others in self._waits.items() if not others}
        self._busy_ps = dict.fromkeys(range(len(traces)), 0)
        self._ended_ps: dict[_At, int] = {}
        self.computing = dict.fromkeys(range(len(traces)), Duration("0s"))
        """The time for which each rank computed."""

    @property
    def ranks(self) -> int:
        return len(self._busy_ps)

    @property
    def completion(self) -> Duration:
        """The time from the begin of the job to the end of the last node that has ended."""
        return Duration.from_ps(max(self._ended_ps.values(), default=0))

    def wave(self) -> Wave | None:
        """Compute until only communication is left to wait for, and return it; None at the end of the job."""
        self._compute()
        ready = [one for one in self._operations if self._is_ready(one)]
        if not ready:
            if len(self._ended_ps) < len(self._nodes):
                rank, number = min(at for at in self._nodes if at not in self._ended_ps)
                node = self._nodes[rank, number]
                raise WorkloadError(
                    f"rank {rank}: node {number} {node.name[:40]} never begins, since ranks wait for each other"
                )
            return None
        self._operations = [one for one in self._operations if one not in ready]
        begin_ps = min(self._ready_ps[rank, node.id] for one in ready for rank, node in one.nodes.items())
        transfers: list[Transfer] = []
        owners, ranks = [], []
        for number, one in enumerate(ready):
            of_operation = self._transfers(one)
            places, first = {self._hosts[rank]: rank for rank in one.nodes}, len(transfers)
            for transfer in of_operation:
                rank = places[transfer.source]
                start = Duration.from_ps(self._ready_ps[rank, one.nodes[rank].id] - begin_ps)
                after = tuple(first + place for place in transfer.after)  # counted from the operation's own first
                ranks.append((rank, places[transfer.target]))
                owners.append(number)
                transfers.append(replace(transfer, start=start, after=after))
        return Wave(tuple(ready), tuple(transfers), Duration.from_ps(begin_ps), tuple(owners), tuple(ranks))

    def ended(self, wave: Wave, arrivals: Sequence[Duration]) -> None:
        """Note when each transfer of a wave was complete, counted from the wave's begin."""
        for number, one in enumerate(wave.operations):
            latest = {rank: self._ready_ps[rank, node.id] for rank, node in one.nodes.items()}
            for place, owner in enumerate(wave.owners):
                if owner == number:
                    arrived_ps = wave.begin.ps + arrivals[place].ps
                    for rank in wave.ranks[place]:
                        latest[rank] = max(latest[rank], arrived_ps)
            for rank, node in one.nodes.items():
                self._end((rank, node.id), latest[rank])

    def _compute(self) -> None:
        """Run all nodes that are no communication and whose dependencies have ended."""
        while True:
            free = [at for at in self._ready_ps if at not in self._ended_ps and at not in self._of]
            if not free:
                return
            rank, number = min(free, key=lambda at: (self._ready_ps[at], at[1], at[0]))
            node = self._nodes[rank, number]
            ready_ps = self._ready_ps[rank, number]
            if node.kind not in _COMPUTING:
                self._end((rank, number), ready_ps)
                continue
            took_ps = round(node.micros * _US * self._factors.get(rank, 1.0) / self._shrink)
            begin_ps = max(ready_ps, self._busy_ps[rank])
            self._busy_ps[rank] = begin_ps + took_ps
            self.computing[rank] = self.computing[rank] + Duration.from_ps(took_ps)
            self._end((rank, number), begin_ps + took_ps)

    def _end(self, at: _At, time_ps: int) -> None:
        self._ended_ps[at] = time_ps
        for child in self._children.get(at, ()):
            if all(other in self._ended_ps for other in self._waits[child]):
                self._ready_ps[child] = max(self._ended_ps[other] for other in self._waits[child])

    def _is_ready(self, one: Operation) -> bool:
        return all((rank, node.id) in self._ready_ps for rank, node in one.nodes.items())

    def _transfers(self, one: Operation) -> list[Transfer]:
        ranks = sorted(one.nodes)
        node = one.nodes[ranks[0]]
        hosts = [self._hosts[rank] for rank in ranks]
        size = Size.from_bytes(max(1, node.octets // self._shrink))
        if node.kind in (Kind.SEND, Kind.RECV):
            return [Transfer(self._hosts[node.source], self._hosts[node.target], size)]
        match node.collective:
            case Collective.ALL_REDUCE:
                return transfers.ring_all_reduce(hosts, size)
            case Collective.ALL_GATHER | Collective.REDUCE_SCATTER | Collective.REDUCE_SCATTER_BLOCK:
                return transfers.ring_all_gather(hosts, size)
            case Collective.ALL_TO_ALL:
                return transfers.all_to_all(hosts, Size.from_bytes(max(1, size.bytes // len(hosts))))
            case Collective.BARRIER:
                return transfers.tree_all_reduce(hosts, Size("64B"))
            case Collective.BROADCAST:
                down = transfers.tree_all_reduce(hosts, size)[len(hosts) - 1 :]
                shift = len(hosts) - 1
                return [
                    replace(one, after=tuple(place - shift for place in one.after if place >= shift)) for one in down
                ]
            case other:
                raise WorkloadError(
                    f"node {node.id} {node.name[:40]} is {other.name}; collectives are ALL_REDUCE, ALL_GATHER, "
                    "REDUCE_SCATTER, ALL_TO_ALL, BROADCAST and BARRIER"
                )

    def _matched(self, traces: Sequence[Sequence[TraceNode]]) -> list[Operation]:
        """Return the collectives and messages: the n-th of a group is the n-th at each rank of the group."""
        found: dict[tuple[object, ...], dict[int, TraceNode]] = {}
        members: dict[str, set[int]] = {"": set(range(len(traces)))}
        counts: dict[tuple[object, ...], int] = {}
        for rank, trace in enumerate(traces):
            for plain in trace:
                node = plain
                if node.kind is Kind.COLLECTIVE:
                    key: tuple[object, ...] = ("collective", node.group)
                    if node.group:
                        members.setdefault(node.group, set()).add(rank)
                elif node.kind in (Kind.SEND, Kind.RECV):
                    node = self._message(plain, rank, len(traces))
                    key = ("message", node.source, node.target, node.tag)
                else:
                    continue
                number = counts[rank, *key] = counts.get((rank, *key), -1) + 1
                same = found.setdefault((*key, number), {})
                same[rank] = node
        operations = []
        for key, nodes in found.items():
            first = min(nodes)
            expected = members[str(key[1])] if key[0] == "collective" else {nodes[first].source, nodes[first].target}
            if missing := sorted(expected - set(nodes)):
                node = nodes[first]
                raise WorkloadError(
                    f"rank {first}: node {node.id} {node.name[:40]} has no counterpart at rank {missing[0]}"
                )
            for rank, node in nodes.items():
                if key[0] == "collective" and (node.collective, node.octets) != (
                    nodes[first].collective, nodes[first].octets,
                ):  # fmt: skip
                    raise WorkloadError(
                        f"rank {rank}: node {node.id} {node.name[:40]} is {node.collective.name} of {node.octets} "
                        f"octets, and at rank {first} it is {nodes[first].collective.name} of {nodes[first].octets}"
                    )
            operations.append(Operation(nodes[first].name, nodes))
        return operations

    @staticmethod
    def _message(node: TraceNode, rank: int, many: int) -> TraceNode:
        """Return a send or receive with both of its ranks; traces may leave out the one that is its own."""
        node = replace(node, source=rank) if node.kind is Kind.SEND else replace(node, target=rank)
        other = node.target if node.kind is Kind.SEND else node.source
        if not 0 <= other < many or other == rank:
            raise WorkloadError(f"rank {rank}: node {node.id} {node.name[:40]} is for rank {other}; there are {many}")
        return node
