"""Four rate controls at one port: what do DCQCN, TIMELY, Swift and HPCC make of the same incast?"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from xoff import (
    ROCE_PRIORITY,
    Duration,
    EcnCurve,
    Flow,
    Flows,
    Hpcc,
    HpccParameters,
    Incast,
    Line,
    Port,
    Rate,
    RoceReport,
    Run,
    Size,
    Timely,
    TimelyParameters,
    experiment,
    jain_index,
    network,
)

LINE = Rate("10Gb/s")
SENDERS = 4
BOTTLENECK = f"s1-eth{SENDERS + 1}"
DELAY = Duration("2500ns")
"""The delay of a cable: 500 m. A round trip without queues is 10 us."""
JOIN = Duration("1ms")
"""The time after which three flows join the first one."""
LONG = Duration("14ms"), Duration("10ms"), Duration("3500us")
SHORT = Duration("4ms"), Duration("2ms"), Duration("1500us")
"""The length of flows, the time until rates are found, and the time that is looked at. Windows find rates sooner."""
LOOK = Duration("20us")
"""The interval at which the queue is looked at."""
PART, EVEN, FULL = Duration("250us"), 0.9, 0.8
"""Flows have converged when Jain's index and the line's load are at least this in each such part of the time."""
XOFF, TOTAL = 800, 6000
"""Cells."""
MARKS = EcnCurve("40kB", "160kB", "20%")


def _hpcc(line: Line) -> Hpcc:
    return Hpcc(line, HpccParameters(flows=8))


def _timely(line: Line) -> Timely:
    return Timely(line, TimelyParameters(high=Duration("150us")))


@dataclass(frozen=True)
class _Found:
    """The outcome of one case."""

    pauses: int
    longest: Size
    steady: Size
    """The mean queue once rates are found."""
    marks: int
    rates: list[Rate]


@experiment(timeout="180s", free_cpu=True)
def rate_controls(run: Run) -> None:
    """Three senders join a first one after 1 ms, all into one port of a switch with PFC; the cables have 500 m.

    With no rate control the buffer is full and pauses the senders again and again. Each rate control has at most half
    of these pauses, fills 85 % of the line and more, and divides it evenly: Jain's index of 0.9 and more. They differ
    in the queue that they leave once rates are found. DCQCN's is at its marking curve. TIMELY's and Swift's is what
    makes round trips as long as they want them. HPCC leaves next to none: 12 kB on average at most, and less than a
    third of what each of the others has. Control case: HPCC where no port stamps telemetry keeps the windows that it
    begins with, and their queue. TIMELY has a T_high of 150 us: with its paper's 500 us the buffer of a port ends
    before a round trip is so long.
    """
    alone = _run(run, "PFC alone", "fixed", Port(), SHORT)
    run.claim("PFC alone: pauses", alone.pauses, at_least=100)
    found = {
        "DCQCN": _run(run, "DCQCN", "dcqcn", Port(ecn={ROCE_PRIORITY: MARKS}), LONG),
        "TIMELY": _run(run, "TIMELY", _timely, Port(), LONG),
        "Swift": _run(run, "Swift", "swift", Port(), SHORT),
        "HPCC": _run(run, "HPCC", _hpcc, Port(telemetry=True), SHORT),
    }
    for case, one in found.items():
        run.claim(f"{case}: pauses", one.pauses, at_most=alone.pauses // 2)
        filled = round(sum(rate.bps for rate in one.rates) / LINE.bps, 4)
        run.claim(f"{case}: utilisation", filled, at_least=0.85)
        run.claim(f"{case}: Jain's index", jain_index(one.rates), at_least=0.9)
        if case != "DCQCN":
            run.claim(f"{case}: marked packets", one.marks, equals=0)
    least = min(one.steady.bytes for case, one in found.items() if case != "HPCC")
    run.claim("HPCC: mean queue", found["HPCC"].steady, at_most=Size("12kB"))
    run.claim("HPCC: mean queue beside the least of the others", found["HPCC"].steady.bytes, at_most=least // 3)
    # Without stamps each flow keeps its first window, which is what the line carries in a round trip.
    blind = _run(run, "HPCC without telemetry", _hpcc, Port(), SHORT)
    run.claim("HPCC without telemetry: mean queue", blind.steady, at_least=Size.from_bytes(3 * 12_000))


def _run(
    run: Run,
    case: str,
    rate_control: str | Callable[[Line], Any],
    port: Port,
    times: tuple[Duration, Duration, Duration],
) -> _Found:
    lasts, settled, steady = times
    topology = Incast(n=SENDERS, total=TOTAL, xoff=XOFF, xon_offset=16, delay=DELAY, port=port, hopts={"port": Port()})
    flows = [
        Flow(f"h{number}", "r", transport="roce", start=start, duration=lasts - start, rate_control=rate_control)
        for number, start in enumerate([Duration("0s"), *[JOIN] * (SENDERS - 1)], 1)
    ]
    with network(topology, case=case) as net:
        fabric, queues = net.fabric, []
        with Flows(flows) as running:
            time.sleep(fabric.units.lab(settled).ns / 1e9)
            for _ in range(steady // LOOK):
                queues.append(fabric.sent(BOTTLENECK).queued_bytes[ROCE_PRIORITY])
                time.sleep(fabric.units.lab(LOOK).ns / 1e9)
            running.wait()
        reports = running.reports_of(RoceReport)
        counters = fabric.sent(BOTTLENECK)
        switches = [one.name for one in fabric.ports.values() if one.node in net.switches]
        pauses = sum(fabric.group(name, ROCE_PRIORITY).xoffs for name in switches)
        units = fabric.units
    first_lab_ns = min(report.first_lab_ns for report in reports)

    def rates(begin: Duration, lasts: Duration) -> list[Rate]:
        first, end = first_lab_ns + units.lab(begin).ns, first_lab_ns + units.lab(begin + lasts).ns
        return [report.goodput_between(first, end) for report in reports]

    parts = [rates(PART * number, PART) for number in range(lasts // PART - 1)]
    joined = JOIN // PART
    wild = [number for number, part in enumerate(parts[joined:]) if not _is_even(part)]
    found = _Found(
        pauses,
        Size.from_bytes(counters.most_queued_bytes[ROCE_PRIORITY]),
        Size.from_bytes(sum(queues) // len(queues)),
        sum(report.marked for report in reports),
        rates(settled, steady),
    )
    run.figure(f"{case}: goodput", found.rates)
    run.figure(f"{case}: longest queue", found.longest)
    run.figure(f"{case}: mean queue once rates are found", found.steady)
    run.figure(f"{case}: converged after", PART * (wild[-1] + 1 if wild else 0))
    run.claim(f"{case}: lost or sent twice", sum(one.lost + one.retransmitted for one in reports), equals=0)
    run.claim(f"{case}: every octet as it was sent", all(report.intact for report in reports), equals=True)
    return found


def _is_even(rates: list[Rate]) -> bool:
    return jain_index(rates) >= EVEN and sum(rate.bps for rate in rates) >= FULL * LINE.bps
