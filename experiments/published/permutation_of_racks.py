"""Flows that would fill all uplinks exactly: what a hash leaves of them, and what spraying does."""

from xoff import (
    Buffer,
    Cable,
    Duration,
    Dynamic,
    Flow,
    LeafSpine,
    Nic,
    Rate,
    Roce,
    RoceSettings,
    Run,
    Ways,
    experiment,
    network,
)

SOURCE = "Resilient AI Supercomputer Networking using MRC and SRv6 (2026), appendix, figure 20"
LINE = Rate("400Gb/s")
CABLE = Cable(LINE, delay="500ns", mtu=9216)
BUFFER = Buffer(32_000_000, cell=1, xoff=Dynamic("1/16"))
LEAVES = SPINES = HOSTS = 4
PAIRS = [(f"h{number}", f"h{number + 8}") for number in range(1, 9)]
DRAWS = range(1, 5)
MTU = 4096
WAITS = Nic(reorder_time=Duration("10us"))
LASTS, SETTLED, LOOKED_AT = Duration("1ms"), Duration("400us"), Duration("500us")
NEAR = 0.02


@experiment(timeout="300s", free_cpu=True)
def permutation_of_racks(run: Run) -> None:
    """Eight hosts send to one each in other racks, which would fill the uplinks exactly: what a hash leaves of that.

    Four racks of four hosts, four spines, 400 Gb/s everywhere, RoCE with one queue pair and PFC alone. Published is
    that by a hash some flows get the line and some a half or a third of it, and that the number of collisions differs
    between runs; a queue pair that MRC sprays gets 390. Four draws of the hash are run, and each flow gets the line
    divided by a whole number. Control case: the leaf sprays, receivers wait for what is late, and all get the line.
    """
    parts = []
    for seed in DRAWS:
        parts.append([LINE.bps / rate.bps for rate in _rates(f"hash {seed}", Ways(seed=seed))])
        run.figure(f"hash {seed}: flows that share a line", sorted(map(round, parts[-1])))
    flows = [one for draw in parts for one in draw]
    run.claim(
        "hash: flows that get no whole part of the line", sum(abs(one - round(one)) > NEAR for one in flows), equals=0
    )
    for part, name in ((1, "the line"), (2, "half of it"), (3, "a third")):
        many = sum(round(one) == part for one in flows)
        run.claim(f"hash: flows that get {name}", many, at_least=1)
    run.claim(
        "hash: draws that divide the lines in another way",
        len({tuple(sorted(map(round, one))) for one in parts}),
        at_least=3,
    )
    slowest = min(_rates("spray", Ways("spray"), WAITS), key=lambda rate: rate.bps)
    run.published(
        "spray: slowest flow", slowest, value=Rate("390Gb/s"), within="3%", source=SOURCE,
        differs="MRC's headers; here the leaf sprays the packets of RoCE, and their frames are counted on the wire",
    )  # fmt: skip


def _rates(case: str, ways: Ways, nic: Nic = Nic()) -> list[Rate]:
    roce = Roce(settings=RoceSettings(mtu=MTU), nic=nic)
    with network(LeafSpine(LEAVES, SPINES, HOSTS, cable=CABLE, buffer=BUFFER, ways=ways), case=case) as net:
        running = net.run(*(Flow(*pair, transport=roce, duration=LASTS, rate_control="fixed") for pair in PAIRS))
    return [report.goodput_over(SETTLED, LOOKED_AT) for report in running.reports]
