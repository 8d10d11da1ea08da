"""Hashing gives flows the same uplink by chance, and leaves others empty; spraying fills them all."""

from collections import Counter

from experiments.ways._equal_ways import DYNAMIC, Reference, filled, given
from xoff import Flow, Flows, LeafSpine, Rate, Roce, RoceReport, Run, Size, Ways, experiment, network

LINE = Rate("10Gb/s")
LEAVES = SPINES = HOSTS = 4
SIZE = Size("512kB")
MESSAGE = Size("8kB")
PAIRS = [(number, (number + HOSTS - 1) % (LEAVES * HOSTS) + 1) for number in range(1, LEAVES * HOSTS + 1)]
"""The number of each sender, and that of its receiver behind the next leaf."""


@experiment(timeout="120s", free_cpu=True)
def ecmp_collisions(run: Run) -> None:
    """Sixteen hosts send 512 kB to one behind the next leaf each, over four uplinks of each leaf: who shares one?

    There is room for all. By a hash of addresses and ports each flow has one uplink, and the flows of every uplink are
    those that the reference in Python says: some have several, others none, and what a link has to carry for several is
    late. Four queue pairs for a flow, each with a source port of its own, even that out in part. Control case: a switch
    that gives each frame the next uplink fills all of them, and no flow is late.
    """
    alone = LINE.time_for(SIZE)
    for case, ways, many in (("hash", Ways(), 1), ("hash, four queue pairs", Ways(), 4), ("spray", Ways("spray"), 1)):
        with network(LeafSpine(LEAVES, SPINES, HOSTS, ways=ways), case=case) as net:
            roce = Roce(queue_pairs=many, message=MESSAGE)
            flows = [
                Flow(f"h{one}", f"h{other}", transport=roce, size=SIZE, source_port=DYNAMIC) for one, other in PAIRS
            ]
            with Flows(flows) as running:
                running.wait()
            reports = running.reports_of(RoceReport)
            loads = [filled(net, leaf, LINE, running.completion) for leaf in _leaves()]
            run.figure(f"{case}: part of each uplink that was used", loads)
            run.figure(f"{case}: slowest flow", running.completion)
            run.claim(f"{case}: lost or sent twice", _again(reports), equals=0)
            if ways.by == "spray":
                run.claim(f"{case}: part of the emptiest uplink", min(map(min, loads)), at_least=0.95)
                run.claim(f"{case}: slowest flow", running.completion, at_most=alone * 23 // 20)
                continue
            unit = Size.from_bytes(reports[0].octets // many)
            expected, most = _by_reference(Reference(net, ways, run.seed), reports)
            run.claim(
                f"{case}: queue pairs of uplinks", [given(net, leaf, unit) for leaf in _leaves()], equals=expected
            )
            run.figure(f"{case}: uplinks without any", sum(row.count(0) for row in expected))
            run.figure(f"{case}: flows on the busiest link", most / many)
            late = LINE.time_for(SIZE) * most // many
            run.claim(f"{case}: slowest flow, by the busiest link", running.completion, at_least=late)


def _leaves() -> list[str]:
    return [f"leaf{number}" for number in range(1, LEAVES + 1)]


def _again(reports: list[RoceReport]) -> int:
    return sum(report.lost + report.retransmitted for report in reports)


def _by_reference(reference: Reference, reports: list[RoceReport]) -> tuple[list[list[int]], int]:
    """Return the queue pairs of each uplink, and the most of all links between leaves and spines."""
    up, down = Counter[tuple[int, int]](), Counter[tuple[int, int]]()
    for (one, other), report in zip(PAIRS, reports, strict=True):
        leaf, far_leaf = ((host - 1) // HOSTS for host in (one, other))
        for pair in report.queue_pairs:
            spine = reference.way(f"leaf{leaf + 1}", SPINES, f"h{one}", f"h{other}", pair.source_port)
            up[leaf, spine] += 1
            down[far_leaf, spine] += 1
    rows = [[up[leaf, spine] for spine in range(SPINES)] for leaf in range(LEAVES)]
    return rows, max(*up.values(), *down.values())
