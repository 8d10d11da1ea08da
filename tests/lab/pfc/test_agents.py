"""A dead agent freezes no port and loses nothing; a dead network leaves nothing behind."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jobs.looking import agent_pid, everything, frames_in, room_for_namespaces, wait_for

from testbed.frames.mac_control import PfcFrame
from testbed.lab import Run, experiment
from testbed.switch.buffer.settings import Static
from testbed.units import Duration, Rate, Size

if TYPE_CHECKING:
    from testbed.lab.engines.engine import PreparedEngine
    from tests.lab.conftest import Output, Runner


MARKS = {
    f"test_{name}": [("long",)]  # on vm; what they do costs little on um, where there is a test of each
    for name in (
        "agents_killed_at_random_moments_lose_at_most_what_arrives_until_the_supervisor_notices",
        "the_first_pauses_of_eight_ports_at_once_come_in_time_where_the_cpu_is_not_free",
        "networks_follow_each_other_whatever_became_of_the_one_before",
    )
}
CASES = {"test_agents_outlive_their_parents_and_end_with_the_network": [{"deputy": False}, {"deputy": True}]}
LOSSLESS = 3
QUANTUM_NS = 51_200
"""A quantum at 10 Mb/s."""
NOTICED_NS = 8_000_000
"""The longest that the kernel of the emulated machine takes to end a process and to notify its parent."""


def kill(fabric: Any, node: str) -> int:
    """Kill a node's agent, and return its process."""
    pid: int = agent_pid(fabric, node)
    os.kill(pid, signal.SIGKILL)
    return pid


def is_another(fabric: Any, node: str, than: int) -> bool:
    return agent_pid(fabric, node) not in (0, than)


def pause(fabric: Any, port: str, quanta: int) -> None:
    """Send PFC by hand from the other end of a port's cable."""
    from testbed.net.shell.wire import RawPort

    far_end = fabric.far_end(fabric.port(port))
    with RawPort(far_end.node, far_end.name, past_queues=True) as raw:
        frame = PfcFrame.xoff(far_end.mac, [LOSSLESS], quanta) if quanta else PfcFrame.xon(far_end.mac, [LOSSLESS])
        raw.send(frame.encode())


def events(fabric: Any, kind: str, port: str, since_ns: int = 0) -> list[Any]:
    return [e for e in fabric.events() if e.kind == kind and e.port == port and e.lab_ns >= since_ns]


@experiment(_in_lab_time=True, timeout="120s", files=("jobs/looking.py",))
def test_a_pause_lasts_as_long_as_asked_although_the_agent_is_killed_in_it(run: Run) -> None:
    """A host's agent is killed at several moments of a pause, of the same length each time. Its successor keeps the
    pause, and ends it in time. A pause that would end while there is no agent lasts until there is one.
    """
    from testbed.net.build.network import network
    from testbed.net.shell.wire import capture
    from testbed.net.traffic import Flow, Flows
    from topologies.incast import Incast

    file, quanta = Path("host.pcap"), 2000
    pause_ns = quanta * QUANTUM_NS
    moments_us = [[1_000], [30_000], [30_000, 55_000, 80_000], [101_500], [102_390], []]
    kills = sum(len(some) for some in moments_us)
    with network(Incast(n=1), run) as net:
        fabric = net.fabric
        with capture(net["s1"], "s1-eth1", file, "udp"), Flows([Flow(net["h1"], net["r"])]) as flows:
            time.sleep(0.1)
            for moments in moments_us:
                begin_ns = time.monotonic_ns()
                pause(fabric, "h1-eth0", quanta)
                for moment_us in moments:
                    time.sleep(max(0, begin_ns + moment_us * 1000 - time.monotonic_ns()) / 1e9)
                    kill(fabric, "h1")
                time.sleep(0.4)
            flows.stop_sending()
        begun = [event.lab_ns for event in events(fabric, "xoff_received", "h1-eth0")]
        died = [event.lab_ns for event in events(fabric, "agent_died", "h1-eth0")]
        started = [event.lab_ns for event in events(fabric, "agent_started", "h1-eth0")][1:]
        run.claim("killed", len(died), equals=kills)
        run.claim("pauses", len(begun), equals=len(moments_us))
        absent = [b - a for a, b in zip(died, started, strict=True)]
        run.figure("ns from each death to the successor's first look", absent)
        run.claim("the longest of them", max(absent), at_most=15_000_000)
        frames = [frame.t_ns for frame in frames_in(file)]
        late = [min(t for t in frames if t >= begin + pause_ns) - begin - pause_ns for begin in begun]
        run.figure("ns from the end of each pause to the next frame", late)
        run.claim("the latest with an agent there", max(late[:3] + late[5:]), at_most=500_000)
        run.claim("the latest without", max(late[3:5]), at_most=20_000_000)
        # One frame was on its way when the queue stopped.
        within = [sum(begin + 200_000 < t < begin + pause_ns for t in frames) for begin in begun]
        run.claim("frames within the pauses", max(within), at_most=1)
        ended = events(fabric, "pause_expired", "h1-eth0")
        due = {event.lab_ns - event.detail["late_ns"] for event in ended}
        # The fifth ends while there is no agent: its successor resumes what is not paused any more.
        run.claim(
            "pauses whose end was known to the ns",
            [b + pause_ns in due for b in begun],
            equals=[True] * 4 + [False, True],
        )
        run.claim("lost", flows.reports[0].lost, equals=0)


@experiment(_in_lab_time=True, timeout="120s", files=("jobs/looking.py",))
def test_agents_killed_under_congestion_lose_no_frame(run: Run) -> None:
    """Two senders overload a port. The agents of switch and hosts are killed by turns, and nothing is lost."""
    from testbed.net.build.network import network
    from testbed.net.fabric.port import Buffer
    from testbed.net.traffic import Flow, Flows
    from topologies.incast import Incast

    buffer = Buffer(total=2000, xoff=Static(60), xon_offset=16, headroom=200)
    victims = ["s1", "h1", "s1", "r", "s1", "h2", "s1", "s1"]
    with network(Incast(n=2, buffer=buffer), run) as net:
        fabric = net.fabric
        with Flows([Flow(net[name], net["r"], count=700) for name in ("h1", "h2")]) as flows:
            wait_for(lambda: fabric.group("s1-eth1", LOSSLESS).xoffs > 2)
            congested = 0
            for victim in victims:
                if victim == "s1":  # in the middle of it
                    wait_for(lambda: fabric.group("s1-eth1", LOSSLESS).xoff)
                    congested += 1
                killed = kill(fabric, victim)
                run.claim("a successor is there", wait_for(lambda: is_another(fabric, victim, killed)), equals=True)  # noqa: B023
                time.sleep(0.17)
            flows.wait()
        groups = [fabric.group(name, LOSSLESS) for name in ("s1-eth1", "s1-eth2")]
        ports = ("s1-eth1", "h1-eth0", "h2-eth0", "r-eth0")
        died = {name: len(events(fabric, "agent_died", name)) for name in ports}
        run.figure("most headroom used", max(group.high_water[2] for group in groups))
        run.claim("killed", died, equals={"s1-eth1": 5, "h1-eth0": 1, "h2-eth0": 1, "r-eth0": 1})
        run.claim("received", [report.received for report in flows.reports], equals=[700, 700])
        run.claim("out of order or doubled", [r.out_of_order + r.doubled for r in flows.reports], equals=[0, 0])
        run.claim("dropped", fabric.dropped(), equals=0)
        run.claim("impossible releases", sum(group.impossible_releases for group in groups), equals=0)
        run.claim("cells in use", fabric.held(LOSSLESS), equals=0)
        wait_for(lambda: not any(fabric.pfc(name, LOSSLESS)["paused_until_ns"] for name in ports))
        state = {name: fabric.pfc(name, LOSSLESS) for name in ports}
        paused = [name for name in ports if state[name]["paused_until_ns"] is not None]
        run.claim("paused in the end", paused, equals=[])
        run.claim("congested in the end", [name for name in ports if state[name]["is_congested"]], equals=[])


@experiment(_in_lab_time=True, timeout="300s", files=("jobs/looking.py",))
def die_at_random(run: Run, kills: int = 24) -> None:
    """Two senders overload a port, and agents are killed at random moments. Frames can be
    lost until the supervisor notices a death: at once where work of the CPU takes no time, else within `NOTICED_NS`.
    """
    from testbed.linux.process import kernel
    from testbed.net.build.network import network
    from testbed.net.traffic import Flow, Flows
    from topologies.incast import Incast

    with network(Incast(n=2), run) as net:
        fabric = net.fabric
        moments = []
        with Flows([Flow(net[name], net["r"]) for name in ("h1", "h2")]) as flows:
            wait_for(lambda: fabric.group("s1-eth1", LOSSLESS).xoffs > 2)
            for _ in range(kills):
                time.sleep(run.rng.uniform(0.2, 0.4))
                victim = run.rng.choice(["s1", "s1", "h1", "h2", "r"])
                moments.append(time.monotonic_ns())
                killed = kill(fabric, victim)
                wait_for(lambda: is_another(fabric, victim, killed))  # noqa: B023
            flows.stop_sending()
        died = sorted(event.lab_ns for event in fabric.events() if event.kind == "agent_died")
        noticed = [there - here for here, there in zip(moments, died, strict=True)]
        lost = sum(report.lost for report in flows.reports)
        run.figure("lost", lost)
        run.figure("ns from each kill until lossless traffic stands still", noticed)
        free = kernel.cpu_work_takes_no_time()
        run.claim("the longest of them", max(noticed), at_most=100_000 if free else NOTICED_NS)
        frame_ns = fabric.port("h1-eth0").cable.rate.time_for(Size("1538B")).ns
        frames = 0 if free else 2 * kills * NOTICED_NS // frame_ns
        run.claim("lost, of what both senders' lines carry in that time", lost, at_most=frames)
        run.claim("dropped where it is counted", fabric.dropped(), equals=lost)
        run.claim("cells in use", fabric.held(LOSSLESS), equals=0)


@experiment(_in_lab_time=True, timeout="120s", files=("jobs/looking.py",))
def test_an_agent_killed_in_a_storm_leaves_no_queue_shut(run: Run) -> None:
    """The watchdog throws a queue's frames away when its agent is killed: the successor begins with an open queue, and
    its own watchdog works as the first one did.
    """
    from testbed.net.build.network import network
    from testbed.net.build.topo import LosslessTopo
    from testbed.net.fabric.port import Port
    from testbed.net.traffic import Flow, Flows
    from testbed.switch.pfc.settings import PfcSettings, WatchdogSettings

    watchdog = WatchdogSettings(Duration("60ms"), Duration("100ms"), Duration("10ms"))

    class Incast(LosslessTopo):
        def build(self) -> None:
            self.addSwitch("s1", port=Port(pfc=PfcSettings(frozenset({LOSSLESS}), watchdog=watchdog)))
            for name in ("h1", "r"):
                self.addLink(self.addHost(name), "s1")

    with network(Incast(), run) as net:
        fabric = net.fabric
        flow = Flow(net["h1"], net["r"], rate=Rate("5Mb/s"))
        with Flows([flow], settle=Duration("1s")) as flows:
            time.sleep(0.05)
            for number in range(3):  # each time the queue gets another pause point
                pause(fabric, "s1-eth2", 3000)
                stormed = wait_for(lambda: len(events(fabric, "queue_emptied", "s1-eth2")) > number)  # noqa: B023
                run.claim("a storm is found", stormed, equals=True)
                run.claim("cells in use after that", fabric.held(LOSSLESS), at_most=16)
                blocked = fabric.sent("s1-eth2").blocked_frames[LOSSLESS]
                time.sleep(0.02)
                run.claim("frames are kept out", fabric.sent("s1-eth2").blocked_frames[LOSSLESS] - blocked, at_least=5)
                killed = kill(fabric, "s1")
                wait_for(lambda: is_another(fabric, "s1", killed))  # noqa: B023
                time.sleep(0.02)
                blocked, received = fabric.sent("s1-eth2").blocked_frames[LOSSLESS], flows.received_by(0)
                time.sleep(0.1)
                run.claim("they pass again", flows.received_by(0) - received, at_least=30)
                run.claim("no more are kept out", fabric.sent("s1-eth2").blocked_frames[LOSSLESS] - blocked, equals=0)
                time.sleep(0.3)
            flows.stop_sending()
        group = fabric.group("s1-eth1", LOSSLESS)
        run.claim("frames given back", group.admitted_frames - group.released_frames, equals=0)
        run.claim("impossible releases", group.impossible_releases, equals=0)


@experiment(_in_lab_time=True, timeout="120s", files=("jobs/looking.py",))
def die_too_often(run: Run) -> None:
    """An agent that is killed again and again is given up: its queues are opened, and the network goes on."""
    from testbed.net.build.network import network
    from testbed.net.traffic import Flow, Flows
    from topologies.incast import Incast

    with network(Incast(n=1), run) as net:
        fabric = net.fabric
        with Flows([Flow(net["h1"], net["r"], rate=Rate("2Mb/s"), count=100)]) as flows:
            time.sleep(0.05)
            pause(fabric, "s1-eth2", 65535)
            killed = 0
            for _ in range(6):
                wait_for(lambda: is_another(fabric, "s1", killed))  # noqa: B023
                time.sleep(0.02)
                killed = kill(fabric, "s1")
            gone = wait_for(lambda: not Path(f"/proc/{killed}").exists() and agent_pid(fabric, "s1") == 0)
            run.claim("no process of the network is left", gone, equals=True)
            received = flows.received_by(0)
            time.sleep(0.2)
            run.claim("the queue is open", flows.received_by(0) - received, at_least=20)
            flows.wait()
        run.claim("received", flows.reports[0].received, equals=100)


@experiment(_in_lab_time=True, timeout="120s", files=("jobs/looking.py",))
def dies_without_its_port(run: Run) -> None:
    """The agent of a switch dies after a port of it was removed: it has no successor, and its queues are open."""
    from testbed.net.build.network import network
    from testbed.net.traffic import Flow, Flows
    from topologies.incast import Incast

    with network(Incast(n=2), run) as net:
        fabric = net.fabric
        pause(fabric, "s1-eth3", 65535)
        stopped = wait_for(lambda: events(fabric, "queue_stopped", "s1-eth3"))
        run.claim("the queue is stopped", stopped, equals=True)
        fabric.port("s1-eth2").intf.delete()
        kill(fabric, "s1")
        run.claim("there is no agent", wait_for(lambda: agent_pid(fabric, "s1") == 0), equals=True)
        with Flows([Flow(net["h1"], net["r"], rate=Rate("2Mb/s"), count=100)]) as flows:
            flows.wait()
        run.claim("received", flows.reports[0].received, equals=100)


@experiment(_in_lab_time=True, timeout="120s", files=("jobs/looking.py",))
def eight_senders(run: Run) -> None:
    """Eight ports of a switch cross their threshold at nearly the same time, for the first time."""
    from testbed.net.build.network import network
    from testbed.net.traffic import Flow, Flows
    from topologies.incast import Incast

    with network(Incast(8, scale=100), run) as net:
        *senders, target = net.hosts
        with Flows([Flow(sender, target, count=400) for sender in senders]) as flows, run.measuring():
            flows.wait()
        pauses = [net.fabric.pfc(f"s1-eth{port}", LOSSLESS)["xoff_sent"] for port in range(1, 9)]
        run.claim("senders that were paused", sum(map(bool, pauses)), equals=8)
        run.claim("lost", sum(report.lost for report in flows.reports), equals=0)


@experiment(_in_lab_time=True, timeout="120s", files=("jobs/looking.py",))
def parents_die(run: Run, deputy: bool = False) -> None:
    """Without the supervisor, and even without its deputy, the agents go on: a pause ends in time. At the end of the
    network all of them end.
    """
    from testbed.net.build.network import network
    from testbed.net.traffic import Flow, Flows
    from topologies.incast import Incast

    before = everything()
    with network(Incast(n=1), run) as net:
        fabric = net.fabric
        agents = [agent_pid(fabric, node) for node in ("h1", "r", "s1")]
        (parent,) = {parent_of(pid) for pid in agents}
        with Flows([Flow(net["h1"], net["r"], count=200)]) as flows:
            time.sleep(0.05)
            pause(fabric, "h1-eth0", 2000)
            time.sleep(0.02)
            stopped = fabric.core.running_agents().deputy
            if deputy:  # which would be the next supervisor before it could be killed
                os.kill(stopped, signal.SIGSTOP)
            os.kill(parent, signal.SIGKILL)
            if deputy:
                os.kill(stopped, signal.SIGKILL)
            flows.wait()
        ended = events(fabric, "pause_expired", "h1-eth0")
        run.claim("pauses that ended", len(ended), equals=1)
        run.claim("ns that it ended late", ended[0].detail["late_ns"], at_most=200_000)
        run.claim("the same agents", [agent_pid(fabric, node) for node in ("h1", "r", "s1")] == agents, equals=True)
        run.claim("received", flows.reports[0].received, equals=200)
        run.claim("another is their supervisor", fabric.core.running_agents().supervisor != parent, equals=not deputy)
    nothing_is_left(run, "after it", before)


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def nothing_is_left(run: Run, when: str, before: dict[str, object]) -> None:
    """Return True if nothing is left but what there was before; the kernel may take a moment."""
    wait_for(lambda: everything() == before, seconds=3)
    after = everything()
    for kind, was in before.items():
        run.claim(f"{when}: {kind} left", sorted(after[kind] - was), equals=[])  # type: ignore[operator]


def busy_network(ready: Callable[[], None]) -> None:
    """A network with congested ports and paused queues, until it is ended."""
    from testbed.net.build.network import network
    from testbed.net.fabric.port import Buffer
    from testbed.net.traffic import Flow, Flows
    from topologies.incast import Incast

    buffer = Buffer(total=2000, xoff=Static(60), xon_offset=16)
    with (
        network(Incast(n=2, buffer=buffer, length="500m")) as net,
        Flows([Flow(net[name], net["r"]) for name in ("h1", "h2")]),
    ):
        wait_for(lambda: net.fabric.group("s1-eth1", LOSSLESS).xoffs > 2)
        pause(net.fabric, "s1-eth3", 65535)
        time.sleep(0.05)
        ready()
        time.sleep(1000)


def _notify(writer: int) -> None:
    os.write(writer, b"!")


def in_a_child(body: Callable[[Callable[[], None]], None]) -> int:
    """Fork a process that does this, and wait until it is ready."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.close(reader)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            body(partial(_notify, writer))
        except KeyboardInterrupt:
            code = 130
        finally:
            os._exit(code)
    os.close(writer)
    os.read(reader, 1)
    os.close(reader)
    return pid


@experiment(_in_lab_time=True, timeout="120s", files=("jobs/looking.py",))
def test_a_killed_or_interrupted_network_leaves_nothing(run: Run) -> None:
    """The process that a network belongs to is killed, or interrupted, in the middle; nothing of it is left."""
    before = everything()
    for how, wanted in ((signal.SIGKILL, -9), (signal.SIGINT, 130), (signal.SIGTERM, -15)):
        pid = in_a_child(busy_network)
        there = everything()
        run.claim(f"{how.name}: there were processes", len(there["processes"] - before["processes"]), at_least=9)  # type: ignore[operator]
        run.claim(f"{how.name}: and BPF links", len(there["links"] - before["links"]), at_least=10)  # type: ignore[operator]
        os.kill(pid, how)
        run.claim(f"{how.name}: exit code", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), equals=wanted)
        nothing_is_left(run, how.name, before)


@experiment(_in_lab_time=True, timeout="120s", files=("jobs/looking.py",))
def networks_in_turn(run: Run) -> None:
    """Run networks in one process: a good one, some that cannot be, one whose user fails, and a good one again."""
    from testbed.errors import XoffError
    from testbed.net.build.network import network
    from testbed.net.build.topo import LosslessTopo
    from testbed.net.fabric.port import Buffer, Port
    from testbed.net.traffic import Flow, Flows
    from testbed.switch.priority.settings import PriorityMap
    from topologies.incast import Incast

    class Unlike(LosslessTopo):
        """A network whose two ends do not agree about priorities."""

        def build(self) -> None:
            self.addSwitch("s1")
            self.addLink(self.addHost("h1", port=Port(priorities=PriorityMap("dot1p"))), "s1")

    class NoCable(LosslessTopo):
        """A network that fails half-way, when there are nodes in it already."""

        def build(self) -> None:
            self.addSwitch("s1")
            self.addLink(self.addHost("h1"), "s1")
            self.addLink(self.addHost("h2"), "s1", cable="a string")

    def works() -> None:
        with network(Incast(n=2)) as net:
            with Flows([Flow(net["h1"], net["r"], count=20)]) as flows:
                flows.wait()
            run.claim("received", flows.reports[0].received, equals=20)

    def fails(name: str, make: Callable[[], Any], message: str) -> None:
        try:
            with network(make()):
                run.claim(f"{name}: starts", True, equals=False)
        except XoffError as error:
            run.claim(f"{name}: reason", str(error), equals=message)
        except Exception as error:
            run.claim(f"{name}: reason", repr(error), equals=message)

    before, room = everything(), room_for_namespaces()
    works()
    nothing_is_left(run, "the first", before)
    fails(
        "a buffer that is too small",
        lambda: Incast(n=2, buffer=Buffer(total=50)),
        "switch s1: guaranteed cells of all groups are 0, the headroom pool is 129, and the buffer has 50: "
        "79 cells are missing",
    )
    nothing_is_left(run, "a buffer that is too small", before)
    fails(
        "ports that do not agree",
        Unlike,
        "s1-eth1 trusts dscp, h1-eth0 trusts dot1p and takes untagged frames for priority 0; PFC of priority 3 would "
        "silently fail: give both the same trust",
    )
    nothing_is_left(run, "ports that do not agree", before)
    fails("a cable that is none", NoCable, "addLink(h2, s1): the cable is 'a string'; write Cable('10Gb/s', '5m')")
    nothing_is_left(run, "a cable that is none", before)
    try:
        with network(Incast(n=2)):
            raise ZeroDivisionError("the user's own mistake")
    except ZeroDivisionError as error:
        run.claim("the user's own mistake comes out", str(error), equals="the user's own mistake")
    nothing_is_left(run, "a user who fails", before)
    works()
    nothing_is_left(run, "the last", before)
    run.claim("more room for namespaces", room_for_namespaces() - room, at_most=8)


def test_agents_killed_at_random_moments_lose_nothing_where_cpu_work_takes_no_time(run: Runner) -> None:
    assert run(die_at_random).check().passed


def test_agents_killed_at_random_moments_lose_at_most_what_arrives_until_the_supervisor_notices(
    run: Runner, vm: PreparedEngine
) -> None:
    from tests.lab.conftest import failed_claims

    # The kernel's work for the end of a process takes milliseconds here, so timers are late and fidelity is degraded.
    result = run(die_at_random, on=vm)
    assert result.claims and failed_claims(result) == set()


def test_an_agent_that_keeps_dying_is_given_up_with_its_queues_open(run: Runner, output: Output) -> None:
    assert run(die_too_often).check().passed
    assert output.err.decode() == "the agent of s1 died 6 times within a second; its PFC agent is disabled\n"


def test_an_agent_that_cannot_be_started_anew_is_given_up(run: Runner, output: Output) -> None:
    assert run(dies_without_its_port).check().passed
    assert output.err.decode() == (
        "the agent of s1 cannot be started anew: [Errno 19] No such device; its PFC agent is disabled\n"
    )


def test_the_first_pauses_of_eight_ports_at_once_come_in_time(run: Runner) -> None:
    assert run(eight_senders).check().passed


def test_the_first_pauses_of_eight_ports_at_once_come_in_time_where_the_cpu_is_not_free(
    run: Runner, vm: PreparedEngine
) -> None:
    result = run(eight_senders, on=vm)
    assert result.check().passed and result.fidelity.verdict == "kept"


def test_agents_outlive_their_parents_and_end_with_the_network(
    run: Runner, output: Output, case: Mapping[str, bool]
) -> None:
    assert run(parents_die, **case).check().passed
    assert output.err.decode() == (
        "the agent supervisor and its deputy ended too early: agents that died after that were not restarted\n"
        if case["deputy"]
        else ""
    )


def test_networks_follow_each_other_whatever_became_of_the_one_before(run: Runner, vm: PreparedEngine) -> None:
    # Only a stock kernel counts the network namespaces that it has memory for.
    assert run(networks_in_turn, on=vm).check().passed
