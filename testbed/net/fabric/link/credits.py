"""Credits between the ports of a network: which cables have them, how many, and their counters.

A cable has credits for the virtual channels that both its ports name. The end that forwards frames receives by them:
its buffer has cells of its own for each virtual channel. A host takes frames as they come, so the way to it needs none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from testbed.errors import warn
from testbed.linux import credit_device
from testbed.linux.credit_device import CreditDevice, CreditPlan
from testbed.linux.netlink import qdiscs
from testbed.linux.port_program import PortProgram
from testbed.linux.port_program.records import ADMITTED_CELLS_AT, RELEASED_CELLS_AT
from testbed.net.fabric.cable import Forwarding
from testbed.net.fabric.ports import FabricError, PortState, PortTable, forwards
from testbed.switch.credits import law
from testbed.switch.credits.law import Link
from testbed.switch.credits.settings import CreditMode, PortCredits
from testbed.switch.pfc.line import octet_ps
from testbed.units import real_ns


@dataclass(frozen=True)
class VcCounters:
    """The counters of one virtual channel of a port, with SAI's names. Credits are cells of the receiver."""

    sender_credits_consumed: int
    sender_credits_freed: int
    sender_credits_used: int
    sender_credits_used_watermark: int
    stalls: int
    """How often a frame could have had the line and had no credits."""
    stalled_ns: int | float
    """The time in which that was so."""
    receiver_credits_consumed: int
    receiver_credits_freed: int
    lost: int
    """The credits of frames that never came, which CC_Updates brought back."""


@dataclass(frozen=True)
class CreditCounters:
    """The counters of a port with credits."""

    vcs: Mapping[int, VcCounters]
    num_cc_update_messages_tx: int
    num_cf_update_messages_rx: int
    num_cf_updates_refused: int
    num_cf_update_messages_tx: int
    num_cc_update_messages_rx: int

    def as_json(self) -> dict[str, Any]:
        """Return the counters as plain data."""
        own = {name: value for name, value in vars(self).items() if name != "vcs"}
        return {"vcs": {str(vc): vars(one) for vc, one in self.vcs.items()}, **own}


def shared_vcs(table: PortTable, port: PortState) -> frozenset[int]:
    """Return the virtual channels with credits on a port's cable: those that both ends have."""
    ends = [_credits(one) for one in (port, table.far_end(port))]
    return ends[0].vcs & ends[1].vcs if ends[0] and ends[1] else frozenset()


def received(table: PortTable, port: PortState) -> dict[int, int]:
    """Return the credits of each virtual channel for what comes in at a port; none at a host.

    Where the channels share them, each has as many cells of the buffer: no group may take those of another.
    """
    own = _credits(port)
    if own is None or not forwards(port.node):
        return {}
    cells = own.cells
    if cells is None:
        cable = port.lab_cable
        whole = port.forwarding is Forwarding.STORE_AND_FORWARD
        link = Link(cable.rate, cable.delay, cable.mtu + 18, port.buffer.cell, cf_min=own.cf_min, whole=whole)
        cells = law.for_any_frame(link)
    return dict.fromkeys(shared_vcs(table, port), cells)


class CreditLines:
    """The credits of a running network."""

    def __init__(self, table: PortTable, here: Mapping[str, Sequence[PortState]], program: PortProgram) -> None:
        self._table = table
        self._device = CreditDevice(program.groups, ADMITTED_CELLS_AT, RELEASED_CELLS_AT)
        try:
            for ports in here.values():
                if any(shared_vcs(table, port) for port in ports):
                    for port in ports:
                        self._device.add(self._plan(port))
        except BaseException:
            self.close()
            raise

    @classmethod
    def of(cls, table: PortTable, here: Mapping[str, Sequence[PortState]], program: PortProgram) -> CreditLines | None:
        """Return the credits of a network, or None if no cable has any. What is without effect is warned of."""
        alone = [port for port in table if _credits(port) and not shared_vcs(table, port)]
        if alone:
            far = table.far_end(alone[0])
            warn(
                f"credits of {alone[0].name} have no effect, as {far.name} at the other end has none for these channels"
            )
        wanted = [port for port in table if shared_vcs(table, port)]
        if not wanted:
            return None
        if len(here) < len(table.by_node()):
            raise FabricError(
                f"{wanted[0].name} has credits, which a network over several kernels cannot have; run it without "
                "--partitions, or leave with_credits out"
            )
        if not credit_device.is_there():
            raise FabricError(
                f"{wanted[0].name} has credits, which the kernel of the engine um alone has; run it there, or leave "
                "with_credits out"
            )
        return cls(table, here, program)

    def _plan(self, port: PortState) -> CreditPlan:
        assert port.queues is not None
        far, own = self._table.far_end(port), _credits(port)
        octet = octet_ps(port.lab_cable.rate)
        if own is None:
            own = PortCredits(frozenset({0}))
        return CreditPlan(
            port.slot, port.interface, port.node.pid, port.mac, octet, octet if port.has_line else 0,
            received(self._table, far), frozenset(received(self._table, port)),
            [qdiscs.paused_places(port.queues.pausing(queue, True)) for queue in range(8)],
            far.buffer.cell, own.cf_min, own.cf_max, own.cc_octets(port.cable.rate), self._total(far),
        )  # fmt: skip

    def _total(self, far: PortState) -> int:
        """Return the credits that all virtual channels on the way to a port share; 0 if each has its own."""
        credits, found = _credits(far), received(self._table, far)
        return max(found.values()) if credits and found and credits.mode is CreditMode.PER_PORT else 0

    def counters(self, port: PortState) -> CreditCounters:
        """Return the counters of a port."""
        if not (vcs := shared_vcs(self._table, port)):
            raise FabricError(f"{port.name} has no credits; give both ends of its cable Port().with_credits(3)")
        rows, messages = self._device.read(port.slot)
        found = {}
        for vc in sorted(vcs):
            consumed, freed, used, most, stalls, stalled_ns, *receiver = rows[vc]
            found[vc] = VcCounters(consumed, freed, used, most, stalls, real_ns(stalled_ns, port.units), *receiver)
        return CreditCounters(found, *messages)

    def close(self) -> None:
        """End the credits: from now on all frames leave."""
        self._device.close()


def _credits(port: PortState) -> PortCredits | None:
    return port.settings.credits if port.settings else None
