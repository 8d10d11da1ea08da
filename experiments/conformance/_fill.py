"""Frames sent one at a time into a buffer whose way out is held, beside the reference that counts the same frames.

Not an experiment. The receiver h2 holds the switch's queue with PFC frames, again and again. Senders have no PFC: a
test set that ignores PAUSE, as the plans want it for headroom. What a group holds is read from the port program after
each frame; what it should hold is `testbed.switch.buffer.model`, with the switch's own settings.
"""

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from experiments.conformance._case import FRAME, Bench
from testbed.linux.port_program import GroupCounters
from testbed.linux.process import kernel
from testbed.switch.buffer.model import BufferModel
from xoff import Duration, Network, PfcFrame, RawPort, SonicTopo

_PORT = 9999
_HEADERS = 42
_SO_PRIORITY = 12
_SPARE_LAB_NS = 100_000
"""The lab's time for the work of kernels, beside that of a frame on its way."""
_HOLD, _LOOK = Duration("100us"), Duration("10us")
"""The interval of XOFF, which lasts 335 us at 100 Gb/s with 65535 quanta, and that of looks at an emptying buffer."""


@dataclass
class Filled:
    """One priority of one sender: its group in the switch, and what became of its frames."""

    sender: str
    priority: int
    port: str
    number: int
    """The number of the port, at the switch."""
    group: int
    sent: int = 0
    xoff_frame: int | None = None
    """The number of the frame with which the group became congested, from 1 on, or None if it did not."""
    dropped_frame: int | None = None
    """The number of the first frame that found no room, or None."""


@dataclass
class Reference:
    """The model's buffer, which counts the same frames."""

    xoff_frame: int | None = None
    dropped_frame: int | None = None
    headroom_cells: int = 0
    inside: int = field(default=0)
    """The frames that the model holds."""


class Fill:
    """Senders that fill a buffer frame by frame, and a receiver that holds the way out: `with fill(bench, ["h1"])`."""

    def __init__(self, bench: Bench, net: Network, senders: list[str], holds: bool, stack: ExitStack) -> None:
        self._bench, self._net = bench, net
        self.fabric = fabric = net.fabric
        self._wire = stack.enter_context(RawPort(net["h2"], "h2-eth0"))
        self._mac = fabric.port("h2-eth0").mac
        self._holds, self._held_ns, self._hold_ns = holds, 0, bench.lab_ns(bench.paced(_HOLD))
        self.node = fabric.port(bench.port(net, "h2")).node.name
        self.settings = fabric.buffers[self.node]
        self.model = BufferModel(self.settings)
        self.out = bench.port(net, "h2")
        maps = bench.switch.ports[bench.ports[0]].settings.priorities
        self._queues = {priority: maps.dot1p_to_local[priority] for priority in range(8)}
        self.groups: list[Filled] = []
        self.references: list[Reference] = []
        self._sockets: list[socket.socket] = []
        target = net["h2"]
        with kernel.in_network_of(target.pid):
            receiver = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        receiver.bind(("", _PORT))  # else the host would answer that there is none
        for sender in senders:
            name = bench.port(net, sender)
            for priority in bench.lossless:
                with kernel.in_network_of(net[sender].pid):
                    udp = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
                dscp = bench.given.dscp(priority)
                udp.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, max(0, dscp) << 2 | 2)  # ECT(0): ECN marks, not drops
                udp.setsockopt(socket.SOL_SOCKET, _SO_PRIORITY, priority)
                udp.connect((target.IP(), _PORT))
                self._sockets.append(udp)
                group = maps.dot1p_to_group[priority]
                self.groups.append(Filled(sender, priority, name, fabric.port(name).number, group))
                self.references.append(Reference())

    def _wait(self, port: str) -> None:
        """Wait for as long as a frame takes from the host at a port to the switch, and go on holding."""
        path = self._bench.frame_time() + self.fabric.port(port).cable.delay
        path_ns = self._bench.lab_ns(path) + _SPARE_LAB_NS
        for _ in range(path_ns // self._hold_ns):
            time.sleep(self._hold_ns / 1e9)
            self._pause()
        time.sleep(path_ns % self._hold_ns / 1e9)

    def queue_of(self, priority: int) -> int:
        return self._queues[priority]

    def counters(self, place: int) -> GroupCounters:
        """Return the counters of a group, as they are now."""
        one = self.groups[place]
        found: GroupCounters = self.fabric.group(one.port, one.group)
        return found

    def send(self, place: int = 0) -> None:
        """Send one frame of a group, and wait until the switch has it."""
        self.hold()
        one, reference = self.groups[place], self.references[place]
        self._sockets[place].send(bytes(FRAME.bytes - _HEADERS))
        one.sent += 1
        self._wait(one.port)
        found = self.counters(place)
        if found.xoff and one.xoff_frame is None:
            one.xoff_frame = one.sent
        if sum(found.dropped_frames) and one.dropped_frame is None:
            one.dropped_frame = one.sent
        queue = self.fabric.port(self.out).number, self._queues[one.priority]
        admitted = self.model.admit(one.number, one.group, FRAME.bytes, queue)
        if self.model.is_xoff(one.number, one.group) and reference.xoff_frame is None:
            reference.xoff_frame = one.sent
        if admitted.dropped is None:
            reference.inside += 1
        elif reference.dropped_frame is None:
            reference.dropped_frame = one.sent
        reference.headroom_cells = max(reference.headroom_cells, self.model.used(one.number, one.group).headroom)

    def hold(self) -> None:
        """Stop the switch's queues to h2, or keep them stopped."""
        if self._pause():
            self._wait(self.out)

    def _pause(self) -> bool:
        """Send XOFF if it is time again."""
        now_ns = time.monotonic_ns()
        due = self._holds and now_ns - self._held_ns >= self._hold_ns
        if due:
            self._held_ns = now_ns
            self._wire.send(PfcFrame.xoff(self._mac, self._bench.lossless).encode())
        return due

    def drain(self) -> None:
        """Resume the queues, and wait until they are empty."""
        self._held_ns = 0
        self._wire.send(PfcFrame.xon(self._mac, self._bench.lossless).encode())
        while any(self.counters(place).used != (0, 0, 0) for place in range(len(self.groups))):
            self._net.sleep(self._bench.paced(_LOOK))

    def model_drains_to_xon(self, place: int = 0) -> int | None:
        """Release the model's frames of a group, first in, first out; return its shared cells when it sends XON."""
        one, reference = self.groups[place], self.references[place]
        queue = self.fabric.port(self.out).number, self._queues[one.priority]
        level = None
        for _ in range(reference.inside):
            released = self.model.release(one.number, one.group, FRAME.bytes, queue)
            if released.signal is not None and level is None:
                level = self.model.used(one.number, one.group).shared
        reference.inside = 0
        return level


@contextmanager
def fill(bench: Bench, senders: list[str], hosts: int = 2, holds: bool = True) -> Iterator[Fill]:
    """Start a network of the switch whose `senders` have no PFC; without `holds` frames go through."""

    class Deaf(SonicTopo):
        """Senders that ignore PAUSE."""

        def addHost(self, name: str, **options: Any) -> str:
            if name in senders:
                options["port"] = options["port"].without_pfc()
            added: str = super().addHost(name, **options)
            return added

    topo = Deaf(bench.switch, hosts=hosts, mismatch="ignore")
    with bench.network(topo=topo) as net, ExitStack() as stack, bench.run.measuring():
        yield Fill(bench, net, senders, holds, stack)
