"""LLR-01 to LLR-10 of the Scale-Up Test Standard in the lab: a cable with LLR between two switches, at 200 Gb/s.

The DUT's Tx port is s1-eth2, its Rx port s2-eth2. The tester is the cable's jammer and the hosts behind the switches.
RETRY_COUNT of the standard is TX_REPLAY of the Tx port.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from testbed.lab.studies.plan_rows import SIZES
from testbed.net.build.network import network
from testbed.net.build.topo import LosslessTopo
from testbed.net.fabric.cable import Cable
from testbed.net.shell.wire import RawPort, Tap
from testbed.net.traffic import Flow, Flows
from testbed.subjects.link.lab.scale_up.measured import Measured
from testbed.switch.link.errors import FecErrors
from testbed.switch.link.jam import Jam
from testbed.switch.link.retry import Llr, needed
from testbed.units import Duration, Rate, Size

RATE, SCALE = "200Gb/s", 20_000
TX, RX = "s1-eth2", "s2-eth2"
_PRIORITY, _FRAME, _BESIDE = 3, 500, 24
_ALL = 10**6
_DELAYED = 200
"""The frames of each kind whose latency is compared."""
_TO_ONE_LINK = bytes.fromhex("0180c200000e")


class Pair(LosslessTopo):
    """Two hosts, two switches, and the cable between these."""

    def build(self, middle: Cable | None = None) -> None:
        plain = Cable(RATE, "5m", mtu=9216)
        for number, host in ((1, "h1"), (2, "r")):
            self.addSwitch(f"s{number}")
            self.addLink(self.addHost(host), f"s{number}", cable=plain)
        self.addLink("s1", "s2", cable=middle or plain)


class _Link:
    def __init__(self, net: Any) -> None:
        self.net, self.fabric = net, net.fabric

    def send(self, count: int, frame: int = _FRAME) -> Any:
        """Send frames of a length with FCS, and return the report of their flow."""
        (report,) = self.net.run(Flow("h1", "r", _PRIORITY, f"{frame - 4}B", count=count)).reports
        return report

    def of(self, port: str, *names: str) -> list[int]:
        report = self.fabric.llr(port)
        return [report[name] for name in names]

    def count(self, port: str, name: str) -> int:
        return int(self.fabric.llr(port)[name])

    def jam(self, port: str, *jams: Jam) -> None:
        self.fabric.core.cabling.jam(port, *jams)

    def drop_acks(self, fate: str = "lost") -> None:
        self.jam(RX, Jam("ack", fate, self.of(RX, "TX_ACK_CTL_OS")[0] + 1, _ALL))


def _started(to: Measured, llr: Llr | bool = True, case: str = "", **cable: Any) -> Any:
    options = {"length": "5m"} | cable if "delay" not in cable else cable
    middle = Cable(RATE, mtu=9216, llr=llr, **options)
    return network(Pair(scale=SCALE, middle=middle), to.run, case=case)


def _whole(to: Measured, report: Any, **more: Any) -> None:
    to.claim("frames lost, doubled, out of order", (report.lost, report.doubled, report.out_of_order), equals=(0, 0, 0),
             **more)  # fmt: skip


def acknowledged(to: Measured) -> None:
    with _started(to) as net:
        to.begins(net)
        on = _Link(net)
        to.claim("states of both senders", [net.fabric.llr(port).state for port in (TX, RX)], equals=["ADVANCE"] * 2)
        _whole(to, on.send(100), frame=_FRAME)
        to.claim("LLR_RX_OK on the Rx port", on.count(RX, "RX_OK"), frame=_FRAME, equals=100)
        to.claim("LLR_TX_OK on the Tx port", on.count(TX, "TX_OK"), frame=_FRAME, equals=100)
        sent = on.count(RX, "TX_ACK_CTL_OS")
        to.claim("LLR_RX_ACK_CTL_OS on the Tx port", on.count(TX, "RX_ACK_CTL_OS"), frame=_FRAME, equals=sent)


def asked_for(to: Measured) -> None:
    with _started(to) as net:
        to.begins(net)
        on = _Link(net)
        on.jam(TX, Jam("frame", "lost", 50))
        report = on.send(100)
        to.claim("LLR_RX_NACK_CTL_OS on the Tx port", on.count(TX, "RX_NACK_CTL_OS"), frame=_FRAME, equals=1)
        to.claim("RETRY_COUNT on the Tx port", on.count(TX, "TX_REPLAY"), frame=_FRAME, equals=1)
        to.claim("LLR_RX_REPLAY on the Rx port", on.count(RX, "RX_REPLAY"), frame=_FRAME, equals=1)
        _whole(to, report, frame=_FRAME)


def timed_out(to: Measured) -> None:
    for fate, name in (("lost", "scenario A: ACKs blocked"), ("frozen", "scenario B: ACKs with a frozen number")):
        more: dict[str, Any] = {"frame": _FRAME, "settings": f"{name}, REPLAY_COUNT_MAX 3"}
        llr = Llr(replay_count=3, re_init=False, flush_action="discard")
        with _started(to, llr, fate) as net:
            to.begins(net)
            on = _Link(net)
            on.drop_acks(fate)
            report = on.send(100)
            net.sleep("200us")
            to.claim("state of the sender", net.fabric.llr(TX).state, equals="FLUSH", **more)
            to.claim("retries", on.count(TX, "TX_REPLAY"), equals=3, **more)
            to.claim("packets dropped", report.lost, at_least=1, **more)
            came = on.of(TX, "RX_ACK_CTL_OS")[0]
            bounds: dict[str, Any] = {"at_least": 1} if fate == "frozen" else {"equals": 0}
            to.claim("ACKs that came", came, **more, **bounds)


def nack(to: Measured) -> None:
    for fate, name in (("damaged", "a bad CRC"), ("lost", "a gap of sequence")):
        more: dict[str, Any] = {"frame": _FRAME, "settings": name}
        with _started(to, case=name) as net:
            to.begins(net)
            on = _Link(net)
            on.jam(TX, Jam("frame", fate, 500))
            report = on.send(1000)
            if fate == "damaged":
                to.claim(
                    "LLR_RX_EXPECTED_SEQ_BAD on the Rx port", on.count(RX, "RX_EXPECTED_SEQ_BAD"), equals=1, **more
                )
            to.claim("LLR_TX_NACK_CTL_OS on the Rx port", on.count(RX, "TX_NACK_CTL_OS"), equals=1, **more)
            to.claim("LLR_RX_REPLAY on the Rx port", on.count(RX, "RX_REPLAY"), equals=1, **more)
            _whole(to, report, **more)


def poisoned(to: Measured) -> None:
    with _started(to) as net:
        to.begins(net)
        on = _Link(net)
        on.jam(TX, Jam("frame", "poisoned", 50))
        report = on.send(100)
        for name, expected in (("RX_EXPECTED_SEQ_POISONED", 1), ("TX_NACK_CTL_OS", 0), ("RX_REPLAY", 0), ("RX_OK", 99)):
            to.claim(f"LLR_{name} on the Rx port", on.count(RX, name), frame=_FRAME, equals=expected)
        to.claim("LLR_TX_OK on the Tx port", on.count(TX, "TX_OK"), frame=_FRAME, equals=99)
        to.claim("frames that arrived", report.received, frame=_FRAME, equals=99)


def outstanding(to: Measured) -> None:
    more: dict[str, Any] = {
        "frame": _FRAME,
        "settings": "OUTSTANDING_FRAMES_MAX 4, one replay, FLUSH_LLR_FRAME_ACTION discard",
    }
    with _started(to, Llr(frames=4, replay_count=1, re_init=False, flush_action="discard")) as net:
        to.begins(net)
        on = _Link(net)
        on.drop_acks()
        on.send(100)
        net.sleep("100us")
        to.claim("frames replayed before FLUSH", on.of(TX, "TX_OK")[0] - 4, equals=4, **more)
        to.claim("state of the sender", net.fabric.llr(TX).state, equals="FLUSH", **more)


def capacity(to: Measured) -> None:
    delay = Duration("2500ns")
    frames, octets = needed(Rate(RATE), delay, 9216)
    for length, count in ((9216, 600), (64, 6000)):
        on_line = Rate(RATE).time_for(Size.from_bytes(length - 4 + _BESIDE))
        for parts in (1, 3):
            more: dict[str, Any] = {
                "frame": length,
                "settings": f"500 m there and back, {frames // parts} frames, {octets // parts} B",
            }
            llr = Llr(frames=frames // parts, octets=octets // parts, replay_timer="65us")
            with _started(to, llr, f"{length}, {parts}", delay=delay) as net:
                to.begins(net)
                report = _Link(net).send(count, length)
                took_ns = report.last_lab_ns - report.first_lab_ns
                share = (count - 1) * on_line.ps * SCALE / (took_ns * 1000)
                if parts == 1:
                    to.share("throughput", 1.0, share, **more)
                    _whole(to, report, **more)
                else:
                    to.claim("control, not in the standard: throughput with a third of the buffer", round(share, 4),
                             at_most=0.95, **more)  # fmt: skip


def recovered(to: Measured) -> None:
    more: dict[str, Any] = {"frame": _FRAME, "settings": "RE_INIT_ON_FLUSH"}
    with _started(to, Llr(replay_count=1)) as net:
        to.begins(net)
        on = _Link(net)
        on.jam(TX, Jam("frame", "lost", 10, 40))
        on.send(20)
        net.sleep("100us")
        flushes = net.fabric.llr(TX).flushes
        to.claim("flushes", flushes, at_least=1, **more)
        to.claim("state of the sender afterwards", net.fabric.llr(TX).state, equals="ADVANCE", **more)
        to.claim("LLR_RX_INIT_CTL_OS on the Rx port", on.count(RX, "RX_INIT_CTL_OS"), equals=1 + flushes, **more)
        on.jam(TX)
        to.claim("frames that arrive of 100 afterwards", on.send(100).received, equals=100, **more)


def sizes(to: Measured) -> None:
    with _started(to, Llr(frames=2000, octets=2_000_000)) as net:
        to.begins(net)
        on = _Link(net)
        for length in SIZES:
            _whole(to, on.send(100, length), frame=length)
        to.claim("LLR_RX_OK on the Rx port", on.count(RX, "RX_OK"), equals=100 * len(SIZES))


def mixed(to: Measured) -> None:
    count = 300
    for errors, name in ((None, "no errors"), (FecErrors("1/100"), "uncorrectable codewords")):
        more: dict[str, Any] = {"frame": _FRAME, "settings": name}
        with (
            _started(to, case=name, errors=errors) as net,
            RawPort(net["s1"], TX) as raw,
            Tap(net["s2"], RX) as tap,
        ):
            to.begins(net)
            on = _Link(net)
            source = net.fabric.port(TX).mac.octets
            plain = (_TO_ONE_LINK + source + b"\x88\xcc").ljust(_FRAME - 4, b"\0")
            gap_ns = Rate(RATE).time_for(Size.from_bytes(_FRAME - 4 + _BESIDE)).ns * SCALE * 3
            with Flows([Flow("h1", "r", _PRIORITY, f"{_FRAME - 4}B", Rate(RATE) // 4, count=count)]):
                for _ in range(count):
                    raw.send(plain)
                    time.sleep(gap_ns / 1e9)
                net.sleep("50us")
                came = sum(frame[:6] == _TO_ONE_LINK for frame in tap.frames())
                good = on.count(RX, "RX_EXPECTED_SEQ_GOOD")
            to.claim("LLR frames lost", count - good, equals=0, **more)
            bounds: dict[str, Any] = {"at_least": 1} if errors else {"equals": 0}
            to.claim("other frames lost", count - came, **more, **bounds)
            if errors is None:
                other = (net.fabric.port("r-eth0").mac.octets + source + b"\x88\xb6").ljust(_FRAME - 4, b"\0")
                delays = {kind: _mean_delay(raw, tap, frame, gap_ns) for kind, frame in (("LLR", other), ("", plain))}
                to.claim("frames of the first kind with a number", on.count(RX, "RX_EXPECTED_SEQ_GOOD") - good,
                         equals=_DELAYED, **more)  # fmt: skip
                to.share("mean latency of LLR frames, of that of others", 1.0, delays["LLR"] / delays[""], **more)


def _mean_delay(raw: RawPort, tap: Tap, frame: bytes, gap_ns: int) -> float:
    """Return the mean time of frames from the port to the other end, in ns of the lab."""
    sent = []
    for _ in range(_DELAYED):
        sent.append(time.monotonic_ns())
        raw.send(frame)
        time.sleep(gap_ns / 1e9)
    came = [at_ns for at_ns, seen in tap.arrivals() if seen == frame]
    if len(came) != len(sent):
        return 0.0
    return sum(came) / len(came) - sum(sent) / len(sent)


LLR_CASES: dict[str, Callable[[Measured], None]] = {
    f"LLR-{number:02d}": case
    for number, case in enumerate(
        (acknowledged, asked_for, timed_out, nack, poisoned, outstanding, capacity, recovered, sizes, mixed), 1
    )
}
"""The cases by their names."""
