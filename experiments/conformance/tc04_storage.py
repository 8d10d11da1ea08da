"""TC4: storage traffic, which keeps its rate, with and without DCQCN."""

from experiments.conformance._case import Bench, Control, case, without_ecn
from experiments.conformance._incast import DUAL, FEW, SENDERS, SINGLE, Incast, few, paused
from experiments.conformance._ranks import MB, Ranks, dcqcn
from xoff import Ecn


@case(ports=1, timeout="300s", control=Control("no ECN", without_ecn, fails=[few(DUAL)]))
def tc04_storage(bench: Bench) -> None:
    """The same incast at a constant rate and with DCQCN: the first is held by PFC, the second by far less of it."""
    ranks = Ranks(bench)
    for scenario in [DUAL] if bench.is_control else [SINGLE, DUAL]:
        without: Incast | None = None
        for control in (None, dcqcn(bench)):
            with ranks.one_switch() as net:
                incast = Incast(ranks, net, scenario if control is None else f"{scenario}, with DCQCN")
                flows = incast.flows(messages=(MB, MB), ecn=Ecn.ECT_0, rate_control=control, settings=ranks.quick_cnps)
                incast.take(flows, ranks.run(net, flows))
                if without is None:
                    for rank in SENDERS:
                        bench.claim(paused(scenario, rank), incast.xoffs[rank], at_least=1)
                    without = incast
                else:
                    bench.claim(few(scenario), incast.few_pauses(without), at_most=FEW)
                incast.claim_delivery()
                incast.claim_marks()
            goodput = [one.goodput for one in incast.lossless]
            bench.figure(f"{incast.scenario}: goodput of ranks 0 and 1", ", ".join(map(str, goodput)))
            bench.figure(f"{incast.scenario}: XOFF for ranks 0 and 1", incast.xoffs)
