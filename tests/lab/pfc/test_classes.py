"""Queues of real ports, measured frame by frame at the other end of the cable: line rate, shares, strict priorities,
what a pause leaves to the others.
"""

from __future__ import annotations

import time
from collections import deque
from pathlib import Path
from typing import Any

from jobs.looking import Seen, frames_in, wait_for

from testbed.frames.mac_control import PfcFrame
from testbed.lab import Run, experiment
from testbed.switch.ecn.curve import EcnCurve
from testbed.switch.ecn.field import Ecn
from testbed.units import Duration, Rate, Size

WINDOW_NS = 10_000_000
HEADS = "-s 64 udp"
"""The octets of each frame in a capture: its headers."""


def most_in_a_window(frames: list[Seen]) -> int:
    """The most octets on the wire in any 10 ms, beyond one frame: one that began before counts in full."""
    window: deque[Seen] = deque()
    most = octets = 0
    for frame in frames:
        window.append(frame)
        octets += frame.wire
        while window[0].t_ns <= frame.t_ns - WINDOW_NS:
            octets -= window.popleft().wire
        most = max(most, octets - frame.wire)
    return most


def shares(frames: list[Seen], begin_ns: int, end_ns: int) -> dict[int, float]:
    """The part of all octets that each priority had, in percent."""
    found: dict[int, int] = {}
    for frame in frames:
        if begin_ns <= frame.t_ns < end_ns:
            found[frame.priority] = found.get(frame.priority, 0) + frame.wire
    return {priority: 100 * octets / sum(found.values()) for priority, octets in sorted(found.items())}


def filled(frames: list[Seen], begin_ns: int, end_ns: int, rate: Rate) -> float:
    """Octets on the wire, as a part of what the line carries."""
    octets = sum(frame.wire for frame in frames if begin_ns <= frame.t_ns < end_ns)
    return octets * 8 * 10**9 / (end_ns - begin_ns) / rate.bps


def is_near(found: dict[int, float], wanted: dict[int, float]) -> bool:
    """Each share is within 5 % of what it should be."""
    return found.keys() == wanted.keys() and all(abs(found[p] - wanted[p]) <= wanted[p] / 20 for p in wanted)


def pause(fabric: Any, port: Any, priority: int, quanta: int) -> None:
    from testbed.net.shell.wire import RawPort

    far_end = fabric.far_end(port)
    with RawPort(far_end.node, far_end.name, past_queues=True) as raw:
        raw.send(PfcFrame.of(far_end.mac, {priority: quanta}).encode())


@experiment(_in_lab_time=True, timeout="120s", files=("jobs/looking.py",))
def test_classes_share_a_switch_port_as_configured_and_never_exceed_the_line(run: Run) -> None:
    """Three senders keep three classes of a port backlogged, with PFC and frames of all sizes."""
    from testbed.net.build.network import network
    from testbed.net.build.topo import LosslessTopo
    from testbed.net.fabric.port import Port
    from testbed.net.shell.wire import capture
    from testbed.net.traffic import Flow, Flows, ping
    from testbed.switch.pfc.settings import PfcSettings

    classes = (1, 3, 5)
    pfc = PfcSettings(enabled=frozenset(classes))
    # Classes that send nothing leave their part to the others. The receivers' ports differ in nothing else.
    settings: dict[str, tuple[Port, dict[int, float]]] = {
        "equal": (Port(pfc=pfc), {1: 100 / 3, 3: 100 / 3, 5: 100 / 3}),
        "6 to 3 to 1": (Port(pfc=pfc, shares={1: 48, 3: 24, 5: 8}), {1: 60, 3: 30, 5: 10}),
        "16 to 1 to 3": (Port(pfc=pfc, shares={1: 64, 3: 4, 5: 12}), {1: 80, 3: 5, 5: 15}),
        "1 is strict": (Port(pfc=pfc, shares={3: 60, 5: 20}, strict=frozenset({1})), {1: 40, 3: 45, 5: 15}),
        "1 and 3 are strict": (Port(pfc=pfc, strict=frozenset({1, 3})), {3: 40, 1: 60}),
    }

    class Star(LosslessTopo):
        def build(self) -> None:
            self.addSwitch("s1")
            for priority in classes:
                self.addLink(self.addHost(f"h{priority}"), "s1")
            for number, (port, _) in enumerate(settings.values()):
                self.addLink("s1", self.addHost(f"r{number}"), settings1=port)

    with network(Star(scale=400, port=Port(pfc=pfc)), run) as net:
        fabric = net.fabric
        rate = fabric.port("s1-eth1").cable.rate
        for number, (name, (_, wanted)) in enumerate(settings.items()):
            receiver, port = net[f"r{number}"], fabric.between("s1", f"r{number}")
            sizes = {1: 1514, 3: 1514, 5: 700} if number == 0 else dict.fromkeys(classes, 1514)
            assert port.settings is not None
            strict = port.settings.strict
            paused = max(strict, default=1)
            for priority in classes:  # later the way of ARP may be taken by a strict class
                ping(net[f"h{priority}"], receiver)
            flows = Flows(
                [
                    # What is strict takes no more than its part, or the others would have nothing.
                    Flow(
                        net[f"h{priority}"],
                        receiver,
                        priority,
                        Size.from_bytes(sizes[priority]),
                        rate * 2 // 5 if strict and priority == paused else None,
                    )
                    for priority in classes
                ]
            )
            file = Path(f"{number}.pcap")
            with capture(receiver, f"r{number}-eth0", file, HEADS), flows:
                wait_for(lambda: min(flows.received_by(0), flows.received_by(1)) > 20)  # noqa: B023
                with run.measuring():
                    begin_ns = time.monotonic_ns()
                    time.sleep(0.4)
                    end_ns = time.monotonic_ns()
                    pause(fabric, port, paused, 65535)
                    time.sleep(0.02)
                    paused_ns = time.monotonic_ns()
                    time.sleep(0.25)
                    resumed_ns = time.monotonic_ns()
                pause(fabric, port, paused, 0)
                flows.stop_sending()
            frames = frames_in(file)
            found = shares(frames, begin_ns, end_ns)
            run.figure(f"{name}: percent of the line, by priority", {p: round(part, 2) for p, part in found.items()})
            run.claim(f"{name}: percent, within 5 % of {wanted}", is_near(found, wanted), equals=True)
            run.claim(f"{name}: the line is full", filled(frames, begin_ns, end_ns, rate), at_least=0.99, at_most=1.003)
            line = rate.bps * WINDOW_NS // 8 // 10**9
            run.claim(f"{name}: octets in 10 ms, but one frame", most_in_a_window(frames), at_most=line * 101 // 100)
            others = {p: part for p, part in wanted.items() if p != paused}
            rest = {p: part * 100 / sum(others.values()) for p, part in others.items()}
            yielded = shares(frames, paused_ns, resumed_ns)
            run.figure(f"{name}: percent while {paused} is paused", {p: round(part, 2) for p, part in yielded.items()})
            run.claim(f"{name}: while {paused} is paused, within 5 % of {rest}", is_near(yielded, rest), equals=True)
            full = filled(frames, paused_ns, resumed_ns, rate)
            run.claim(f"{name}: the line is full while {paused} is paused", full, at_least=0.99, at_most=1.003)
            run.claim(f"{name}: lost", [report.lost for report in flows.reports], equals=[0, 0, 0])


@experiment(_in_lab_time=True, timeout="120s", files=("jobs/looking.py",))
def test_a_paused_class_of_a_host_leaves_its_line_to_the_others(run: Run) -> None:
    """A host's classes have a queue each and share the line: one that is paused leaves all of it to the other."""
    from testbed.net.build.network import network
    from testbed.net.build.topo import LosslessTopo
    from testbed.net.fabric.port import Port
    from testbed.net.shell.wire import capture
    from testbed.net.traffic import Flow, Flows

    class Fork(LosslessTopo):
        def build(self) -> None:
            self.addSwitch("s1")
            for name in ("h1", "r3", "r5"):
                self.addLink(self.addHost(name), "s1")

    file = Path("host.pcap")
    with network(Fork(scale=400, port=Port().with_pfc(3, 5)), run) as net:
        fabric = net.fabric
        port = fabric.port("h1-eth0")
        rate = port.cable.rate
        flows = Flows([Flow(net["h1"], net[f"r{priority}"], priority) for priority in (3, 5)])
        with capture(net["s1"], "s1-eth1", file, HEADS), flows:
            wait_for(lambda: min(flows.received_by(0), flows.received_by(1)) > 20)
            with run.measuring():
                begin_ns = time.monotonic_ns()
                time.sleep(0.3)
                end_ns = time.monotonic_ns()
                pause(fabric, port, 3, 65535)
                time.sleep(0.02)
                paused_ns = time.monotonic_ns()
                time.sleep(0.3)
                resumed_ns = time.monotonic_ns()
            pause(fabric, port, 3, 0)
            flows.stop_sending()
        frames = frames_in(file)
        of_class = {priority: [frame for frame in frames if frame.priority == priority] for priority in (3, 5)}
        for priority, some in of_class.items():
            full = filled(some, begin_ns, end_ns, rate)
            run.claim(f"priority {priority}: part of the line", full, at_least=0.495, at_most=0.505)
        paused = filled(of_class[3], paused_ns, resumed_ns, rate)
        run.claim("priority 3 paused: part of the line", paused, equals=0)
        other = filled(of_class[5], paused_ns, resumed_ns, rate)
        run.claim("priority 5 meanwhile: part of the line", other, at_least=0.99, at_most=1.003)
        run.claim("lost", [report.lost for report in flows.reports], equals=[0, 0])


@experiment(_in_lab_time=True, timeout="120s", files=("jobs/looking.py",))
def test_in_a_pause_frames_are_marked_by_the_queue_that_they_find(run: Run) -> None:
    """RED measures a queue that is paused (decision 0305): 11 of 16 frames wait when the pause begins, so the first 9
    that come in it are below the threshold of 20, and 31 of 40 are marked: by the length at its start, none.
    """
    from testbed.net.build.network import network
    from testbed.net.build.topo import LosslessTopo
    from testbed.net.fabric.port import Port
    from testbed.net.traffic import Flow, Flows

    frame = Size("1514B")
    step = EcnCurve.step(frame * 20)

    class Narrow(LosslessTopo):
        def build(self) -> None:
            from testbed.net.fabric.cable import Cable

            self.addSwitch("s1")
            self.addLink(self.addHost("h1"), "s1", cable=Cable("40Gb/s"))
            self.addLink("s1", self.addHost("r"), settings1=Port(ecn={3: step}))

    for waiting, marked in ((16, 31), (40, 40)):
        with network(Narrow(), run) as net:
            port = net.fabric.between("s1", "r")
            burst = Flow(net["h1"], net["r"], 3, frame, count=waiting, ecn=Ecn.ECT_0)
            later = Flow(net["h1"], net["r"], 3, frame, count=40, ecn=Ecn.ECT_0, start=Duration("100ms"))
            with Flows([burst, later]) as flows:
                # A burst at four times the speed of the line: three of four frames wait when its last one is here.
                wait_for(lambda: net.fabric.group("s1-eth1", 3).admitted_frames == waiting)  # noqa: B023
                pause(net.fabric, port, 3, 10_000)
                flows.wait()
                arrived = wait_for(lambda: net.fabric.group("s1-eth1", 3).admitted_frames == waiting + 40)  # noqa: B023
                run.claim(f"{waiting}: all wait in the pause", arrived, equals=True)
                pause(net.fabric, port, 3, 0)
            run.claim(f"{waiting} before the pause: marked in it", flows.reports[1].marked, equals=marked)
            run.claim(f"{waiting}: lost", [report.lost for report in flows.reports], equals=[0, 0])


@experiment(_in_lab_time=True, timeout="60s", files=("jobs/looking.py",))
def test_pfc_goes_by_the_port_in_and_ecn_by_the_port_out(run: Run) -> None:
    """One port out of a switch is overloaded, another one is not. PFC goes by the ports that frames came in by, and ECN
    by the port they leave by: one sender's two flows are both paused, and only one of them is marked.
    """
    from testbed.net.build.network import network
    from testbed.net.build.topo import LosslessTopo
    from testbed.net.fabric.port import Buffer, Port
    from testbed.net.traffic import Flow, Flows
    from testbed.switch.buffer.settings import Static

    frame = Size("1514B")

    class Fork(LosslessTopo):
        def build(self) -> None:
            self.addSwitch("s1")
            for name in ("h1", "h2", "busy", "idle"):
                marks = {} if name.startswith("h") else {3: EcnCurve.step(frame * 4)}
                self.addLink(self.addHost(name), "s1", settings2=Port(ecn=marks))

    with network(Fork(buffer=Buffer(total=1000, xoff=Static(60), xon_offset=16)), run) as net:
        fabric = net.fabric
        ways = [("h1", "busy", "8Mb/s"), ("h2", "busy", "8Mb/s"), ("h1", "idle", "1Mb/s")]
        flows = Flows(
            [
                Flow(net[a], net[b], 3, frame, rate=Rate(rate), count=int(rate[0]) * 40, ecn=Ecn.ECT_0)
                for a, b, rate in ways
            ]
        )
        with flows:
            flows.wait()
        marked = [report.marked for report in flows.reports]
        told = {event.port for event in fabric.events() if event.kind == "xoff_sent"}
        run.claim("ports that say XOFF", sorted(told), equals=["s1-eth1", "s1-eth2"])
        run.claim("marked where it is busy", min(marked[:2]), at_least=100)
        run.claim("marked where it is not", marked[2], equals=0)
        late_ns = flows.reports[2].worst_delay_lab_ns
        run.claim("most that a frame waits on the way to where it is not, in ns", late_ns, at_least=10_000_000)
        run.claim("lost", [report.lost for report in flows.reports], equals=[0, 0, 0])
