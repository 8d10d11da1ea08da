"""Headroom measured by the agents of real ports."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from jobs.looking import wait_for

from testbed.frames import Mac
from testbed.frames.headroom import MeasurementRequest, Response
from testbed.lab import Run, experiment
from testbed.switch.buffer.settings import Static
from testbed.units import Duration
from xoff import configure_dcbx, dcbx_state, measure_headroom

if TYPE_CHECKING:
    from tests.lab.conftest import Runner


DELAYS_US = (1, 2, 5, 20, 100)


def star(run: Run, delays: tuple[str, ...], buffer: Any, **options: Any) -> Any:
    from testbed.net.build.network import network
    from testbed.net.build.topo import LosslessTopo
    from testbed.net.fabric.cable import Cable
    from testbed.net.fabric.port import Port

    class Star(LosslessTopo):
        def build(self) -> None:
            self.addSwitch("s1")
            for number, delay in enumerate(delays, 1):
                self.addLink(self.addHost(f"h{number}"), "s1", cable=Cable("10Gb/s", delay=delay))

    return network(Star(**{"port": Port().with_dcbx(headroom=True), "buffer": buffer} | options), run)


def measured(fabric: Any, port: str) -> Any:
    return dcbx_state(fabric, port)["measured"]


def wait_until_measured(fabric: Any, *ports: str) -> bool:
    return wait_for(lambda: all(measured(fabric, port)["phase"] == "measured" for port in ports))


@experiment(_in_lab_time=True, timeout="120s", files=("jobs/looking.py",))
def test_a_switch_with_many_ports_measures_them_all(run: Run, hosts: int = 24) -> None:
    """All ends of so many cables begin at once, and the lab's one CPU asks and answers for all of them."""
    from testbed.net.fabric.port import Buffer

    with star(run, ("5us",) * hosts, Buffer(total=60_000, headroom=100)) as net:
        waiting = net.fabric.names()
        while waiting and run.lab_ns < 30e9:
            time.sleep(1)  # looking at all of them keeps the CPU from measuring
            waiting = [port for port in waiting if measured(net.fabric, port)["phase"] != "measured"]
        run.claim("ports that have not measured", waiting, equals=[])
        run.figure("after", run.lab_ns / 1e9, "s")


@experiment(_in_lab_time=True, timeout="120s", files=("jobs/looking.py",))
def test_round_trips_are_measured_to_a_percent(run: Run) -> None:
    """Cables of several lengths, each measured by both of its ends."""
    from testbed.net.fabric.port import Buffer

    with star(run, tuple(f"{delay}us" for delay in DELAYS_US), Buffer(total=60_000, headroom=100)) as net:
        fabric = net.fabric
        ports = fabric.names()
        run.claim("measured", wait_until_measured(fabric, *ports), equals=True)
        with run.measuring():
            for port in ports:
                measure_headroom(fabric, port)
                time.sleep(0.35)
        for port in ports:
            found, cable = measured(fabric, port), fabric.port(port).cable
            true_ns = 2 * cable.delay.ns
            excess_ns = found["median_ns"] - true_ns
            run.figure(f"{port}, {cable}: excess of the shortest, median and longest round trip, in ns",
                       [found[name] - true_ns for name in ("shortest_ns", "median_ns", "round_trip_ns")])  # fmt: skip
            run.claim(f"{port}, {cable}: excess in ns", excess_ns, at_least=0, at_most=120_000)
            propagation_ns = found["tx_propagation_delay_ns"]
            run.claim(
                f"{port}, {cable}: txPropagationDelay in ns", propagation_ns, equals=-(-found["shortest_ns"] // 2)
            )
            if cable.delay >= Duration("5ms"):
                error = (found["shortest_ns"] - true_ns) * 100 / true_ns
                run.claim(f"{port}, {cable}: error of the shortest, in percent", error, at_least=0, at_most=1)
        run.figure("ns to stop a queue", fabric.snapshot("s1")["stopping_ns"])


@experiment(_in_lab_time=True, timeout="120s", files=("jobs/looking.py",))
def test_what_is_measured_divides_the_buffer_while_traffic_flows(run: Run) -> None:
    """What is measured becomes headroom and thresholds; another cable while two senders overload a port, too."""
    from testbed.net.fabric.port import Buffer
    from testbed.net.traffic import Flow, Flows

    buffer = Buffer(total=1500, xoff=None, headroom=300, shortest=1500)
    with star(run, ("10us", "10us", "10us"), buffer) as net:
        fabric = net.fabric
        names = [f"s1-eth{number}" for number in (1, 2, 3)]
        run.claim("measured", wait_until_measured(fabric, *names), equals=True)
        limits = [fabric.limits(name, 3) for name in names]
        cells = [measured(fabric, name)["cells"] for name in names]
        run.claim("headroom is what was measured", [limit.headroom for limit in limits], equals=cells)
        run.claim("less than was configured", max(cells), at_most=299)
        even = (1500 * 9 // 10 - sum(cells)) // 3
        run.claim("thresholds are even parts of the rest", sorted({limit.static for limit in limits}), equals=[even])
        with Flows([Flow(net[name], net["h3"]) for name in ("h1", "h2")]) as flows, run.measuring():
            wait_for(lambda: fabric.group("s1-eth1", 3).xoffs > 2)
            headrooms = []
            # Shorter at will. Longer by no more than the frame that a delay value has too many of: a cable that is
            # changed for a much longer one needs a link that goes down.
            for delay in ("5ms", "2ms", "2.4ms", "2.8ms", "3.2ms", "1ms"):
                fabric.cabling.change_delay("h1-eth0", Duration(delay))
                before = measured(fabric, "s1-eth1")["round_trip_ns"]
                measure_headroom(fabric, "s1-eth1")
                wait_for(lambda: measured(fabric, "s1-eth1")["round_trip_ns"] != before)  # noqa: B023
                headrooms.append(fabric.limits("s1-eth1", 3).headroom)
                time.sleep(0.3)
            flows.stop_sending()
        run.figure("limits in the end", [str(fabric.limits(name, 3)) for name in names])
        run.claim("cells in use", sum(fabric.buffer("s1").used), equals=0)
        run.claim("lost", [report.lost for report in flows.reports], equals=[0, 0])
        run.figure("headroom at each length", headrooms)
        order = sorted(range(6), key=lambda number: headrooms[number])
        # Those between differ by less than one slow sample may cost.
        run.claim("shortest and longest by their headroom", [order[0], order[-1]], equals=[5, 0])


@experiment(_in_lab_time=True, timeout="120s", files=("jobs/looking.py",))
def no_capability(run: Run) -> None:
    """One end does not announce that it measures: the default stays, and the status has the reason. Then it announces
    it.
    """
    from testbed.net.fabric.port import Buffer, Port

    plain = Port().with_dcbx().dcbx
    assert plain and plain.lossless is not None
    with star(run, ("10us", "10us"), Buffer(total=3000, headroom=300, xoff=Static(100))) as net:
        fabric = net.fabric
        configure_dcbx(fabric, "h1-eth0", plain)
        run.claim("the peer cannot", wait_for(lambda: measured(fabric, "s1-eth1")["phase"] == "off_there"), equals=True)
        run.claim("the other port measures", wait_until_measured(fabric, "s1-eth2"), equals=True)
        run.claim("default", fabric.limits("s1-eth1", 3).headroom, equals=300)
        run.figure("text", measured(fabric, "s1-eth1")["text"])
        able = Port().with_dcbx(headroom=True).dcbx
        configure_dcbx(fabric, "h1-eth0", able)
        run.claim("now it can", wait_until_measured(fabric, "s1-eth1"), equals=True)
        cells = measured(fabric, "s1-eth1")["cells"]
        run.claim("measured", fabric.limits("s1-eth1", 3).headroom, equals=cells)
        configure_dcbx(fabric, "h1-eth0", plain)
        wait_for(lambda: fabric.limits("s1-eth1", 3).headroom == 300)
        run.claim("default again", fabric.limits("s1-eth1", 3).headroom, equals=300)


@experiment(_in_lab_time=True, timeout="120s", files=("jobs/looking.py",))
def test_forged_frames_are_counted_and_change_nothing(run: Run) -> None:
    """Requests and answers without a request, replays, damage: counted, and nothing else."""
    from testbed.net.fabric.port import Buffer
    from testbed.net.shell.wire import RawPort

    with star(run, ("10us", "10us"), Buffer(total=3000, headroom=300, xoff=Static(100))) as net:
        fabric = net.fabric
        wait_until_measured(fabric, "s1-eth1", "h1-eth0", "s1-eth2")
        time.sleep(0.2)
        before, limits = measured(fabric, "s1-eth1"), fabric.limits("s1-eth1", 3)
        mac = Mac.parse("02:00:00:00:00:77")
        request = MeasurementRequest(mac, 0x12345678, 3, time.monotonic_ns())
        answer = Response.to(request, mac, 5, 9)
        damaged = bytearray(answer.encode(b""))
        damaged[40] ^= 1
        with RawPort(net["h1"], "h1-eth0", past_queues=True) as raw:
            for frame in [answer.encode(b""), answer.encode(b"another key"), bytes(damaged), answer.encode(b"")[:30]]:
                raw.repeat(frame, 1_000_000, 50)
            raw.repeat(request.encode(b""), 200_000, 200)
        time.sleep(0.5)
        after = measured(fabric, "s1-eth1")
        ignored = {
            reason: count - before["ignored"][reason]
            for reason, count in after["ignored"].items()
            if count != before["ignored"][reason]
        }
        run.figure("ignored", ignored)
        run.claim(
            "by reason", {"stray": 50, "wrong_tag": 100, "duplicate": 199}.items() <= ignored.items(), equals=True
        )
        run.claim("answers to a request that came 200 times", after["sent"]["responses"] - before["sent"]["responses"],
                  at_most=1)  # fmt: skip
        run.claim("round trip", after["round_trip_ns"], equals=before["round_trip_ns"])
        run.claim("limits", str(fabric.limits("s1-eth1", 3)), equals=str(limits))


def test_a_peer_without_the_capability_leaves_the_default(run: Runner) -> None:
    text = run(no_capability).check().figure("text")
    assert text.startswith("s1-eth1: headroom is not measured, since the peer does not announce it"), text
