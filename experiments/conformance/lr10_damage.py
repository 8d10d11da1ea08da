"""LR10: damaged frames are found and sent again."""

from experiments.conformance._case import Bench, case
from experiments.conformance._retry import link, no_llr
from xoff import BitErrors, Jam

LOST = "frames lost of 1000 with bit errors"
_AT = (100, 300, 500, 700)


@case(control=no_llr(LOST))
def lr10_damage(bench: Bench) -> None:
    """Frames with bit errors are noticed and sent again; of four damaged ones far apart each counter is four."""
    with link(bench, errors=BitErrors("1e-6")) as on:
        report = on.send(1000)
        on.wait("50us")
        bench.claim(LOST, report.lost, equals=0)
        sender, receiver = on.report(on.dut), on.counters(on.tester)
        bench.claim("damaged frames that were noticed", receiver["LLR_RX_BAD"], equals=sender.damaged)
        bench.claim("damaged frames", sender.damaged, at_least=3)
        bench.claim("NACKs", receiver["LLR_TX_NACK_CTL_OS"], at_least=1, at_most=sender.damaged)
        bench.claim("frames in order", receiver["LLR_RX_EXPECTED_SEQ_GOOD"], equals=1000)
        bench.claim("doubled, out of order", (report.doubled, report.out_of_order), equals=(0, 0))
    with link(bench) as on:
        on.jam(on.dut, *(Jam("frame", "damaged", number) for number in _AT))
        report = on.send(1000)
        found = on.of(on.tester, "RX_BAD", "RX_EXPECTED_SEQ_BAD", "TX_NACK_CTL_OS", "RX_REPLAY")
        bench.claim("four damaged: BAD, EXPECTED_SEQ_BAD, NACKs, replays seen", found, equals=[len(_AT)] * 4)
        bench.claim("four damaged: NACKs that came, replays", on.of(on.dut, "RX_NACK_CTL_OS", "TX_REPLAY"),
                    equals=[len(_AT)] * 2)  # fmt: skip
        on.whole(report)
        on.ready()
