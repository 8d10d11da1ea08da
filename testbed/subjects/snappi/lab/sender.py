"""The process that sends the flows of one test port, each frame at its time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection

from testbed.linux.process import kernel
from testbed.linux.sockets import packet_filter
from testbed.linux.sockets.raw_socket import RawSocket
from testbed.subjects.snappi.config import FlowPlan, TestPort
from testbed.subjects.snappi.counting import STATE, Tallies
from testbed.subjects.snappi.devices import Neighbours
from testbed.subjects.snappi.headers import MAC_CONTROL
from testbed.subjects.snappi.lab.place import Place
from testbed.subjects.snappi.transmit import Start, State, Stream, Transmitter

_BATCH = 32
_MS = 1_000_000
_LONG_NS = 2 * _MS
"""The shortest wait in which the sender also waits for commands and pauses, in whole milliseconds. In a shorter one,
and at the end of each, it waits for the clock alone.
"""
_NS = 1000
STATES = (State.STOPPED, State.STARTED, State.PAUSED)
"""The states by number, as in a tally."""


@dataclass(frozen=True)
class Command:
    """A command for flows of the port, at a moment of the monotonic clock."""

    do: str
    """The command: `start`, `stop`, `pause`, `resume` or `plan`."""
    flows: frozenset[str] = frozenset()
    at_ns: int = 0
    neighbours: Neighbours | None = None
    plans: tuple[FlowPlan, ...] = ()
    """The plans that replace flows of the same names, in a command `plan`."""


class Sender:
    """The sender of one port's flows, in a process of its own in the host's network namespace."""

    def __init__(
        self,
        port: TestPort,
        place: Place,
        flows: Sequence[FlowPlan],
        tallies: Tallies,
        pipe: Connection,
        *,
        in_queues: bool = False,
    ) -> None:
        """With `in_queues` frames go through the queues of the host's port, which a link layer stops."""
        control = port.flow_control
        self._tallies, self._pipe = tallies, pipe
        self._transmitter = Transmitter(flows, place.line, control)
        self._streams = {stream.plan.name: stream for stream in self._transmitter.streams}
        self._obeys = control is not None
        self._taken = tallies.commands
        """The number of commands when the last one was taken."""
        self._socket = RawSocket(place.interface, packet_filter.of_type(MAC_CONTROL) if self._obeys else None)
        used = {flow.queue for flow in flows if flow.queue is not None} if in_queues else set()
        self._queues = {queue: RawSocket(place.interface, queue=queue) for queue in used}
        self._held: dict[int, int] = {}
        """The queue of each socket, by its descriptor, in which as many frames wait as may."""
        self._port_tally = tallies.sent[f"port {port.name}"]

    def run(self) -> None:
        """Run until the pipe is closed."""
        self._pipe.send("ready")
        while True:
            start = self._transmitter.next()
            wait_ns = None if start is None else -(-start.at_ps // _NS) - time.monotonic_ns()
            if wait_ns is None or wait_ns > _LONG_NS:
                if not self._attend(None if wait_ns is None else (wait_ns // _MS - 1) / 1e3):
                    return
                continue
            if start is not None and wait_ns > 0:
                kernel.sleep_until(-(-start.at_ps // _NS))
            if (self._obeys or self._held or self._taken != self._tallies.commands) and not self._attend(0):
                return
            if self._queues:
                self._send_into_queues()
            else:
                self._send()

    def _attend(self, timeout_s: float | None) -> bool:
        """Take commands and pauses that have come, or come within a time. Return False at the end."""
        files: list[Connection | RawSocket] = [self._pipe, *([self._socket] if self._obeys else [])]
        for ready in kernel.wait_readable(files, timeout_s, tuple(self._held)):
            if ready in self._held:
                self._transmitter.release(self._held.pop(ready), time.monotonic_ns() * _NS)
            elif ready == self._pipe.fileno():
                try:
                    command = self._pipe.recv()
                except EOFError:
                    return False
                self._taken = self._tallies.commands
                self._perform(command)
                self._pipe.send("done")
            else:
                while (received := self._socket.receive()) is not None:
                    frame, came_ns = received
                    self._transmitter.receive(frame, came_ns * _NS)
        return True

    def _perform(self, command: Command) -> None:
        if command.do == "plan":
            for plan in command.plans:
                if plan.name in self._streams:
                    self._streams[plan.name].change(plan)
            return
        now_ps = command.at_ns * _NS
        for name in command.flows & self._streams.keys():
            stream = self._streams[name]
            if command.do == "start" and stream.state is State.STOPPED:
                self._resolve(stream, command.neighbours)
                stream.start(now_ps)
            elif command.do in ("resume", "start") and stream.state is State.PAUSED:
                stream.resume(now_ps)
            elif command.do == "pause" and stream.state is State.STARTED:
                stream.pause(now_ps)
            elif command.do == "stop":
                stream.stop()
            self._show(stream)

    @staticmethod
    def _resolve(stream: Stream, neighbours: Neighbours | None) -> None:
        plan = stream.plan
        if plan.ends is not None and neighbours is not None:
            ends = plan.ends.resolved(neighbours)
            stream.plan = replace(plan, packet=replace(plan.packet, ends=ends), ends=ends)

    def _send(self) -> None:
        """Send all frames that start by now, in one call."""
        now_ns = time.monotonic_ns()
        taken: list[tuple[Stream, int, int]] = []
        frames: list[bytes] = []
        while len(taken) < _BATCH:
            start = self._transmitter.next()
            if start is None or start.at_ps > now_ns * _NS:
                break
            taken.append(self._take(start, frames))
        if not taken:
            return
        went = self._socket.send(frames)
        for stream, size, at_ns in taken:
            if went:
                self._tallies.sent[f"flow {stream.plan.name}"].count(at_ns, size)
                self._port_tally.count(at_ns, size)
            if stream.state is State.STOPPED:
                self._show(stream)

    def _send_into_queues(self) -> None:
        """Send the frame that starts by now, or hold its queue if too many frames wait in it."""
        start = self._transmitter.next()
        if start is None or start.at_ps > time.monotonic_ns() * _NS:
            return
        queue = start.stream.plan.queue
        chosen = self._socket if queue is None else self._queues[queue]
        if queue is not None and not kernel.wait_readable((), 0, [chosen]):
            self._transmitter.hold(queue, start.at_ps)
            self._held[chosen.fileno()] = queue
            return
        frames: list[bytes] = []
        stream, size, at_ns = self._take(start, frames)
        if chosen.send(frames):
            self._tallies.sent[f"flow {stream.plan.name}"].count(at_ns, size)
            self._port_tally.count(at_ns, size)
        if stream.state is State.STOPPED:
            self._show(stream)

    def _take(self, start: Start, frames: list[bytes]) -> tuple[Stream, int, int]:
        at_ns = -(-start.at_ps // _NS)
        packet = start.stream.plan.packet
        stream, number, size = self._transmitter.sent(start)
        frames.append(packet.frame(number, size, at_ns))
        return stream, size, at_ns

    def _show(self, stream: Stream) -> None:
        self._tallies.sent[f"flow {stream.plan.name}"].words[STATE] = STATES.index(stream.state)
