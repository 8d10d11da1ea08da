"""The commands of a live view that change a running network: traffic, cables, PFC, ECN and agents."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from testbed.errors import UsageError, XoffError, nearest
from testbed.net.fabric import changes
from testbed.net.fabric.ports import forwards
from testbed.net.traffic import Flow, Flows
from testbed.switch.ecn.curve import EcnCurve
from testbed.switch.ecn.field import Ecn
from testbed.units import Duration

_MOST_FLOWS, _FEW = 64, 4
_LAB_SETTLE, _LAB_REST = Duration("300ms"), Duration("2s")
_TRANSPORTS = ("udp", "roce")
"""The transports whose flows can end at any moment; the end of a TCP flow is part of iperf3's measurement."""
_CURVE = ("20kB", "80kB", "20%")


@dataclass(frozen=True)
class _Running:
    """The flows that one command started, and that end together."""

    flows: tuple[Flow, ...]
    running: Flows
    first: int
    """The number of the first flow."""

    def numbered(self) -> Iterator[tuple[int, Flow]]:
        """Yield each flow with its number."""
        return enumerate(self.flows, self.first)


class Controls:
    """The controls of one network."""

    def __init__(self, net: Any) -> None:
        self._net, self._fabric = net, net.fabric
        self._traffic: dict[int, _Running] = {}
        """The running flows, by the number of the first one of each set."""
        self._next = 1
        self._out: set[int] = set()
        """The lower slot of each cable that is pulled or has a port set down."""
        self._marking: dict[str, dict[int, str]] = {}
        self.version = 0
        """A number that each command raises, so that its effect on settings is shown at once."""

    def perform(self, command: dict[str, Any]) -> str:
        """Carry out a command, and return its result in words."""
        do: dict[str, Callable[..., str]] = {
            "traffic": self._start, "stop": self._stop, "cable": self._cable, "delay": self._delay,
            "pfc": self._pfc, "ecn": self._ecn, "kill": self._kill,
        }  # fmt: skip
        name = command.pop("do")
        if name not in do:
            raise UsageError(f"there is no control {name}; {nearest(str(name), do)}")
        self.version += 1
        return do[name](**command)

    def counted(self) -> dict[int, tuple[int, int]]:
        """Return how many frames each flow has sent and received so far."""
        return {
            number: (one.running.sent_by(number - one.first), one.running.received_by(number - one.first))
            for one in list(self._traffic.values())
            for number, _ in one.numbered()
        }

    def listed(self) -> list[dict[str, Any]]:
        """Return the settings of all running flows."""
        return [
            {
                "flow": number,
                "group": one.first,
                "source": flow.source,
                "target": flow.target,
                "priority": flow.priority,
                "transport": flow.transport.name,
                "rate": str(flow.rate) if flow.rate else "line rate",
                "frame": flow.frame.bytes,
            }
            for one in list(self._traffic.values())
            for number, flow in one.numbered()
        ]

    def is_in(self, port: str) -> bool:
        """Return True if the cable at a port is plugged."""
        return self._fabric.port(port).slot & ~1 not in self._out

    def marking(self, port: str) -> dict[int, str]:
        """Return the ECN curve of each priority that a port marks, in words."""
        return dict(self._marking.get(port, {}))

    def rest(self) -> None:
        """Stop all senders, and wait until what is under way has arrived, or nothing of it moves."""
        for one in self._traffic.values():
            one.running.stop_sending()
        arrived, before = self._arrived(), -1
        while arrived != before:
            time.sleep(_LAB_REST.ns / 1e9)
            arrived, before = self._arrived(), arrived

    def _arrived(self) -> int:
        return sum(int(one.running.received) for one in self._traffic.values())

    def close(self) -> None:
        """End all traffic."""
        for first in list(self._traffic):
            with suppress(Exception):
                self._end(first)

    def _start(
        self,
        *,
        source: str,
        target: str,
        priority: int = 3,
        rate: str = "",
        transport: str = "udp",
        frame: str = "",
        ecn: bool = False,
    ) -> str:
        """Start a flow from each host in `source`, which is a list of names with commas."""
        sources = list(dict.fromkeys(source.split(",")))
        if sum(len(one.flows) for one in self._traffic.values()) + len(sources) > _MOST_FLOWS:
            raise UsageError(f"{_MOST_FLOWS} flows can run at one time; stop some")
        if transport not in _TRANSPORTS:
            raise UsageError(f"there is no transport {transport} here; {nearest(str(transport), _TRANSPORTS)}")
        hosts = [host.name for host in self._net.hosts]
        for name in (*sources, target):
            if name not in hosts:
                raise UsageError(f"there is no host {name}; {nearest(str(name), hosts)}")
        if target in sources:
            raise UsageError(f"{target} does not send to itself; choose another target")
        if transport == "roce":
            self._refuse_second_roce({*sources, target})
        marked = Ecn.ECT_0 if ecn and transport == "udp" else None
        flows = tuple(
            Flow(name, target, priority, frame or None, rate or None, transport=transport, ecn=marked)
            for name in sources
        )
        running = Flows(flows, settle=self._fabric.units.nearest_real(_LAB_SETTLE), first=self._next)
        running.__enter__()
        self._traffic[self._next] = _Running(flows, running, self._next)
        self._next += len(flows)
        who = ", ".join(sources) if len(sources) <= _FEW else f"{len(sources)} hosts"
        return f"{who} to {target} on priority {priority}: started"

    def _refuse_second_roce(self, wanted: set[str]) -> None:
        """Refuse a RoCE flow at a host that has some: its one endpoint has all its flows from the start."""
        for one in self._traffic.values():
            if one.flows[0].transport.name == "roce":
                taken = wanted & {name for flow in one.flows for name in (flow.source, flow.target)}
                if taken:
                    raise UsageError(
                        f"{sorted(taken)[0]} has RoCE flows already; stop them, and start all of them together"
                    )

    def _stop(self, *, flow: int = 0) -> str:
        """Stop the flows that were started together with this one, or with 0 all flows."""
        chosen = [first for first, one in self._traffic.items() if not flow or flow in dict(one.numbered())]
        if not chosen:
            raise UsageError(f"there is no flow {flow}" if flow else "there is no traffic")
        for first in chosen:
            self._traffic[first].running.stop_sending()
        return "; ".join(self._ended(first) for first in chosen)

    def _ended(self, first: int) -> str:
        try:
            return self._end(first)
        except XoffError as error:  # for example, its cable was pulled at its start; the other flows have to end, too
            return f"flow {first}: {error}"

    def _end(self, first: int) -> str:
        one = self._traffic.pop(first)
        one.running.__exit__(None, None, None)
        return "; ".join(
            f"{flow.source} to {flow.target}: {report.sent} sent, {report.received} received, {report.lost} lost"
            for flow, report in zip(one.flows, one.running.reports, strict=True)
        )

    def _cable(self, *, port: str, on: bool) -> str:
        """Plug or pull the cable at a port; if it has no delay, a port is set up or down instead."""
        state, cabling = self._fabric.port(port), self._fabric.cabling
        key = state.slot & ~1
        if on == (key not in self._out):
            return f"the cable of {port} is {'in' if on else 'out'} already"
        if state.lab_cable.delay.ps or state.lab_cable.loss:
            (cabling.plug if on else cabling.pull)(port)
        else:
            # This takes the end at a switch: a host would lose the routes of a port that is set down.
            ends = [self._fabric.ports[key], self._fabric.ports[key | 1]]
            chosen = next((end for end in ends if forwards(end.node)), ends[0])
            cabling.set_up(chosen.intf, on)
        (self._out.discard if on else self._out.add)(key)
        return f"the cable of {port} is {'in' if on else 'out'}"

    def _delay(self, *, port: str, delay: str) -> str:
        state = self._fabric.port(port)
        self._fabric.cabling.change_delay(port, Duration(delay))
        return f"the cable of {port} has a delay of {state.cable.delay}, one way"

    def _pfc(self, *, port: str, priority: int, on: bool) -> str:
        _check(priority)
        changes.set_pfc(self._fabric, port, priority, on)
        return f"PFC of priority {priority} at {port} is {'on' if on else 'off'}"

    def _ecn(self, *, port: str, priority: int, on: bool, kmin: str = "", kmax: str = "", pmax: str = "") -> str:
        _check(priority)
        curve = EcnCurve(kmin or _CURVE[0], kmax or _CURVE[1], pmax or _CURVE[2]) if on else None
        changes.set_ecn(self._fabric, port, priority, curve)
        found = self._marking.setdefault(port, {})
        found.pop(priority, None)
        if curve is not None:
            found[priority] = f"{curve.kmin} to {curve.kmax}, {curve.pmax}"
        return f"ECN of priority {priority} at {port} is {'on' if on else 'off'}"

    def _kill(self, *, node: str, speaker: bool = False) -> str:
        agents, what = self._fabric.core.running_agents(), "speaker" if speaker else "agent"
        pid = agents.pid(node, speaker)
        if not pid:
            raise UsageError(f"{node} has no {what} at this moment")
        os.kill(pid, signal.SIGKILL)
        return f"the {what} of {node}, process {pid}, was killed"


def _check(priority: Any) -> None:
    if type(priority) is not int or priority not in range(8):
        raise UsageError(f"priority {priority!r} does not exist; there are 0 to 7")
