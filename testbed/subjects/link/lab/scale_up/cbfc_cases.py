"""CBFC-01 to CBFC-12 of the Scale-Up Test Standard in the lab: hosts with credits at a switch, at 100 Gb/s.

The DUT is the switch s1, whose buffer has cells of 64 octets, and the tester's ports are the hosts: h1 sends by
credits, and r drains, or pauses the switch. What SAI counts at the DUT's Tx port is read where
frames are sent by credits.
"""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from testbed.frames.mac_control import PfcFrame
from testbed.lab.studies.plan_rows import SIZES
from testbed.net.build.network import network
from testbed.net.build.topo import LosslessTopo
from testbed.net.fabric.cable import Cable
from testbed.net.fabric.port import Buffer, Port
from testbed.net.shell.wire import RawPort
from testbed.net.traffic import Flow, Flows
from testbed.subjects.link.lab.scale_up.measured import Measured
from testbed.switch.credits import law
from testbed.switch.credits.law import Link
from testbed.switch.priority.settings import PriorityMap
from testbed.units import Duration, Rate

RATE, SCALE = "100Gb/s", 10_000
_VC, _OTHER, _BEST_EFFORT, _CELL, _FCS = 3, 4, 0, 64, 4
_BUFFER = 4096
_LINE = 24
"""The octets of a frame on the line beside those that Linux counts."""


def _theory(length: int) -> int:
    """Return the credits of a frame by the standard's formula: cells of 64 octets, the FCS not kept."""
    return (length - _FCS + _CELL - 1) // _CELL


def _port(*vcs: int, priorities: PriorityMap | None = None, **options: Any) -> Port:
    port = Port(priorities=priorities) if priorities else Port()
    return port.without_pfc().with_credits(*(vcs or (_VC,)), **options)


def _started(to: Measured, port: Port, case: str = "", **of: Any) -> Any:
    return network(_topo(port, **of), to.run, case=case)


def _topo(
    port: Port, hosts: int = 1, out: Cable | None = None, cable: Cable | None = None, total: int = 60_000
) -> LosslessTopo:
    class Star(LosslessTopo):
        """Hosts with credits at the switch s1, and r, which pauses it by PFC."""

        def build(self) -> None:
            self.addSwitch("s1", buffer=Buffer(total, cell=_CELL, headroom=2000))
            plain = Cable(RATE, "2m", mtu=9216)
            for number in range(1, hosts + 1):
                self.addLink(self.addHost(f"h{number}"), "s1", cable=cable or plain, settings1=port, settings2=port)
            paused = Port(priorities=port.priorities).with_pfc(_VC, _OTHER)
            self.addLink("s1", self.addHost("r"), cable=out or plain, settings1=paused, settings2=paused)

    return Star(scale=SCALE, mismatch="ignore")


class _Tester:
    """The behaviour of the tester's ports."""

    def __init__(self, net: Any) -> None:
        self.net, self.fabric = net, net.fabric
        self._wire = RawPort(net["r"], "r-eth0")
        self._mac = net.fabric.port("r-eth0").mac

    def pause(self, *vcs: int) -> None:
        self._wire.send(PfcFrame.xoff(self._mac, vcs or (_VC,)).encode())
        self.net.sleep("500ns")

    def resume(self, *vcs: int) -> None:
        self._wire.send(PfcFrame.xon(self._mac, vcs or (_VC,)).encode())

    def sender(self, vc: int = _VC, host: str = "h1") -> Any:
        return self.fabric.credits(f"{host}-eth0").vcs[vc]

    def receiver(self, vc: int = _VC, port: str = "s1-eth1") -> Any:
        return self.fabric.credits(port).vcs[vc]

    def passed(self, vc: int, port: str = "s1-eth1") -> int:
        """Return the frames that a port has taken in."""
        return int(self.fabric.group(port, vc).admitted_frames)


def _frame(length: int) -> str:
    return f"{length - _FCS}B"


def _counted(to: Measured, read: Callable[[_Tester], tuple[int, ...]], name: str, theory: Any, notes: str = "") -> None:
    with _started(to, _port(cells=_BUFFER, cc_interval=(1 << 32) - 1)) as net:
        to.begins(net)
        on = _Tester(net)
        for length in SIZES:
            frames = min(100, _BUFFER // _theory(length))
            total, before = frames * _theory(length), read(on)
            more: dict[str, Any] = {"frame": length, "settings": f"{frames} frames{notes}"}
            on.pause()
            with Flows([Flow("h1", "r", _VC, _frame(length), count=frames)]):
                net.sleep("110us")
                found = [one - other for one, other in zip(read(on), before, strict=True)]
                to.claim(f"{name} when all is held", found, equals=theory(total)[0], **more)
                on.resume()
                net.sleep("150us")
            found = [one - other for one, other in zip(read(on), before, strict=True)]
            to.claim(f"{name} when all is freed", found, equals=theory(total)[1], **more)


def sender_counters(to: Measured) -> None:
    def read(on: _Tester) -> tuple[int, ...]:
        one = on.sender()
        return one.sender_credits_used, one.sender_credits_consumed, one.sender_credits_freed

    _counted(to, read, "SENDER_CREDITS_USED, _CONSUMED, _FREED", lambda total: ([total, total, 0], [0, total, total]))


def receiver_counters(to: Measured) -> None:
    def read(on: _Tester) -> tuple[int, ...]:
        one = on.receiver()
        return one.receiver_credits_consumed, one.receiver_credits_freed

    _counted(to, read, "RECEIVER_CREDITS_CONSUMED, _FREED", lambda total: ([total, 0], [total, total]))


def lost_credits(to: Measured) -> None:
    total = 100 * _theory(512)
    with _started(to, _port(cells=_BUFFER)) as net:
        to.begins(net)
        on = _Tester(net)
        net.fabric.core.cabling.change_loss("h1-eth0", 1)
        net.run(Flow("h1", "r", _VC, _frame(512), count=100))
        net.sleep("100us")
        one = on.receiver()
        name = "RECEIVER_CREDITS_CONSUMED, _FREED"
        more: dict[str, Any] = {"frame": 512, "settings": "CC_Updates are lost, too"}
        found = [one.receiver_credits_consumed, one.receiver_credits_freed]
        to.claim(f"{name} without CC_Updates", found, equals=[0, 0], **more)
        to.claim("S_P_CU at the sender without CC_Updates", on.sender().sender_credits_used, equals=total, **more)
        net.fabric.core.cabling.change_loss("h1-eth0", 0)
        net.sleep("100us")
        sender, receiver = on.sender(), on.receiver()
        found = [receiver.receiver_credits_consumed, receiver.receiver_credits_freed]
        expected = [sender.sender_credits_consumed, sender.sender_credits_freed]
        to.claim(f"{name} with CC_Updates, as S_VC_CC and S_VC_CF", found, equals=expected, frame=512)
        to.claim("credits of the 100 packets", found, equals=[total, total], frame=512)
        to.claim("S_P_CU at the sender", sender.sender_credits_used, equals=0, frame=512)


def _taken(on: _Tester, vc: int, length: int, window: str, port: str = "s1-eth1") -> float:
    """Return the share of the line that a channel has in a time from now on."""
    before = on.passed(vc, port)
    on.net.sleep(window)
    octets = (on.passed(vc, port) - before) * (length - _FCS + _LINE)
    return float(octets * 8 / Rate(RATE).bits_in(Duration(window)))


def backpressure(to: Measured) -> None:
    for drain, out in ((Fraction(1), RATE), (Fraction(1, 2), "50Gb/s"), (Fraction(0), RATE)):
        with _started(to, _port(), f"drain {drain}", out=Cable(out, "2m", mtu=9216)) as net:
            to.begins(net)
            on = _Tester(net)
            for length in SIZES:
                more: dict[str, Any] = {"frame": length, "settings": f"drain {drain}"}
                if not drain:
                    on.pause()
                with Flows([Flow("h1", "r", _VC, _frame(length), duration="60us")]):
                    net.sleep("20us")
                    to.share("throughput", float(drain), _taken(on, _VC, length, "30us"), **more)
                    on.resume()
                    net.sleep("150us")
            to.claim("frames that found no cell", net.fabric.dropped(), equals=0, settings=f"drain {drain}")


def _mapped(to: Measured, port: Port, frames: Mapping[str, tuple[bytes, int]]) -> None:
    """Send frames that have a channel each, and claim that each enters it; the lossless one counts credits."""
    with _started(to, port) as net, RawPort(net["h1"], "h1-eth0", past_queues=True) as wire:
        to.begins(net)
        on = _Tester(net)
        ends = net.fabric.port("r-eth0").mac.octets + net.fabric.port("h1-eth0").mac.octets
        wrong, lossless = [], 0
        for name, (behind, vc) in frames.items():
            before = [on.passed(one) for one in range(8)]
            wire.send((ends + behind).ljust(100, b"\0"))
            time.sleep(2e-3)
            entered = [one for one in range(8) if on.passed(one) > before[one]]
            to.claim(f"VC of {name}", entered, equals=[vc], settings="a random map")
            lossless += vc == _VC
            wrong += [] if entered == [vc] else [name]
        consumed = on.receiver().receiver_credits_consumed
        to.claim("RECEIVER_CREDITS_CONSUMED of the lossless VC", consumed, equals=2 * lossless, settings="a random map")


def pcp_and_dei(to: Measured) -> None:
    dice = random.Random(5)
    plain, eligible = ({pcp: dice.randrange(8) for pcp in range(8)} for _ in range(2))
    port = _port(priorities=PriorityMap("dot1p", pcp_to_dot1p=plain, dei_to_dot1p=eligible))
    frames = {
        f"PCP {pcp}, DEI {dei}": (struct.pack("!HHH", 0x8100, pcp << 13 | dei << 12 | 0, 0x88B6), table[pcp])
        for dei, table in ((0, plain), (1, eligible))
        for pcp in range(8)
    }
    _mapped(to, port, frames)


def _of_dscp(version: int) -> Callable[[Measured], None]:
    def case(to: Measured) -> None:
        dice = random.Random(version)
        table = {dscp: dice.randrange(8) for dscp in range(64)}
        frames = {}
        for dscp, vc in table.items():
            if version == 4:
                behind = struct.pack("!HBBHHHBBH8x", 0x0800, 0x45, dscp << 2, 80, 0, 0, 64, 59, 0)
            else:
                behind = struct.pack("!HIHBB32x", 0x86DD, 6 << 28 | dscp << 22, 0, 59, 64)
            frames[f"DSCP {dscp}"] = behind, vc
        _mapped(to, _port(priorities=PriorityMap("dscp", dscp_to_dot1p=table)), frames)

    return case


def per_vc(to: Measured) -> None:
    more: dict[str, Any] = {"frame": 1518, "settings": "per VC, VC 3 drains 0"}
    with _started(to, _port(_VC, _OTHER)) as net:
        to.begins(net)
        on = _Tester(net)
        on.pause()
        with Flows([Flow("h1", "r", vc, _frame(1518), duration="150us") for vc in (_VC, _OTHER)]):
            net.sleep("30us")
            before = on.passed(_VC)
            to.share("throughput of VC 4, alone on the line", 1.0, _taken(on, _OTHER, 1518, "80us"), **more)
            to.claim("frames of VC 3 in this time", on.passed(_VC) - before, equals=0, **more)
        to.claim("frames that found no cell", net.fabric.dropped(), equals=0, **more)


def per_port(to: Measured) -> None:
    with _started(to, _port(_VC, _OTHER, mode="per_port", cells=_BUFFER)) as net:
        to.begins(net)
        on = _Tester(net)
        with Flows([Flow("h1", "r", vc, _frame(1518), duration="200us") for vc in (_VC, _OTHER)]):
            net.sleep("10us")
            before = {vc: on.passed(vc) for vc in (_VC, _OTHER)}
            net.sleep("50us")
            for vc, was in before.items():
                octets = (on.passed(vc) - was) * (1518 - _FCS + _LINE)
                share = octets * 8 / Rate(RATE).bits_in(Duration("50us"))
                to.share(f"throughput of VC {vc} without back-pressure", 0.5, float(share), 1518, "per port")
            on.pause()
            net.sleep("50us")
            rate = _taken(on, _OTHER, 1518, "50us")
            more: dict[str, Any] = {"frame": 1518, "settings": "per port, VC 3 drains 0"}
            to.claim(
                "throughput of VC 4, which may or may not be affected", round(rate, 4), at_least=0, at_most=1, **more
            )
            out = [on.sender(vc).sender_credits_used for vc in (_VC, _OTHER)]
            to.claim(
                "credits of both that are out", sum(out), at_least=_BUFFER - _theory(1518), at_most=_BUFFER, **more
            )
        to.claim("frames that found no cell", net.fabric.dropped(), equals=0, **more)


def _incast(to: Measured, *, mixed: bool) -> None:
    for senders in (2, 3):
        port = _port()
        more: dict[str, Any] = {"frame": 1518, "settings": f"{senders} to 1"}
        with _started(to, port, f"{senders} to 1", hosts=senders, total=12_000) as net:
            to.begins(net)
            on = _Tester(net)
            vcs = (_VC, _BEST_EFFORT) if mixed else (_VC,)
            hosts = [f"h{number}" for number in range(1, senders + 1)]
            flows = [Flow(host, "r", vc, _frame(1518), count=400) for host in hosts for vc in vcs]
            reports = net.run(*flows).reports
            for host in hosts:
                stalls = on.sender(host=host).stalls
                to.claim(f"times that a frame of {host} waited for credits", stalls, at_least=1, **more)
            lost = {vc: sum(report.lost for report in reports[place :: len(vcs)]) for place, vc in enumerate(vcs)}
            to.claim("lossless frames lost", lost[_VC], equals=0, **more)
            if mixed:
                to.claim("best-effort frames lost: normal degradation", lost[_BEST_EFFORT], at_least=1, **more)


def incast(to: Measured) -> None:
    _incast(to, mixed=False)


def mixed_incast(to: Measured) -> None:
    _incast(to, mixed=True)


def capacity(to: Measured) -> None:
    delay = Duration("2500ns")
    cable = Cable(RATE, delay=delay, mtu=9216)
    for length in (9216, 64):
        limit = law.credits(Link(Rate(RATE), delay, length, _CELL)).cells
        for cells, is_control in ((limit, False), (limit // 2, True)):
            more: dict[str, Any] = {"frame": length, "settings": f"500 m there and back, {cells} credits"}
            port = _port(cells=max(cells, _theory(9216)))
            with _started(to, port, f"{length}, {cells}", cable=cable) as net:
                to.begins(net)
                on = _Tester(net)
                with Flows([Flow("h1", "r", _VC, _frame(length), duration="90us")]):
                    net.sleep("30us")
                    share = _taken(on, _VC, length, "50us")
                if is_control:
                    to.claim("control, not in the standard: throughput with half the credits", round(share, 4),
                             at_most=0.95, **more)  # fmt: skip
                else:
                    to.share("throughput", 1.0, share, **more)
                    to.claim("frames that found no cell", net.fabric.dropped(), equals=0, **more)


CBFC_CASES: dict[str, Callable[[Measured], None]] = {
    f"CBFC-{number:02d}": case
    for number, case in enumerate(
        (
            sender_counters, receiver_counters, lost_credits, backpressure, pcp_and_dei, _of_dscp(4), _of_dscp(6),
            per_vc, per_port, incast, mixed_incast, capacity,
        ),
        1,
    )
}  # fmt: skip
"""The cases by their names."""
