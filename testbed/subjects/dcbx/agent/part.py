"""The part of a node's speaker that runs DCBX at its ports, and measures headroom where DCBX announces that.

What is negotiated goes onto ports by `port_settings`; `agent/speaker/headroom.py` measures.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from testbed.agent.events import AgentEvent
from testbed.agent.orders import NoticeType
from testbed.agent.plan import AgentPlan, HeadroomPlan, PartPlan
from testbed.agent.speaker.headroom import HeadroomMeasurements
from testbed.agent.speaker.part import Notice, Part, Services
from testbed.errors import UsageError
from testbed.frames.lldp_timers import LldpTimers
from testbed.linux.sockets.lldp_socket import LldpSocket
from testbed.subjects.dcbx import show
from testbed.subjects.dcbx.agent.port_settings import Applied, PortSettings
from testbed.subjects.dcbx.events import Event, HeadroomChanged, changes
from testbed.subjects.dcbx.port import DcbxPort
from testbed.subjects.dcbx.settings import DcbxSettings, PortIdentity
from testbed.units import NEVER, Scale


@dataclass(frozen=True)
class DcbxPlan:
    """The plan of a port that runs DCBX."""

    identity: PortIdentity
    settings: DcbxSettings
    timers: LldpTimers
    scale: Scale


@dataclass(frozen=True)
class DcbxPartPlan(PartPlan):
    """The plan of a node's part in DCBX: its ports that run it, and those that measure headroom, by slot."""

    ports: Mapping[int, DcbxPlan]
    measuring: Mapping[int, HeadroomPlan]
    name = "dcbx"

    def part(self, node: AgentPlan, services: Services, before: Any, succeeds: bool) -> DcbxPart:
        return DcbxPart(self, node, services, before or {})


@dataclass
class PortNotes:
    """The state of one port that a successor has to know."""

    settings: DcbxSettings
    running: bool
    frames: tuple[bytes, ...]
    applied: Applied


class DcbxPart(Part):
    """DCBX and measured headroom at the ports of one node."""

    def __init__(
        self, plan: DcbxPartPlan, node: AgentPlan, services: Services, before: Mapping[int, PortNotes]
    ) -> None:
        self._plan, self._services, self._before = plan, services, before
        self._ports = {port.slot: port for port in node.ports}
        self._sockets = {slot: LldpSocket(self._ports[slot].name) for slot in plan.ports}
        self._machines: dict[int, DcbxPort] = {}
        self._settings = PortSettings(self._ports, services)
        self._headroom = HeadroomMeasurements(self._ports, plan.measuring, self._sockets, services)
        self._kept: dict[int, tuple[bytes, ...]] = {}
        """The frames of each port's neighbours, as in the notes."""

    def start(self, up: Mapping[int, bool], now_ns: int) -> None:
        for slot, plan in self._plan.ports.items():
            known = self._before.get(slot)
            settings = known.settings if known else plan.settings
            machine = DcbxPort(plan.identity, settings, plan.timers, plan.scale)
            self._machines[slot] = machine
            ets = plan.settings.ets
            made_with = Applied(self._ports[slot].pfc.mask, ets=ets.table if ets else None)
            self._settings.start(slot, made_with, known.applied if known else None, now_ns)
            if not up.get(self._ports[slot].interface) or (known and not known.running):
                continue
            machine.start(now_ns)
            if known:  # the last frames are processed once more; events in between are dropped
                for frame in known.frames:
                    machine.receive(frame, now_ns)
                machine.take_events()
                for event in changes(None, machine.state, now_ns):
                    self._apply(slot, event)
            self._settle(slot, now_ns)

    @property
    def files(self) -> dict[int, Callable[[int], None]]:
        return {socket.fd: self._receiver(slot) for slot, socket in self._sockets.items()}

    @property
    def deadline_ns(self) -> int:
        due = [one.deadline_ns or NEVER for one in self._machines.values()]
        due += [self._headroom.deadline_ns, *self._settings.draining.values()]
        return min(due)

    @property
    def notes(self) -> dict[int, PortNotes]:
        return {
            slot: PortNotes(
                machine.settings,
                machine.is_running,
                tuple(neighbour.octets for neighbour in machine.neighbours),
                self._settings.applied[slot],
            )
            for slot, machine in self._machines.items()
        }

    def expire(self, now_ns: int) -> None:
        for slot, machine in self._machines.items():
            if (machine.deadline_ns or NEVER) <= now_ns:
                machine.expire(now_ns)
                self._settle(slot, now_ns)
        self._settings.expire(now_ns)
        self._headroom.expire()

    def link(self, interface: int, is_up: bool, now_ns: int) -> None:
        for slot, machine in self._machines.items():
            if self._ports[slot].interface != interface or is_up == machine.is_running:
                continue
            if is_up:
                machine.start(now_ns)
            else:
                machine.link_down(now_ns)
            self._settle(slot, now_ns)

    def notice(self, notice: Notice) -> None:
        if notice.what is not NoticeType.MEASUREMENT:
            return
        if self._headroom.awaits_peer(notice.slot):  # the peer's announcement may be waiting in the socket
            self._receive(notice.slot, time.monotonic_ns())
        self._headroom.receive(notice.slot, notice.frame, notice.arrived_ns, notice.effective_ns)

    def answer(self, verb: str, argument: Any, now_ns: int) -> dict[str, Any]:
        if verb == "measure":
            if not self._headroom.measure_now(argument, now_ns):
                raise UsageError(f"{argument} does not announce that it measures headroom")
            return {}
        if verb == "configure":
            name, settings = argument
            self._configure(name, settings, now_ns)
            return {}
        return super().answer(verb, argument, now_ns)

    def snapshot(self) -> dict[str, Any]:
        """Return every port's state, as data."""
        found = {}
        for slot, machine in self._machines.items():
            discarded = self._services.program.port(slot).defended_frames
            refused = self._services.buffer.allocation.refused.get(slot)
            more: dict[str, Any] = {"refused": refused, "discarded": sum(discarded)}
            found[self._ports[slot].name] = show.snapshot(machine) | more
        return found

    def measured(self) -> dict[str, Any]:
        return {self._ports[slot].name: self._headroom.snapshot(slot) for slot in self._plan.measuring}

    def _configure(self, name: str, settings: DcbxSettings | None, now_ns: int) -> None:
        """Change a port's settings as an administrator does; None turns DCBX off."""
        slot = self._slot(name)
        machine = self._machines[slot]
        if settings is None:
            machine.stop(now_ns)
        else:
            machine.configure(settings, now_ns)
            machine.start(now_ns)
        self._settle(slot, now_ns)
        self._services.changed()

    def _slot(self, name: str) -> int:
        for slot in self._machines:
            if self._ports[slot].name == name:
                return slot
        speaking = ", ".join(self._ports[slot].name for slot in self._machines) or "none"
        raise UsageError(f"{name} does not run DCBX; of this node's ports these do: {speaking}")

    def _receiver(self, slot: int) -> Callable[[int], None]:
        return lambda now_ns: self._receive(slot, now_ns)

    def _receive(self, slot: int, now_ns: int) -> None:
        machine = self._machines[slot]
        for frame in self._sockets[slot].receive():
            self._services.log.line(slot, show.frame_record(frame, machine.settings.version, "received", now_ns))
            machine.receive(frame, now_ns)
        self._settle(slot, now_ns)

    def _settle(self, slot: int, now_ns: int) -> None:
        """Send pending frames, apply new settings to the port, and log both."""
        machine, log = self._machines[slot], self._services.log
        for frame in machine.take_frames():
            log.line(slot, show.frame_record(frame, machine.settings.version, "sent", now_ns))
            try:
                self._sockets[slot].send(frame)
            except OSError as error:
                log.record(now_ns, AgentEvent.SEND_FAILED, slot, 0, error.errno or errno.EIO)
        events = machine.take_events()
        for event in events:
            log.line(slot, show.record(event))
            self._apply(slot, event)
        heard = tuple(neighbour.octets for neighbour in machine.neighbours)
        if events or heard != self._kept.get(slot):
            self._kept[slot] = heard
            self._services.changed()

    def _apply(self, slot: int, event: Event) -> None:
        machine = self._machines[slot]
        if isinstance(event, HeadroomChanged):
            feature = machine.state.headroom
            self._headroom.announced(
                slot, bool(feature.admin), bool(feature.remote), machine.is_running, time.monotonic_ns()
            )
        else:
            self._settings.apply(slot, event, machine.settings.version)
