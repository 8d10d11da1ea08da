"""DWRR: queues share a line by their weights."""

import time
from dataclasses import replace

from experiments.conformance._case import Bench, CaseError, Control, case
from testbed.subjects.sonic.tables import MapKind, QueueRow, SchedulerRow, SchedulerType, Tables
from xoff import Duration, Flows

LARGEST = "largest difference of a queue's share from its weight's, in percent"
_SETTLED, _WINDOW = Duration("500us"), Duration("1500us")
"""The time until queues are full, beside a round trip, and the time in which goodput is counted, at 100 Gb/s."""
_WEIGHTS = (20, 30, 50)


def _weighed(tables: Tables, weights: tuple[int, ...]) -> Tables:
    """Return the tables with these weights for queues of two lossless priorities and a lossy one."""
    names = {f"conformance_{weight}": SchedulerRow(SchedulerType.DWRR, weight) for weight in weights}
    rows = dict(tables.queues)
    for port in tables.ports:
        for queue, weight in zip(_queues(tables, port), weights, strict=False):
            rows[port, queue] = replace(rows.get((port, queue), QueueRow()), scheduler=f"conformance_{weight}")
    return replace(tables, schedulers={**tables.schedulers, **names}, queues=rows)


def _queues(tables: Tables, port: str) -> list[int]:
    """Return the queues of the test, by the port's own map."""
    lossless = sorted(tables.pfc_of(port))
    chosen = [*lossless[:2], *[number for number in range(8) if number not in lossless][:1]]
    queues = tables.map_of(port, MapKind.TC_TO_QUEUE)
    return [number if queues is None else queues.get(number, 0) for number in chosen]


def weighed(tables: Tables) -> Tables:
    return _weighed(tables, _WEIGHTS)


def evenly(tables: Tables) -> Tables:
    return _weighed(tables, (33,) * len(_WEIGHTS))


@case(ports=3, control=Control("equal weights", evenly, fails=[LARGEST]), tables=weighed, timeout="60s")
def dwrr(bench: Bench) -> None:
    """Three queues with weights of 20, 30 and 50 are full all the time: each has its weight's share of the line."""
    priorities = [*bench.lossless[:2], *bench.lossy[:1]]
    if len(priorities) < len(_WEIGHTS):
        raise CaseError(f"this case takes two lossless priorities and a lossy one; {bench.given.name} has {priorities}")
    senders = ["h1", "h2", "h3"] if len(bench.ports) > 3 else ["h1", "h2"]
    target = f"h{len(senders) + 1}"
    with bench.network(hosts=len(senders) + 1) as net:
        settled, window = bench.paced(_SETTLED) + bench.round_trip(net), bench.paced(_WINDOW)
        flows = [bench.flow(name, target, priority) for priority in priorities for name in senders]
        with Flows(flows, settle=bench.paced("8ms")) as running:
            begin_ns = time.monotonic_ns()
            net.sleep(settled + window)
            running.stop_sending()
    steady = begin_ns + bench.lab_ns(settled), begin_ns + bench.lab_ns(settled + window)
    rates = [report.goodput_between(*steady).bps for report in running.reports]
    of_each = [sum(rates[place : place + len(senders)]) for place in range(0, len(rates), len(senders))]
    shares = [100 * rate / max(1, sum(of_each)) for rate in of_each]
    apart = [abs(share - weight) for share, weight in zip(shares, _WEIGHTS, strict=True)]
    bench.claim(LARGEST, round(max(apart), 2), at_most=1.0)
    bench.claim("of the line, in percent", round(100 * sum(of_each) / bench.line.bps, 1), at_least=99.0)
    for priority, weight, share in zip(priorities, _WEIGHTS, shares, strict=True):
        bench.figure(f"priority {priority}, weight {weight}: share in percent", round(share, 2))
