"""The division of a switch's or router's buffer among its ports: frozen data, which agents inherit by fork."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from types import MappingProxyType

from testbed.agent.plan import BufferLayout
from testbed.linux.port_program import GroupLimits, QueueLimits
from testbed.net.fabric.port import Buffer, PortNeeds
from testbed.net.fabric.ports import PortState
from testbed.switch.buffer.settings import BufferSettings, GroupSettings, QueueSettings, Static, Threshold
from testbed.units import Duration, Rate, Scale


@dataclass(frozen=True)
class BufferedPort:
    """The properties of a port that the buffer of its node depends on."""

    slot: int
    number: int
    """The port's number at its node."""
    rate: Rate
    lossless: frozenset[int]
    negotiated: bool
    """True if DCBX decides what is lossless."""
    mtu: int
    units: Scale = Scale(1)
    """The scale between times of the buffer's settings and the lab's."""
    credits: Mapping[int, int] = field(default_factory=dict)
    """The cells of each virtual channel with credits."""


@dataclass(frozen=True)
class SwitchBuffer:
    """The buffer of one node; a call returns its layout (`AgentPlan.lay_out_buffer`)."""

    buffer: Buffer
    ports: tuple[BufferedPort, ...]
    delays: memoryview
    """The delay of each slot's cable in ps: shared memory, since a cable can change while agents run."""

    @classmethod
    def of(
        cls, buffer: Buffer, ports: Sequence[PortState], delays: memoryview,
        credits: Mapping[int, Mapping[int, int]] = MappingProxyType({}),
    ) -> SwitchBuffer:  # fmt: skip
        """Return the buffer of the node that has these ports; `credits` has those of virtual channels, by slot."""
        found = []
        for port in ports:
            assert port.settings is not None
            negotiated = port.settings.dcbx is not None
            found.append(
                BufferedPort(
                    port.slot,
                    port.number,
                    port.lab_cable.rate,
                    port.settings.pfc.enabled,
                    negotiated,
                    port.lab_cable.mtu,
                    port.units,
                    credits.get(port.slot, {}),
                )
            )
        return cls(buffer, tuple(found), delays)

    def settings(
        self,
        lossless: Mapping[int, int] | None = None,
        measured: Mapping[int, int] = MappingProxyType({}),
        classes: Mapping[int, int] = MappingProxyType({}),
    ) -> BufferSettings:
        """Return the settings of the buffer.

        Lossless are the priorities of the ports' settings, or those of `lossless`, a mask for each slot. `measured` has
        the measured headroom in cells, and `classes` the number of traffic classes of the peer, of each slot.
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
                units=port.units,
                credits=port.credits,
            )
        return self.buffer.settings(needs)

    def layout(self, settings: BufferSettings) -> BufferLayout:
        """Return settings in the form of the port program."""
        slots = {port.number: port.slot for port in self.ports}
        limits = {
            (slots[number], priority): group_limits(group)
            for (number, priority), group in settings.all_groups().items()
        }
        if settings.policy.pauses_ports:
            limits = {key: replace(one, with_port=one.lossless) for key, one in limits.items()}
        return BufferLayout(
            settings.pool_cells(0),
            limits,
            tuple(settings.pool_cells(pool) for pool in range(1, len(settings.pools))),
        )

    def queues(self, settings: BufferSettings) -> dict[tuple[int, int], QueueLimits]:
        """Return the limits of queues, by (slot, queue)."""
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
    """A function of a port that returns its headroom in cells for a measured round trip."""

    buffer: Buffer
    rate: Rate
    mtu: int

    def __call__(self, round_trip: Duration) -> int:
        return self.buffer.measured_headroom(self.rate, self.mtu, round_trip)


def group_limits(group: GroupSettings) -> GroupLimits:
    """Return the limits of a group in the form of the port program."""
    static, alpha = _terms(group.threshold)
    return GroupLimits(
        group.lossless, group.guaranteed, static, alpha, group.xon_offset, group.headroom, group.xon, group.pool
    )


def queue_limits(queue: QueueSettings) -> QueueLimits:
    """Return the limits of a queue in the form of the port program."""
    return QueueLimits(queue.pool, queue.reserved, *_terms(queue.threshold))


def _terms(threshold: Threshold) -> tuple[int, Fraction | None]:
    return (threshold.cells, None) if isinstance(threshold, Static) else (0, threshold.alpha)
