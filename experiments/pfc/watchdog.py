"""The PFC watchdog: ends a pause that lasts too long, by throwing the queue's frames away or by sending regardless."""

import time
from dataclasses import dataclass

from xoff import (
    Buffer,
    Duration,
    Flow,
    Flows,
    LosslessTopo,
    Mac,
    PfcFrame,
    PfcSettings,
    Port,
    Rate,
    RawPort,
    Run,
    Static,
    WatchdogAction,
    WatchdogSettings,
    experiment,
    network,
)

PRIORITY = 3
RATE, INNOCENT_RATE = Rate("5Gb/s"), Rate("2Gb/s")
DETECTION, RESTORATION = Duration("400us"), Duration("300us")
POLL = Duration("7us")  # rarely at the same moment as the lab's own look at its CPU, every 100 ms
LATE = Duration("1us")
SPREAD = Duration("300us")
"""The time in which a storm has filled the switch's buffer, or its end has emptied it."""
STORM = Duration("1500us")
REPEAT = Duration("50us")
RECEIVER = Mac.parse("02:00:00:00:00:01")
XOFF, XON = PfcFrame.xoff(RECEIVER, [PRIORITY]).encode(), PfcFrame.xon(RECEIVER, [PRIORITY]).encode()
MS = 1_000_000


@dataclass(frozen=True)
class Seen:
    """The storms and the goodput of one run."""

    before: int  # storms found before there was one
    times: int  # storms found in the storm
    found: Duration | None  # how long the pause had lasted then
    over: Duration | None  # how long after the last XOFF the storm was
    broken: Rate  # goodput in the pause with breaks
    stormed: Rate  # goodput in the storm, once it is found
    innocent: Rate  # the other flow's, at that time
    afterwards: Rate
    sent: int
    lost: int
    innocent_lost: int
    admitted: int  # into the switch's buffer
    most_held: int  # there at a time
    kept_out: int  # by the watchdog


@experiment(timeout="60s")
def watchdog(run: Run) -> None:
    """A watchdog lets short pauses and broken ones be, and ends a storm by dropping or forwarding.

    A receiver pauses its switch almost for the detection time, then with short breaks, then for 1.5 s: a storm. Only
    that makes the watchdog act, one poll after the detection time at the latest. It drops what is for the receiver or
    forwards it, and either way the frames that the same sender has for other hosts move again. Pauses are obeyed
    again when there was no XOFF for the restoration time. In the control case, without watchdog, both flows stand
    still as long as the storm lasts.
    """
    nothing, all_of, all_of_other = Rate.from_bps(0), RATE * 99 // 100, INNOCENT_RATE * 99 // 100
    for action in (WatchdogAction.DROP, WatchdogAction.FORWARD):
        seen = _storm(action)
        run.claim(f"{action}: storms found in the short pause and the broken one", seen.before, equals=0)
        run.claim(f"{action}: goodput in the broken one", seen.broken, at_most=RATE // 20)
        run.claim(f"{action}: storms found in the storm", seen.times, equals=1)
        run.claim(f"{action}: found after", seen.found, at_least=DETECTION, at_most=DETECTION + POLL + LATE)
        run.claim(f"{action}: over after", seen.over, at_least=RESTORATION, at_most=RESTORATION + POLL + LATE)
        if action is WatchdogAction.DROP:
            run.claim("drop: goodput in the storm", seen.stormed, equals=nothing)
            run.claim("drop: sent", seen.sent, equals=seen.admitted + seen.kept_out)
            # Beside what was kept out, what the buffer held when the storm was found.
            run.claim("drop: lost", seen.lost, at_least=seen.kept_out + 1, at_most=seen.kept_out + seen.most_held)
        else:
            run.claim("forward: goodput in the storm", seen.stormed, at_least=all_of)
            run.claim("forward: lost", seen.lost, equals=0)
        run.claim(f"{action}: goodput of the innocent flow in the storm", seen.innocent, at_least=all_of_other)
        run.claim(f"{action}: lost by the innocent flow", seen.innocent_lost, equals=0)
        run.claim(f"{action}: goodput after the storm", seen.afterwards, at_least=all_of)
    seen = _storm(None)
    run.claim("no watchdog: goodput in the storm", seen.stormed, equals=nothing)
    run.claim("no watchdog: goodput of the innocent flow in the storm", seen.innocent, equals=nothing)
    run.claim("no watchdog: lost", seen.lost + seen.innocent_lost, equals=0)


def _storm(action: WatchdogAction | None) -> Seen:
    """Send a short pause, one with breaks, and a storm to a switch with a watchdog at its port to the receiver."""

    class Watched(LosslessTopo):
        """A switch whose port to r is watched; h1 has frames for r and for h2."""

        buffer = Buffer(xoff=Static(400))

        def build(self) -> None:
            self.addSwitch("s1")
            for host in ("h1", "h2"):
                self.addLink(self.addHost(host), "s1")
            watch = WatchdogSettings(DETECTION, RESTORATION, POLL, action) if action else None
            port = Port(pfc=PfcSettings(frozenset({PRIORITY}), watchdog=watch))
            self.addLink("s1", self.addHost("r"), settings1=port)

    with network(Watched()) as net, RawPort(net["r"], "r-eth0") as wire:
        line = net.fabric.port("s1-eth3").cable.rate
        both = [
            Flow("h1", "r", PRIORITY, rate=RATE),
            Flow("h1", "h2", PRIORITY, rate=INNOCENT_RATE),
        ]
        with Flows(both) as flows:
            begin_ns = time.monotonic_ns() + 100 * MS
            almost = line.quanta(DETECTION) - 1
            wire.send_at(PfcFrame.xoff(RECEIVER, [PRIORITY], almost).encode(), begin_ns)
            broken_ns = begin_ns + 1000 * MS
            for beat in range(5):
                wire.send_at(XOFF, broken_ns + beat * 300 * MS)
                wire.send_at(XON, broken_ns + beat * 300 * MS + 299 * MS)
            storm_ns = broken_ns + 3000 * MS
            wire.send_at(XOFF, storm_ns)
            last_ns = wire.repeat(XOFF, net.lab_ns(REPEAT), STORM // REPEAT)
            net.sleep("1500us")
            end_ns = time.monotonic_ns()
        report, other = flows.reports
        events = [event for event in net.fabric.events() if event.port == "s1-eth3"]
        found = [event for event in events if event.kind == "storm_detected"]
        ends = [event.lab_ns for event in events if event.kind == "storm_ended" and event.lab_ns > last_ns]
        paused = [event.detail["paused_ns"] for event in found if event.lab_ns > storm_ns]
        group = net.fabric.group("s1-eth1", PRIORITY)
        acting_ns = storm_ns + net.lab_ns(DETECTION + POLL + SPREAD)
        real = net.fabric.units.nearest_real
        return Seen(
            before=sum(event.lab_ns < storm_ns for event in found),
            times=len(paused),
            found=Duration.nearest_ns(paused[0]) if paused else None,
            over=real(Duration.from_ns(ends[0] - last_ns)) if ends else None,
            broken=report.goodput_between(broken_ns, broken_ns + net.lab_ns("1400us")),
            stormed=report.goodput_between(acting_ns, last_ns),
            innocent=other.goodput_between(acting_ns, last_ns),
            afterwards=report.goodput_between(last_ns + 600 * MS, end_ns - 100 * MS),
            sent=report.sent + other.sent,
            lost=report.lost,
            innocent_lost=other.lost,
            admitted=group.admitted_frames,
            most_held=group.most_cells // 8,
            kept_out=net.fabric.sent("s1-eth3").blocked_frames[PRIORITY],
        )
