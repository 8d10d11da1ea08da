"""Credits between ports of the lab: the law to the frame, counters, lost messages, beside PFC, and what is refused.

The model of a line, with the cores in Python (`tests/reference/credit_line.py`),
says how long a sender stands still, and the kernel stands still for as long.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from testbed.lab import Run, experiment

if TYPE_CHECKING:
    from testbed.lab.engines.engine import PreparedEngine
    from tests.lab.conftest import Runner

CELL, VC = 208, 3
SILENT = (1 << 32) - 1
"""No CC_Update while a test runs."""
RATES = ("100Gb/s", "400Gb/s", "800Gb/s")
CABLES = {"5 m": "25ns", "100 m": "500ns", "2 km": "10us", "50 km": "250us"}
"""Delays of fibre."""
LAB_NS = 130
"""The most that a frame of a line at 10 Mb/s in the lab may be late."""


def frame(cable: str) -> int:
    """Return a length of frames, without FCS: over 50 km long ones, of which fewer are under way.

    The times until credits are back are more than half a frame after a whole number of them, which lateness of many
    frames does not reach.
    """
    return 9012 if cable == "50 km" else 1077


@experiment(timeout="20000s")
def the_law(run: Run, cable: str = "5 m") -> None:
    from testbed.switch.credits import law
    from testbed.switch.credits.law import Link
    from testbed.units import Duration, Rate

    delay = CABLES[cable]
    for rate in RATES:
        length = frame(cable)
        need = law.credits(Link(Rate(rate), Duration(delay), length + 4, CELL))
        case = f"{rate}, {delay}"
        for name, limit in (("enough credits", need.cells), ("one less", need.cells - 1)):
            found = _sent(run, (rate, delay, length), limit, limit, 3 * need.frames)
            run.figure(f"{case}, {name}: nanoseconds without credits", found["stalled"])
            run.claim(f"{case}, {name}: lost", found["lost"], equals=0)
            run.claim(f"{case}, {name}: stalled", found["stalls"] > 0, equals=limit < need.cells)
        for name, buffer, lost in (("enough cells", need.cells, 0), ("a cell less", need.cells - 1, 1)):
            found = _sent(run, (rate, delay, length), need.cells, buffer, 2 * need.frames, blocked=True)
            run.claim(f"{case}, {name}: dropped", found["dropped"], equals=lost)
            run.claim(f"{case}, {name}: most credits out", found["most"], equals=need.cells)


def _sent(
    run: Run, line: tuple[str, str, int], limit: int, buffer: int, count: int, *, blocked: bool = False
) -> dict[str, float]:
    """Send frames over a cable with so many credits and cells; with `blocked` the switch passes none on for the
    time of a pause, 3.3 ms on the slower line of its way out.
    """
    from testbed.frames.mac_control import PfcFrame
    from testbed.net.build.network import network
    from testbed.net.build.topo import LosslessTopo
    from testbed.net.fabric.cable import Cable
    from testbed.net.fabric.port import Buffer, Port
    from testbed.net.shell.wire import RawPort
    from testbed.net.traffic import Flow
    from testbed.switch.buffer.settings import GroupSettings, Static
    from testbed.units import Rate

    rate, delay, length = line
    own = GroupSettings(guaranteed=buffer, threshold=Static(0))
    with_credits = Port().with_credits(VC, cells=limit, cc_interval=SILENT)

    class Line(LosslessTopo):
        """The host h1, a cable with credits, the switch s1, and r behind it with PFC."""

        def build(self) -> None:
            self.addSwitch("s1", buffer=Buffer(buffer + 1000, headroom=100, groups={(1, VC): own}))
            cable = Cable(rate, delay=delay, mtu=9216)
            self.addLink(self.addHost("h1"), "s1", cable=cable, settings1=with_credits, settings2=with_credits)
            self.addLink("s1", self.addHost("r"), cable=Cable("10Gb/s" if blocked else rate, mtu=9216))

    with network(Line(scale=Rate(rate).bps // 10**7), run) as net, RawPort(net["r"], "r-eth0") as wire:
        if blocked:
            wire.send(PfcFrame.xoff(net.fabric.port("r-eth0").mac, [VC]).encode())
            net.sleep("1us")
        flows = net.run(Flow("h1", "r", VC, f"{length}B", count=count))
        one = net.fabric.credits("h1-eth0").vcs[VC]
        return {
            "lost": flows.lost,
            "dropped": sum(net.fabric.group("s1-eth1", VC).dropped_frames),
            "stalls": one.stalls,
            "stalled": one.stalled_ns,
            "most": one.sender_credits_used_watermark,
        }


def test_the_credits_of_the_law_are_enough_and_one_less_is_not_over_5_m(run: Runner) -> None:
    _compare(run, "5 m")


def test_the_credits_of_the_law_are_enough_and_one_less_is_not_over_100_m(run: Runner) -> None:
    _compare(run, "100 m")


def test_the_credits_of_the_law_are_enough_and_one_less_is_not_over_2_km(run: Runner) -> None:
    _compare(run, "2 km")


def test_the_credits_of_the_law_are_enough_and_one_less_is_not_over_50_km(run: Runner) -> None:
    _compare(run, "50 km")


def _compare(run: Runner, cable: str) -> None:
    from testbed.units import Rate

    result = run(the_law, cable=cable)
    result.check()
    for rate in RATES:
        measured = result.figure(f"{rate}, {CABLES[cable]}, one less: nanoseconds without credits")
        stated, frames = modelled(rate, cable)
        assert abs(measured - stated) * Rate(rate).bps / 10**7 <= LAB_NS * frames


def modelled(rate: str, cable: str) -> tuple[float, int]:
    """Return the nanoseconds for which the cores in Python stand still, with one credit less, and the frames sent."""
    from testbed.switch.credits import law
    from testbed.switch.credits.law import Link
    from testbed.switch.credits.settings import Credits
    from testbed.units import Duration, Rate
    from tests.reference.credit_line import Line

    link = Link(Rate(rate), Duration(CABLES[cable]), frame(cable) + 4, CELL)
    need = law.credits(link)
    settings = Credits({VC: need.cells - 1}, cell=CELL, cc_interval=SILENT)
    line = Line(link, need.cells, settings, count=3 * need.frames).run(10 * need.ps)
    return line.idle_ps / 1000, 3 * need.frames


@experiment(timeout="600s")
def beside(run: Run) -> None:
    """Credits for 3, PFC for 4 and nothing for 0 on each port: an incast of all, of frames of many lengths."""
    from testbed.net.build.network import network
    from testbed.net.fabric.port import Port
    from testbed.net.traffic import Flow
    from topologies.incast import Incast

    port = Port().with_pfc(4).with_credits(VC)
    lengths = {"h1": 60, "h2": 209, "h3": 1027, "h4": 1514}
    with network(Incast(n=4, port=port, total=8000), run) as net:
        flows = net.run(
            *(Flow(host, "r", VC, f"{length}B", count=200) for host, length in lengths.items()),
            *(Flow(host, "r", 4, "1514B", count=200) for host in lengths),
        )
        run.claim("lost", flows.lost, equals=0)
        for number, (host, length) in enumerate(lengths.items(), 1):
            sender = net.fabric.credits(f"{host}-eth0")
            receiver = net.fabric.credits(f"s1-eth{number}")
            one, other = sender.vcs[VC], receiver.vcs[VC]
            expected = 200 * -(-length // CELL)
            run.claim(f"{length}: credits taken and back at both ends",
                      [one.sender_credits_consumed, one.sender_credits_freed, other.receiver_credits_consumed,
                       other.receiver_credits_freed], equals=[expected] * 4)  # fmt: skip
            idle = [one.sender_credits_used, other.lost, sender.num_cf_updates_refused]
            run.claim(f"{length}: out, lost, refused", idle, equals=[0, 0, 0])
            run.claim(f"{length}: messages that left and came", [receiver.num_cf_update_messages_tx,
                      sender.num_cc_update_messages_tx], equals=[sender.num_cf_update_messages_rx,
                      receiver.num_cc_update_messages_rx])  # fmt: skip
        pauses = {priority: net.fabric.pfc("s1-eth1", priority)["xoff_sent"] for priority in (VC, 4)}
        run.claim("PAUSE for 3", pauses[VC], equals=0)
        run.claim("PAUSE for 4", pauses[4], at_least=1)


def test_credits_beside_pfc_on_the_same_ports(run: Runner) -> None:
    run(beside).check()


@experiment(timeout="600s")
def losses(run: Run) -> None:
    """A cable that loses frames, CF_Updates and CC_Updates: all credits come back, and the flow ends."""
    from testbed.net.build.network import network
    from testbed.net.build.topo import LosslessTopo
    from testbed.net.fabric.cable import Cable
    from testbed.net.fabric.port import Port
    from testbed.net.traffic import Flow

    port = Port().with_credits(VC, cells=40)

    class Line(LosslessTopo):
        def build(self) -> None:
            self.addSwitch("s1")
            lossy = Cable("100Gb/s", "20m", loss="1/10")
            self.addLink(self.addHost("h1"), "s1", cable=lossy, settings1=port, settings2=port)
            self.addLink("s1", self.addHost("r"), cable=Cable("100Gb/s"))

    with network(Line(), run) as net:
        flows = net.run(Flow("h1", "r", VC, "1514B", count=2000))
        net.sleep("1ms")
        sender, receiver = net.fabric.credits("h1-eth0"), net.fabric.credits("s1-eth1")
        one, other = sender.vcs[VC], receiver.vcs[VC]
        run.claim("lost frames", flows.lost, at_least=100)
        run.claim("lost credits, and those of lost frames", other.lost, equals=8 * flows.lost)
        run.claim("credits out", one.sender_credits_used, equals=0)
        run.claim("credits that came back", one.sender_credits_freed, equals=16_000)
        run.claim("CF_Updates lost", receiver.num_cf_update_messages_tx - sender.num_cf_update_messages_rx, at_least=1)
        run.claim("CC_Updates lost", sender.num_cc_update_messages_tx - receiver.num_cc_update_messages_rx, at_least=1)


def test_credits_of_lost_frames_and_lost_updates_come_back(run: Runner) -> None:
    run(losses).check()


@experiment(timeout="100s")
def refused(run: Run) -> None:
    from testbed.net.build.network import network
    from testbed.net.fabric.port import Port
    from topologies.incast import Incast

    with network(Incast(n=1, port=Port().with_credits(VC)), run):
        pass


def test_the_other_engine_refuses_credits_in_a_line(run: Runner, vm: PreparedEngine) -> None:
    result = run(refused, on=vm)
    assert "has credits, which the kernel of the engine um alone has" in result.reason


@experiment(timeout="100s")
def divided(run: Run) -> None:
    from testbed.net.build.network import network
    from testbed.net.fabric.cable import Cable
    from testbed.net.fabric.port import Port
    from topologies.leaf_spine import LeafSpine

    with network(LeafSpine(hosts=1, cable=Cable("10Gb/s", "100m"), port=Port().with_credits(VC)), run):
        pass


def test_a_network_over_several_kernels_refuses_credits_in_a_line(ready: PreparedEngine, tmp_path: Path) -> None:
    from testbed import lab
    from testbed.experiment import definition

    result = lab.run(definition.load_file(Path(__file__), "divided"), on=ready, out=tmp_path, partitions=2)
    assert result.status != "ok"
    why = "has credits, which a network over several kernels cannot have"
    assert re.fullmatch(rf".* {why}; run it without --partitions, or leave with_credits out", result.reason)
