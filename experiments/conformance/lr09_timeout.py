"""LR09: the replay timer."""

from dataclasses import replace

from experiments.conformance._case import Bench, case
from experiments.conformance._retry import LARGE, link, no_llr
from xoff import Duration, Size

TIMER = "time from the last frame to the replay"
_TIMER = Duration("20us")


@case(control=no_llr(TIMER))
def lr09_timeout(bench: Bench) -> None:
    """Without ACKs ten frames are sent again after the replay timer, within 10 %, and not before."""
    with link(bench, replace(LARGE, replay_timer=_TIMER)) as on:
        on.drop_acks()
        with on.sending(on.flow(10)):
            sent = on.until(lambda: on.of(on.dut, "TX_OK")[0] >= 10)
            early = on.of(on.dut, "TX_REPLAY")[0]
            replayed = on.until(lambda: on.of(on.dut, "TX_REPLAY")[0] >= 1)
            bench.claim("replays before", early, equals=0)
            bench.claim("state of the receiver", on.report(on.tester).receiver, equals="SEND_ACKS")
            on.until(lambda: on.of(on.dut, "TX_OK")[0] >= 20)
            bench.claim("frames sent with a replay", on.of(on.dut, "TX_OK")[0], at_least=20)
            bench.claim("ACKs that came", on.of(on.dut, "RX_ACK_CTL_OS")[0], equals=0)
            bench.claim("ACKs that were sent", on.of(on.tester, "TX_ACK_CTL_OS")[0], at_least=1)
            on.drop_acks(False)
            on.wait("50us")
        frame = bench.frame_time(Size("1514B"))
        took = bench.measured(replayed - sent) - frame if min(sent, replayed) >= 0 else Duration("0s")
        bench.claim(TIMER, took, at_least=_TIMER * 9 // 10, at_most=_TIMER * 11 // 10)
        bench.claim("frames in order", on.of(on.tester, "RX_EXPECTED_SEQ_GOOD")[0], equals=10)
        on.ready()
