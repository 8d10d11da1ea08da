"""The cables of a network over several kernels: those between parts, of which each part has one end."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable
from typing import Any

from testbed.linux.netlink import links
from testbed.linux.netlink.messages import Message, Socket
from testbed.linux.port_program import FIRST_INTERFACE
from testbed.linux.process import kernel
from testbed.net.fabric.cable import Cable, Forwarding
from testbed.net.fabric.cabling import URGENCY, CableEnd, Cabling, loss_seed
from testbed.net.fabric.ports import FabricError, NodeSockets, PortTable
from testbed.net.partition.divided import Divided


class _NoSocket(Socket):
    """In place of the socket of a node that is in another part of the network."""

    def __init__(self) -> None: ...

    def send(self, messages: Iterable[Message]) -> None:
        for _ in messages:
            pass

    def dump(self, kind: int, body: bytes) -> list[tuple[int, bytes]]:
        return []

    def close(self) -> None: ...


class SocketsOfPart(NodeSockets):
    """The sockets of the nodes that are here; those of all others take what they are sent."""

    def __init__(self, parts: Divided) -> None:
        super().__init__()
        self._parts = parts

    def another(self, node: Any) -> Socket:
        return super().another(node) if self._parts.has(node.name) else _NoSocket()

    def inside(self, node: Any, do: Callable[[], None]) -> None:
        if self._parts.has(node.name):
            super().inside(node, do)


class CablingOfPart(Cabling):
    """The cables of a network that have an end here."""

    def __init__(self, ports: PortTable, sockets: NodeSockets, parts: Divided) -> None:
        super().__init__(ports, sockets)
        self._parts = parts
        self._not_whole: dict[int, int | None] = {}
        """The cables that can change and have an end in another part, by their lower slot: the number of one that is
        between parts and has an end here; None if both ends are elsewhere."""

    def _lay(self, slots: tuple[int, int], one: CableEnd, other: CableEnd, cable: Cable) -> None:
        here = [(slot, end) for slot, end in zip(slots, (one, other), strict=True) if self._parts.has(end[0].name)]
        if len(here) == len(slots):
            super()._lay(slots, one, other, cable)
            return
        number = self._parts.lay(one[0].name, other[0].name)
        if self._has_middle(slots[0], cable):
            self._not_whole[slots[0]] = number if here else None
        if number is None:
            return
        if Forwarding.STORE_AND_FORWARD in (self._forwarding.get(slot) for slot in slots):
            raise FabricError(
                f"the cable of {one[0].name} and {other[0].name} is between two parts of the network, and "
                "store-and-forward cannot wait for its last bit yet; use forwarding='cut-through', or put both into "
                "one part"
            )
        for slot, end in here:
            with self._end(slot, end) as laid:
                self._sockets.of(end[0]).send([links.end_of_cable(laid, number)])
            self._set_end(slot, number, cable)
            self._sockets.of(end[0]).send([links.quiet(FIRST_INTERFACE + slot)])

    def _remember(self, intf: Any) -> None:
        if self._parts.has(intf.node.name):
            super()._remember(intf)

    def _can_change(self, slot: int) -> bool:
        return slot & ~1 in self._not_whole or super()._can_change(slot)

    def _set(self, slot: int, cable: Cable) -> None:
        if slot & ~1 not in self._not_whole:
            super()._set(slot, cable)
        elif (number := self._not_whole[slot & ~1]) is not None:
            for end in (slot, slot ^ 1):
                if self._parts.has(self._ports.by_slot[end].node.name):
                    self._set_end(end, number, cable)

    def _set_carriers(self, slot: int) -> None:
        if slot & ~1 not in self._not_whole:
            super()._set_carriers(slot)
            return
        with kernel.urgently(URGENCY):
            self._set(slot, self._ports.by_slot[slot].lab_cable)

    def _set_end(self, slot: int, number: int, cable: Cable) -> None:
        """Set the delay, loss and carrier of the end that is here of a cable between parts."""
        pair = slot & ~1
        far = slot ^ 1  # loss and delay of what is sent here count for the node at the other end
        try:
            self._parts.device.change(
                number, carrier=pair not in self._pulled and far not in self._down, pulled=pair in self._pulled,
                loss=round(cable.loss * (2**32 - 1)), seed=loss_seed(pair), delay_ns=self._delay(far, cable).ns,
            )  # fmt: skip
        except OSError as error:
            if error.errno != errno.ERANGE:
                raise
            raise FabricError(
                "the cable is between two parts of the network, and its delay cannot become shorter than it was laid "
                "with; lay it with the shortest delay, or put both ends into one part"
            ) from None

    def lost(self) -> int:
        numbers = [number for number in self._not_whole.values() if number is not None]
        counts = [self._parts.device.count(number) for number in numbers]
        return sum(one.lost + one.dropped for one in counts)
