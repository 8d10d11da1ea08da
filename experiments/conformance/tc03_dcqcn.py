"""TC3: an incast of RoCEv2 with DCQCN."""

from typing import Any

from experiments.conformance._case import Bench, Control, case, without_ecn
from experiments.conformance._incast import DUAL, FEW, SENDERS, SINGLE, Incast, few, marked
from experiments.conformance._ranks import KB, Ranks, dcqcn
from xoff import Ecn

_CE = "two lossless queues, CE from the senders"
_SHORT = 512 * KB
"""The octets of each rank with it: rates fall to the least at once, and what is left then takes a second a megabyte."""


@case(
    ports=1,
    timeout="300s",
    control=Control("no ECN", without_ecn, fails=[*(marked(DUAL, rank) for rank in SENDERS), few(DUAL)]),
)
def tc03_dcqcn(bench: Bench) -> None:
    """Two ranks send lossless data to one by DCQCN: each is marked on its queue, and few pauses are left."""
    ranks, control = Ranks(bench), dcqcn(bench)

    def run(scenario: str, **options: Any) -> Incast:
        with ranks.one_switch() as net:
            incast = Incast(ranks, net, scenario)
            flows = incast.flows(settings=ranks.quick_cnps, **options)
            incast.take(flows, ranks.run(net, flows))
            if options["rate_control"] is not None:
                incast.claim_delivery()
            if options["ecn"] is Ecn.ECT_0 and options["rate_control"] is not None:
                incast.claim_marks()
        return incast

    dual = run(DUAL, ecn=Ecn.ECT_0, rate_control=control)
    without = run(DUAL, ecn=Ecn.ECT_0, rate_control=None)
    bench.claim(few(DUAL), dual.few_pauses(without), at_most=FEW)
    bench.figure("XOFF for ranks 0 and 1, without and with DCQCN", [without.xoffs, dual.xoffs])
    if bench.is_control:
        return
    run(SINGLE, ecn=Ecn.ECT_0, rate_control=control)
    carried = run(_CE, octets=_SHORT, ecn=Ecn.CE, rate_control=control)
    for rank, report in zip(SENDERS, carried.lossless, strict=True):
        bench.claim(f"{_CE}: frames of rank {rank} that arrived without CE", report.received - report.marked, equals=0)
    carried.claim_cnps()
