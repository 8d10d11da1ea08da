"""Cables between ports: laid while the network is built; changed, pulled and plugged while it runs.

A cable with a delay or loss has a middle: two interfaces with netem, in a namespace that all cables share. Any other
cable is one veth pair. netem also delays frames by what the node that they come to waits for (`Forwarding`).
"""

from __future__ import annotations

import hashlib
import mmap
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

from testbed.errors import warn
from testbed.experiment.run import Run
from testbed.frames import Mac
from testbed.linux.interface_memory import Forgotten, remember
from testbed.linux.netlink import links, qdiscs
from testbed.linux.netlink.messages import Message, Socket
from testbed.linux.port_program import FIRST_INTERFACE, SLOTS, PortProgram
from testbed.linux.process import kernel
from testbed.net.fabric.cable import BOTH_WAYS, HEADER, NO_LLR, Cable, Forwarding, LlrMode, line_settings
from testbed.net.fabric.ports import FabricError, NodeSockets, PortState, PortTable, forwards
from testbed.units import Duration, Scale

if TYPE_CHECKING:
    from testbed.agent.event_log import Record
    from testbed.net.fabric.link.credits import CreditLines
    from testbed.switch.link.counters import LlrReport
    from testbed.switch.link.jam import Jam
    from testbed.switch.link.retry import Llr

_MIDDLES = 256 * FIRST_INTERFACE
"""The interface index of the middle's end at slot 0."""
_LOCAL_MACS = 0x02_58_00_00_00_00
CableEnd = tuple[Any, str, str | None]
"""An end of a cable that is to be laid: the node, the interface's name, and its MAC address if one was chosen."""
URGENCY = 45
"""The SCHED_FIFO priority of this process while it changes a running network. The kernel makes one change at a time,
and an agent that has to stop a queue waits for it, so a process less urgent than agents must not preempt a change."""


class Cabling:
    """The cables of a network."""

    def __init__(self, ports: PortTable, sockets: NodeSockets) -> None:
        self._ports, self._sockets = ports, sockets
        self.credits: CreditLines | None = None
        """The credits between ports, in a network that has some."""
        self.links: list[Any] = []
        """Mininet's objects of the cables."""
        self.socket: Socket | None = None
        """The netlink socket in the namespace of the cables' middles; None while no cable has a middle."""
        self.delays = memoryview(mmap.mmap(-1, SLOTS * 8)).cast("q")
        """The delay of each port's cable in ps: memory shared with agents, which are forked before a cable changes."""
        self._namespace: int | None = None
        self._middle_ends: list[int] = []
        self._has_lines = False
        """True if a cable has LLR or errors."""
        self._line_events: list[Record] = []
        self._jams: dict[int, tuple[Jam, ...]] = {}
        """The disturbances of what comes to the port in a slot."""
        self._retries: dict[int, tuple[Llr | None, LlrMode]] = {}
        """LLR of the end that sends to the port in a slot, where it is not its cable's: settings on the lab's scale,
        and the mode."""
        self._pulled: set[int] = set()
        """The lower slot of each cable that is pulled."""
        self._down: set[int] = set()
        """The slots of ports that were set down."""
        self._forgotten: dict[int, Forgotten] = {}
        """The addresses and routes that a port lost with its link and gets back, by slot."""
        self._is_running = False
        self._next_slot = 0
        self._forwarding: dict[int, Forwarding] = {}
        """By slot, of nodes that have the setting."""
        self._pending: dict[int, tuple[Mac, Cable]] = {}

    # While the network is being built

    def connect(self, one: CableEnd, other: CableEnd, cable: Cable) -> tuple[int, int]:
        """Lay a cable, on the lab's scale, between two ends; return its slots."""
        slots = self._reserve(one, other, cable)
        self._lay(slots, one, other, cable)
        return slots

    def _reserve(self, one: CableEnd, other: CableEnd, cable: Cable) -> tuple[int, int]:
        if self._is_running:
            raise FabricError(
                f"{one[1]} and {other[1]}: the network runs, and a cable laid now would not be lossless; "
                "add it to the topology"
            )
        slots = self._next_slot, self._next_slot + 1
        if slots[1] >= SLOTS:
            raise FabricError(f"a network has at most {SLOTS} lossless ports; this one needs more")
        if cable.errors or cable.llr:
            from testbed.linux import line_qdisc

            self._has_lines = True
            if not line_qdisc.is_there():
                raise FabricError(
                    f"{one[1]} and {other[1]}: llr and errors of a cable need the kernel of the engine um; run it "
                    "there, or give the cable a loss"
                )
        self._next_slot += 2
        for slot, (node, _, mac) in zip(slots, (one, other), strict=True):
            address = Mac.parse(mac) if mac else Mac((_LOCAL_MACS + slot).to_bytes(6, "big"))
            self._pending[slot] = address, cable
            if chosen := Forwarding.of(node.name, node.params.get("forwarding")):
                self._forwarding[slot] = chosen
        return slots

    def _lay(self, slots: tuple[int, int], one: CableEnd, other: CableEnd, cable: Cable) -> None:
        with self._end(slots[0], one) as first, self._end(slots[1], other) as second:
            if self._has_middle(slots[0], cable):
                self._lay_through_middle(slots[0], first, second, cable)
            else:
                self._sockets.of(one[0]).send([links.pair(first, second)])
            for slot, (node, _, _) in zip(slots, (one, other), strict=True):
                self._sockets.of(node).send([links.quiet(FIRST_INTERFACE + slot)])

    @contextmanager
    def _end(self, slot: int, end: CableEnd) -> Iterator[links.End]:
        """Yield an end of a cable that is to be laid, whose namespace is open while the block lasts."""
        node, name, _ = end
        mac, cable = self._pending[slot]
        namespace = os.open(f"/proc/{node.pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            yield links.End(name, FIRST_INTERFACE + slot, namespace, mac, cable.mtu)
        finally:
            os.close(namespace)

    def _lay_through_middle(self, slot: int, one: links.End, other: links.End, cable: Cable) -> None:
        if self._namespace is None or self.socket is None:
            self._namespace = kernel.new_network()
            with kernel.in_network(self._namespace):
                self.socket = Socket()
        middle = [
            links.End(f"{end.name}~", _MIDDLES + slot + number, self._namespace, mtu=cable.mtu)
            for number, end in enumerate((one, other))
        ]
        requests = [links.pair(middle[0], one), links.pair(middle[1], other)]
        for end in middle:
            requests += [self._netem(end.index - _MIDDLES, cable), links.quiet(end.index), links.up(end.index)]
            self._middle_ends.append(end.index)
        self.socket.send(requests)

    def add(self, link: Any) -> None:
        """Register Mininet's object of a cable that `connect` has laid."""
        self.links.append(link)
        units = Scale(1) if self._ports.is_in_lab_time else link.scale
        for intf in (link.intf1, link.intf2):
            mac, cable = self._pending.pop(intf.slot)
            intf.mac = str(mac)
            self._ports.by_slot[intf.slot] = PortState(intf.slot, intf, mac, cable, link.scale, units)
            self._ports.slots[intf.name] = intf.slot
            self.delays[intf.slot] = cable.delay.ps

    def attach(self, program: PortProgram) -> None:
        """Attach the port program to the middles of cables. From then on no cable can be added."""
        self._is_running = True
        if self._has_lines:
            self._read_line_events()  # those of a network before, which nobody has asked for
            self._line_events.clear()
        if self._namespace is not None:
            with kernel.in_network(self._namespace):
                for interface in self._middle_ends:
                    program.attach_cable_end(interface)

    # Ports, from being built on

    def set_mac(self, intf: Any, mac: Mac) -> None:
        """Set the MAC address of a port's interface."""
        self._send(intf, links.address_of(FIRST_INTERFACE + intf.slot, mac))

    def add_address(self, intf: Any, address: str) -> None:
        """Set a port up and add an IP address with its prefix."""
        self._send(intf, links.up(FIRST_INTERFACE + intf.slot))
        self._send(intf, links.address(FIRST_INTERFACE + intf.slot, address))

    def remove_address(self, intf: Any, address: str) -> None:
        """Remove an IP address with its prefix from a port."""
        self._send(intf, links.address(FIRST_INTERFACE + intf.slot, address, remove=True))

    def add_neighbours(self, intf: Any, neighbours: Mapping[str, Mac]) -> None:
        """Tell a port the MAC addresses of some IP addresses, so that it never asks for them."""
        index = FIRST_INTERFACE + intf.slot
        self._send(intf, *(links.neighbour(index, address, mac) for address, mac in neighbours.items()))

    def set_up(self, intf: Any, is_up: bool) -> None:
        """Set a port up or down. While it is down, the far end has no carrier.

        It comes up with the IPv6 addresses and static routes that it had, as those of a configured router do.
        """
        if not (is_up or intf.slot in self._down or forwards(intf.node)):
            self._remember(intf)
        self._send(intf, links.up(FIRST_INTERFACE + intf.slot, is_up))
        if is_up and (forgotten := self._forgotten.pop(intf.slot, None)):
            for reason in forgotten.restore():
                warn(f"{intf.name} is up again, without what it had: {reason}")
        if is_up == (intf.slot in self._down):
            (self._down.discard if is_up else self._down.add)(intf.slot)
            self._set_carriers(intf.slot)

    def _remember(self, intf: Any) -> None:
        self._forgotten[intf.slot] = remember(intf.node.pid, intf.name)

    def remove(self, intf: Any) -> None:
        """Remove a port and its cable."""
        self._send(intf, links.delete(FIRST_INTERFACE + intf.slot))
        self._ports.by_slot.pop(intf.slot, None)
        self.links = [link for link in self.links if link is not intf.link]

    # While the network runs

    def change_delay(self, port: str, delay: Duration) -> None:
        """Change the one-way delay of the cable at a port.

        Frames that are in the cable arrive as they would have before. A cable that was laid without a delay cannot get
        one.
        """
        state = self._ports.port(port)
        if not self._can_change(state.slot):
            raise FabricError(f"the cable of {port} was laid without a delay, so it cannot get another one")
        lab_delay = state.units.lab(delay)
        self._change(state, state.lab_cable.with_delay(lab_delay))
        self.delays[state.slot] = self.delays[state.slot ^ 1] = lab_delay.ps

    def change_loss(self, port: str, loss: Fraction | str | int) -> None:
        """Change which part of the frames the cable at a port loses, in both directions; 1 loses all of them, and both
        ends keep their carrier. A cable that was laid without a delay or a loss cannot change.
        """
        state = self._ports.port(port)
        if not self._can_change(state.slot):
            raise FabricError(f"the cable of {port} was laid without a delay, so it cannot lose frames")
        old = state.lab_cable
        self._change(state, old.with_loss(loss))

    def _change(self, state: PortState, cable: Cable) -> None:
        """Change the delay and loss of the cable at a port."""
        with kernel.urgently(URGENCY):
            self._set(state.slot, cable)
        state.lab_cable = self._ports.far_end(state).lab_cable = cable

    def _set(self, slot: int, cable: Cable) -> None:
        assert self.socket is not None
        self.socket.send(self._netem(end, cable) for end in (slot, slot ^ 1))

    def _set_direction(self, slot: int, cable: Cable) -> None:
        assert self.socket is not None
        self.socket.send([self._netem(slot, cable)])

    def jam(self, port: str, *jams: Jam) -> None:
        """Disturb single frames and ordered sets that leave a port, as a tester does, in place of those named before.

        The cable needs LLR or errors.
        """
        state = self._ports.port(port)
        if not (state.lab_cable.errors or state.lab_cable.llr):
            raise FabricError(f"the cable of {port} has neither LLR nor errors, so nothing on it can be disturbed")
        from testbed.linux import line_qdisc

        if len(jams) > line_qdisc.JAMS:
            raise FabricError(f"{port}: {len(jams)} disturbances; a direction has at most {line_qdisc.JAMS}")
        self._jams[state.slot ^ 1] = jams
        with kernel.urgently(URGENCY):
            self._set(state.slot, state.lab_cable)

    def set_retry(self, port: str, llr: Llr | None, mode: LlrMode) -> None:
        """Set what of LLR one end of a cable does, as management of its node does, and by which settings of its own.

        The cable was laid with LLR. What `llr` leaves open, and all with None, is as the cable has it. A sender that is
        switched on begins with LLR_INIT; one that is switched off gives up what it keeps.
        """
        state = self._ports.port(port)
        if not (has := state.lab_cable.retry):
            raise FabricError(f"the cable of {port} was laid without LLR and cannot get it; write Cable(..., llr=True)")
        self._retries[state.slot ^ 1] = llr and llr.in_lab(state.units).completed(has), mode
        with kernel.urgently(URGENCY):
            self._set_direction(state.slot ^ 1, state.lab_cable)

    def retry_mode(self, port: str) -> LlrMode:
        """Return what of LLR the end of a cable at a port does; nothing if the cable has none."""
        state = self._ports.port(port)
        if not state.lab_cable.llr:
            return NO_LLR
        return self._retries.get(state.slot ^ 1, (None, BOTH_WAYS))[1]

    def own_reports(self) -> Callable[[], dict[str, LlrReport]]:
        """Return a function that returns what `reports` does, by a socket of its own: for a thread beside others."""
        if self._namespace is None or not self._has_lines:
            return dict
        with kernel.in_network(self._namespace):
            return partial(self.reports, Socket())

    def reports(self, socket: Socket | None = None) -> dict[str, LlrReport]:
        """Return what each port with LLR or errors on its cable has counted, by its name."""
        socket = socket or self.socket
        if socket is None or not self._has_lines:
            return {}
        from testbed.linux import line_qdisc
        from testbed.switch.link.counters import LlrReport

        found = line_qdisc.reports(socket)
        return {
            state.name: LlrReport.of(found[_MIDDLES + (slot ^ 1)])
            for slot, state in self._ports.by_slot.items()
            if _MIDDLES + (slot ^ 1) in found
        }

    def line_events(self) -> list[Record]:
        """Return what LLR has done at ports so far, as records of the event log: replays and flushes."""
        if self._has_lines:
            self._read_line_events()
        return self._line_events

    def _read_line_events(self) -> None:
        from testbed.linux.process.observing import observing

        with observing():
            from testbed.agent.events import SwitchEvent
            from testbed.linux.line_records import REPLAY, LineTap

            tap = LineTap()
            for found in tap.events():
                slot = (found.interface - _MIDDLES) ^ 1
                kind = SwitchEvent.LLR_REPLAY if found.what == REPLAY else SwitchEvent.LLR_FLUSH
                self._line_events.append((found.at_ns, kind, slot, 0, found.data << 32 | found.sequence))
            tap.close()

    def line_of(self, port: PortState) -> int | None:
        """Return the number by which the kernel names what a cable with LLR or errors carries to a port."""
        return _MIDDLES + port.slot if port.lab_cable.errors or port.lab_cable.llr else None

    def pull(self, port: str) -> None:
        """Pull the cable at a port: both ends lose their carrier, and the frames in the cable are lost.

        The ports keep their addresses and routes. A cable that was laid without a delay cannot be pulled.
        """
        self._set_plugged(port, False)

    def plug(self, port: str) -> None:
        """Plug the cable at a port in again."""
        self._set_plugged(port, True)

    def _set_plugged(self, port: str, is_in: bool) -> None:
        state = self._ports.port(port)
        if not self._can_change(state.slot):
            raise FabricError(
                f"the cable of {port} was laid without a delay, so it cannot be pulled; set the link down"
            )
        (self._pulled.discard if is_in else self._pulled.add)(state.slot & ~1)
        self._set_carriers(state.slot)

    def _can_change(self, slot: int) -> bool:
        """Return True if a cable has what its delay is in."""
        return _MIDDLES + slot in self._middle_ends

    def _set_carriers(self, slot: int) -> None:
        """Give each end of a cable with a middle a carrier if the cable is plugged and the far port is up."""
        if self.socket is None or not self._can_change(slot):
            return
        with kernel.urgently(URGENCY):
            self.socket.send(
                links.up(_MIDDLES + end, slot & ~1 not in self._pulled and end ^ 1 not in self._down)
                for end in (slot, slot ^ 1)
            )

    def lost(self) -> int:
        """Return how many frames were lost in cables beside those that the port program counts."""
        return 0

    def close(self) -> None:
        """Give up the namespace of the middles, which removes the cables in it, and end credits."""
        if self.credits is not None:
            self.credits.close()
            self.credits = None
        if self.socket is not None:
            self.socket.close()
            self.socket = None
        if self._namespace is not None:
            os.close(self._namespace)
            self._namespace = None

    def _has_middle(self, slot: int, cable: Cable) -> bool:
        return bool(not cable.is_plain or self._forwarding.keys() & {slot, slot ^ 1})

    def _netem(self, slot: int, cable: Cable) -> Message:
        """Return the message that sets the delay and loss of frames to the port in a slot."""
        interface, forwarding = _MIDDLES + slot, self._forwarding.get(slot)
        if cable.errors or cable.llr:
            from testbed.linux import line_qdisc

            llr, mode = self._retries.get(slot, (None, BOTH_WAYS))
            own = cable.with_llr(llr) if llr else cable
            settings = line_settings(own, forwarding, loss_seed(interface), self._jams.get(slot, ()), mode)
            return line_qdisc.message(interface, qdiscs.handle(1), settings)
        loss = round(cable.loss * (2**32 - 1))
        delay = self._delay(slot, cable)
        rate = cable.rate if forwarding is Forwarding.STORE_AND_FORWARD else None
        return qdiscs.netem(interface, qdiscs.handle(1), delay, loss=loss, seed=loss_seed(interface), rate=rate)

    def _delay(self, slot: int, cable: Cable) -> Duration:
        """Return the delay of frames to the port in a slot."""
        is_cut_through = self._forwarding.get(slot) is Forwarding.CUT_THROUGH
        return cable.delay + cable.rate.time_for(HEADER) if is_cut_through else cable.delay

    def _send(self, intf: Any, *requests: Message) -> None:
        with kernel.urgently(URGENCY):
            self._sockets.of(intf.node).send(requests)


def loss_seed(number: int) -> int:
    """Return the seed of a cable's losses, by its number and the seed of the run.

    It is a hash, since the first numbers that netem draws after a small seed are small, too, and a small one is a loss.
    """
    run = Run.current()
    named = f"{run.seed if run else 1} {number}".encode()
    return int.from_bytes(hashlib.blake2b(named, digest_size=8).digest(), "little")
