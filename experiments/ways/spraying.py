"""Spraying with receivers that wait for late packets, and with others that have everything sent again."""

from collections.abc import Mapping
from typing import Any

from experiments.ways._equal_ways import filled
from xoff import Duration, Flow, Flows, LeafSpine, Nic, Rate, Roce, RoceReport, Run, Size, Ways, experiment, network

LINE = Rate("10Gb/s")
SPINES = HOSTS = 4
SIZE = "500kB"
PORT = 50_000
WAITS = Nic(reorder_time=Duration("50us"), reorder_packets=1024)
CHANCE = Ways("random", seed=21)
WAITING = "go-back-N that waits"
CASES: tuple[tuple[str, Ways, Mapping[str, Any]], ...] = (
    ("hash", Ways(seed=21), {"transport": "roce"}),
    ("go-back-N", CHANCE, {"transport": "roce"}),
    ("selective repeat", CHANCE, {"transport": Roce(recovery="selective repeat")}),
    (WAITING, CHANCE, {"transport": Roce(nic=WAITS)}),
    ("UDP", CHANCE, {"transport": "udp"}),
)


@experiment(timeout="120s", free_cpu=True)
def spraying(run: Run) -> None:
    """Four hosts send 500 kB each over four uplinks, and the leaf draws an uplink for each packet.

    All uplinks are filled, and packets overtake each other. A receiver that takes them in order alone has everything
    sent again behind each one that is late: with go-back-N the flows take longer than by a hash that puts two of them
    on one uplink. Selective repeat sends only what seemed to be missing, which then comes twice. A receiver that waits
    for late packets has nothing sent again, and its flows are as fast as the uplinks allow, as UDP is.
    Control case: by the hash nothing is out of order.
    """
    found = {case: _run(run, case, ways, flow) for case, ways, flow in CASES}
    for case, (slowest, out_of_order, again) in found.items():
        if case == "hash":
            run.claim(f"{case}: out of order", out_of_order, equals=0)
        else:
            run.figure(f"{case}: out of order", out_of_order)
            run.claim(f"{case}: is out of order", out_of_order, at_least=500)
        if case in ("go-back-N", "selective repeat"):
            run.figure(f"{case}: sent again", again)
            run.claim(f"{case}: has sent again", again, at_least=500)
        else:
            run.claim(f"{case}: sent again", again, equals=0)
        run.figure(f"{case}: slowest flow", slowest)
    times = {case: time for case, (time, _, _) in found.items()}
    run.claim("go-back-N is slower than the hash", times["go-back-N"], at_least=times["hash"] * 2)
    run.claim("selective repeat is faster than the hash", times["selective repeat"], at_most=times["hash"])
    run.claim("waiting is faster still", times[WAITING], at_most=times["selective repeat"] * 9 // 10)
    run.claim("waiting is as fast as one flow alone", times[WAITING], at_most=LINE.time_for(Size(SIZE)) * 6 // 5)


def _run(run: Run, case: str, ways: Ways, options: Mapping[str, Any]) -> tuple[Duration, int, int]:
    """Return the time of the slowest flow, and how many packets came out of order and were sent again."""
    with network(LeafSpine(2, SPINES, HOSTS, ways=ways), case=case) as net:
        flows = [
            Flow(f"h{number}", f"h{number + HOSTS}", size=SIZE, source_port=PORT, **options)
            for number in range(1, HOSTS + 1)
        ]
        with Flows(flows) as running:
            running.wait()
        run.figure(f"{case}: part of each uplink that was used", filled(net, "leaf1", LINE, running.completion))
    run.claim(f"{case}: lost", running.lost, equals=0)
    again = sum(report.retransmitted for report in running.reports_of(RoceReport))
    return running.completion, sum(report.out_of_order for report in running.reports), again
