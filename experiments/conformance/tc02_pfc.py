"""TC2: an incast of RoCEv2 that PFC alone holds."""

from experiments.conformance._case import Bench, Control, case, without_ecn, without_pfc
from experiments.conformance._incast import DUAL, SENDERS, SINGLE, Incast, paused
from experiments.conformance._ranks import AGAIN, KB, Ranks

_MIXED = "two lossless queues, messages of 128 and 4 kB"
_SCENARIOS = {SINGLE: (128 * KB, 128 * KB), DUAL: (128 * KB, 128 * KB), _MIXED: (128 * KB, 4 * KB)}


@case(
    ports=1,
    timeout="300s",
    tables=without_ecn,
    control=Control("no PFC", without_pfc, fails=[*(paused(DUAL, rank) for rank in SENDERS), f"{DUAL}: {AGAIN}"]),
)
def tc02_pfc(bench: Bench) -> None:
    """Two ranks send lossless data to one, beside lossy data: PFC holds each on its queue, and nothing is lost."""
    ranks = Ranks(bench)
    for scenario, messages in _SCENARIOS.items():
        if bench.is_control and scenario != DUAL:
            continue
        with ranks.one_switch() as net:
            incast = Incast(ranks, net, scenario)
            flows = incast.flows(messages=messages)
            incast.take(flows, ranks.run(net, flows))
            for rank in SENDERS:
                bench.claim(paused(scenario, rank), incast.xoffs[rank], at_least=1)
            incast.claim_delivery()
            incast.claim_no_marks()
