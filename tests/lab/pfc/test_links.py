"""Other events in a lossless network: cables that go down and up, TCP, and broadcasts."""

from __future__ import annotations

import time
from itertools import product
from typing import TYPE_CHECKING, Any

from jobs.looking import wait_for

from testbed.lab import Run, experiment
from testbed.units import Duration, Rate

if TYPE_CHECKING:
    from tests.lab.conftest import Runner

LOSSLESS = 3
_DELAYS = [{"delay": "0s"}, {"delay": "5us"}]
CASES = {
    "test_a_cable_that_goes_down_frees_what_waits_for_it": _DELAYS,
    "test_a_pause_does_not_outlive_its_link_at_either_end": _DELAYS,
}


def balance(run: Run, fabric: Any, when: str) -> None:
    """Check that every cell that was charged has come back, once."""
    groups = [fabric.group(name, priority) for name in fabric.names() for priority in range(8)]
    run.claim(f"{when}: cells in use", sum(sum(group.used) for group in groups), equals=0)
    inside = sum(group.admitted_frames - group.released_frames for group in groups)
    run.claim(f"{when}: frames that were admitted and not released", inside, equals=0)
    waiting = sum(sum(fabric.sent(name).queued_bytes) for name in fabric.names())
    run.claim(f"{when}: octets in queues", waiting, equals=0)
    run.claim(f"{when}: impossible releases", sum(group.impossible_releases for group in groups), equals=0)


@experiment(_in_lab_time=True, timeout="60s", files=("jobs/looking.py",))
def test_a_cable_that_goes_down_frees_what_waits_for_it(run: Run, delay: Duration = Duration("0s")) -> None:
    """A cable goes down, at either end, while frames wait for it: they are lost, and their cells are free. It comes
    back, and traffic goes on without a loss.
    """
    from testbed.frames.mac_control import PfcFrame
    from testbed.net.build.network import network
    from testbed.net.shell.wire import RawPort
    from testbed.net.traffic import Flow, Flows
    from topologies.incast import Incast

    with network(Incast(n=2, delay=delay), run) as net:
        fabric = net.fabric
        leaving = fabric.between("s1", "r")
        for end in (fabric.far_end(leaving), leaving):
            name = end.name
            with RawPort(net["r"], "r-eth0") as raw:
                raw.send(PfcFrame.xoff(fabric.far_end(leaving).mac, [LOSSLESS], 4000).encode())
            time.sleep(0.01)
            flows = [Flow(net[f"h{n}"], net["r"], LOSSLESS, rate=Rate("4Mb/s"), count=40) for n in (1, 2)]
            with Flows(flows, settle=Duration("1s")) as sending:
                sending.wait()
                waiting = wait_for(lambda: sum(fabric.buffer("s1").used) == 2 * 40 * 8, seconds=0.1)
                run.claim(f"{name} down: all wait for it", waiting, equals=True)
                end.intf.ifconfig("down")
                freed = wait_for(lambda: not any(fabric.buffer("s1").used), seconds=3)
                run.claim(f"{name} down: they are free", freed, equals=True)
                time.sleep(0.3)
                end.intf.ifconfig("up")
                time.sleep(0.2)
            run.claim(f"{name} down: lost", [report.lost for report in sending.reports], equals=[40, 40])
            balance(run, fabric, f"{name} down")
            flows = [Flow(net[f"h{n}"], net["r"], LOSSLESS, count=100) for n in (1, 2)]
            with Flows(flows) as sending:
                sending.wait()
            run.claim(f"{name} up again: received", [report.received for report in sending.reports], equals=[100, 100])
            balance(run, fabric, f"{name} up again")


@experiment(timeout="60s", files=("jobs/looking.py",))
def test_a_link_that_comes_up_again_has_its_addresses_and_static_routes(run: Run) -> None:
    """Linux forgets IPv6 addresses and routes of an interface that is down; a configured host or router does not."""
    from testbed.net.build.network import network
    from topologies.incast import Incast

    with network(Incast(n=2), run) as net:
        host = net["h1"]
        for command in (
            "ip -6 address add 2001:db8::1/64 dev h1-eth0 nodad",
            "ip -6 address add fe80::7/64 dev h1-eth0 nodad",
            "ip route add 192.0.2.0/24 via 10.0.0.2 metric 7",
            "ip route add 198.51.100.0/24 dev h1-eth0 table 100",
            "ip -6 route add 2001:db8:1::/48 via 2001:db8::2",
        ):
            run.claim(command, host.cmd(command).strip(), equals="")
        ask = "ip -6 -o address show dev h1-eth0; ip route show table all proto boot; ip -6 route show proto boot"

        def known() -> list[str]:
            return sorted(" ".join(line.split()) for line in host.cmd(ask).splitlines())

        before = known()
        for _ in range(2):
            net.configLinkStatus("h1", "s1", "down")
            run.claim("while it is down", len(known()), equals=0)
            net.configLinkStatus("h1", "s1", "up")
            time.sleep(2)
            run.claim("when it is up again", known(), equals=before)


@experiment(_in_lab_time=True, timeout="60s", files=("jobs/looking.py",))
def test_a_pause_does_not_outlive_its_link_at_either_end(run: Run, delay: Duration = Duration("0s")) -> None:
    """The receiver pauses its switch for as long as it can; after the cable was lost and is back, the pause is over.

    Set down and up at either end, quickly or slowly, or the cable pulled where it has a middle. What is congested when
    a link comes back is paused afresh: the sender overloads the switch beside another one, and nothing is lost.
    """
    from testbed.frames.mac_control import PfcFrame
    from testbed.net.build.network import network
    from testbed.net.shell.wire import RawPort
    from testbed.net.traffic import Flow, Flows
    from topologies.incast import Incast

    with network(Incast(n=2, delay=delay), run) as net:
        fabric = net.fabric
        leaving = fabric.between("s1", "r")
        far = fabric.far_end(leaving)

        def set_down(port: Any) -> tuple[Any, Any]:
            return (lambda: port.intf.ifconfig("down")), (lambda: port.intf.ifconfig("up"))

        ways = {"the receiver's port": set_down(far), "the switch's port": set_down(leaving)}
        if delay.ps:
            ways["the cable"] = (lambda: fabric.cabling.pull(far.name)), (lambda: fabric.cabling.plug(far.name))
        for (name, (lose, restore)), seconds in product(ways.items(), (0.001, 1.5)):
            case = f"{name}, for {seconds} s"
            flow = Flow(net["h1"], net["r"], LOSSLESS, rate=Rate("5Mb/s"))
            with Flows([flow], settle=Duration("1s")) as flows:
                time.sleep(0.1)
                with RawPort(net["r"], "r-eth0") as raw:
                    raw.send(PfcFrame.xoff(far.mac, [LOSSLESS]).encode())
                stopped = wait_for(lambda: fabric.pfc(leaving.name, LOSSLESS)["paused_until_ns"] is not None)
                run.claim(f"{case}: paused before", stopped, equals=True)
                lose()
                time.sleep(seconds)
                restore()
                time.sleep(0.1)
                begin_ns = time.monotonic_ns()
                time.sleep(1)
                paused = fabric.pfc(leaving.name, LOSSLESS)["paused_until_ns"]
                run.claim(f"{case}: paused after", paused is not None, equals=False)
                flows.stop_sending()
            goodput = flows.reports[0].goodput_between(begin_ns, begin_ns + 900_000_000)
            run.claim(f"{case}: goodput after", goodput, at_least=Rate("4.9Mb/s"), at_most=Rate("5.1Mb/s"))
            balance(run, fabric, case)
        lose, restore = set_down(fabric.between("s1", "h1"))
        with Flows([Flow(net[f"h{n}"], net["r"], LOSSLESS) for n in (1, 2)], settle=Duration("5s")) as flows:
            time.sleep(0.5)
            lose()
            time.sleep(0.2)
            restore()
            time.sleep(1)
            flows.stop_sending()
        run.claim("an overload over a flap: dropped by the switch", fabric.dropped(), equals=0)
        balance(run, fabric, "an overload over a flap")


@experiment(_in_lab_time=True, timeout="60s", files=("jobs/looking.py",))
def vanish(run: Run) -> None:
    """Send frames to an absent station: the switch forwards them, and no host receives or counts them."""
    from testbed.net.build.network import network
    from testbed.net.traffic import Flow, Flows
    from topologies.incast import Incast

    with network(Incast(n=1), run, autoStaticArp=True) as net:
        net["h1"].cmd("ip", "neighbour", "replace", net["r"].IP(), "lladdr", "02:00:00:00:99:99", "dev", "h1-eth0")
        with Flows([Flow(net["h1"], net["r"], LOSSLESS, count=20)], settle=Duration("1s")) as flows:
            flows.wait()
        run.claim("lost", flows.reports[0].lost, equals=20)
        run.claim("dropped by the switch", net.fabric.dropped(), equals=0)


@experiment(_in_lab_time=True, timeout="60s", files=("jobs/looking.py",))
def test_tcp_and_broadcasts_beside_lossless_traffic_leave_no_cell_behind(run: Run) -> None:
    """TCP, pings and a flood of broadcasts run beside lossless datagrams, and all counters add up."""
    from testbed.net.build.network import network
    from testbed.net.shell.wire import RawPort
    from testbed.net.traffic import Flow, Flows, ping
    from topologies.incast import Incast

    with network(Incast(n=3, scale=100), run) as net:
        fabric = net.fabric
        lossless = Flow(net["h2"], net["r"], LOSSLESS, rate=Rate("20Mb/s"), duration=Duration("1500ms"))
        tcp = Flow(net["h1"], net["r"], priority=0, transport="tcp", duration="1s")
        with Flows([lossless, tcp]) as flows:
            with RawPort(net["h3"], "h3-eth0") as raw:
                source = fabric.port("h3-eth0").mac.octets
                raw.send_all([b"\xff" * 6 + source + b"\x88\xb5" + bytes(500)] * 200)
            answered = sum(ping(net["h3"], net[name]) is not None for name in ("h1", "h2", "r"))
            flows.wait()
        wait_for(lambda: not any(fabric.buffer("s1").used))
        run.figure("goodput of TCP", flows.reports[1].goodput)
        run.claim(
            "goodput of TCP, beside 20 Mb/s", flows.reports[1].goodput, at_least=Rate("70Mb/s"), at_most=Rate("80Mb/s")
        )
        run.claim("pings that were answered", answered, equals=3)
        run.claim("lossless datagrams lost", flows.reports[0].lost, equals=0)
        copies = fabric.group("s1-eth3", 0).admitted_frames
        run.claim("copies of broadcasts, with some of pings and ARP", copies, at_least=600, at_most=620)
        balance(run, fabric, "in the end")


def test_a_loss_that_no_counter_explains_fails_a_run(run: Runner) -> None:
    result = run(vanish)
    (claim,) = (claim for claim in result.claims if not claim.passed)
    assert (claim.name, claim.measured) == ("lost, and in no counter", 20)


@experiment(_in_lab_time=True, timeout="60s", files=("jobs/looking.py",))
def test_a_frame_of_the_links_mtu_arrives_whole_and_a_longer_one_is_refused(run: Run) -> None:
    """On a link with an MTU of 9198 a frame of 9216 octets with FCS passes, charged by its cells; others refuse it."""
    from testbed.errors import UsageError
    from testbed.net.build.network import network
    from testbed.net.build.topo import LosslessTopo
    from testbed.net.fabric.cable import Cable
    from testbed.net.traffic import Flow, Flows

    class Links(LosslessTopo):
        def build(self) -> None:
            self.addSwitch("s1")
            for host in ("h1", "h2"):
                self.addLink(self.addHost(host), "s1", cable=Cable("10Gb/s", "1m", mtu=9198))

    with network(Links(), run, autoStaticArp=True) as net:
        with Flows([Flow("h1", "h2", 3, "9212B", count=50)]) as flows, run.measuring():
            flows.wait()
        group = net.fabric.group("s1-eth1", 3)
        run.claim("received", flows.reports[0].received, equals=50)
        run.claim("frames and cells", [group.admitted_frames, group.admitted_cells], equals=[50, 50 * 45])
        try:
            Flows([Flow("h1", "h2", 3, "9213B", count=1)])
        except UsageError as error:
            way_out = "9212B is the longest without fragments; Cable(..., mtu=9199) takes such frames"
            run.claim("way out for a longer frame", str(error).rpartition("9198, ")[2], equals=way_out)
        run.claim("wire time of 50 frames", flows.reports[0].goodput.bps, at_least=9_900_000, at_most=10_010_000)
