"""Generations of NICs that coalesce congestion notifications at different ends: each alone, mixed, and the cure.

Bai et al., "Empowering Azure Storage with RDMA", NSDI 2023, section 7.2. The paper states directions and no figures.
"""

from dataclasses import dataclass

from xoff import (
    DCQCN_PAPER,
    Dcqcn,
    Duration,
    EcnCurve,
    Flow,
    Incast,
    Line,
    Port,
    Rate,
    Roce,
    RoceReport,
    RoceSettings,
    Run,
    experiment,
    jain_index,
    network,
)

WINDOW = Duration("50us")
"""The paper has no value; it refers to DCQCN's paper, which has this one."""
AT_ONCE = Duration("1us")
"""The window of a reaction point that decreases its rate by nearly every CNP."""
LASTS = Duration("20ms")
MARKING = Port(ecn={3: EcnCurve("40kB", "40kB", "100%")})
"""In one step, so that no case has other marks by chance."""
SAMPLE = Duration("10us")


class ReactionPoint(Dcqcn):
    """DCQCN of the paper which, of all CNPs of a flow in one window, takes the first alone."""

    coalesces = Duration("0s")

    def __init__(self, line: Line) -> None:
        super().__init__(line, DCQCN_PAPER)
        self._window_lab_ns = line.lab_ns(self.coalesces)
        self._until_lab_ns = 0
        self.decreases = 0

    def on_cnp(self, now_lab_ns: int) -> None:
        if now_lab_ns < self._until_lab_ns:
            return
        self._until_lab_ns = now_lab_ns + self._window_lab_ns
        self.decreases += 1
        super().on_cnp(now_lab_ns)

    def state(self) -> dict[str, float]:
        return {"rate_lab_bps": self.rate_lab_bps, "decreases": self.decreases}


class WithWindow(ReactionPoint):
    coalesces = WINDOW


class NearlyAtOnce(ReactionPoint):
    coalesces = AT_ONCE


@dataclass(frozen=True)
class Generation:
    """A generation of NICs: what it does as a sender, and as a receiver."""

    rate_control: type[ReactionPoint]
    cnp_interval: Duration

    @property
    def settings(self) -> RoceSettings:
        return RoceSettings(cnp_interval=self.cnp_interval)


GEN1 = Generation(ReactionPoint, WINDOW)
"""Coalesces where CNPs are sent: one for a flow in a window, each of which decreases the rate."""
GEN2 = Generation(WithWindow, Duration("0s"))
"""Coalesces where CNPs arrive: one for each marked packet, of which one in a window decreases the rate."""
CURED = Generation(NearlyAtOnce, WINDOW)
"""Gen2 with the settings that make it like Gen1."""


@dataclass(frozen=True)
class Seen:
    """Both flows of a case."""

    cnps: list[int]
    decreases: list[int]
    goodputs: list[Rate]

    @property
    def total(self) -> Rate:
        return sum(self.goodputs, Rate("0b/s"))


@experiment(timeout="300s", free_cpu=True)
def cnp_coalescing(run: Run) -> None:
    """Two senders into one port, by the generations of their NICs: a CNP for each mark is too much for Gen1.

    Gen1 sends one CNP for a flow in 50 us, and decreases its rate by each. Gen2 sends one for each marked packet, and
    decreases once in 50 us. Among themselves both decrease as often. A Gen1 that sends to a Gen2 decreases by every
    one of its many CNPs and leaves the line idle; the other direction has no harm. Of two senders to a Gen2 the Gen1
    starves beside the Gen2. The cure is Gen2 with an interval of 50 us for its CNPs, and next to none for decreases.
    """
    gen1 = _observed(run, "Gen1 to Gen1", GEN1, GEN1, GEN1)
    gen2 = _observed(run, "Gen2 to Gen2", GEN2, GEN2, GEN2)
    granularity = LASTS // WINDOW + 1
    for name, seen in (("Gen1 to Gen1", gen1), ("Gen2 to Gen2", gen2)):
        run.claim(f"{name}: decreases of a flow", max(seen.decreases), at_most=granularity)
    run.claim("Gen1 to Gen1: CNPs without a decrease", sum(gen1.cnps) - sum(gen1.decreases), equals=0)
    run.claim("Gen2 to Gen2: CNPs by decreases", _ratio(sum(gen2.cnps), sum(gen2.decreases)), at_least=2)
    run.claim(
        "decreases of Gen2 by those of Gen1, each alone",
        _ratio(sum(gen2.decreases), sum(gen1.decreases)),
        at_least=2 / 3,
        at_most=3 / 2,
    )

    harmed = _observed(run, "Gen1 to Gen2", GEN1, GEN1, GEN2)
    run.claim(
        "Gen1 to Gen2: decreases by those among Gen1", _ratio(sum(harmed.decreases), sum(gen1.decreases)), at_least=1.5
    )
    run.claim("Gen1 to Gen2: goodput by that among Gen1", _part(harmed, gen1), at_most=0.9)
    other = _observed(run, "Gen2 to Gen1", GEN2, GEN2, GEN1)
    run.claim("Gen2 to Gen1: decreases of a flow", max(other.decreases), at_most=granularity)
    run.claim("Gen2 to Gen1: goodput by that among Gen2", _part(other, gen2), at_least=0.95)
    mixed = _observed(run, "Gen1 and Gen2 to Gen2", GEN1, GEN2, GEN2)
    run.claim(
        "Gen1 and Gen2 to Gen2: Gen1's goodput is the smaller", mixed.goodputs[0] < mixed.goodputs[1], equals=True
    )

    cured = _observed(run, "Gen1 to cured Gen2", GEN1, GEN1, CURED)
    run.claim("Gen1 to cured Gen2: goodput by that among Gen1", _part(cured, gen1), at_least=0.95)
    back = _observed(run, "cured Gen2 to Gen1", CURED, CURED, GEN1)
    run.claim("cured Gen2 to Gen1: goodput by that among Gen1", _part(back, gen1), at_least=0.95)
    both = _observed(run, "Gen1 and cured Gen2 to cured Gen2", GEN1, CURED, CURED)
    for name, seen in (("with the cure", both), ("without", mixed)):
        run.figure(f"Gen1 and Gen2 to Gen2, {name}: Jain's index", round(jain_index(seen.goodputs), 3))
    run.claim("Gen1 and Gen2 to Gen2, with the cure: Jain's index", round(jain_index(both.goodputs), 3), at_least=0.95)


def _observed(run: Run, case: str, first: Generation, second: Generation, receiver: Generation) -> Seen:
    with network(Incast(2, port=MARKING), case=case) as net:
        flows = net.run(
            *(
                Flow(
                    name,
                    "r",
                    transport=Roce(settings=one.settings, target_settings=receiver.settings, sample=SAMPLE),
                    duration=LASTS,
                    rate_control=one.rate_control,
                )
                for name, one in (("h1", first), ("h2", second))
            )
        )
    reports = flows.reports_of(RoceReport)
    seen = Seen(
        [report.cnps_received for report in reports],
        [int(report.samples[-1]["decreases"]) for report in reports],
        [report.goodput for report in reports],
    )
    run.figure(f"{case}: CNPs", seen.cnps)
    run.figure(f"{case}: decreases", seen.decreases)
    run.figure(f"{case}: goodput", seen.total)
    run.claim(f"{case}: every octet as it was sent", all(report.intact for report in reports), equals=True)
    return seen


def _ratio(count: int, other: int) -> float:
    return round(count / max(1, other), 2)


def _part(seen: Seen, other: Seen) -> float:
    return round(seen.total.bps / max(1, other.total.bps), 3)
