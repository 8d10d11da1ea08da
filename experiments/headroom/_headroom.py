"""Bursts into a switch whose queue is stopped, over links of any kind: what headroom each needs, and what it lost.

    h1 ---+
    h2 ---s1--- r     The receiver stops the switch's queue; all send at line rate until PAUSE reaches them.
    hn ---+

Not an experiment.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil

from xoff import (
    Buffer,
    Cable,
    Duration,
    Fabric,
    Flow,
    Flows,
    LosslessTopo,
    Mac,
    MeasurementSettings,
    Network,
    PfcFrame,
    Port,
    Rate,
    RawPort,
    Run,
    Size,
    XoffError,
    dcbx_state,
    measure_headroom,
    network,
)

LINE = Rate("10Gb/s")
FRAME = Size("1514B")
FRAME_TIME = LINE.time_for(FRAME + Size("24B"))
"""The time of a frame on the line."""
FRAME_CELLS = 8
PRIORITY = 3
_SAMPLES, _LAB_INTERVAL = 16, Duration("10ms")
"""The samples of a measurement, and the time between them in the lab, whose CPU has to keep up."""
_MORE = 12
"""Frames that each sender has beyond what it should be able to send."""


@dataclass(frozen=True)
class Sender:
    """A host on a cable of its own."""

    delay: Duration
    """The delay of the cable, one way."""
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
    round_trip: Duration | None
    """The longest round trip that was measured, from which headroom is computed."""
    median: Duration | None
    status: str


def able(port: Port | None = None) -> Port:
    """Return the port with the capability to measure headroom, for cables of any length."""
    patient = MeasurementSettings(
        samples=_SAMPLES,
        interval_ns=_LAB_INTERVAL.ns,
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
        both_able = [name for name, sender in zip(ports, senders, strict=True) if port.dcbx and sender.port.measures]
        wait_until_measured(fabric, both_able)
        for name in both_able:  # again, now that nothing else is being started
            measure_headroom(fabric, name)
            time.sleep((_SAMPLES * _LAB_INTERVAL.ns + net.lab_ns(fabric.port(name).cable.delay * 2)) / 1e9 + 0.3)
        round_trips = [sender.delay * 2 + sender.port.obeys_after for sender in senders]
        counts = [below + ceil(trip / FRAME_TIME) + _MORE for trip in round_trips]
        lost = [0] * len(senders)
        for before in range(times):
            flows = [
                Flow(net[f"h{number}"], target, PRIORITY, FRAME, count=count)
                for number, count in zip(numbers, counts, strict=True)
            ]
            wire.send(PfcFrame.xoff(mac, [PRIORITY]).encode())
            with Flows(flows, settle=Duration("20ms")) as running:
                with run.measuring():
                    deadline = time.monotonic() + 60
                    while any(fabric.group(name, PRIORITY).xoffs <= before for name in ports):
                        if time.monotonic() > deadline:
                            raise XoffError("a port did not send PAUSE")
                        _hold(net, wire, mac, Duration("100us"))
                    _hold(net, wire, mac, max(round_trips) + Duration("100us"))
                wire.send(PfcFrame.xon(mac, [PRIORITY]).encode())
                running.wait()
            lost = [so_far + report.lost for so_far, report in zip(lost, running.reports, strict=True)]
        found = []
        for name, many in zip(ports, lost, strict=True):
            group = fabric.group(name, PRIORITY)
            measured = dcbx_state(fabric, name)["measured"] if port.dcbx else None
            found.append(
                Seen(
                    lost=many,
                    dropped=sum(group.dropped_frames),
                    used=group.high_water[2] // FRAME_CELLS,
                    pauses=group.xoffs,
                    headroom=fabric.limits(name, PRIORITY).headroom,
                    round_trip=_duration(measured and measured["round_trip_ns"]),
                    median=_duration(measured and measured["median_ns"]),
                    status=measured["text"] if measured else "",
                )
            )
    return found


def _duration(ns: float | None) -> Duration | None:
    return None if ns is None else Duration.nearest_ns(ns)


def _hold(net: Network, wire: RawPort, mac: Mac, duration: Duration) -> None:
    """Keep the receiver from taking anything for so long."""
    until_lab_s = time.monotonic() + net.lab_ns(duration) / 1e9
    while (left_lab_s := until_lab_s - time.monotonic()) > 0:
        wire.send(PfcFrame.xoff(mac, [PRIORITY]).encode())
        time.sleep(min(left_lab_s, net.lab_ns("100us") / 1e9))


def wait_until_measured(fabric: Fabric, ports: Sequence[str], lab_seconds: float = 60) -> None:
    """Wait until all of these ports have measured their headroom, which takes the lab's time."""
    deadline = time.monotonic() + lab_seconds
    while waiting := [port for port in ports if dcbx_state(fabric, port)["measured"]["phase"] != "measured"]:
        if time.monotonic() > deadline:
            raise XoffError(f"after {lab_seconds} s of the lab: {dcbx_state(fabric, waiting[0])['measured']['text']}")
        time.sleep(0.5)  # to answer keeps agents from their work, which is what is measured
