"""Flow completion times of a published workload over leaf and spine: with PFC alone, and with DCQCN before PFC."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Annotated, Any

from testbed.measures.random_flows import FRAMING
from testbed.net.traffic import workload
from testbed.workload import statistics
from testbed.workload.arrivals import Pattern, arrivals, read_load
from testbed.workload.sizes import distribution
from xoff import (
    Duration,
    EcnCurve,
    LeafSpine,
    OneOf,
    Rate,
    Run,
    Size,
    experiment,
    marking,
    roce_outcome,
)

LINE = Rate("10Gb/s")
HOSTS = 8
LASTS = Duration("700us")
CABLE = Duration("1us")
BOUNDS = (Size("8kB"), Size("32kB"))


@experiment(timeout="120s")
def flow_completion(
    run: Run,
    sizes: Annotated[str, OneOf("alistorage", "hadoop")] = "alistorage",
    load: Annotated[str, OneOf("50%", "60%")] = "50%",
) -> None:
    """Flows of published sizes arrive at random between eight hosts and share two spines.

    Of each flow the slowdown is shown: how many times the time that it would take with the network to itself. The
    control case shows that this holds: a few of the flows one after the other have slowdowns of 1. With DCQCN
    and marks before PFC there are fewer pauses than with PFC alone. No packet is lost, and every flow is complete.
    """
    chosen = distribution(sizes)
    pattern = arrivals(
        [f"h{number}" for number in range(1, HOSTS + 1)], Pattern("random"), chosen, load=read_load(load),
        line=LINE, framing=FRAMING, lasts=LASTS, dice=run.rng,
    )  # fmt: skip
    run.figure("flows", len(pattern))
    single = _spread(pattern[:: max(1, len(pattern) // 8)][:8])
    alone = _run(run, "one at a time", single, "fixed", marks=False)
    slowest = max(statistics.slowdown(one, network) for one, network in alone.completions)
    run.claim("one at a time: largest slowdown", round(slowest, 3), at_least=1.0, at_most=1.05)
    run.claim("one at a time: pauses", alone.outcome.pauses, equals=0)

    pfc = _run(run, "PFC", pattern, "fixed", marks=False)
    both = _run(run, "PFC and ECN", pattern, "dcqcn", marks=True)
    run.claim("PFC: pauses", pfc.outcome.pauses, at_least=1)
    run.claim("PFC and ECN: pauses", both.outcome.pauses, at_most=pfc.outcome.pauses)
    run.claim("PFC and ECN: marked packets", both.outcome.marks, at_least=1)


def _spread(chosen: Any) -> Any:
    """Return the same transfers, each of which begins when the one before has long been complete."""
    begin, found = Duration("0s"), []
    for one in chosen:
        found.append(replace(one, start=begin))
        begin += LINE.time_for(one.size) * 2 + Duration("50us")
    return found


def _run(run: Run, case: str, pattern: Any, rate_control: str, *, marks: bool) -> Any:
    topology = LeafSpine(
        leaves=2, spines=2, hosts=HOSTS // 2, ways="host number", delay=CABLE, total=6000, xoff=120, xon_offset=16,
        **marking(EcnCurve("10kB", "40kB", "20%") if marks else None),
    )  # fmt: skip
    found = roce_outcome(topology, workload.flows(pattern, rate_control=rate_control), case)
    completions = workload.completions(pattern, found.reports)
    near, far = (statistics.Unloaded(LINE, CABLE * cables, sends_at_once=True) for cables in (2, 4))
    networks = [near if _leaf(one.source) == _leaf(one.target) else far for one in pattern]
    for name, row in statistics.by_size(completions, near, BOUNDS).items():
        run.figure(f"{case}: slowdown of flows of {name}", row)
    run.figure(f"{case}: completion of all", workload.completion(found.reports))
    run.figure(f"{case}: goodput of all in each 10 us", workload.goodput(found.reports))
    run.figure(
        f"{case}: Jain's index of the hosts' sent data",
        statistics.jain([size.bytes for size in workload.by_source(pattern, found.reports).values()]),
    )
    run.figure(f"{case}: pauses", found.pauses)
    run.figure(f"{case}: time paused, by port", found.paused)
    run.figure(f"{case}: part of the time paused, by port", found.pause_shares)
    run.figure(f"{case}: marked packets and CNPs", [found.marks, found.cnps])
    run.claim(f"{case}: lost or sent twice", found.lost, equals=0)
    run.claim(f"{case}: data of each flow", [report.size for report in found.reports],
              equals=[one.size for one in pattern])  # fmt: skip
    run.claim(f"{case}: every octet as it was sent", found.is_intact, equals=True)
    return SimpleNamespace(outcome=found, completions=list(zip(completions, networks, strict=True)))


def _leaf(host: str) -> int:
    return (int(host[1:]) - 1) // (HOSTS // 2)
