"""Two ports and a cable between them, for tests of DCBX, in a time that only the test moves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from testbed.frames import Mac
from testbed.frames.lldp import parse
from testbed.frames.lldp_timers import LldpTimers
from testbed.subjects.dcbx.events import Event
from testbed.subjects.dcbx.port import DcbxPort
from testbed.subjects.dcbx.settings import DcbxSettings, PortIdentity
from testbed.subjects.dcbx.tlvs import DcbxTlvs, read
from testbed.units import Scale

S = 10**9
LOW, HIGH = Mac.parse("02:00:00:00:00:0a"), Mac.parse("02:00:00:00:00:0b")


def make_port(mac: Mac, settings: DcbxSettings, k: int = 1, timers: LldpTimers = LldpTimers()) -> DcbxPort:
    return DcbxPort(PortIdentity.of(mac, "eth0"), settings, timers, Scale(k))


def said(port: DcbxPort, frame: bytes) -> DcbxTlvs:
    """Return the DCBX TLVs of a frame of a port."""
    return read(port.settings.version, parse(frame).pdu.tlvs).tlvs


Fate = Callable[[str], list[int]]
"""A function that returns when a frame from "a" or "b" arrives: never, once, or more than once, as times after it was
sent."""


def plain(_: str) -> list[int]:
    return [0]


@dataclass
class Link:
    """Ports `a` and `b`, the frames on their way, and the frames and events so far."""

    a: DcbxPort
    b: DcbxPort
    now: int = 0
    fate: Fate = plain
    sent: list[tuple[int, str, bytes]] = field(default_factory=list)
    events: dict[str, list[Event]] = field(default_factory=lambda: {"a": [], "b": []})
    _under_way: list[tuple[int, int, str, bytes]] = field(default_factory=list)
    _count: int = 0

    def port(self, name: str) -> DcbxPort:
        return self.a if name == "a" else self.b

    def collect(self) -> None:
        """Take what the ports have made; frames go on the cable, or arrive at once."""
        while True:
            made = [(name, frame) for name in "ab" for frame in self.port(name).take_frames()]
            for name in "ab":
                self.events[name] += self.port(name).take_events()
            if not made:
                return
            for name, frame in made:
                self.sent.append((self.now, name, frame))
                for after in self.fate(name):
                    self._count += 1
                    self._under_way.append((self.now + after, self._count, "b" if name == "a" else "a", frame))
            self._deliver()

    def run_until(self, end: int) -> None:
        """Let time pass, stopping only where a frame arrives or a port has a deadline."""
        self.collect()
        while (next_time := self._next()) is not None and next_time <= end:
            self.now = max(self.now, next_time)
            self._deliver()
            for name in "ab":
                port = self.port(name)
                if port.deadline_ns is not None and port.deadline_ns <= self.now:
                    port.expire(self.now)
                    assert port.deadline_ns is None or port.deadline_ns > self.now
            self.collect()
        self.now = max(self.now, end)

    def take_events(self, name: str) -> list[Event]:
        taken, self.events[name] = self.events[name], []
        return taken

    def _next(self) -> int | None:
        times = [self.a.deadline_ns, self.b.deadline_ns, *(arrival for arrival, *_ in self._under_way)]
        return min((time for time in times if time is not None), default=None)

    def _deliver(self) -> None:
        arrived = sorted(item for item in self._under_way if item[0] <= self.now)
        self._under_way = [item for item in self._under_way if item[0] > self.now]
        for _, _, name, frame in arrived:
            self.port(name).receive(frame, self.now)
