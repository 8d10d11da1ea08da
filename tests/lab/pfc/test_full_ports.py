"""Senders whose port drops their frames, and queues that fill: no sender runs away, and each loss is counted."""

from __future__ import annotations

import time
from typing import Any

from jobs.looking import wait_for

from testbed.lab import Run, experiment
from testbed.units import Duration

LOSSLESS = 3
CASES = {
    "test_a_sender_is_no_faster_than_its_line_whatever_becomes_of_its_frames": [
        {"how": "pulled", "transport": "udp"},
        {"how": "pulled", "transport": "roce"},
        {"how": "pulled", "transport": "tcp"},
        {"how": "down", "transport": "udp"},
        {"how": "red", "transport": "udp"},
    ]
}


def balance(run: Run, fabric: Any) -> None:
    """Check that every cell that was charged has come back, once."""
    wait_for(lambda: not any(sum(fabric.buffer(switch).used) for switch in fabric.buffers))
    groups = [fabric.group(name, priority) for name in fabric.names() for priority in range(8)]
    run.claim("cells in use in the end", sum(sum(group.used) for group in groups), equals=0)
    run.claim("impossible releases", sum(group.impossible_releases for group in groups), equals=0)


@experiment(_in_lab_time=True, timeout="60s", files=("jobs/looking.py",))
def test_a_sender_is_no_faster_than_its_line_whatever_becomes_of_its_frames(
    run: Run, how: str = "pulled", transport: str = "udp"
) -> None:
    """Two flows of a host at 10 Mb/s, and its port drops all of their frames, or those that RED would mark: in 300 ms
    it is given no more than its line takes, 244 full frames, and what two sockets hold. Flows go on afterwards, and
    each lost frame is in a counter.
    """
    from testbed.net.build.network import network
    from testbed.net.fabric.port import Port
    from testbed.net.traffic import Flow, Flows
    from testbed.switch.ecn.curve import EcnCurve
    from topologies.incast import Incast

    port = Port(ecn={LOSSLESS: EcnCurve("3kB", "3kB", 1)}) if how == "red" else Port()
    options: dict[str, Any] = {"transport": transport}
    if transport == "tcp":
        options["duration"] = "3s"
    with network(Incast(1, port=port, length="200m"), run, autoStaticArp=True) as net:
        fabric = net.fabric
        own, far = fabric.port("h1-eth0"), fabric.port("s1-eth1")
        ways: dict[str, tuple[Any, Any]] = {
            "pulled": (lambda: fabric.cabling.pull(own.name), lambda: fabric.cabling.plug(own.name)),
            "down": (lambda: far.intf.ifconfig("down"), lambda: far.intf.ifconfig("up")),
            "red": (lambda: None, lambda: None),
        }
        lose, restore = ways[how]
        with Flows([Flow("h1", "r", LOSSLESS, **options)] * 2, settle=Duration("20s")) as flows, run.measuring():
            time.sleep(0.5)
            lose()
            before = sum(fabric.sent(own.name).sent_frames)
            time.sleep(0.3)
            given = sum(fabric.sent(own.name).sent_frames) - before
            restore()
            time.sleep(0.5)
            received = [flows.received_by(index) for index in range(2)]
            if transport == "tcp":
                flows.wait()
            else:
                time.sleep(1)
            flows.stop_sending()
        run.figure("frames given in 300 ms", given)
        # Two connections of RoCE have each a rate of their own.
        frames, sockets = 2 * 334 if transport == "roce" else 244, 2 * (256_000 // 2304 + 50)
        run.claim("frames that the port was given in 300 ms", given, at_most=frames + sockets)
        grown = [report.received - old for report, old in zip(flows.reports, received, strict=True)]
        run.claim("received after it", min(grown), at_least=200)
        counted = fabric.losses() or {}
        run.claim("frames lost, beside those in a counter", fabric.core.flows.lost - sum(counted.values()), at_most=0)
        if transport == "udp":
            run.claim("frames lost", fabric.core.flows.lost, equals=sum(counted.values()))
            reasons = {"ECN curve"} if how == "red" else {"port without a link", "queue of a lost link", "cable"}
            run.claim("other reasons", sorted(counted.keys() - reasons), equals=[])
        balance(run, fabric)


@experiment(_in_lab_time=True, timeout="300s", files=("jobs/looking.py",))
def test_a_queue_holds_all_that_its_buffer_admits(run: Run) -> None:
    """A receiver pauses its port for a minute. The buffer has room for the 70 MB that come, and so has the queue."""
    from testbed.frames.mac_control import PfcFrame
    from testbed.net.build.network import network
    from testbed.net.fabric.port import Buffer
    from testbed.net.shell.wire import RawPort
    from testbed.net.traffic import Flow, Flows
    from testbed.switch.buffer.settings import Static
    from topologies.incast import Incast

    frames = 46_000
    buffer = Buffer(total=700_000, xoff=Static(600_000), headroom=1000)
    with network(Incast(1, buffer=buffer), run, autoStaticArp=True) as net, RawPort(net["r"], "r-eth0") as wire:
        mac = net.fabric.port("r-eth0").mac
        xoff = PfcFrame.xoff(mac, [LOSSLESS]).encode()
        with Flows([Flow("h1", "r", LOSSLESS, count=frames)], settle=Duration("90s")) as flows:
            wire.repeat(xoff, 10**9, 58)
            group = net.fabric.group("s1-eth1", LOSSLESS)
            wire.send(PfcFrame.xon(mac, [LOSSLESS]).encode())
            flows.wait()
        run.claim("frames that were admitted in the pause", group.admitted_frames, equals=frames)
        run.claim("cells that they took", sum(group.used), at_least=360_000)
        run.claim("XOFF that was sent", group.xoffs, equals=0)
        run.claim("frames lost", flows.reports[0].lost, equals=0)
        balance(run, net.fabric)


@experiment(_in_lab_time=True, timeout="60s", files=("jobs/looking.py",))
def test_what_a_queue_with_a_limit_has_no_room_for_is_not_the_cables(run: Run) -> None:
    """ECN curves may have a limit, which buffers do not know; the frames beyond it are counted as they are lost."""
    from testbed.net.build.network import network
    from testbed.net.fabric.port import Port
    from testbed.net.traffic import Flow, Flows
    from testbed.switch.ecn.curve import EcnCurve
    from testbed.switch.ecn.field import Ecn
    from topologies.incast import Incast

    curve = EcnCurve("20kB", "20kB", 1, limit="30kB")
    with network(Incast(2, port=Port(ecn={LOSSLESS: curve}).without_pfc()), run, autoStaticArp=True) as net:
        with Flows([Flow(host, "r", LOSSLESS, ecn=Ecn.ECT_0, count=300) for host in ("h1", "h2")]) as flows:
            flows.wait()
        lost = sum(report.lost for report in flows.reports)
        run.claim("frames lost", lost, at_least=50)
        run.claim("by reason", net.fabric.losses(), equals={"full queue": lost})
