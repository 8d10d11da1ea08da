"""PFC on real ports, to the nanosecond."""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jobs.looking import Seen, frames_in, wait_for

from testbed.frames.mac_control import PfcFrame
from testbed.lab import Run, experiment
from testbed.units import Duration, Rate, Size

if TYPE_CHECKING:
    pass

CASES = {
    "test_a_pause_lasts_for_its_quanta_at_the_ports_speed": [{"rate": "10Gb/s"}, {"rate": "33Gb/s"}],
    "test_each_field_of_a_pfc_frame_does_what_it_should": [{"victim": "h1-eth0"}, {"victim": "s1-eth2"}],
    "test_the_watchdog_ends_a_storm_and_nothing_shorter": [{"action": "drop"}, {"action": "forward"}],
}

LOSSLESS, OTHER_LOSSLESS, LOSSY = 3, 4, 5
FRAME_NS, QUANTUM_NS = 1_230_400, 51_200
"""The times of a frame of 1514 octets, and of a quantum, at 10 Mb/s."""


class Pauser:
    """The other end of a port's cable, which sends PFC by hand and looks at the effect."""

    def __init__(self, fabric: Any, victim: str) -> None:
        from testbed.net.shell.wire import RawPort

        self.fabric = fabric
        self.victim = fabric.port(victim)
        self.far_end = fabric.far_end(self.victim)
        self._raw = RawPort(self.far_end.node, self.far_end.name, past_queues=True)

    def send(self, enabled: int, **times: int) -> None:
        """Send a frame; `enabled` is the class enable vector, and times are by priority, as in p3=1000."""
        quanta = [times.get(f"p{priority}", 0) for priority in range(8)]
        self._raw.send(PfcFrame(self.far_end.mac, enabled, tuple(quanta)).encode())

    def xoff(self, quanta: int, priority: int = LOSSLESS) -> None:
        self.send(1 << priority, **{f"p{priority}": quanta})

    def xon(self, priority: int = LOSSLESS) -> None:
        self.send(1 << priority)

    def events(self, kind: str, since_ns: int = 0) -> list[Any]:
        """Return the events of a kind that the port's agent logged from then on."""
        self.fabric.snapshot(self.victim.node.name)  # the log is written by now
        return [
            event
            for event in self.fabric.events()
            if event.kind == kind and event.port == self.victim.name and event.lab_ns >= since_ns
        ]


def longest_gap_ns(frames: list[Seen], priority: int, begin_ns: int, end_ns: int) -> int:
    """Return the longest time without a frame of the priority."""
    times = [frame.t_ns for frame in frames if frame.priority == priority and begin_ns < frame.t_ns < end_ns]
    return max(b - a for a, b in pairwise([begin_ns, *times, end_ns]))


def next_after(frames: list[Seen], priority: int, moment_ns: int) -> int:
    """Return the time until a frame of the priority comes."""
    return min(frame.t_ns for frame in frames if frame.priority == priority and frame.t_ns > moment_ns) - moment_ns


@experiment(_in_lab_time=True, timeout="120s", files=("jobs/looking.py",))
def test_a_pause_lasts_for_its_quanta_at_the_ports_speed(run: Run, rate: Rate = Rate("10Gb/s")) -> None:
    """A host's queue sends again when the quanta of its port's speed are over, and frames show it."""
    from testbed.net.build.network import network
    from testbed.net.shell.wire import capture
    from testbed.net.traffic import Flow, Flows
    from topologies.incast import Incast

    file = Path("host.pcap")
    quanta = [500, 1, 2, 3, 17, 100, 1000, 4000, 10_000]
    with network(Incast(n=1, rate=rate), run) as net:
        lab_rate = net.fabric.port("h1-eth0").cable.rate
        pauser = Pauser(net.fabric, "h1-eth0")
        with capture(net["s1"], "s1-eth1", file, "udp"), Flows([Flow(net["h1"], net["r"])]) as flows:
            time.sleep(0.05)
            with run.measuring():
                for asked in quanta:
                    pauser.xoff(asked)
                    time.sleep(lab_rate.time_for_quanta(asked).ns / 1e9 + 0.015)
            flows.stop_sending()
        begun, stopped, ended = (pauser.events(kind) for kind in ("xoff_received", "queue_stopped", "pause_expired"))
        due = [event.lab_ns - event.detail["late_ns"] for event in ended]
        wanted = [-(-lab_rate.time_for_quanta(asked).ps // 1000) for asked in quanta]
        run.claim("ns of each pause", [b - a.lab_ns for a, b in zip(begun, due, strict=True)], equals=wanted)
        late = [event.detail["late_ns"] for event in ended]
        run.figure("ns until each queue is stopped", [event.detail["reaction_ns"] for event in stopped])
        run.figure("ns that the agent was late at the end of each", late)
        run.claim("latest end of a pause that the agent can keep", max(late[4:]), at_least=0, at_most=50_000)
        run.claim("latest end of a pause shorter than the agent's reaction", max(late[:4]), at_most=400_000)
        # At the other end of the cable: the frame that was on its way when the queue stopped, as from any MAC, and
        # no other before the pause is over; then the next one at once.
        frames = frames_in(file)
        within = [
            [frame.t_ns - begin.lab_ns for frame in frames if stop.lab_ns < frame.t_ns < end]
            for begin, stop, end in zip(begun, stopped, due, strict=True)
        ]
        run.claim("most frames within a pause", max(map(len, within)), at_most=1)
        frame_ns = lab_rate.time_for(Size("1538B")).ns
        run.claim("the latest of them", max(max(some, default=0) for some in within), at_most=frame_ns + 200_000)
        resumed = [next_after(frames, LOSSLESS, end) for end in due[5:]]
        run.figure("ns from the end of a pause to the next frame", resumed)
        run.claim("the latest next frame", max(resumed), at_most=150_000)
        run.claim("data is lost", flows.reports[0].lost, equals=0)


@experiment(_in_lab_time=True, timeout="120s", files=("jobs/looking.py",))
def test_each_field_of_a_pfc_frame_does_what_it_should(run: Run, victim: str = "h1-eth0") -> None:
    """Each field of a PFC frame has its effect on a port that sends three classes: two with PFC, one without."""
    from testbed.net.build.network import network
    from testbed.net.fabric.port import Port
    from testbed.net.shell.wire import capture
    from testbed.net.traffic import Flow, Flows
    from topologies.incast import Incast

    file = Path("port.pcap")
    with network(Incast(n=1, port=Port().with_pfc(LOSSLESS, OTHER_LOSSLESS)), run) as net:
        pauser = Pauser(net.fabric, victim)
        classes = (LOSSLESS, OTHER_LOSSLESS, LOSSY)
        flows = Flows([Flow(net["h1"], net["r"], priority, rate=Rate("2500kb/s")) for priority in classes])
        began: dict[str, int] = {}

        def step(name: str) -> int:
            began[name] = time.monotonic_ns()
            return began[name]

        with capture(pauser.far_end.node, pauser.far_end.name, file, "udp"), flows:
            time.sleep(0.1)
            with run.measuring():
                step("one class")
                pauser.xoff(2000)
                time.sleep(0.2)
                step("refreshed")
                pauser.xoff(1000)
                time.sleep(0.03)
                pauser.xoff(1000)
                time.sleep(0.15)
                step("xon")
                pauser.xoff(4000)
                time.sleep(0.04)
                pauser.xon()
                time.sleep(0.15)
                step("bit 0 does not resume")
                pauser.xoff(2000)
                time.sleep(0.02)
                pauser.send(1 << OTHER_LOSSLESS)
                time.sleep(0.18)
                step("bit 0 does not stop")
                pauser.send(1 << OTHER_LOSSLESS, p3=65535, p5=65535)
                pauser.send(0, p3=65535, p4=65535, p5=65535)
                time.sleep(0.1)
                step("no PFC")
                pauser.xoff(2000, LOSSY)
                time.sleep(0.1)
                step("two times")
                pauser.send(0xFF, **{f"p{priority}": 500 * (1 + priority) for priority in range(8)})
                time.sleep(0.3)
                step("end")
            flows.stop_sending()
        frames = frames_in(file)

        def gaps(name: str) -> list[int]:
            """Return the longest time without a frame of each class, in quanta rounded down; 0 if it is no longer than
            usual.
            """
            names = list(began)
            end_ns = began[names[names.index(name) + 1]]
            longest = [longest_gap_ns(frames, priority, began[name], end_ns) for priority in classes]
            return [gap // QUANTUM_NS if gap > 8 * FRAME_NS else 0 for gap in longest]

        def due(name: str, priority: int = LOSSLESS) -> int:
            """Return the time when a pause was over, from the beginning of its step."""
            ends = [e for e in pauser.events("pause_expired", began[name]) if e.priorities == (priority,)]
            return int(ends[0].lab_ns - ends[0].detail["late_ns"])

        def begin(name: str, number: int = 0) -> int:
            return int(pauser.events("xoff_received", began[name])[number].lab_ns)

        quanta_without = {name: gaps(name) for name in list(began)[:-1]}
        run.figure("quanta without a frame of priorities 3, 4 and 5", quanta_without)

        def claim_pause(name: str, begin_ns: int, quanta: int, priority: int = LOSSLESS) -> None:
            run.claim(f"{name}: ns of the pause", due(name, priority) - begin_ns, equals=quanta * QUANTUM_NS)

        claim_pause("one class", begin("one class"), 2000)
        claim_pause("refreshed", begin("refreshed", 1), 1000)
        claim_pause("bit 0 does not resume", begin("bit 0 does not resume"), 2000)
        claim_pause("two times", begin("two times"), 2000, LOSSLESS)
        claim_pause("two times", begin("two times"), 2500, OTHER_LOSSLESS)
        # Without a frame for the pause, and for the moment until the next one that the sender would have sent.
        for name, quanta, others in (
            ("one class", 2000, [0, 0]),
            ("refreshed", 1000 + 30_000_000 // QUANTUM_NS, [0, 0]),
            ("xon", 40_000_000 // QUANTUM_NS, [0, 0]),
            ("bit 0 does not resume", 2000, [0, 0]),
            ("two times", 2000, [2500, 0]),
        ):
            first, *rest = quanta_without[name]
            run.claim(f"{name}: quanta without a frame", first, at_least=quanta - 30, at_most=quanta + 50)
            run.claim(
                f"{name}: others", [0 <= a - b < 50 for a, b in zip(rest, others, strict=True)], equals=[True] * 2
            )
        for name in ("bit 0 does not stop", "no PFC"):
            run.claim(f"{name}: quanta without a frame", quanta_without[name], equals=[0, 0, 0])
        xon = pauser.events("xon_received", began["xon"])[0].lab_ns
        ran_out = [
            one for one in pauser.events("pause_expired", began["xon"]) if one.lab_ns < began["bit 0 does not resume"]
        ]
        run.claim("xon: no pause ran out", len(ran_out), equals=0)
        # A switch's port is at work on frames of the two others, maybe.
        waits = 0 if victim.startswith("h") else 3 * FRAME_NS
        run.claim("xon: ns to the next frame", next_after(frames, LOSSLESS, xon), at_most=waits + 200_000)
        ignored = [pauser.fabric.pfc(victim, priority)["ignored"]["not_enabled"] for priority in range(8)]
        run.claim("ignored, by priority", ignored, equals=[1, 1, 1, 0, 0, 2, 1, 1])
        run.claim("data is lost", [report.lost for report in flows.reports], equals=[0, 0, 0])


@experiment(_in_lab_time=True, timeout="120s", files=("jobs/looking.py",))
def test_a_pause_travels_back_over_five_switches_and_loses_nothing(run: Run, switches: int = 5) -> None:
    """The last host stops a class: each switch on the way fills up to its threshold and stops the one before it, back
    to the sender. Then all of it drains, and nothing is missing.
    """
    from testbed.net.build.network import network
    from testbed.net.build.topo import LosslessTopo
    from testbed.net.fabric.port import Buffer, Port
    from testbed.net.traffic import Flow, Flows
    from testbed.switch.buffer.settings import Static
    from testbed.switch.pfc.settings import PfcSettings

    class Chain(LosslessTopo):
        def build(self) -> None:
            names = ["h1", *(f"s{number}" for number in range(1, switches + 1)), "r"]
            for name in names:
                self.addHost(name) if name in ("h1", "r") else self.addSwitch(name)
            for one, other in pairwise(names):
                self.addLink(one, other)

    buffer = Buffer(total=600, xoff=Static(80), xon_offset=16)
    port = Port(pfc=PfcSettings(frozenset({LOSSLESS}), pause_quanta=600))  # 31 ms: to be refreshed again and again
    with network(Chain(buffer=buffer, port=port), run) as net:
        fabric = net.fabric
        last = f"s{switches}"
        pauser = Pauser(fabric, fabric.between(last, "r").name)
        begin = Duration("150ms")  # when both senders are there: one that is late hurries
        flow = Flow(net["h1"], net["r"], LOSSLESS, rate=Rate("7Mb/s"), count=400, start=begin)
        other = Flow(net["h1"], net["r"], LOSSY, rate=Rate("2Mb/s"), count=150, start=begin)
        with Flows([flow, other]) as flows:
            wait_for(lambda: flows.received_by(0) > 20)
            pauser.xoff(65535)
            stopped_ns = time.monotonic_ns()
            into = [fabric.between(f"s{n}", f"s{n - 1}" if n > 1 else "h1") for n in range(switches, 0, -1)]
            congested = wait_for(lambda: all(fabric.group(port.name, LOSSLESS).xoff for port in into), seconds=2)
            run.claim("all switches are congested", congested, equals=True)
            time.sleep(0.05)
            run.claim(
                "the sender is paused", fabric.pfc("h1-eth0", LOSSLESS)["paused_until_ns"] is not None, equals=True
            )
            received = flows.received_by(1)
            time.sleep(0.1)
            run.claim("the other class goes on", flows.received_by(1) - received, at_least=10)
            resumed_ns = time.monotonic_ns()
            pauser.xon()
            flows.wait()
        net.sleep("2ms")  # the last frame arrives with its first bit, and holds its cells until the last one has left
        events = fabric.events()
        stops = [e.lab_ns for e in events if (e.port, e.kind) == ("h1-eth0", "queue_stopped") and e.lab_ns < resumed_ns]
        run.claim("the sender stops", len(stops), equals=1)
        sent = [fabric.pfc(port.name, LOSSLESS) for port in into]
        xoffs = [event for event in events if event.kind == "xoff_sent" and event.lab_ns > stopped_ns]
        first_ns = [min(xoff.lab_ns for xoff in xoffs if xoff.port == port.name) - stopped_ns for port in into]
        run.figure("ns until each switch sent XOFF, from the last to the first", first_ns)
        run.claim("each stops the one before it", first_ns == sorted(first_ns), equals=True)
        told: dict[str, list[Any]] = {port.name: [] for port in into}
        for event in events:
            if event.kind in ("xoff_sent", "xoff_refreshed", "xon_sent"):
                told[event.port].append(event)
        waits = [b.lab_ns - a.lab_ns for some in told.values() for a, b in pairwise(some) if a.kind != "xon_sent"]
        run.figure("refreshed", [one["xoff_refreshed"] for one in sent])
        run.claim("refreshed, the least of them", min(one["xoff_refreshed"] for one in sent), at_least=5)
        # An agent is latest for its first refresh, of which nothing has run before.
        run.claim("longest wait for a refresh, in ns", max(waits), at_most=300 * QUANTUM_NS + 600_000)
        ends = [fabric.far_end(port).name for port in into]
        ran_out = [fabric.pfc(name, LOSSLESS)["pause_expired"] for name in ends]
        run.claim("pauses that ran out although refreshed", ran_out, equals=[0] * switches)
        run.claim("XOFF without XON", [one["xoff_sent"] - one["xon_sent"] for one in sent], equals=[0] * switches)
        groups = [fabric.group(port.name, LOSSLESS) for port in into]
        run.claim("shared cells at XOFF", {group.high_water[1] for group in groups} == {80}, equals=True)
        run.claim("headroom used", min(group.high_water[2] for group in groups), at_least=1)
        in_use = [sum(fabric.buffer(f"s{number}").used) for number in range(1, switches + 1)]
        run.claim("cells still in use", in_use, equals=[0] * switches)
        run.claim("data that arrived", [report.received for report in flows.reports], equals=[400, 150])
        run.claim("dropped by any buffer", fabric.dropped(), equals=0)


@experiment(_in_lab_time=True, timeout="120s", files=("jobs/looking.py",))
def test_the_watchdog_ends_a_storm_and_nothing_shorter(run: Run, action: str = "drop") -> None:
    """A port of a switch is paused for just less, and for more, than its watchdog lets pass."""
    from testbed.net.build.network import network
    from testbed.net.fabric.port import Port
    from testbed.net.shell.wire import capture
    from testbed.net.traffic import Flow, Flows
    from testbed.switch.pfc.settings import Action, PfcSettings, WatchdogSettings
    from topologies.incast import Incast

    detection, restoration, poll = Duration("200ms"), Duration("300ms"), Duration("20ms")
    watchdog = WatchdogSettings(detection, restoration, poll, Action(action))
    file = Path("storm.pcap")
    port = Port(pfc=PfcSettings(frozenset({LOSSLESS}), watchdog=watchdog))
    with network(Incast(n=2, port=port), run) as net:
        fabric = net.fabric
        victim = fabric.between("s1", "r")
        pauser = Pauser(fabric, victim.name)
        flows = Flows(
            [
                Flow(net["h1"], net["r"], LOSSLESS, rate=Rate("3Mb/s")),
                Flow(net["h2"], net["r"], LOSSY, rate=Rate("3Mb/s")),
            ],
            settle=Duration("1s"),
        )
        with capture(net["r"], "r-eth0", file, "udp"), flows:
            time.sleep(0.1)
            # 195 ms without a break, by two frames; and a moment's break before the time is up.
            for _ in range(2):
                pauser.xoff(65535)
                time.sleep(0.1)
                pauser.xoff(65535)
                time.sleep(0.095)
                pauser.xon()
                time.sleep(0.002)
            time.sleep(0.1)
            run.claim("storms before detection time", len(pauser.events("storm_detected")), equals=0)
            run.claim("all arrive so far", wait_for(lambda: flows.sent_by(0) - flows.received_by(0) < 3), equals=True)
            began_ns = time.monotonic_ns()
            for _ in range(12):
                last_xoff_ns = time.monotonic_ns()
                pauser.xoff(65535)
                time.sleep(0.05)
            held = sum(fabric.buffer("s1").used)
            time.sleep(0.5)
            flows.stop_sending()
        (begun, *_), (ended, *_) = pauser.events("storm_detected"), pauser.events("storm_ended")
        paused = pauser.events("xoff_received", began_ns)[0].lab_ns
        late = begun.lab_ns - paused - detection.ns
        run.figure("ns from detection time to detection", late)
        run.claim("ns from detection time to detection", late, at_least=0, at_most=poll.ns + 1_000_000)
        run.claim("polls are on the clock", begun.lab_ns % poll.ns, at_most=500_000)
        calm = ended.lab_ns - last_xoff_ns - restoration.ns
        run.claim(
            "ns from the last XOFF to the end, beyond restoration time",
            calm,
            at_least=-1_000_000,
            at_most=poll.ns + 1_000_000,
        )
        state = fabric.pfc(victim.name, LOSSLESS)
        run.claim("storms", [state["storm_detected"], state["storm_ended"], state["stormed"]], equals=[1, 1, False])
        run.claim("XOFF ignored meanwhile", state["ignored"]["storm"], at_least=6)
        frames = [frame for frame in frames_in(file) if frame.priority == LOSSLESS]
        during = sum(begun.lab_ns + 5_000_000 < frame.t_ns < ended.lab_ns for frame in frames)
        after = sum(frame.t_ns > ended.lab_ns + 5_000_000 for frame in frames)
        run.figure("frames that came during the storm, and after it", [during, after])
        run.claim("after it frames come as before", after, at_least=15)
        blocked = fabric.sent(victim.name).blocked_frames[LOSSLESS]
        lost = [report.lost for report in flows.reports]
        if action == "drop":
            run.claim("frames that came during the storm", during, equals=0)
            run.claim("the buffer was freed at once", held, at_most=16)
            # 200 ms of 3 Mb/s waited in the queue, and what came later was kept out.
            run.claim("lost in all", lost[0] - blocked, at_least=40, at_most=60)
            run.claim("kept out of the queue", blocked, at_least=100)
        else:
            run.claim("frames that came during the storm", during, at_least=100)
            run.claim("kept out of the queue, or lost", [blocked, lost[0]], equals=[0, 0])
        run.claim("lost of the other class", lost[1], equals=0)
        run.claim("cells still in use", sum(fabric.buffer("s1").used), equals=0)
        groups = [fabric.group(name, LOSSLESS) for name in ("s1-eth1", "s1-eth2")]
        run.claim("impossible releases", sum(group.impossible_releases for group in groups), equals=0)
        run.claim("frames given back", [g.admitted_frames - g.released_frames for g in groups], equals=[0, 0])


@experiment(_in_lab_time=True, timeout="120s", files=("jobs/looking.py",))
def test_a_port_in_a_storm_sends_no_xoff_until_it_is_over(run: Run) -> None:
    """While a port is in a storm it asks for no pause either; when the storm is over, congestion is announced anew."""
    from testbed.net.build.network import network
    from testbed.net.build.topo import LosslessTopo
    from testbed.net.fabric.port import Buffer, Port
    from testbed.net.traffic import Flow, Flows
    from testbed.switch.buffer.settings import Static
    from testbed.switch.pfc.settings import PfcSettings, WatchdogSettings

    watchdog = WatchdogSettings(Duration("100ms"), Duration("100ms"), Duration("10ms"))
    # XOFF from before the storm runs out early in it, and hosts have no watchdog of their own.
    watched = Port(pfc=PfcSettings(frozenset({LOSSLESS}), pause_quanta=1000, watchdog=watchdog))

    class Incast(LosslessTopo):
        def build(self) -> None:
            self.addSwitch("s1", port=watched)
            for name in ("h1", "h2", "r"):
                self.addLink(self.addHost(name), "s1")

    buffer = Buffer(total=400, xoff=Static(60), xon_offset=16)
    with network(Incast(buffer=buffer), run) as net:
        fabric = net.fabric
        pauser = Pauser(fabric, "s1-eth1")  # h1 pauses a flow that is not sent
        sending = [Flow(net[f"h{n}"], net["r"], LOSSLESS, rate=Rate("8Mb/s")) for n in (1, 2)]
        with Flows(sending, settle=Duration("1s")) as flows:
            wait_for(lambda: fabric.pfc("s1-eth1", LOSSLESS)["xoff_sent"] > 2)
            before = fabric.group("s1-eth1", LOSSLESS)
            run.claim("dropped before the storm", sum(before.dropped_frames), equals=0)
            while not pauser.events("storm_detected"):
                pauser.xoff(65535)
                time.sleep(0.02)
            begun = pauser.events("storm_detected")[0].lab_ns
            for _ in range(10):
                pauser.xoff(65535)
                time.sleep(0.02)
            wait_for(lambda: pauser.events("storm_ended"))
            ended = pauser.events("storm_ended")[0].lab_ns
            time.sleep(0.1)
            flows.stop_sending()
        sent = [*pauser.events("xoff_sent"), *pauser.events("xoff_refreshed"), *pauser.events("xon_sent")]
        run.figure("ms that the storm lasted", (ended - begun) // 1_000_000)
        run.claim("sent during the storm", sum(begun < event.lab_ns < ended for event in sent), equals=0)
        run.claim("congested during it", sum(begun < e.lab_ns < ended for e in pauser.events("congested")), at_least=1)
        run.claim("sent afterwards", sum(event.lab_ns >= ended for event in sent), at_least=1)
        dropped = [sum(fabric.group(f"s1-eth{number}", LOSSLESS).dropped_frames) for number in (1, 2)]
        run.claim("dropped of what is not paused any more", dropped[0], at_least=10)
        run.claim("dropped of what the other port takes in", dropped[1], equals=0)
        run.claim("lost", [report.lost for report in flows.reports], equals=dropped)
