"""The lossless parts of a network as one of several kernels has them, with what the script reads of the others."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from testbed.agent.agents import Agents
from testbed.agent.event_log import Record
from testbed.experiment.run import Run
from testbed.linux import parts_device
from testbed.linux.netlink.rdma import SOFT_ROCE
from testbed.linux.port_program import PortProgram
from testbed.linux.process.forked_helper import ForkedHelper
from testbed.linux.vswitch import Vswitch
from testbed.net.fabric.cabling import Cabling
from testbed.net.fabric.core import FabricCore
from testbed.net.fabric.deadlocks import Look
from testbed.net.fabric.ports import NodeSockets, PortState, is_leaf, rdma_of
from testbed.net.partition import gathered
from testbed.net.partition.cables import CablingOfPart, SocketsOfPart
from testbed.net.partition.cut import PartitionError
from testbed.net.partition.deadlock_notes import DeadlockNotes
from testbed.net.partition.divided import Divided
from testbed.net.partition.gathered import AgentsOfAll, VswitchOfAll
from testbed.net.partition.management import doors
from testbed.net.partition.stand_in import share_commands, stand_in
from testbed.units import Duration

PARTITION_LOG = "partition.jsonl"
"""The name of the file in a result folder: a line for each network with its parts, and what crossed the cables."""


def core_of(topo: Any) -> FabricCore:
    """Return the core of a network that is to be built, once all kernels that have it together have come here."""
    if parts_device.is_there():
        require_possible(topo)
        FabricCore.begin(PartOfCore(Divided(topo)))
    return FabricCore.current()


def require_possible(topo: Any) -> None:
    """Refuse a network that cannot have parts."""
    kind = type(topo).__name__
    refused = {
        "it has no lossless parts, and Mininet's own links have no ends in two kernels": not hasattr(topo, "next_hop"),
        "its controller is no SrController, so one part has it": not set(_controllers(topo)) <= set(doors),
    }
    for reason, is_so in refused.items():
        if is_so:
            raise PartitionError(f"{kind} cannot be divided: {reason}; run it without --partitions")


def _controllers(topo: Any) -> Iterator[str]:
    """Yield the sockets of the controllers of leaves and routers."""
    for node in topo.nodes():
        info = topo.nodeInfo(node)
        if (of_leaf := info.get("controller")) is not None:
            yield of_leaf.removeprefix("unix:")
        if (of_router := getattr(getattr(info.get("wan"), "plan", None), "control", None)) is not None:
            yield of_router.path


class PartOfCore(FabricCore):
    """The core of a divided network in one kernel."""

    parts: Divided

    def __init__(self, parts: Divided) -> None:
        self.parts = parts
        super().__init__()
        self._notes: DeadlockNotes | None = None
        self._gathers = False
        """True once the script has used the network to its end, so that all parts go on together."""

    def class_of(self, name: str, kind: Any) -> Any:
        return kind if self.parts.has(name) else stand_in(kind)

    def here(self) -> dict[str, list[PortState]]:
        return {name: ports for name, ports in super().here().items() if self.parts.has(name)}

    @contextmanager
    def together(self, run: Run | None) -> Iterator[None]:
        began_ns = 0 if run is None else run.start_ns
        self.parts.started = self.parts.exchange("the network has started", (time.monotonic_ns(), began_ns))
        self.run_began_ns = self.parts.started[0][1]
        for node in self.ports.known_nodes.values():
            share_commands(node, self.parts)
        yield
        self._note_crossed(run)
        self._gathers = True
        self.stop()

    def _note_crossed(self, run: Run | None) -> None:
        """Write into the run's folder how the network was divided, and what crossed; it belongs to the run's digest."""
        cables = gathered.crossed(self.parts)
        if run is not None:
            line = {**self.parts.cut.as_json(), "cables": cables}
            with (run.directory / PARTITION_LOG).open("a", encoding="utf-8") as log:
                log.write(json.dumps(line) + "\n")

    def leave(self) -> None:
        self.parts.leave()

    def stop(self) -> None:
        super().stop()
        if self._notes:
            self._notes.close()
            self._notes = None

    def _sockets(self) -> NodeSockets:
        return SocketsOfPart(self.parts)

    def _cabling(self) -> Cabling:
        return CablingOfPart(self.ports, self.sockets, self.parts)

    def _watching(self, look: Look, agents: Agents, poll: Duration) -> ForkedHelper[Any]:
        self._notes = DeadlockNotes()
        return self._notes.watching(look, poll)

    def _keep_logs(self, agents: Agents, others: list[Record]) -> None:
        super()._keep_logs(agents, others)
        if not self._gathers:
            return
        records = gathered.event_log(self.parts, self.log.kept_records, self._notes)
        logs = self.parts.exchange("lines of speakers and lateness", (self.log.kept_lines, self.log.lateness_ns))
        self.log.keep(records, gathered.merged_lines(lines for lines, _ in logs), max(late for _, late in logs))

    def running_agents(self) -> Agents:
        own = super().running_agents()
        return AgentsOfAll(own, self.parts, self._notes) if self.parts.is_asked else own

    def running_program(self) -> PortProgram:
        """Return a program that has the counters of all parts at this moment, the same in each."""
        program = super().running_program()
        if not self.parts.is_asked:
            return program
        slots = {port.slot: port.node.name for port in self.ports}
        buffers = {name: self.numbers[name] for name in self.buffers}
        return gathered.bring_counters(self.parts, program, slots, buffers)

    def vswitch(self, leaf: str) -> Vswitch:
        if self.program is not None and is_leaf(self.ports.known_nodes.get(leaf)):
            return VswitchOfAll(leaf, self.vswitches.get(leaf), self.parts)
        return super().vswitch(leaf)

    def waiting_or_dropped(self) -> Counter[str] | None:
        of_parts = self.parts.exchange("losses", super().waiting_or_dropped())
        known = [one for one in of_parts if one is not None]
        found = Counter[str]()
        for one in known:
            found.update(one)
        return found if len(known) == len(of_parts) else None

    def soft_roce(self) -> dict[str, dict[str, int]]:
        if not any(rdma_of(port.node) == SOFT_ROCE for port in self.ports):
            return {}
        of_parts = self.parts.exchange("counters of Soft-RoCE", super().soft_roce())
        return {name: found for part in of_parts for name, found in part.items()}
