"""LR08: a NACK, and all that follows is sent again."""

from experiments.conformance._case import Bench, case
from experiments.conformance._retry import link, no_llr

ONCE = "NACKs sent and received, replays sent and seen, with the 50th frame dropped"


@case(control=no_llr(ONCE))
def lr08_nack(bench: Bench) -> None:
    """The 50th of 100 frames is dropped: one NACK, one replay from it on, no ACK in between, all frames once."""
    with link(bench) as on:
        on.jam_frames("lost", after=49)
        report = on.send(100)
        counted = on.of(on.tester, "TX_NACK_CTL_OS") + on.of(on.dut, "RX_NACK_CTL_OS", "TX_REPLAY")
        bench.claim(ONCE, counted + on.of(on.tester, "RX_REPLAY"), equals=[1] * 4)
        again = on.of(on.dut, "TX_OK")[0] - 100
        bench.claim("frames sent again", again, at_least=1)
        bench.claim(
            "frames that came behind the gap, of these", on.of(on.tester, "RX_MISSING_SEQ")[0], equals=again - 1
        )
        bench.claim("frames in order", on.of(on.tester, "RX_EXPECTED_SEQ_GOOD")[0], equals=100)
        on.whole(report)
        on.ready()
    with link(bench) as on:  # the frame that is asked for comes damaged, until the jammer is off
        on.jam_frames("damaged", after=49, count=10**6)
        with on.sending(on.flow(100)):
            asked = on.until(lambda: on.report(on.tester).receiver == "NACK_SENT")
            before = on.of(on.tester, "TX_ACK_CTL_OS")[0]
            on.wait("30us")
            bench.claim("a receiver that has asked", asked >= 0 and on.report(on.tester).receiver, equals="NACK_SENT")
            bench.claim("ACKs after the NACK", on.of(on.tester, "TX_ACK_CTL_OS")[0] - before, equals=0)
            on.jam(on.dut)
            on.wait("50us")
        bench.claim("frames in order afterwards", on.of(on.tester, "RX_EXPECTED_SEQ_GOOD")[0], equals=100)
