"""A ring of switches under RoCE: PFC alone locks up, with a watchdog it is a live-lock, with DCQCN it is neither."""

from dataclasses import dataclass, replace

from xoff import (
    ROCE_PRIORITY,
    Buffer,
    Duration,
    EcnCurve,
    Flow,
    Flows,
    Port,
    Ring,
    RoceReport,
    Run,
    Size,
    Static,
    WatchdogSettings,
    experiment,
    network,
)

SWITCHES = 4
XOFF, XON_OFFSET = 600, 40
LOAD = Duration("4ms")
DETECTION, RESTORATION = Duration("200us"), Duration("200us")
POLL = Duration("7us")  # rarely at the same moment as the lab's own look at its CPU, every 100 ms


@dataclass(frozen=True)
class Seen:
    """The flows, pauses and storms of one run."""

    reports: list[RoceReport]
    first_half: int  # packets received
    second_half: int
    pauses: int
    storms: int  # that the watchdog found

    @property
    def sent_again(self) -> int:
        return sum(report.retransmitted for report in self.reports)

    @property
    def cnps(self) -> int:
        return sum(report.cnps_received for report in self.reports)


@experiment(timeout="120s")
def deadlock_dcqcn(run: Run) -> None:
    """Four hosts at a ring of switches write clockwise to the one across: a deadlock of PFC, with and without DCQCN.

    With PFC alone buffers wait in a circle: after a moment no packet arrives any more. A watchdog at one switch
    throws away what it holds and frees the circle, the senders go back and send everything again, and the circle
    closes again: a live-lock, in which most of the work is done twice. With DCQCN and marks before PFC no buffer
    gets to its XOFF threshold, and four flows have their share to the end. Control case: with XOFF before the marks
    DCQCN does not help.
    """
    early, late = EcnCurve("5kB", "20kB", "20%"), EcnCurve("400kB", "800kB", "20%")
    alone = _ring(run, "PFC alone", "fixed", None)
    run.claim("PFC alone: received in the second half", alone.second_half, equals=0)

    swapped = _ring(run, "ECN above PFC", "dcqcn", late)
    run.claim("ECN above PFC: received in the second half", swapped.second_half, equals=0)
    run.claim("ECN above PFC: CNPs", swapped.cnps, equals=0)

    watched = _ring(run, "PFC with a watchdog", "fixed", None, watched=True)
    run.claim("PFC with a watchdog: storms found", watched.storms, at_least=2)
    run.claim("PFC with a watchdog: packets sent again", watched.sent_again, at_least=100)

    controlled = _ring(run, "ECN below PFC", "dcqcn", early)
    run.claim("ECN below PFC: pauses", controlled.pauses, equals=0)
    run.claim("ECN below PFC: CNPs", controlled.cnps, at_least=SWITCHES)
    run.claim("ECN below PFC: packets sent again", controlled.sent_again, equals=0)
    run.claim("ECN below PFC: received in the second half", controlled.second_half, at_least=watched.second_half * 2)
    received = [report.received for report in controlled.reports]
    run.claim("ECN below PFC: least of a flow, in % of the most", 100 * min(received) // max(received), at_least=50)


def _ring(run: Run, case: str, rate_control: str, curve: EcnCurve | None, *, watched: bool = False) -> Seen:
    watchdog = WatchdogSettings(DETECTION, RESTORATION, POLL) if watched else None

    class Settings(Ring):
        """A ring of switches that mark; the first one may have a watchdog."""

        buffer = Buffer(total=6000, xoff=Static(XOFF), xon_offset=XON_OFFSET)

        def addSwitch(self, name: str, **options: object) -> str:
            port = Port(ecn={ROCE_PRIORITY: curve} if curve else {})
            if name == "s1":
                port = replace(port, pfc=replace(port.pfc, watchdog=watchdog))
            switch: str = super().addSwitch(name, port=port, **options)
            return switch

    flows = [
        Flow(f"h{number}", f"h{(number + SWITCHES // 2 - 1) % SWITCHES + 1}", ROCE_PRIORITY, transport="roce",
             rate_control=rate_control, buffer=Size("32kB"))
        for number in range(1, SWITCHES + 1)
    ]  # fmt: skip
    with network(Settings(n=SWITCHES, clockwise=True), case=case) as net:
        with Flows(flows, settle="1ms") as running:
            halves = []
            for _ in range(2):
                before = running.received
                net.sleep(LOAD // 2)
                halves.append(running.received - before)
            running.stop_sending()
        names = [port.name for port in net.fabric.ports.values() if port.node in net.switches]
        seen = Seen(
            reports=running.reports_of(RoceReport),
            first_half=halves[0],
            second_half=halves[1],
            pauses=sum(net.fabric.group(name, ROCE_PRIORITY).xoffs for name in names),
            storms=sum(event.kind == "storm_detected" for event in net.fabric.events()),
        )
    run.figure(f"{case}: packets received in each half", halves)
    run.figure(f"{case}: packets sent again", seen.sent_again)
    run.figure(f"{case}: pauses", seen.pauses)
    run.claim(f"{case}: received in the first half", seen.first_half, at_least=100)
    return seen
