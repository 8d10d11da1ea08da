"""The goodput of a flow beside a 7:1 incast, by the way that a hash gives that flow."""

from xoff import (
    Buffer,
    Cable,
    Duration,
    Dynamic,
    Flow,
    LeafSpine,
    Rate,
    Roce,
    RoceSettings,
    Run,
    Ways,
    experiment,
    network,
)

SOURCE = "Resilient AI Supercomputer Networking using MRC and SRv6 (2026), appendix, figure 21"
LINE = Rate("400Gb/s")
CABLE = Cable(LINE, delay="500ns", mtu=9216)
BUFFER = Buffer(32_000_000, cell=1, xoff=Dynamic("1/16"))
"""Not stated. It decides how long the pauses take to come to the senders, and not what the victim gets then."""
LEAVES = SPINES = HOSTS = 4
TARGET, BESIDE = "h1", "h2"
SENDERS, VICTIMS_SENDER = range(5, 12), "h16"
PORT = 50_000
DRAWS = range(1, 7)
"""The seeds of the hash: each divides the flows among the spines in another way."""
MTU = 4096
LASTS, SETTLED, LOOKED_AT = Duration("1ms"), Duration("400us"), Duration("500us")


@experiment(timeout="300s", free_cpu=True)
def incast_across_spines(run: Run) -> None:
    """Seven hosts of two racks send to h1 by four spines, and one sends to h2 in the same rack, which is idle.

    Four racks of four hosts, four spines, 400 Gb/s everywhere, RoCE with one queue pair and PFC alone. Published is
    that the victim gets 30 to 100 Gb/s, depending on its way and on fairness. The leaf of h1 gives each uplink that
    has flows of the incast a part of h1's line, and the spine before it divides that among its own ports: the victim
    waits in the same queues and gets as much as the flows of one port. Six draws of the hash are run. Control cases
    are the draws in which no flow of the incast has the victim's way, and no incast: then the victim has the line.
    """
    seen = {seed: _victim(f"hash {seed}", seed) for seed in DRAWS}
    beside = [rate for rate, shares in seen.values() if shares]
    run.figure("victim, by draws of the hash", [rate for rate, _ in seen.values()])
    run.claim("draws in which the victim has a way with the incast", len(beside), at_least=len(DRAWS) // 2)
    run.published(
        "victim with the incast, the least", min(beside, key=lambda rate: rate.bps), value=Rate("30Gb/s"),
        source=SOURCE, differs="how many runs the range is from is not stated; fewer ports at a spine give more each",
    )  # fmt: skip
    run.published(
        "victim with the incast, the most", max(beside, key=lambda rate: rate.bps), value=Rate("100Gb/s"),
        source=SOURCE, differs="400 Gb/s by three, where one uplink of h1's leaf has no flow of the incast",
    )  # fmt: skip
    run.claim("victim with the incast, the most", max(rate.bps for rate in beside) / LINE.bps, at_most=0.4)
    apart = [rate for rate, shares in seen.values() if not shares]
    run.claim("victim on a way of its own, the least", min(apart, key=lambda rate: rate.bps), at_least=LINE * 99 // 100)
    run.claim("no incast: victim", _victim("no incast", DRAWS[0], incast=False)[0], at_least=LINE * 99 // 100)


def _victim(case: str, seed: int, *, incast: bool = True) -> tuple[Rate, bool]:
    """Return what the victim gets where switches hash with a seed, and whether a flow of the incast has its spine."""
    roce = Roce(settings=RoceSettings(mtu=MTU))
    pairs = [(VICTIMS_SENDER, BESIDE), *((f"h{number}", TARGET) for number in (SENDERS if incast else ()))]
    with network(LeafSpine(LEAVES, SPINES, HOSTS, cable=CABLE, buffer=BUFFER, ways=Ways(seed=seed)), case=case) as net:
        victims, *spines = (net.path(*pair, transport="roce", source_port=PORT).nodes[2] for pair in pairs)
        flows = [Flow(*pair, transport=roce, duration=LASTS, rate_control="fixed", source_port=PORT) for pair in pairs]
        running = net.run(*flows)
    return running.reports[0].goodput_over(SETTLED, LOOKED_AT), victims in spines
