"""Credits that all virtual channels of a port share: the law, the gate frame by frame, a timer in microseconds.

The statement is `testbed.switch.credits.sender`. The kernel's gate and the core get the same frames of random lengths
and channels while nothing comes back, and both let the same ones leave.
"""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Any

from testbed.lab import Run, experiment

if TYPE_CHECKING:
    from tests.lab.conftest import Runner

CELL, VCS = 208, (3, 4)
HISTORIES, FRAMES = 12, 40


def _line(mode: str, total: int, **timers: Any) -> Any:
    from testbed.net.build.topo import LosslessTopo
    from testbed.net.fabric.cable import Cable
    from testbed.net.fabric.port import Buffer, Port

    port = Port().without_pfc().with_credits(*VCS, cells=total, mode=mode, **timers)

    class Line(LosslessTopo):
        """The host h1, a cable with credits, the switch s1, and r behind it with PFC."""

        def build(self) -> None:
            self.addSwitch("s1", buffer=Buffer(4 * total + 2000, headroom=100))
            cable = Cable("10Gb/s", "20m")
            self.addLink(self.addHost("h1"), "s1", cable=cable, settings1=port, settings2=port)
            paused = Port().with_pfc(*VCS)
            self.addLink("s1", self.addHost("r"), cable=cable, settings1=paused, settings2=paused)

    return Line(scale=1000)


def _stated(mode: str, total: int, frames: list[tuple[int, int]]) -> dict[int, list[int]]:
    """Return for each channel the credits that are out, and the frames that could leave, by the core in Python."""
    from testbed.switch.credits.sender import CreditSender
    from testbed.switch.credits.settings import CreditMode, Credits

    sender = CreditSender(Credits(dict.fromkeys(VCS, total), CreditMode(mode), total=total, cell=CELL))
    left, stopped = dict.fromkeys(VCS, 0), set()
    for vc, length in frames:
        if vc not in stopped and sender.may_send(vc, length + 4):
            sender.sent(vc, length + 4, 0)
            left[vc] += 1
        else:
            stopped.add(vc)  # the first one that waits is before all that follow in its queue
    return {vc: [sender.counters[vc].sender_credits_used, left[vc]] for vc in VCS}


@experiment(timeout="2000s")
def gates(run: Run, mode: str = "per_port") -> None:
    """Random frames for a switch that passes none on, again and again: what is out, what has come, what waits."""
    from testbed.frames.mac_control import PfcFrame
    from testbed.net.build.network import network
    from testbed.net.shell.wire import RawPort

    total, dice, waited = 60 if mode == "per_port" else 45, random.Random(7), 0
    with (
        network(_line(mode, total), run) as net,
        RawPort(net["h1"], "h1-eth0") as wire,
        RawPort(net["r"], "r-eth0") as back,
    ):
        ends = [net.fabric.port(name).mac for name in ("r-eth0", "h1-eth0")]
        for number in range(HISTORIES):
            back.send(PfcFrame.xoff(ends[0], list(VCS)).encode())
            net.sleep("1us")
            before = [net.fabric.group("s1-eth1", vc).admitted_frames for vc in VCS]
            frames = [(dice.choice(VCS), dice.choice((60, 208, 209, 700, 1514))) for _ in range(FRAMES)]
            for vc, length in frames:
                wire.set_priority(vc)
                head = ends[0].octets + ends[1].octets + b"\x81\x00" + (vc << 13).to_bytes(2, "big") + b"\x88\xb6"
                wire.send(head.ljust(length, b"\0"))
                time.sleep(2e-3)
            found = net.fabric.credits("h1-eth0").vcs
            seen = {
                vc: [found[vc].sender_credits_used, net.fabric.group("s1-eth1", vc).admitted_frames - was]
                for vc, was in zip(VCS, before, strict=True)
            }
            run.claim(f"{number}: credits out and frames that left", seen, equals=_stated(mode, total, frames))
            waited += sum(left for _, left in seen.values()) < FRAMES
            back.send(PfcFrame.xon(ends[0], list(VCS)).encode())
            net.sleep("200us")
            one = net.fabric.credits("h1-eth0").vcs
            run.claim(f"{number}: credits out", [one[vc].sender_credits_used for vc in VCS], equals=[0, 0])
        both = net.fabric.credits("h1-eth0").vcs, net.fabric.credits("s1-eth1").vcs
        for vc in VCS:
            consumed = both[0][vc].sender_credits_consumed
            run.claim(f"{vc}: consumed at both ends", both[1][vc].receiver_credits_consumed, equals=consumed)
            run.claim(f"{vc}: consumed", consumed, at_least=500)
        run.claim("histories in which frames waited", waited, at_least=HISTORIES // 2)
        run.claim("frames that the switch dropped", net.fabric.dropped(), equals=0)


def test_the_gate_of_credits_per_port_lets_pass_what_the_core_does(run: Runner) -> None:
    run(gates, mode="per_port").check()


def test_the_gate_of_credits_per_channel_lets_pass_what_the_core_does(run: Runner) -> None:
    run(gates, mode="per_vc").check()


@experiment(timeout="600s")
def timed(run: Run) -> None:
    """CC_Updates by a time and by the octets that the line carries in it: 40 us of 10 Gb/s are 50 000 octets."""
    from testbed.net.build.network import network
    from testbed.net.traffic import Flow

    sent = {}
    for name, timer in (("time", {"cc_time": "40us"}), ("octets", {"cc_interval": 50_000}), ("default", {})):
        with network(_line("per_vc", 90, **timer), run, case=name) as net:
            net.run(Flow("h1", "r", 3, "1514B", count=1000))
            sent[name] = net.fabric.credits("h1-eth0").num_cc_update_messages_tx
    run.claim("CC_Updates by octets", sent["octets"], equals=sent["time"])
    octets = 1000 * 1538
    run.claim("CC_Updates by time", sent["time"], at_least=octets // 50_000 - 1, at_most=octets // 50_000 + 2)
    run.claim("CC_Updates by default", sent["default"], at_most=octets // 65_536 + 2)


def test_a_timer_in_microseconds_is_the_octets_of_the_line_in_it(run: Runner) -> None:
    run(timed).check()


@experiment(timeout="2000s")
def shared(run: Run) -> None:
    """A channel whose frames stand takes the credits of the other one; per channel it does not."""
    from testbed.frames.mac_control import PfcFrame
    from testbed.net.build.network import network
    from testbed.net.shell.wire import RawPort
    from testbed.net.traffic import Flow, Flows

    for mode, passes in (("per_port", False), ("per_vc", True)):
        with network(_line(mode, 88), run, case=mode) as net, RawPort(net["r"], "r-eth0") as back:
            back.send(PfcFrame.xoff(net.fabric.port("r-eth0").mac, [3]).encode())
            net.sleep("1us")
            flows = [Flow("h1", "r", vc, "1514B", count=300, start=start) for vc, start in ((3, "0s"), (4, "50us"))]
            with Flows(flows):
                net.sleep("500us")
                found = net.fabric.credits("h1-eth0").vcs
                got = net.fabric.group("s1-eth1", 4).admitted_frames
            run.claim(f"{mode}: credits that 3 has out", found[3].sender_credits_used, equals=88)
            run.claim(f"{mode}: frames of 4 that came", got, equals=300 if passes else 0)
            run.claim(f"{mode}: dropped", net.fabric.dropped(), equals=0)


def test_a_channel_that_stands_stops_the_other_one_if_they_share_credits(run: Runner) -> None:
    run(shared).check()
