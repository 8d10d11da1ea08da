"""How the buffer of a switch or router is divided among its ports, as frozen data that agents take through fork."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType

from testbed.agent.plan import BufferLayout
from testbed.buffer.settings import BufferSettings, GroupSettings, QueueSettings, Static, Threshold
from testbed.linux.port_program import GroupLimits, QueueLimits
from testbed.net.port import Buffer, PortNeeds
from testbed.net.ports import PortState
from testbed.units import Duration, Rate


@dataclass(frozen=True)
class BufferedPort:
    """A port, as far as the buffer of its node depends on it."""

    slot: int
    number: int
    """At its node."""
    rate: Rate
    lossless: frozenset[int]
    negotiated: bool
    """Does DCBX decide what is lossless?"""
    mtu: int


@dataclass(frozen=True)
class SwitchBuffer:
    """The buffer of one node; a call gives its layout (`AgentPlan.lay_out_buffer`)."""

    buffer: Buffer
    ports: tuple[BufferedPort, ...]
    delays: memoryview
    """Of each slot's cable, in ps; shared memory, since a cable can be changed while agents run."""

    @classmethod
    def of(cls, buffer: Buffer, ports: Sequence[PortState], delays: memoryview) -> SwitchBuffer:
        found = []
        for port in ports:
            assert port.settings is not None
            negotiated = port.settings.dcbx is not None
            found.append(
                BufferedPort(
                    port.slot, port.number, port.cable.rate, port.settings.pfc.enabled, negotiated, port.cable.mtu
                )
            )
        return cls(buffer, tuple(found), delays)

    def settings(
        self,
        lossless: Mapping[int, int] | None = None,
        measured: Mapping[int, int] = MappingProxyType({}),
        classes: Mapping[int, int] = MappingProxyType({}),
    ) -> BufferSettings:
        """The buffer with the priorities of the ports' settings lossless, or `lossless`, a mask for each slot; with
        `measured` headrooms, in cells; and for so many traffic `classes` of peers.
        """
        needs = {}
        for port in self.ports:
            enabled = port.lossless
            if lossless is not None:
                enabled = frozenset(priority for priority in range(8) if lossless[port.slot] >> priority & 1)
            delay = Duration.from_ps(self.delays[port.slot])
            needs[port.number] = PortNeeds(
                enabled,
                port.rate,
                delay,
                port.mtu,
                negotiated=port.negotiated,
                measured=measured.get(port.slot),
                classes=classes.get(port.slot),
            )
        return self.buffer.settings(needs)

    def layout(self, settings: BufferSettings) -> BufferLayout:
        """Settings as the port program has them."""
        slots = {port.number: port.slot for port in self.ports}
        return BufferLayout(
            settings.pool_cells(0),
            {
                (slots[number], priority): group_limits(group)
                for (number, priority), group in settings.all_groups().items()
            },
            tuple(settings.pool_cells(pool) for pool in range(1, len(settings.pools))),
        )

    def queues(self, settings: BufferSettings) -> dict[tuple[int, int], QueueLimits]:
        """The limits of queues, by (slot, queue)."""
        slots = {port.number: port.slot for port in self.ports}
        return {(slots[number], queue): queue_limits(one) for (number, queue), one in settings.queues.items()}

    def __call__(
        self,
        lossless: Mapping[int, int],
        measured: Mapping[int, int],
        classes: Mapping[int, int] = MappingProxyType({}),
    ) -> BufferLayout:
        return self.layout(self.settings(lossless, measured, classes))


@dataclass(frozen=True)
class MeasuredHeadroom:
    """The headroom of a port, in cells, for a measured round trip; a call gives it."""

    buffer: Buffer
    rate: Rate
    mtu: int

    def __call__(self, round_trip: Duration) -> int:
        return self.buffer.measured_headroom(self.rate, self.mtu, round_trip)


def group_limits(group: GroupSettings) -> GroupLimits:
    static, alpha = _terms(group.threshold)
    return GroupLimits(
        group.lossless, group.guaranteed, static, alpha, group.xon_offset, group.headroom, group.xon, group.pool
    )


def queue_limits(queue: QueueSettings) -> QueueLimits:
    return QueueLimits(queue.pool, queue.reserved, *_terms(queue.threshold))


def _terms(threshold: Threshold) -> tuple[int, Fraction | None]:
    return (threshold.cells, None) if isinstance(threshold, Static) else (0, threshold.alpha)
