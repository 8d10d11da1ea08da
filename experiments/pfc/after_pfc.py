"""PFC and what comes after it, on one network: who is complete when, who is paused, and what a victim loses."""

from dataclasses import dataclass

from testbed.measures.standstill import hops, longest_on_the_way, stood_still
from xoff import (
    Buffer,
    Cable,
    Duration,
    Dynamic,
    Flow,
    LosslessTopo,
    Nic,
    Port,
    Rate,
    Roce,
    RoceReport,
    RoceSettings,
    Run,
    Size,
    experiment,
    network,
)

PRIORITY, REST_QUEUE = 3, 6
SENDERS, SIZE = 8, Size("2MB")
LINE, TRUNK = Rate("50Gb/s"), Rate("800Gb/s")
CELL = 208
BUFFER = Buffer(20_000, cell=CELL, xoff=Dynamic("1/2"))
LOSSES = ("0", "1/1000000", "1/10000")
VICTIM, FRAME = Rate("5Gb/s"), Size("1514B")
WITH_PFC = Port(strict=frozenset({REST_QUEUE}))
LOSSY = WITH_PFC.without_pfc()
TRIMMING = LOSSY.with_trimming(PRIORITY, size=128, dscp=48, queue=REST_QUEUE)
CREDITS = WITH_PFC.with_credits(PRIORITY)
SETTINGS = RoceSettings(window=512, retransmit_after=Duration("1ms"), retries=254)
GO_BACK = Roce(settings=SETTINGS)
SELECTIVE = Roce(settings=SETTINGS, recovery="selective repeat", nic=Nic(bdp_packets=SETTINGS.window))


@dataclass(frozen=True)
class Mechanism:
    """A remedy for a full buffer, and one for a frame that a cable has lost."""

    name: str
    switch: Port
    host: Port
    transport: Roce = GO_BACK
    llr: bool = False


MECHANISMS = (
    Mechanism("PFC", WITH_PFC, WITH_PFC),
    Mechanism("PFC + LLR", WITH_PFC, WITH_PFC, llr=True),
    Mechanism("CBFC + LLR", CREDITS, CREDITS, llr=True),
    Mechanism("trim + selective repeat", TRIMMING, LOSSY, SELECTIVE),
    Mechanism("drop + go-back-N", LOSSY, LOSSY),
)


@dataclass(frozen=True)
class Outcome:
    """The incast and the victim of one case."""

    mean: Duration
    """The time until a flow of the incast is complete, on average."""
    slowest: Duration
    again: int
    """Packets that RoCE sent again."""
    most: Size
    """The most that one switch held."""
    hops: int
    """Cables in a row on which PFC paused somebody, from the full port back."""
    still: int
    """Cables in a row whose senders stood still, paused or without credits."""
    blocked: Duration
    """The longest time for which a port on the victim's way stood still: its head-of-line blocking."""
    victim_lost: int
    victim_delay: Duration
    """The longest time that a frame of the victim took."""


@experiment(timeout="600s", free_cpu=True)
def after_pfc(run: Run) -> None:
    """Compare PFC, LLR, credits, trimming and loss by 8:1 incast over a cable that loses frames, beside a victim.

    Eight hosts send 2 MB each to r by RoCE at a constant rate, over the cable between two switches, which loses no
    frame, one of a million or one of ten thousand. v sends to w, beside r, whose port is idle. With PFC the pauses come
    to the hosts and the victim waits with all others; what the cable loses is sent again with all behind it. LLR
    repairs that on the cable. Credits stop the same flows without pauses. Trimming stops nobody, and each frame
    without room is sent again alone. Control case: with loss and go-back-N the incast takes twice as long, and the
    victim loses frames of its own.
    """
    seen = {}
    for mechanism in MECHANISMS:
        for loss in LOSSES:
            one = seen[mechanism.name, loss] = _outcome(mechanism, loss)
            name = f"{mechanism.name}, loss {loss}"
            run.figure(f"{name}: mean completion", one.mean)
            run.figure(f"{name}: slowest completion", one.slowest)
            run.figure(f"{name}: sent again", one.again)
            run.figure(f"{name}: most in a switch", one.most)
            run.figure(f"{name}: cables in a row with pauses", one.hops)
            run.figure(f"{name}: cables in a row that stood still", one.still)
            run.figure(f"{name}: the victim's head-of-line blocking", one.blocked)
            run.figure(f"{name}: frames that the victim lost", one.victim_lost)
            run.figure(f"{name}: the victim's longest delay", one.victim_delay)
    best, damaged = seen["PFC", LOSSES[0]], LOSSES[-1]
    run.claim("PFC: cables in a row with pauses", best.hops, equals=2)
    run.claim("PFC: cables in a row that stood still", best.still, equals=2)
    run.claim("PFC: the victim's head-of-line blocking", best.blocked, at_least=Duration("100us"))
    run.claim("PFC: the victim's longest delay", best.victim_delay, at_least=Duration("100us"))
    run.claim("PFC, frames lost by the cable: sent again", seen["PFC", damaged].again, at_least=100)
    for name in ("PFC + LLR", "CBFC + LLR"):
        run.claim(f"{name}, frames lost by the cable: sent again", seen[name, damaged].again, equals=0)
        run.claim(f"{name}: slowest flow, by PFC's", _ratio(seen[name, damaged], best), at_most=1.01)
    run.claim("CBFC + LLR: cables in a row with pauses", seen["CBFC + LLR", damaged].hops, equals=0)
    run.claim("CBFC + LLR: cables in a row that stood still", seen["CBFC + LLR", damaged].still, equals=2)
    trimmed, dropped = seen["trim + selective repeat", damaged], seen["drop + go-back-N", damaged]
    run.claim("trim: slowest flow, by PFC's", _ratio(trimmed, best), at_most=1.2)
    run.claim("trim: cables in a row that stood still", trimmed.still, equals=0)
    run.claim("trim: the victim's lost frames", trimmed.victim_lost, equals=0)
    run.claim("trim: the victim's longest delay", trimmed.victim_delay, at_most=Duration("1us"))
    run.claim("drop: slowest flow, by PFC's", _ratio(dropped, best), at_least=1.5)
    run.claim("drop: the victim's lost frames", dropped.victim_lost, at_least=1)


def _ratio(one: Outcome, other: Outcome) -> float:
    return round(one.slowest.ps / other.slowest.ps, 3)


class _TwoSwitches(LosslessTopo):
    """The senders and v at s1, r and w at s2, and one cable between that loses frames."""

    def build(self, between: Cable) -> None:
        for switch in ("s1", "s2"):
            self.addSwitch(switch)
        self.addLink("s1", "s2", cable=between)
        for host in (*(f"h{number}" for number in range(1, SENDERS + 1)), "v"):
            self.addLink(self.addHost(host), "s1")
        for host in ("r", "w"):
            self.addLink(self.addHost(host), "s2")


def _outcome(mechanism: Mechanism, loss: str) -> Outcome:
    between = Cable(TRUNK, "40m", loss=loss, llr=mechanism.llr)
    topo = _TwoSwitches(
        between, cable=Cable(LINE, "5m"), port=mechanism.switch, hopts={"port": mechanism.host}, buffer=BUFFER
    )
    senders = [f"h{number}" for number in range(1, SENDERS + 1)]
    victim_flow = Flow("v", "w", PRIORITY, frame=FRAME, rate=VICTIM, duration=LINE.time_for(SIZE) * SENDERS)
    with network(topo, case=f"{mechanism.name}, loss {loss}") as net:
        running = net.run(
            *(
                Flow(one, "r", PRIORITY, size=SIZE, transport=mechanism.transport, rate_control="fixed")
                for one in senders
            ),
            victim_flow,
        )
        paused = {name for name in net.fabric.names() if net.fabric.pfc(name, PRIORITY)["xoff_sent"]}
        rows = ({net.port("s2", "s1")}, {net.port("s1", host) for host in senders})
        times_still = stood_still(net, PRIORITY)
        still = hops(net, [name for name, time in times_still.items() if time.ps], "s2")
        blocked = longest_on_the_way(net, victim_flow, times_still)
        most = max(sum(net.fabric.buffer(switch).high_water) for switch in ("s1", "s2"))
    reports = running.reports_of(RoceReport)
    times, victim = [report.completion for report in reports], running.reports[-1]
    return Outcome(
        mean=Duration.from_ps(sum(time.ps for time in times) // len(times)),
        slowest=max(times),
        again=sum(report.retransmitted for report in reports),
        most=Size.from_bytes(most * CELL),
        hops=sum(bool(paused & row) for row in rows),
        still=still,
        blocked=blocked,
        victim_lost=victim.lost,
        victim_delay=victim.worst_delay,
    )
