"""Compare the rules by which the kernel of `um` serves PFC agents with those of Python, by random events.

    python -m tools.compare_pfc [--events 1000000] [--seed 1] [--library FILE]

Two agents get the same events at two ports: crossed thresholds, PFC frames and others, drops, ends of pauses, polls of
the watchdog, orders and lost links. One is `testbed/agent/pfc/loop.py` alone. The other does what it does on `um`: the
rules of testbed/lab/um/linux/xoff_pfc_rules.h have the state of the ports until an event is one for the process, or a
time has come. After each event all frames, changed queues, log records, timers and lateness have to be equal, and
whenever the process has the state all counters too. The library is built with the kernel and lies beside it in the
cache; a system call takes no time here.
"""

from __future__ import annotations

import argparse
import ctypes
import random
import struct
import sys
import time
from collections import Counter
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from testbed.agent import event_log
from testbed.agent.events import AgentEvent
from testbed.agent.pfc import loop as agent_loop
from testbed.agent.pfc.loop import Loop
from testbed.agent.pfc.lost_ways import LostWays
from testbed.agent.pfc.port import SHARED, AgentPort
from testbed.agent.plan import Arrangement, PortPlan
from testbed.frames import Mac
from testbed.frames.mac_control import PfcFrame
from testbed.lab.um import kernel
from testbed.linux.flow_device import address_of
from testbed.linux.netlink.link_state import Link
from testbed.linux.pfc_device import PfcPlan, PfcState, encoded
from testbed.linux.port_program import EVENT, FIRST_INTERFACE, FRAME_OCTETS, EventKind
from testbed.linux.port_program.ways_tables import WaysTables
from testbed.switch.pfc.settings import Action, Kind, PfcError, PfcSettings, WatchdogSettings
from testbed.switch.pfc.timers import TIMERS
from testbed.units import NEVER, Duration, Rate

PORTS = 2
EPISODE = 400
"""The events between two new agents, which have other settings."""
_STATE_SIZE, _MOST_DONE = 512, 64
_DONE = struct.Struct("=qIIIxxxxq64s")
_FRAME, _QUEUES = 1000, 1001
"""What the library does beside what it logs: it sends a frame, and changes queues."""
_PFC_OCTETS = 60
_MACS = tuple(Mac.parse(f"02:00:00:00:00:0{number}") for number in range(PORTS))
Done = tuple[object, ...]


class Clock:
    """The time of both agents; each has its own, since a reaction takes some."""

    now_ns = 0

    def monotonic_ns(self) -> int:
        return self.now_ns

    def sleep_until(self, moment_ns: int) -> None:
        self.now_ns = max(self.now_ns, moment_ns)


class Program:
    """The port program's groups."""

    def __init__(self) -> None:
        self.buffers = self
        self.congested: set[tuple[int, int]] = set()
        self.with_room: set[tuple[int, int]] = set()

    def is_congested(self, slot: int, priority: int) -> bool:
        return (slot, priority) in self.congested

    def has_room(self, slot: int, priority: int) -> bool:
        return (slot, priority) in self.with_room

    def set_blocked(self, slot: int, priorities: int) -> None:
        pass


class Agent:
    """The loop of an agent without sockets: what it does is noted."""

    def __init__(self, plans: list[PortPlan]) -> None:
        self.clock, self.program = Clock(), Program()
        self.done: list[Done] = []
        self.timers = bytearray(PORTS * TIMERS * 8)
        words = memoryview(self.timers).cast("q")
        self.shared = memoryview(bytearray(PORTS * SHARED))
        self.ports = {
            plan.slot: AgentPort(
                plan,
                words[plan.slot * TIMERS : (plan.slot + 1) * TIMERS],
                self.shared[plan.slot * SHARED : (plan.slot + 1) * SHARED],
            )
            for plan in plans
        }
        for slot, port in self.ports.items():
            port.send = lambda frame, slot=slot: self._note(_FRAME, slot, frame)
        self.lateness = [0]
        loop: Any = Loop.__new__(Loop)
        loop._program, loop._ports, loop._touched, loop._later = self.program, self.ports, {}, []
        loop._lateness, loop._started_ns, loop._now_ns, loop._stop_ns, loop._sent = self.lateness, 0, 0, 0, False
        loop._cpu_takes_time, loop._ways = False, LostWays((), WaysTables(bytearray(), 0))
        loop._netlink, loop._news = self, SimpleNamespace(send=lambda what: self.done.append(("told", what)))
        loop._log = SimpleNamespace(note=self._log_one, add=self._add, write_noted=lambda: None)
        self.loop = loop

    def _note(self, kind: int, slot: int, what: object) -> int:
        self.done.append((self.clock.now_ns, kind, slot, what))
        return 0

    def send(self, request: bytes) -> None:
        """Note a netlink request."""
        self._note(_QUEUES, 0, request)

    def _log_one(self, record: event_log.Record) -> None:
        self._add(*record)

    def _add(self, time_ns: int, kind: int, slot: int, mask: int, value: int) -> None:
        if kind != AgentEvent.SEND_FAILED:
            self.done.append((time_ns, int(kind), slot, mask, int(value)))

    def read(self, event: bytes) -> None:
        self.loop._read_events(memoryview(event), (0,))
        self.loop._write_log()
        self.loop._touched.clear()

    def result(self) -> list[str]:
        """Return what was done since the last call: what is of one moment has no order."""
        found, self.done = sorted(map(repr, self.done)), []
        return found


class Served(Agent):
    """An agent whose ports the kernel's rules serve."""

    def __init__(self, library: Any, plans: list[PortPlan]) -> None:
        super().__init__(plans)
        self._library = library
        self._states = bytearray(PORTS * _STATE_SIZE)
        self._told = (ctypes.c_int64 * 3)()
        self._room = ctypes.create_string_buffer(_DONE.size * _MOST_DONE)
        words = memoryview(self.timers).cast("q")
        added = b"".join(
            encoded(
                PfcPlan(
                    plan.slot, plan.interface, 0, plan.mac, [()] * 8, plan.xoff_delay_ns, plan.stop_delay_ns,
                    plan.xoff_allowed_ns, plan.stop_allowed_ns, plan.rate.bps,
                    words[plan.slot * TIMERS : (plan.slot + 1) * TIMERS],
                )
            )
            for plan in plans
        )  # fmt: skip
        states = ctypes.c_void_p(address_of(self._states))
        self._agent = ctypes.c_void_p(library.xlp_new(PORTS, added, states, ctypes.c_int64(0)))
        self.served = self.left = 0
        self.is_serving = False

    def serve(self) -> None:
        """Give the state of all ports to the rules."""
        for slot, port in self.ports.items():
            state = port.give().encode()
            self._states[slot * _STATE_SIZE : slot * _STATE_SIZE + len(state)] = state
        self.is_serving = True

    def take(self) -> None:
        """Take the state back."""
        if self.is_serving:
            for slot, port in self.ports.items():
                if self._states[slot * _STATE_SIZE]:
                    port.pfc.take_back(PfcState.parse(bytes(self._states), slot * _STATE_SIZE))
            self.is_serving = False

    def read(self, event: bytes) -> None:
        if not self.is_serving:
            self.serve()
        _, _, slot, priority, *_ = EVENT.unpack_from(event)
        many = self._library.xlp_serve(
            self._agent, event, len(event), ctypes.c_int64(self.clock.now_ns),
            self.program.is_congested(slot, priority), self._told, self._room,
        )  # fmt: skip
        if many < 0:
            self.left += 1
            self.take()
            super().read(event)
            return
        self.served += 1
        self.clock.now_ns, due_ns, late_ns = self._told
        assert due_ns == (self.ports[slot].pfc.deadline_ns or NEVER)  # of the same timers
        self.lateness[0] = max(self.lateness[0], late_ns)
        for at_ns, kind, of_slot, mask, value, octets in _DONE.iter_unpack(self._room.raw[: many * _DONE.size]):
            if kind == _FRAME:
                self.done.append((at_ns, kind, of_slot, octets[:_PFC_OCTETS]))
            elif kind == _QUEUES:
                request = self.ports[of_slot].plan.stop if value else self.ports[of_slot].plan.go
                changed = b"".join(request[queue] for queue in range(8) if mask >> queue & 1)
                self.done.append((at_ns, kind, 0, changed))
            else:
                self.done.append((at_ns, kind, of_slot, mask, value))

    def end(self) -> None:
        self._library.xlp_end(self._agent)


def any_watchdog(dice: random.Random) -> WatchdogSettings | None:
    if dice.random() < 0.4:
        return None
    detection, restoration, poll = (
        Duration(f"{dice.choice([1, 3, 10, 77])}{dice.choice(['us', 'ms'])}") for _ in range(3)
    )
    kind = Kind.IDEAL if dice.random() < 0.7 else dice.choice(list(Kind))
    return WatchdogSettings(detection, restoration, poll, dice.choice(list(Action)), kind)


def any_plan(dice: random.Random, slot: int) -> PortPlan:
    """Return a port with any settings."""
    rate = Rate(dice.choice(["10Mb/s", "100Mb/s", "1Gb/s", "333Mb/s"]))
    while True:
        settings = PfcSettings(
            frozenset(dice.sample(range(8), dice.randint(1, 8))), dice.choice([1, 7, 200, 65535]),
            Fraction(1, dice.choice([2, 3, 16])), dice.random() < 0.8, any_watchdog(dice),
        )  # fmt: skip
        try:
            AgentPort(_plan(dice, slot, rate, settings), memoryview(bytearray(8 * TIMERS)).cast("q"), _shared())
        except PfcError:  # a pause too short to be repeated
            continue
        return _plan(dice, slot, rate, settings)


def _shared() -> memoryview[int]:
    return memoryview(bytearray(SHARED))


def _plan(dice: random.Random, slot: int, rate: Rate, settings: PfcSettings) -> PortPlan:
    queues = tuple(dice.randrange(8) for _ in range(8)) if dice.random() < 0.3 else tuple(range(8))
    delays = [0, 500, 26_000, 40_000]
    return PortPlan(
        slot=slot, name=f"p{slot}", interface=FIRST_INTERFACE + slot, mac=_MACS[slot], rate=rate, pfc=settings,
        has_buffer=True, stop=tuple(b"stop %d/%d," % (slot, queue) for queue in range(8)),
        go=tuple(b"go %d/%d," % (slot, queue) for queue in range(8)),
        empty=tuple(b"empty %d/%d," % (slot, queue) for queue in range(8)), local=tuple(range(8)),
        arrange=lambda _ets: Arrangement(queues, tuple(range(8)), ()), notifies_speaker=dice.random() < 0.1,
        response_delay_ns=9_000 if dice.random() < 0.1 else 0, xoff_delay_ns=dice.choice(delays),
        stop_delay_ns=dice.choice(delays), xoff_allowed_ns=dice.choice(delays), stop_allowed_ns=dice.choice(delays),
    )  # fmt: skip


def any_frame(dice: random.Random, enabled: frozenset[int]) -> bytes:
    """Return a frame: most are PFC for priorities that are enabled, and some are anything."""
    draw, among = dice.random(), sorted(enabled) if dice.random() < 0.95 else list(range(8))
    named = dice.sample(among, dice.randint(1, min(3, len(among))))
    quanta = [0, 0, 1, 7, 200, 200, 65535]
    frame = PfcFrame.of(_MACS[0], {priority: dice.choice(quanta) for priority in named}).encode()
    if draw > 0.98:
        octets = bytearray(frame)
        octets[dice.choice([0, 5, 12, 14, 15, 16, 17])] ^= 1 << dice.randrange(8)
        frame = bytes(octets)
    elif draw > 0.97:
        frame = frame[: dice.randrange(14, 40)]
    return frame


class Comparison:
    """Two agents, and the events that both get."""

    def __init__(self, library: Any, dice: random.Random) -> None:
        self._dice = dice
        plans = [any_plan(dice, slot) for slot in range(PORTS)]
        self.python, self.native = Agent(plans), Served(library, plans)
        self._now_ns = dice.randrange(10**6) * 10**6
        self.kinds: Counter[str] = Counter()

    def step(self) -> list[str]:
        """Have both do something, and return what differs."""
        dice = self._dice
        self._now_ns += dice.choice([0, 1, 500, 20_000, 90_000, 3_000_000])
        if dice.random() < 0.1:  # polls are at whole periods
            self._now_ns += -self._now_ns % 1_000_000
        for agent in (self.python, self.native):
            agent.clock.now_ns = max(agent.clock.now_ns, self._now_ns)
        # What has come due comes first: the kernel hands it to the process
        if self._due_ns() <= self.python.clock.now_ns and dice.random() < 0.4:
            self._both("a time has come", lambda agent: agent.loop._expire_all(agent.clock.now_ns))
        elif dice.random() < 0.02:
            self._rare()
        else:
            self._event()
        return self._differences()

    def _due_ns(self) -> int:
        later: list[int] = [due_ns for due_ns, *_ in self.python.loop._later]
        return min(*memoryview(self.python.timers).cast("q"), *later)

    def _event(self) -> None:
        dice, slot = self._dice, self._dice.randrange(PORTS)
        settings = self.python.ports[slot].pfc.settings
        at_ns = self._now_ns - dice.choice([0, 0, 0, 30, 25_000])
        priority = dice.randrange(8)
        kind = dice.choices([EventKind.FRAME, EventKind.XOFF, EventKind.XON, EventKind.DROP], [8, 6, 6, 1])[0]
        frame, length = b"", 0
        if kind is EventKind.FRAME:
            frame = any_frame(dice, settings.enabled or frozenset(range(8)))
            length = len(frame)
        elif kind is EventKind.DROP:
            length = dice.randrange(1 << 16)
        else:
            # The group is as the event says, but for events that other CPUs have overtaken
            is_congested = (kind is EventKind.XOFF) ^ (dice.random() < 0.1)
            for agent in (self.python, self.native):
                (agent.program.congested.add if is_congested else agent.program.congested.discard)((slot, priority))
        head = EVENT.pack(at_ns, kind, slot, priority, dice.randrange(9), length, dice.randrange(1 << 20), 0)
        event = head + frame[:FRAME_OCTETS].ljust(FRAME_OCTETS, b"\0")
        self.kinds[kind.name.lower()] += 1
        for agent in (self.python, self.native):
            with _times_of(agent):
                agent.read(event)

    def _rare(self) -> None:
        """Something that only the process does."""
        dice, slot = self._dice, self._dice.randrange(PORTS)
        mask = dice.randrange(256)
        what = dice.choice(["pfc", "watchdog", "hold", "link", "room", "look"])
        settings = any_watchdog(dice)
        downs = dice.randrange(60)

        def change(agent: Agent) -> None:
            loop, port, now_ns = agent.loop, agent.ports[slot], agent.clock.now_ns
            loop._touched[slot] = port
            if what == "pfc":
                loop._change(port, port.enable(mask, now_ns))
            elif what == "watchdog":
                loop._change(port, port.watch(settings, now_ns))
            elif what == "hold":
                loop._netlink_send(port.hold(mask & 0x11))
            elif what == "link":
                for is_up in (False, True):
                    link = Link(FIRST_INTERFACE + slot, "", None, is_up, is_up, False, True, downs=downs)
                    loop._follow([link], now_ns)
            elif what == "room":
                agent.program.with_room ^= {(slot, mask & 7)}

        self._both(what, change)

    def _both(self, what: str, change: Any) -> None:
        self.kinds[what] += 1
        self.native.take()
        for agent in (self.python, self.native):
            with _times_of(agent):
                agent.loop._touched.update(agent.ports)
                change(agent)
                agent.loop._write_log()
                agent.loop._touched.clear()

    def _differences(self) -> list[str]:
        python, native, found = self.python, self.native, []
        mine, theirs = native.result(), python.result()
        if mine != theirs:
            found.append(f"done: {mine}\nand not {theirs}")
        for name in ("timers", "lateness"):
            if getattr(native, name) != getattr(python, name):
                found.append(f"{name}: {getattr(native, name)!r}\nand not {getattr(python, name)!r}")
        if native.clock.now_ns != python.clock.now_ns:
            found.append(f"the time: {native.clock.now_ns} and not {python.clock.now_ns}")
        if not native.is_serving:
            for slot, port in native.ports.items():
                ours, other = (one.pfc.snapshot(native.clock.now_ns) for one in (port, python.ports[slot]))
                if ours != other:
                    found.append(f"port {slot}: {ours}\nand not {other}")
        return found


def _times_of(agent: Agent) -> Any:
    """Have the loop take its time from the agent's clock."""
    return mock.patch.multiple(agent_loop, time=agent.clock, kernel=agent.clock)


def compare(library: Path, events: int, seed: int) -> tuple[list[str], Counter[str]]:
    """Compare by so many events, and return the first difference, if there is one, and how many there were of which."""
    loaded = ctypes.CDLL(str(library))
    loaded.xlp_new.restype = ctypes.c_void_p
    dice, kinds = random.Random(seed), Counter[str]()
    for begin in range(0, events, EPISODE):
        both = Comparison(loaded, dice)
        for number in range(min(EPISODE, events - begin)):
            if found := both.step():
                return [f"event {begin + number} of seed {seed}:", *found], kinds
        kinds.update(both.kinds)
        kinds.update({"served by the rules": both.native.served, "left to the process": both.native.left})
        both.native.end()
    return [], kinds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--library", type=Path, help="the library, if not that of the kernel in the cache")
    given = parser.parse_args()
    built = kernel.current()
    library = given.library or (built.library() if built else None)
    if library is None:
        print("there is no library: `xoff setup` builds the kernel of um and the library with it", file=sys.stderr)
        return 2
    begun = time.monotonic()
    differences, kinds = compare(library, given.events, given.seed)
    print("\n".join(differences) or f"{given.events} events, no difference, {time.monotonic() - begun:.0f} s")
    print(", ".join(f"{many} {kind}" for kind, many in kinds.most_common()))
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
