"""LR07: random losses, and the NACKs that they cause."""

from experiments.conformance._case import Bench, case
from experiments.conformance._retry import link, no_llr

LOST = "frames lost of 1000 where the cable loses 5 %"


@case(control=no_llr(LOST))
def lr07_loss(bench: Bench) -> None:
    """A cable that loses one frame in 20: gaps are noticed, asked for once and sent again, and nothing is lost."""
    with link(bench, loss="1/20") as on:
        report = on.send(1000)
        on.wait("50us")
        bench.claim(LOST, report.lost, equals=0)
        sender, receiver = on.report(on.dut), on.counters(on.tester)
        nacks = receiver["LLR_TX_NACK_CTL_OS"]
        bench.claim("NACKs that came", on.of(on.dut, "RX_NACK_CTL_OS")[0], equals=nacks)
        bench.claim("NACKs, of losses on the cable", nacks, at_least=1, at_most=sender.lost)
        bench.claim("losses on the cable", sender.lost, at_least=20)
        bench.claim("frames in order", receiver["LLR_RX_EXPECTED_SEQ_GOOD"], equals=1000)
        bench.claim("frames behind a gap", receiver["LLR_RX_MISSING_SEQ"], at_least=1)
        bench.claim("replays sent", on.of(on.dut, "TX_REPLAY")[0], at_least=nacks)
        bench.claim("replays seen", receiver["LLR_RX_REPLAY"], at_least=1)
        bench.claim("doubled, out of order", (report.doubled, report.out_of_order), equals=(0, 0))
        on.ready()
