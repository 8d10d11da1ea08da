"""LR13: several streams, and several links."""

from experiments.conformance._case import Bench, case
from experiments.conformance._retry import link, no_llr
from xoff import Jam

LOST, AGAIN = "frames lost of ten streams over a link with losses", "NACKs, replays"
_STREAMS, _COUNT = 10, 100


@case(ports=3, timeout="240s", control=no_llr(AGAIN))
def lr13_streams(bench: Bench) -> None:
    """Ten streams over one link with losses are whole; a link with more losses costs another one nothing."""
    with link(bench, hosts=3, others=True) as on:
        (alone,) = on.net.run(on.flow(_STREAMS * _COUNT)).reports
        one_ns = alone.last_lab_ns - alone.first_lab_ns
    with link(bench, hosts=3, others=True) as on:
        on.jam(on.dut, *(Jam("frame", "lost", number) for number in (100, 400, 700)))
        flows = [on.flow(_COUNT, rate=bench.line // _STREAMS) for _ in range(_STREAMS)]
        reports = on.net.run(*flows).reports
        bench.claim(LOST, sum(report.lost for report in reports), equals=0)
        bench.claim("streams out of order, or doubled",
                    sum(bool(report.out_of_order or report.doubled) for report in reports), equals=0)  # fmt: skip
        bench.claim(AGAIN, on.of(on.dut, "RX_NACK_CTL_OS", "TX_REPLAY"), equals=[3, 3])
        ns = max(report.last_lab_ns for report in reports) - min(report.first_lab_ns for report in reports)
        bench.claim("percent of the time of one stream without losses", round(ns * 100 / one_ns, 1), at_most=110)
    with link(bench, hosts=3, others=True) as on:
        other = bench.port(on.net, "h3")
        on.jam(other, *(Jam("frame", "lost", number) for number in (20, 50, 90, 130)))
        flows = [on.flow(200, rate=bench.line // 2), on.flow(200, target="h3", rate=bench.line // 2)]
        for host, report in zip(("h2", "h3"), on.net.run(*flows).reports, strict=True):
            on.whole(report, f"two links, to {host}: lost, doubled, out of order")
        bench.claim("replays of the two links", [*on.of(on.dut, "TX_REPLAY"), *on.of(other, "TX_REPLAY")],
                    equals=[0, 4])  # fmt: skip
