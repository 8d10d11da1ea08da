"""LR06: frames are kept until they are acknowledged."""

from experiments.conformance._case import Bench, case
from experiments.conformance._retry import link, no_llr

KEPT = "frames kept while no ACK comes, of 100"


@case(control=no_llr(KEPT))
def lr06_buffering(bench: Bench) -> None:
    """While ACKs are late all frames stay in the buffer, and the sender replays them; with an ACK they are gone."""
    with link(bench) as on:
        on.drop_acks()
        report = on.send(100)
        bench.claim(KEPT, on.report(on.dut).kept, equals=100)
        bench.claim("a replay is seen", on.until(lambda: on.report(on.dut).state == "REPLAY") >= 0, equals=True)
        on.until(lambda: on.of(on.dut, "TX_OK")[0] >= 200)
        on.drop_acks(False)
        on.net.sleep("50us")
        bench.claim("frames kept with ACKs again", on.report(on.dut).kept, equals=0)
        bench.claim("ACKs that came", on.of(on.dut, "RX_ACK_CTL_OS")[0], at_least=1)
        bench.claim("ACKs that were sent", on.of(on.tester, "TX_ACK_CTL_OS")[0],
                    at_least=on.of(on.dut, "RX_ACK_CTL_OS")[0] + 1)  # fmt: skip
        counted = on.of(on.dut, "TX_OK") + on.of(on.tester, "RX_OK")
        bench.claim("TX_OK less RX_OK", counted[0] - counted[1], equals=0)
        bench.claim("TX_OK", counted[0], at_least=200)
        on.ready()
        on.whole(report)
