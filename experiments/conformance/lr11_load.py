"""LR11: losses at the rate of the line."""

from experiments.conformance._case import Bench, case
from experiments.conformance._retry import link, no_llr
from xoff import Duration

LOST = "frames lost of 4000 where the cable loses 2 %"
_COUNT, _FRAME = 4000, "9014B"


@case(timeout="600s", control=no_llr(LOST))
def lr11_load(bench: Bench) -> None:
    """At the rate of the line a cable that loses 2 % loses nothing with LLR, at 95 % of the throughput without loss."""
    took: dict[str, Duration] = {}
    for name, loss in (("without loss", 0), ("with loss", "1/50")):
        with link(bench, True, mtu=9216, loss=loss) as on:
            report, trip = on.send(_COUNT, _FRAME), bench.round_trip(on.net)
            on.wait("100us")
            took[name] = bench.measured(report.last_lab_ns - report.first_lab_ns)
            sender, receiver = on.report(on.dut), on.counters(on.tester)
            if loss:
                bench.claim(LOST, report.lost, equals=0)
                bench.claim("frames in order", receiver["LLR_RX_EXPECTED_SEQ_GOOD"], equals=_COUNT)
                bench.claim("losses on the cable, of 2 %", sender.lost, at_least=_COUNT // 80, at_most=_COUNT // 30)
                nacks = receiver["LLR_TX_NACK_CTL_OS"]
                bench.claim("NACKs that came", on.of(on.dut, "RX_NACK_CTL_OS")[0], equals=nacks)
                bench.claim("NACKs, of losses", nacks, at_least=1, at_most=sender.lost)
                bench.figure("frames sent again", on.of(on.dut, "TX_OK")[0] - _COUNT)
                on.ready()
            else:
                idle = on.of(on.dut, "TX_REPLAY")[0]
    share = took["without loss"].ps * 100 / max(1, took["with loss"].ps)
    bench.claim("percent of the throughput without loss", round(share, 2), at_least=95, at_most=100)
    if (frames := -(-trip.ps // bench.frame_time(_FRAME).ps)) > 1:
        left = 100 / (1 + (frames + 2) / 50)
        bench.figure("percent that is left if all that is under way is sent again for each loss", round(left, 2))
    bench.claim("without loss: replays", idle, equals=0)
