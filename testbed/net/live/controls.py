"""The commands of a live view that change a running network: traffic, cables, PFC, ECN, thresholds, storms and agents.

`undo` takes back the command before it that has not been taken back yet, by the commands that do the contrary.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from testbed.errors import UsageError, XoffError, nearest
from testbed.frames.mac_control import LONGEST_PAUSE, PfcFrame
from testbed.net.build.options import buffer_of
from testbed.net.fabric import changes
from testbed.net.fabric.ports import PortState, forwards
from testbed.net.shell.wire import RawPort
from testbed.net.traffic import Flow, Flows
from testbed.switch.buffer.settings import Static, Threshold
from testbed.switch.ecn.curve import EcnCurve
from testbed.switch.ecn.field import Ecn
from testbed.switch.pfc.wire import pause_ns
from testbed.units import Duration

_MOST_FLOWS, _FEW = 64, 4
_LAB_SETTLE, _LAB_REST = Duration("300ms"), Duration("2s")
_TRANSPORTS = ("udp", "roce")
"""The transports whose flows can end at any moment; the end of a TCP flow is part of iperf3's measurement."""
_EVEN = "even"
"""The threshold of groups that get equal parts of the cells."""
_CURVE = ("20kB", "80kB", "20%")


@dataclass(frozen=True)
class _Running:
    """The flows that one command started, and that end together."""

    flows: tuple[Flow, ...]
    running: Flows
    first: int
    """The number of the first flow."""
    command: Mapping[str, Any]
    """The command that started them."""

    def numbered(self) -> Iterator[tuple[int, Flow]]:
        """Yield each flow with its number."""
        return enumerate(self.flows, self.first)


class _Storm:
    """A PFC storm: a port that has its peer pause a priority again before each pause ends."""

    def __init__(self, port: PortState, priority: int) -> None:
        self._wire = RawPort(port.node, port.name, past_queues=True)
        self._mac, self._priority = port.mac, priority
        self._every_ns = pause_ns(port.lab_cable.rate, LONGEST_PAUSE) // 2
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._blow, daemon=True)
        self._thread.start()

    def _blow(self) -> None:
        frame = PfcFrame.xoff(self._mac, [self._priority]).encode()
        due_ns = time.monotonic_ns()
        while not self._ended.wait((due_ns - time.monotonic_ns()) / 1e9):
            self._wire.send(frame)
            due_ns += self._every_ns
        self._wire.send(PfcFrame.xon(self._mac, [self._priority]).encode())

    def end(self) -> None:
        """End the storm with XON."""
        self._ended.set()
        self._thread.join()
        self._wire.close()


_Undo = tuple[str, list[dict[str, Any]]]
"""An action in words, and the commands that take it back; none if nothing can."""


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
        self._storms: dict[tuple[str, int], _Storm] = {}
        self._undo: list[_Undo] = []
        self._contrary: list[dict[str, Any]] = []
        """The commands that take back the command that is being carried out."""
        self.version = 0
        """A number that each command raises, so that its effect on settings is shown at once."""

    def perform(self, command: dict[str, Any]) -> str:
        """Carry out a command, and return its result in words."""
        do: dict[str, Callable[..., str]] = {
            "traffic": self._start, "stop": self._stop, "cable": self._cable, "delay": self._delay,
            "pfc": self._pfc, "ecn": self._ecn, "kill": self._kill, "storm": self._storm, "xoff": self._xoff,
        }  # fmt: skip
        name = command.pop("do")
        if name == "undo" and not command:
            return self._take_back()
        if name not in do:
            raise UsageError(f"there is no control {name}; {nearest(str(name), [*do, 'undo'])}")
        self.version += 1
        self._contrary = []
        text = do[name](**command)
        self._undo.append((text, self._contrary))
        return text

    def _take_back(self) -> str:
        if not self._undo:
            raise UsageError("there is nothing to undo")
        text, contrary = self._undo.pop()
        if not contrary:
            raise UsageError(f"this cannot be undone: {text}; the next undo is of what was done before")
        taken = "; ".join(self.perform(dict(command)) for command in contrary)
        del self._undo[-len(contrary) :]
        return f"undone: {taken}"

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
        """Stop all storms and senders, and wait until what is under way has arrived, or nothing of it moves."""
        self._end_storms()
        for one in self._traffic.values():
            one.running.stop_sending()
        arrived, before = self._arrived(), -1
        while arrived != before:
            time.sleep(_LAB_REST.ns / 1e9)
            arrived, before = self._arrived(), arrived

    def _arrived(self) -> int:
        return sum(int(one.running.received) for one in self._traffic.values())

    def close(self) -> None:
        """End all storms and traffic."""
        self._end_storms()
        for first in list(self._traffic):
            with suppress(Exception):
                self._end(first)

    def _end_storms(self) -> None:
        while self._storms:
            self._storms.popitem()[1].end()

    def storming(self, port: str) -> list[int]:
        """Return the priorities of the storms that a port blows."""
        return sorted(priority for name, priority in self._storms if name == port)

    @property
    def next_undone(self) -> str:
        """The action that an undo takes back next, in words; empty if there is none."""
        return self._undo[-1][0] if self._undo else ""

    def threshold(self, node: str) -> str:
        """Return the XOFF threshold of a switch's lossless groups, as `xoff` takes it."""
        return _written(changes.buffer_of(self._fabric, node).xoff)

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
        command = {"do": "traffic", "source": source, "target": target, "priority": priority, "rate": rate}
        command |= {"transport": transport, "frame": frame, "ecn": ecn}
        self._traffic[self._next] = _Running(flows, running, self._next, command)
        self._contrary = [{"do": "stop", "flow": self._next}]
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
        self._contrary = [dict(self._traffic[first].command) for first in chosen]
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
        if not state.lab_cable.is_plain:
            (cabling.plug if on else cabling.pull)(port)
        else:
            # This takes the end at a switch: a host would lose the routes of a port that is set down.
            ends = [self._fabric.ports[key], self._fabric.ports[key | 1]]
            chosen = next((end for end in ends if forwards(end.node)), ends[0])
            cabling.set_up(chosen.intf, on)
        (self._out.discard if on else self._out.add)(key)
        self._contrary = [{"do": "cable", "port": port, "on": not on}]
        return f"the cable of {port} is {'in' if on else 'out'}"

    def _delay(self, *, port: str, delay: str) -> str:
        state = self._fabric.port(port)
        self._contrary = [{"do": "delay", "port": port, "delay": str(state.cable.delay)}]
        self._fabric.cabling.change_delay(port, Duration(delay))
        return f"the cable of {port} has a delay of {state.cable.delay}, one way"

    def _pfc(self, *, port: str, priority: int, on: bool) -> str:
        _check(priority)
        was = bool(changes.enabled(self._fabric, self._fabric.port(port)) >> priority & 1)
        self._contrary = [{"do": "pfc", "port": port, "priority": priority, "on": was}]
        changes.set_pfc(self._fabric, port, priority, on)
        return f"PFC of priority {priority} at {port} is {'on' if on else 'off'}"

    def _ecn(self, *, port: str, priority: int, on: bool, kmin: str = "", kmax: str = "", pmax: str = "") -> str:
        _check(priority)
        curve = EcnCurve(kmin or _CURVE[0], kmax or _CURVE[1], pmax or _CURVE[2]) if on else None
        settings = self._fabric.port(port).settings
        was = settings.ecn.get(priority) if settings is not None else None
        back: dict[str, Any] = {
            "do": "ecn",
            "port": port,
            "priority": priority,
            "on": was not in (None, changes.NO_MARKS),
        }
        if was is not None and back["on"]:
            back |= {"kmin": str(was.kmin), "kmax": str(was.kmax), "pmax": str(was.pmax)}
        self._contrary = [back]
        changes.set_ecn(self._fabric, port, priority, curve)
        found = self._marking.setdefault(port, {})
        found.pop(priority, None)
        if curve is not None:
            found[priority] = f"{curve.kmin} to {curve.kmax}, {curve.pmax}"
        return f"ECN of priority {priority} at {port} is {'on' if on else 'off'}"

    def _storm(self, *, port: str, priority: int, on: bool) -> str:
        """Start or end a storm: the port has the other end of its cable pause a priority, and never lets it go on."""
        _check(priority)
        state, key = self._fabric.port(port), (port, priority)
        if on == (key in self._storms):
            return f"{port} {'blows' if on else 'blows no'} storm on priority {priority} already"
        if on:
            self._storms[key] = _Storm(state, priority)
        else:
            self._storms.pop(key).end()
        self._contrary = [{"do": "storm", "port": port, "priority": priority, "on": not on}]
        return f"{port} {'pauses' if on else 'pauses no longer'} priority {priority} of its peer"

    def _xoff(self, *, node: str, xoff: str, xon_offset: int | None = None) -> str:
        """Give the lossless groups of a switch another threshold: cells, or a part of the free ones as in "50%"."""
        before = changes.buffer_of(self._fabric, node)
        words: dict[str, Any] = {"xoff": None if xoff == _EVEN else int(xoff) if xoff.isdecimal() else xoff}
        if xon_offset is not None:
            words["xon_offset"] = xon_offset
        changes.set_buffer(self._fabric, node, buffer_of(f"switch {node}", words, before))
        back = {"do": "xoff", "node": node, "xoff": _written(before.xoff), "xon_offset": before.xon_offset}
        self._contrary = [back]
        return f"{node} sends XOFF above {self.threshold(node)}"

    def _kill(self, *, node: str, speaker: bool = False) -> str:
        agents, what = self._fabric.core.running_agents(), "speaker" if speaker else "agent"
        pid = agents.pid(node, speaker)
        if not pid:
            raise UsageError(f"{node} has no {what} at this moment")
        os.kill(pid, signal.SIGKILL)
        return f"the {what} of {node}, process {pid}, was killed"


def _written(xoff: Threshold | None) -> str:
    """Return a threshold as a control takes it."""
    if xoff is None:
        return _EVEN
    return str(xoff.cells) if isinstance(xoff, Static) else f"{xoff.alpha * 100}%"


def _check(priority: Any) -> None:
    if type(priority) is not int or priority not in range(8):
        raise UsageError(f"priority {priority!r} does not exist; there are 0 to 7")
