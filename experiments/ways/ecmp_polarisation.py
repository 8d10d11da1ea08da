"""Polarisation: switches of two tiers that hash alike leave half of the links between them empty."""

from collections import Counter

from experiments.ways._equal_ways import DYNAMIC, Reference, given
from xoff import FatTree, Flow, Flows, Roce, RoceReport, Run, Size, Ways, experiment, network

K = 4
HALF = K // 2
HOSTS = K * HALF * HALF
SIZE = Size("512kB")
QUEUE_PAIRS = 4
PAIRS = [(number, (number + HALF * HALF - 1) % HOSTS + 1) for number in range(1, HOSTS + 1)]
"""The number of each sender, and that of its receiver in the next pod."""
AGGREGATION = [f"agg{number}" for number in range(1, K * HALF + 1)]


@experiment(timeout="120s", free_cpu=True)
def ecmp_polarisation(run: Run) -> None:
    """Each host of a fat tree sends 512 kB to the next pod over four queue pairs: which links to the core are used?

    An edge switch hashes a flow to one of two aggregation switches, and that one to one of two core switches. With one
    seed for all, an aggregation switch gets only flows of one kind of hash, and hashes all of them to the same core:
    half of its links stay empty, and flows are late. A seed for each switch, which is the default, cures it. In both
    cases each link has the queue pairs that the reference in Python says.
    """
    completions = []
    for case, ways in (("one seed for all", Ways(seed=7)), ("a seed for each", Ways())):
        with network(FatTree(K, ways=ways), case=case) as net:
            roce = Roce(queue_pairs=QUEUE_PAIRS)
            flows = [
                Flow(f"h{one}", f"h{other}", transport=roce, size=SIZE, source_port=DYNAMIC) for one, other in PAIRS
            ]
            with Flows(flows) as running:
                running.wait()
            reports = running.reports_of(RoceReport)
            unit = Size.from_bytes(reports[0].octets // QUEUE_PAIRS)
            found = [given(net, switch, unit) for switch in AGGREGATION]
            expected = _by_reference(Reference(net, ways, run.seed), reports)
        completions.append(running.completion)
        run.figure(f"{case}: slowest flow", running.completion)
        run.claim(f"{case}: queue pairs of the links to the core", found, equals=expected)
        unused = sum(row.count(0) for row in found)
        if ways.seed is None:
            run.claim(f"{case}: links to the core without any, of {HOSTS}", unused, at_most=HOSTS // 4)
        else:
            run.claim(f"{case}: links to the core without any, of {HOSTS}", unused, equals=HOSTS // 2)
        run.claim(f"{case}: lost", running.lost, equals=0)
    polarised, spread = completions
    run.claim("slowest flow, a seed for each", spread, at_most=polarised * 9 // 10)


def _by_reference(reference: Reference, reports: list[RoceReport]) -> list[list[int]]:
    """Return the queue pairs of each link of each aggregation switch to the core."""
    found = Counter[tuple[int, int]]()
    for (one, other), report in zip(PAIRS, reports, strict=True):
        edge = (one - 1) // HALF
        for pair in report.queue_pairs:
            packet = f"h{one}", f"h{other}", pair.source_port
            above = edge // HALF * HALF + reference.way(f"edge{edge + 1}", HALF, *packet)
            found[above, reference.way(AGGREGATION[above], HALF, *packet)] += 1
    return [[found[number, core] for core in range(HALF)] for number in range(len(AGGREGATION))]
