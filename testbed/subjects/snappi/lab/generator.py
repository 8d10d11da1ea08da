"""The traffic generator of a network: processes that send and receive at its test ports, and their counters."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from multiprocessing.connection import Connection, Pipe
from typing import Any

from testbed.errors import XoffError
from testbed.linux.process import kernel
from testbed.linux.process.forked_helper import Ending, ForkedHelper
from testbed.linux.sockets.packet_tap import Tapped
from testbed.net.fabric.fabric import Fabric
from testbed.subjects.snappi.config import FlowPlan, TestPlan
from testbed.subjects.snappi.counting import STATE, Tallies, Tally
from testbed.subjects.snappi.devices import Neighbours
from testbed.subjects.snappi.lab.place import Place, silence
from testbed.subjects.snappi.lab.receiver import Receiver
from testbed.subjects.snappi.lab.roce import RoceTraffic
from testbed.subjects.snappi.lab.sender import STATES, Command, Sender
from testbed.subjects.snappi.reading import OtgError
from testbed.subjects.snappi.roce_counting import FlowCounts
from testbed.subjects.snappi.rocev2 import RoceFlow
from testbed.subjects.snappi.transmit import State

LEAD_NS = 1_000_000
"""The time from a start to the first frame. All ports have the command by then."""


class GeneratorError(XoffError):
    """The error of a process of the generator that failed."""


class _Process:
    """A process of the generator."""

    def __init__(self, pid: int | None, make: Callable[[Connection], Any]) -> None:
        self._helper = ForkedHelper(
            "the traffic generator", partial(self._body, pid, make), Pipe(), Ending.IS_KILLED, error=GeneratorError,
            killed="a process of the traffic generator was ended, with what it had counted",
        )  # fmt: skip
        self.answer, self.end, self.send = self._helper.receive, self._helper.stop, self._helper.send
        self.answer()

    @staticmethod
    def _body(pid: int | None, make: Callable[[Connection], Any], pipe: Connection) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if pid is not None:
            kernel.enter_network_of(pid)
        make(pipe).run()

    def ask(self, do: str, *arguments: Any) -> Any:
        """Have the receiver do something, and return its answer."""
        self.send((do, arguments))
        return self.answer()


class Generator:
    """Sends and receives by a plan, until it is closed."""

    def __init__(self, fabric: Fabric, plan: TestPlan, places: Mapping[str, Place]) -> None:
        self.plan, self.places, self._fabric = plan, places, fabric
        names = [f"flow {flow.name}" for flow in plan.flows]
        ports = [f"{word} {name}" for name in plan.ports for word in ("port", "resolver", "roce")]
        self.tallies = Tallies([*names, *ports])
        self.capturing: set[str] = set()
        self.down: set[str] = set()
        self.changed_ns: dict[str, int] = {}
        self._senders: dict[str, _Process] = {}
        for place in places.values():
            silence(fabric, place)
        self._protocols_are_on = True
        self.roce = RoceTraffic(fabric, plan, places)
        self._receiver = _Process(None, lambda pipe: Receiver(plan, places, self.tallies, pipe))
        for name, port in plan.ports.items():
            flows = [flow for flow in plan.flows if flow.tx_port == name]
            if flows:
                make = partial(Sender, port, places[name], flows, self.tallies, in_queues=name in plan.link_layers)
                self._senders[name] = _Process(places[name].pid, make)

    def close(self) -> None:
        self.roce.close()
        for process in (*self._senders.values(), self._receiver):
            process.end()
        for name in list(self.down):
            self.set_link([name], True)

    def transmit(self, do: str, names: Iterable[str] = ()) -> None:
        """Start, stop, pause or resume flows: the named ones, or all."""
        chosen = frozenset(names) or frozenset(self.plan.flow_names)
        neighbours: Neighbours | None = None
        if do == "start":
            neighbours = self.neighbours()
            self._require_resolved(chosen, neighbours)
            if not self.is_sending:
                self.tallies.clear()
        self._transmit_roce(do, [flow for flow in self.plan.roce.flows if flow.name in chosen], neighbours)
        at_ns = time.monotonic_ns() + (LEAD_NS if do in ("start", "resume") else 0)
        self._command(Command(do, chosen, at_ns, neighbours))

    def _transmit_roce(self, do: str, chosen: Sequence[RoceFlow], neighbours: Neighbours | None) -> None:
        if not chosen:
            return
        names = {flow.name for flow in chosen}
        if do in ("pause", "resume"):
            raise OtgError([f"traffic.flow_transmit.state: Xoff does not support {do} of RoCEv2 flows; name others"])
        if do == "start" and not names <= self.roce.running:
            if not self._protocols_are_on:
                raise OtgError(["traffic.flow_transmit: protocols are stopped, so queue pairs cannot be connected"])
            self._receiver.ask("roce_begin", [flow.number for flow in chosen])
            self.roce.start(chosen, neighbours or {})
        elif do == "stop" and names & self.roce.running:
            if self.roce.running - names:
                raise OtgError(["traffic.flow_transmit.flow_names: RoCEv2 flows that started together stop together"])
            self.roce.stop()

    def roce_counts(self) -> tuple[dict[int, FlowCounts], dict[str, Counter[str]], set[int]]:
        """Return the counters of RoCEv2 by the number of the flow and by peer, and the connected flows' numbers."""
        found: tuple[dict[int, FlowCounts], dict[str, Counter[str]], set[int]] = self._receiver.ask("roce")
        return found

    def _command(self, command: Command) -> None:
        """Give all senders a command, and wait until it is done."""
        self.tallies.count_command()
        for process in self._senders.values():
            process.send(command)
        for process in self._senders.values():
            process.answer()

    def _require_resolved(self, chosen: frozenset[str], neighbours: Neighbours) -> None:
        missing = []
        for number, flow in enumerate(self.plan.flows):
            if flow.name in chosen and flow.ends is not None:
                version = flow.packet.version
                waiting = ", ".join(dict.fromkeys(flow.ends.resolved(neighbours).unresolved(version)))
                if waiting:
                    missing.append(f"flows[{number}].tx_rx.device: {waiting} is not resolved")
        if missing:
            raise OtgError(missing)

    def change(self, plan: TestPlan, flows: Sequence[FlowPlan]) -> None:
        """Change rates or sizes of flows, which may run."""
        self.plan = plan
        self._command(Command("plan", plans=tuple(flows)))

    @property
    def is_sending(self) -> bool:
        """True while a flow is sent."""
        return bool(self.roce.running) or any(self.state(flow.name) is not State.STOPPED for flow in self.plan.flows)

    def state(self, flow: str) -> State:
        return STATES[self.flow_tallies(flow)[0].words[STATE]]

    def flow_tallies(self, name: str) -> tuple[Tally, Tally]:
        """Return the tallies of a flow: sent and received."""
        return self.tallies.sent[f"flow {name}"], self.tallies.received[f"flow {name}"]

    def count(self) -> None:
        """Bring the counters of received frames up to this moment."""
        self._receiver.ask("count")

    def sent_by_port(self, name: str) -> tuple[Tally, Tally, Tally]:
        """Return the tallies of a port: of its flows, of its devices for address resolution, and of RoCEv2."""
        port, resolver, roce = (self.tallies.sent[f"{word} {name}"] for word in ("port", "resolver", "roce"))
        return port, resolver, roce

    def capture(self, names: Sequence[str], is_on: bool) -> None:
        self._receiver.ask("capture", names, is_on)
        self.capturing = self.capturing | set(names) if is_on else self.capturing - set(names)

    def captured(self, name: str) -> list[Tapped]:
        """End the capture of a port, and return its frames."""
        frames, _ = self._receiver.ask("captured", name)
        self.capture([name], False)
        found: list[Tapped] = frames
        return found

    def neighbours(self) -> Neighbours:
        found: Neighbours = self._receiver.ask("neighbours")
        return found

    def protocols(self, is_on: bool) -> None:
        """Start or stop address resolution, and the connections of queue pairs."""
        self._receiver.ask("protocols", is_on)
        self._protocols_are_on = is_on
        if is_on:
            if not self.roce.running:
                self._receiver.ask("roce_begin", [flow.number for flow in self.plan.roce.connections])
                self.roce.connect(self.neighbours())
        else:
            self.roce.stop()
            self._receiver.ask("roce_disconnect")

    def set_link(self, names: Sequence[str], is_up: bool) -> None:
        for name in names:
            if (name in self.down) == is_up:
                self._fabric.cabling.set_up(self.places[name].port.intf, is_up)
                (self.down.discard if is_up else self.down.add)(name)
                self.changed_ns[name] = time.time_ns()
