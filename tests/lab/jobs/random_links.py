"""Links of random rate, length, frame size and load: the headroom that each measures, and the headroom that it needs.

What a link needs is seen, not computed: the far end sends at full rate, nothing leaves the switch, and headroom is so
large that it is never full. The other way is busy as well. The most that was in headroom, over several XOFFs, is what
losslessness needs.
"""

from __future__ import annotations

import struct
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

from looking import wait_for

from testbed.errors import XoffError
from testbed.frames import Mac
from testbed.frames.mac_control import PfcFrame
from testbed.lab import Run, experiment
from testbed.switch.buffer.settings import GroupSettings, Static
from testbed.units import Duration, Rate, Scale, Size
from xoff import measure_headroom

SCALE = Scale(10_000)
RATES = tuple(Rate(text) for text in ("10Gb/s", "25Gb/s", "40Gb/s", "50Gb/s", "100Gb/s"))
FRAMES_IN_FLIGHT = (0.02, 60.0)
FRAME_OCTETS = (512, 1514)
"""The octets of a frame without FCS."""
LOADS = (0, 25, 50, 75, 95)
"""The load of a link while it measures, in percent of its line."""
TRIES, MOST_TRIES = 3, 12
"""The number of XOFFs of each link. The need is the most over all of them, and depends on where in a frame each one
meets the far end: if it seems much less than the measured headroom, there are more XOFFs."""
SAMPLES, INTERVAL = 4, Duration("45ms")
"""The samples of a measurement, which are fewer than by default, so the longest is less on the safe side; and their
interval, by which ports that begin one STEP after the other do not ask at the same moment."""
STEP = Duration("50ms")
"""The time between the starts of two ports' measurements. Speakers are more urgent than anything but agents: all at
once they would measure how busy they are."""
PRIORITY = 3
CELL = 208
WIRE = 24
PLENTY = 4_000


@dataclass(frozen=True)
class Link:
    """A cable with real rate and delay, and the traffic on it."""

    rate: Rate
    delay: Duration
    octets: int
    load: int
    below: int
    """The frames that fit below the threshold."""

    @property
    def cells(self) -> int:
        """The cells of one frame."""
        return -(-self.octets // CELL)

    @property
    def frame_time(self) -> Duration:
        return SCALE.lab(self.rate).time_for(Size.from_bytes(self.octets + WIRE))

    @property
    def round_trip(self) -> Duration:
        return SCALE.lab(self.delay) * 2

    @property
    def in_flight(self) -> int:
        """The frames of one round trip, rounded up."""
        return -(-self.round_trip.ps // self.frame_time.ps)

    def measured(self, round_trip_ns: int) -> int:
        """Return the headroom for a round trip in cells if all frames have this link's size."""
        from testbed.net.fabric.port import Buffer

        buffer = Buffer(shortest=self.octets + 4)
        return buffer.measured_headroom(SCALE.lab(self.rate), self.octets - 14, Duration.from_ns(round_trip_ns))


@dataclass(frozen=True)
class Seen:
    """The headroom of a link in cells: measured, and needed."""

    link: Link
    needed: int
    measured: int
    round_trip_ns: int

    @property
    def more(self) -> float:
        """The number of frames by which the measured headroom exceeds the need."""
        return (self.measured - self.needed) / self.link.cells

    @property
    def is_too_little(self) -> bool:
        return self.measured < self.needed

    @property
    def is_too_much(self) -> bool:
        """True if the measured headroom exceeds 1.15 times the need and three frames, rounded up to cells."""
        return self.measured > -(-(self.needed * 115 + 3 * self.link.cells * 100) // 100)

    @property
    def beyond(self) -> float:
        """The number of frames by which it exceeds 1.15 times the need and three frames."""
        return round((self.measured - 1.15 * self.needed) / self.link.cells - 3, 2)

    def __str__(self) -> str:
        link = self.link
        return (
            f"{link.rate}, {link.delay}, {link.octets} octets, load {link.load} %, round trip {self.round_trip_ns} ns: "
            f"needs {self.needed} cells, measured {self.measured}, {self.more:.2f} frames more"
        )


@experiment(_in_lab_time=True, timeout="20000s", files=("looking.py",))
def random_links(run: Run, links: int = 60, together: int = 20) -> None:
    """Check that the measured headroom is never below the need, and never above 1.15 times it and three frames."""
    found: list[Seen] = []
    with (run.directory / "links.txt").open("w") as notes:
        while len(found) < links:
            more = _between_two(run, [_draw(run) for _ in range(min(together, links - len(found)))])
            notes.writelines(f"{one}\n" for one in more)
            notes.flush()
            found += more
    run.claim("links", len(found), equals=links)
    run.claim("measured less than needed", [str(one) for one in found if one.is_too_little], equals=[])
    too_much = [one for one in found if one.is_too_much]
    run.figure(
        "frames needed by those that measured too much", sorted({one.needed / one.link.cells for one in too_much})
    )
    run.figure("frames that they are beyond the bound, at most", max((one.beyond for one in too_much), default=0))
    run.claim(
        "measured more than 1.15 times what is needed and three frames", [str(one) for one in too_much], equals=[]
    )
    run.figure(
        "frames that links need: least, most",
        [round(f(one.needed / one.link.cells for one in found), 1) for f in (min, max)],
    )
    for load in LOADS:
        excess = sorted(one.more for one in found if one.link.load == load)
        if excess:
            marks = [round(excess[(len(excess) - 1) * percent // 100], 2) for percent in (0, 5, 50, 95, 100)]
            run.figure(
                f"load {load} %, {len(excess)} links: frames more than needed: least, 5 %, median, 95 %, most", marks
            )
    ratios = sorted(one.measured / one.needed for one in found if one.needed >= 10 * one.link.cells)
    if ratios:
        marks = [round(ratios[(len(ratios) - 1) * percent // 100], 3) for percent in (0, 5, 50, 95, 100)]
        run.figure(f"{len(ratios)} links that need 10 frames or more: times what is needed", marks)


def _draw(run: Run) -> Link:
    rng = run.rng
    rate, octets = rng.choice(RATES), rng.randint(*FRAME_OCTETS)
    least, most = FRAMES_IN_FLIGHT
    in_flight = least * (most / least) ** rng.random()
    delay_ps = int(rate.time_for(Size.from_bytes(octets + WIRE)).ps * in_flight / 2)
    return Link(rate, Duration.from_ps(delay_ps // 1000 * 1000), octets, rng.choice(LOADS), rng.randint(6, 16))


def _between_two(run: Run, links: list[Link]) -> list[Seen]:
    """Run links between a host and a switch, and return for each the needed and the measured headroom in cells."""
    from testbed.net.build.network import network
    from testbed.net.build.topo import LosslessTopo
    from testbed.net.fabric.cable import Cable
    from testbed.net.fabric.port import Buffer, Port
    from testbed.net.shell.wire import RawPort
    from testbed.switch.headroom.exchange import Settings

    measures = Settings(
        samples=SAMPLES,
        enough=SAMPLES,
        interval_ns=INTERVAL.ns,
        timeout_ns=10_000_000_000,
        repeat_ns=None,
        stamp_lag_ns=5_000_000_000,
    )
    groups = {
        (number, PRIORITY): GroupSettings(
            lossless=True, threshold=Static(link.below * link.cells), xon_offset=link.cells, headroom=PLENTY
        )
        for number, link in enumerate(links, 1)
    }

    class Links(LosslessTopo):
        port = replace(Port(), measurement=measures).with_dcbx(headroom=True)
        buffer = Buffer(total=(len(links) + 1) * (PLENTY + 200), headroom=PLENTY // 2, groups=groups)

        def build(self) -> None:
            self.addSwitch("s1")
            self.addHost("h")
            for link in links:
                self.addLink("h", "s1", cable=Cable(link.rate, delay=link.delay))
            self.addLink(self.addHost("r"), "s1", cable=Cable("4Tb/s"), settings1=Port(), settings2=Port())

    longest_s = max(link.round_trip.ns for link in links) / 1e9
    with network(Links(scale=SCALE), run) as net, ExitStack() as stack:
        fabric = net.fabric
        receiver = stack.enter_context(RawPort(net["r"], "r-eth0"))
        mac = fabric.port("r-eth0").mac
        ports = [stack.enter_context(RawPort(net["h"], f"h-eth{number}")) for number in range(len(links))]
        frames = [_frame(mac, fabric.port(f"h-eth{n}").mac, link.octets) for n, link in enumerate(links)]
        against = [_frame(fabric.port(f"h-eth{n}").mac, mac, link.octets, 0) for n, link in enumerate(links)]
        for number in range(len(links)):  # of several ways to a host the switch takes one for all its addresses
            station, way = fabric.port(f"h-eth{number}").mac.octets, fabric.port(f"s1-eth{number + 1}").slot
            assert fabric.core.program is not None
            fabric.core.program.set_station(fabric.core.numbers["s1"], station, way)
        names = [f"s1-eth{number}" for number in range(1, len(links) + 1)]
        if not wait_for(lambda: _all_measured(fabric, names), 60):
            raise XoffError("not all ports have measured their headroom")
        asked = _requests(fabric, names)
        waiting, until_s = list(names), time.monotonic() + 3600
        with run.measuring():
            while time.monotonic() < until_s:
                for number, link in enumerate(links):
                    ports[number].send_all([frames[number]] * _due(run, link))
                if waiting:
                    measure_headroom(fabric, waiting.pop())
                    until_s = time.monotonic() + (SAMPLES + 2) * INTERVAL.ns / 1e9 + longest_s
                time.sleep(STEP.ns / 1e9)
        again = [now - before for now, before in zip(_requests(fabric, names), asked, strict=True)]
        if min(again) < SAMPLES:
            raise XoffError(f"under load ports asked {again} times")
        measured = fabric.snapshot("s1")["measured"]
        hold_s = max((link.below + 8) * link.frame_time.ns + 2 * link.round_trip.ns for link in links) / 1e9
        found: list[Seen] = []
        for count in range(1, MOST_TRIES + 1):
            with run.measuring():
                receiver.send(PfcFrame.xoff(mac, [PRIORITY]).encode())
                for number, link in enumerate(links):
                    receiver.send_all([against[number]] * (link.below + 4))
                    ports[number].send_all([frames[number]] * (link.below + link.in_flight + 8))
                until = time.monotonic() + hold_s
                while time.monotonic() < until:
                    receiver.send(PfcFrame.xoff(mac, [PRIORITY]).encode())
                    time.sleep(0.05)
            receiver.send(PfcFrame.xon(mac, [PRIORITY]).encode())
            time.sleep(2 * longest_s + hold_s)
            found = [_seen(fabric, name, link, measured, count) for name, link in zip(names, links, strict=True)]
            if count >= TRIES and not any(one.is_too_much for one in found):
                break
    return found


def _seen(fabric: Any, name: str, link: Link, measured: Any, tries: int) -> Seen:
    group = fabric.group(name, PRIORITY)
    if group.xoffs < tries or sum(group.dropped_frames) or sum(group.used):
        raise XoffError(f"{name}, {link}: {group}")
    trip_ns = measured[name]["round_trip_ns"]
    return Seen(link, group.high_water[2], link.measured(trip_ns), trip_ns)


def _due(run: Run, link: Link) -> int:
    """Return the frames that make the link's load in one step; chance decides about a fraction."""
    return int(STEP.ns * link.load / (100 * link.frame_time.ns) + run.rng.random())


def _frame(target: Mac, source: Mac, octets: int, priority: int = PRIORITY) -> bytes:
    """Return a frame to a port that is not answered there."""
    header = struct.pack(">BBHHHBBHII", 0x45, priority << 5, octets - 14, 0, 0, 64, 253, 0, 0x0A636363, 0x0A636364)
    return (target.octets + source.octets + b"\x08\x00" + header).ljust(octets, b"\0")


def _all_measured(fabric: Any, names: list[str]) -> bool:
    time.sleep(1)
    seen = fabric.snapshot("s1")["measured"]
    return all(seen[name]["phase"] == "measured" for name in names)


def _requests(fabric: Any, names: list[str]) -> list[int]:
    seen = fabric.snapshot("s1")["measured"]
    return [seen[name]["sent"]["requests"] for name in names]
