"""Headroom measurement at a node's ports: frames in and out, and the measured headroom reserved in the buffer.

A frame is sent at the time that is stamped in it, so that the time to encode it is not part of a measurement.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from testbed.agent.events import AgentEvent
from testbed.agent.orders import Order, OrderType
from testbed.agent.plan import HeadroomPlan, PortPlan
from testbed.agent.speaker.part import Services
from testbed.linux.sockets.lldp_socket import LldpSocket
from testbed.switch.headroom.measurement import Measurer, Output, Phase, Status
from testbed.units import NEVER

_AHEAD_NS = (300_000, 600_000, 1_200_000, 2_400_000)
"""The time by which a measurement frame is stamped ahead: what it takes to write it, and more each time that was not
enough."""
_LATE_NS = 10_000
"""The most by which a frame may be sent after the moment that is in it."""

Written = TypeVar("Written")


class HeadroomMeasurements:
    """The measurements at all ports of one node that can measure; `plans` has these by slot."""

    def __init__(
        self,
        ports: Mapping[int, PortPlan],
        plans: Mapping[int, HeadroomPlan],
        sockets: Mapping[int, LldpSocket],
        services: Services,
    ) -> None:
        self._ports, self._plans, self._sockets = ports, plans, sockets
        self._orders, self._buffer, self._log = services.orders, services.buffer, services.log
        self._measurers = {
            slot: Measurer(ports[slot].name, ports[slot].mac, plan.seed, plan.settings, plan.key)
            for slot, plan in plans.items()
        }

    @property
    def deadline_ns(self) -> int:
        due = [one.deadline() for one in self._measurers.values()]
        return min((at for at in due if at is not None), default=NEVER)

    def expire(self) -> None:
        for slot in self._measurers:
            self._send_due(slot)

    def announced(self, slot: int, by_this_port: bool, by_the_peer: bool, is_up: bool, now_ns: int) -> None:
        """Note what is announced: a port measures while its link is up and both ends announce it."""
        if measurer := self._measurers.get(slot):
            measurer.announced(by_this_port, by_the_peer, now_ns)
            measurer.link(is_up, now_ns)
            self._send_due(slot)

    def awaits_peer(self, slot: int) -> bool:
        """Return True if the port measures, and its peer has not announced so far that it measures too."""
        measurer = self._measurers.get(slot)
        return measurer is not None and measurer.status.phase is Phase.OFF_THERE

    def receive(self, slot: int, frame: bytes, arrived_ns: int, effective_ns: int) -> None:
        if measurer := self._measurers.get(slot):
            measurer.receive(frame, time.monotonic_ns(), arrived_ns, effective_ns)
            self._send_due(slot)

    def measure_now(self, port: str, now_ns: int) -> bool:
        """Have a port, by its name, measure once more; return False if it does not measure."""
        for slot, measurer in self._measurers.items():
            if self._ports[slot].name == port:
                measurer.measure(now_ns)
                return True
        return False

    def snapshot(self, slot: int) -> dict[str, Any]:
        measurer = self._measurers[slot]
        status, found = measurer.status, measurer.status.measurement
        return {
            **status.reading(),
            "tx_propagation_delay_ns": found and found.tx_propagation_delay_ns,
            "cells": self._buffer.allocation.headroom.get(slot),
            **measurer.snapshot(),
        }

    def _send_due(self, slot: int) -> None:
        """Send what is due, at the time that is stamped in it."""
        measurer = self._measurers[slot]
        due_ns = measurer.deadline()
        if due_ns is None or due_ns > time.monotonic_ns():
            return
        news: list[Status] = []

        def write(moment_ns: int) -> tuple[Output, list[tuple[Callable[[bytes], None], bytes]]]:
            output = measurer.poll(moment_ns)
            if output.status:
                news.append(output.status)
            frames: list[tuple[Callable[[bytes], None], bytes]] = [
                (self._sockets[slot].send, frame) for frame in output.answers
            ]
            if output.request:
                order = Order(OrderType.SEND, slot, frame=output.request)
                frames.append((self._orders.send_or_raise, order.encode()))
            return output, frames

        _, frames = timed_write(write, lambda written: measurer.take_back(written[0]))
        for send, frame in frames:
            try:
                send(frame)
            except OSError as error:
                self._log.record(time.monotonic_ns(), AgentEvent.SEND_FAILED, slot, 0, error.errno or errno.EIO)
        if news:
            self._follow(slot, news[-1], time.monotonic_ns())

    def _follow(self, slot: int, status: Status, now_ns: int) -> None:
        """Log a new status, and reserve what it needs."""
        line = {"t_ns": now_ns, "what": "headroom", "phase": str(status.phase), **status.reading()}
        self._log.line(slot, line)
        measurement = status.measurement
        cells = None if measurement is None else self._plans[slot].cells(measurement.needed)
        self._buffer.reserve(slot, cells, measurement.needed.ns if measurement else 0, now_ns)


def timed_write(write: Callable[[int], Written], take_back: Callable[[Written], None]) -> Written:
    """Return what `write` gives for a moment that is yet to come, at that moment.

    If the moment has passed by then, because something more urgent ran, it is taken back and written anew. The
    process spins meanwhile: after a sleep it might have to wait for the CPU.
    """
    for ahead_ns in _AHEAD_NS:
        moment_ns = time.monotonic_ns() + ahead_ns
        written = write(moment_ns)
        while (now_ns := time.monotonic_ns()) < moment_ns:
            pass
        if now_ns <= moment_ns + _LATE_NS or ahead_ns == _AHEAD_NS[-1]:
            break
        take_back(written)
    return written
