"""Bursts into a switch whose queue is stopped, over links of any kind: what headroom each needs, and what it lost.

    h1 ---+
    h2 ---s1--- r     The receiver stops the switch's queue; all send at line rate until PAUSE reaches them.
    hn ---+

Not an experiment.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from testbed.switch.headroom.exchange import Settings
from xoff import (
    Buffer,
    Cable,
    Duration,
    Fabric,
    Flow,
    Flows,
    LosslessTopo,
    Mac,
    PfcFrame,
    Port,
    Rate,
    RawPort,
    Run,
    Size,
    XoffError,
    network,
)

LINE = Rate("10Gb/s")
FRAME = Size("1514B")
FRAME_TIME = LINE.time_for(FRAME + Size("24B"))
"""The time of a frame on the hardware's line; in the lab it is a thousand times as long."""
FRAME_CELLS = 8
PRIORITY = 3
_SAMPLES, _INTERVAL = 16, Duration("10ms")
_LAB_LINE = Rate("10Mb/s")
_MORE = 12
"""Frames that each sender has beyond what it should be able to send."""


@dataclass(frozen=True)
class Sender:
    """A host on a cable of its own."""

    delay: Duration
    """The delay of the cable, one way, in hardware's time."""
    port: Port


@dataclass(frozen=True)
class Seen:
    """The losses of a sender's bursts, and the headroom that they needed."""

    lost: int
    """Frames that were sent and did not arrive."""
    dropped: int
    """Frames for which the switch had no headroom."""
    used: int
    """The most frames that lay in headroom."""
    pauses: int
    headroom: int
    """The cells of headroom that the port had."""
    round_trip_ns: int | None
    """The longest round trip that was measured, from which headroom is computed."""
    median_ns: int | None
    status: str


def able(port: Port | None = None) -> Port:
    """Return the port with the capability to measure headroom, for cables of any length."""
    patient = Settings(
        samples=_SAMPLES,
        interval_ns=_INTERVAL.ns,
        timeout_ns=20_000_000_000,
        repeat_ns=None,
        stamp_lag_ns=1_000_000_000,
    )
    return replace(port or Port(), measurement=patient).with_dcbx(headroom=True)


def bursts(
    run: Run, senders: Sequence[Sender], port: Port, buffer: Buffer, below: int, *, times: int = 1
) -> list[Seen]:
    """Have all senders send bursts at a switch, and return what became of those of each.

    The ports of the switch have these settings, and fit `below` frames below XOFF.
    """

    class Links(LosslessTopo):
        def build(self) -> None:
            self.addSwitch("s1")
            for number, sender in enumerate(senders, 1):
                self.addHost(f"h{number}", port=sender.port)
                self.addLink(f"h{number}", "s1", cable=Cable(LINE, delay=sender.delay))
            self.addLink(self.addHost("r"), "s1", cable=Cable("100Gb/s"), settings1=Port(), settings2=Port())

    numbers = range(1, len(senders) + 1)
    with network(Links(port=port, buffer=buffer)) as net, RawPort(net["r"], "r-eth0") as wire:
        fabric, target = net.fabric, net["r"]
        mac = fabric.port("r-eth0").mac
        ports = [f"s1-eth{number}" for number in numbers]
        both_able = [
            name
            for name, sender in zip(ports, senders, strict=True)
            if port.dcbx and sender.port.dcbx and sender.port.dcbx.pfc and sender.port.dcbx.pfc.headroom
        ]
        wait_until_measured(fabric, both_able)
        for name in both_able:  # again, now that nothing else is being started
            fabric.measure(name)
            time.sleep((_SAMPLES * _INTERVAL.ns + 2 * fabric.port(name).cable.delay.ns) / 1e9 + 0.3)
        round_trips = [
            2 * fabric.port(name).cable.delay.ns + sender.port.obeys_after.ns
            for name, sender in zip(ports, senders, strict=True)
        ]
        counts = [below + -(-trip_ns // _LAB_LINE.time_for(FRAME + Size("24B")).ns) + _MORE for trip_ns in round_trips]
        lost = [0] * len(senders)
        for before in range(times):
            flows = [
                Flow(net[f"h{number}"], target, PRIORITY, FRAME, count=count)
                for number, count in zip(numbers, counts, strict=True)
            ]
            wire.send(PfcFrame.xoff(mac, [PRIORITY]).encode())
            with Flows(flows, settle=Duration("20s")) as running:
                with run.measuring():
                    deadline = time.monotonic() + 60
                    while any(fabric.group(name, PRIORITY).xoffs <= before for name in ports):
                        if time.monotonic() > deadline:
                            raise XoffError("a port did not send PAUSE")
                        _hold(wire, mac, 0.1)
                    _hold(wire, mac, max(round_trips) / 1e9 + 0.1)
                wire.send(PfcFrame.xon(mac, [PRIORITY]).encode())
                running.wait()
            lost = [so_far + report.lost for so_far, report in zip(lost, running.reports, strict=True)]
        found = []
        for name, many in zip(ports, lost, strict=True):
            group = fabric.group(name, PRIORITY)
            measured = fabric.dcbx(name)["measured"] if port.dcbx else None
            found.append(
                Seen(
                    lost=many,
                    dropped=sum(group.dropped_frames),
                    used=group.high_water[2] // FRAME_CELLS,
                    pauses=group.xoffs,
                    headroom=fabric.limits(name, PRIORITY).headroom,
                    round_trip_ns=measured and measured["round_trip_ns"],
                    median_ns=measured and measured["median_ns"],
                    status=measured["text"] if measured else "",
                )
            )
    return found


def _hold(wire: RawPort, mac: Mac, seconds: float) -> None:
    """Keep the receiver from taking anything for so long."""
    until_s = time.monotonic() + seconds
    while (left := until_s - time.monotonic()) > 0:
        wire.send(PfcFrame.xoff(mac, [PRIORITY]).encode())
        time.sleep(min(left, 0.1))


def wait_until_measured(fabric: Fabric, ports: Sequence[str], seconds: float = 60) -> None:
    """Wait until all of these ports have measured their headroom."""
    deadline = time.monotonic() + seconds
    while waiting := [port for port in ports if fabric.dcbx(port)["measured"]["phase"] != "measured"]:
        if time.monotonic() > deadline:
            raise XoffError(f"after {seconds} s: {fabric.dcbx(waiting[0])['measured']['text']}")
        time.sleep(0.5)  # to answer keeps agents from their work, which is what is measured
