"""LR16: a hundred frames in a row are lost."""

from dataclasses import replace

from experiments.conformance._case import Bench, case
from experiments.conformance._retry import LARGE, link, no_llr

LOST, AGAIN = "frames lost of 1000, with a burst of 100", "frames sent again"
_BURST = 100


@case(control=no_llr(AGAIN))
def lr16_burst(bench: Bench) -> None:
    """A burst of 100 lost frames takes one NACK and one replay, and no longer than sending them again."""
    took = {}
    for burst in (0, 1, _BURST):
        with link(bench, replace(LARGE, replay_timer="60us")) as on:
            if burst:
                on.jam_frames("lost", after=499, count=burst)
            report = on.send(1000)
            took[burst] = bench.measured(report.last_lab_ns - report.first_lab_ns)
            if burst == _BURST:
                bench.claim(LOST, report.lost, equals=0)
                bench.claim("NACKs, replays", on.of(on.dut, "RX_NACK_CTL_OS", "TX_REPLAY"), equals=[1, 1])
                again = on.of(on.dut, "TX_OK")[0] - 1000
                bench.claim(AGAIN, again, at_least=_BURST)
                bench.claim("frames that came behind the gap", on.of(on.tester, "RX_MISSING_SEQ")[0],
                            equals=again - _BURST)  # fmt: skip
                bench.claim("frames in order", on.of(on.tester, "RX_EXPECTED_SEQ_GOOD")[0], equals=1000)
                bench.claim("doubled, out of order", (report.doubled, report.out_of_order), equals=(0, 0))
                on.ready()
    normal, recovery = took[1] - took[0], took[_BURST] - took[0]
    frames = bench.frame_time() * (_BURST - 1)
    bench.claim("recovery beyond sending the burst again", recovery - frames if recovery > frames else recovery,
                at_most=normal * 2)  # fmt: skip
