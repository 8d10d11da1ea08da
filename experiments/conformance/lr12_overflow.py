"""LR12: more frames than the buffer has room for."""

from dataclasses import replace

from experiments.conformance._case import Bench, case
from experiments.conformance._retry import LARGE, link, no_llr

GIVEN_UP = "TX_DISCARD, of a buffer of 100 frames"


@case(control=no_llr(GIVEN_UP))
def lr12_overflow(bench: Bench) -> None:
    """Without ACKs a buffer of 100 frames holds as many and no more; given up, what follows goes without a number."""
    with link(bench, replace(LARGE, frames=100, replay_timer="40us", replay_count=1, re_init=False)) as on:
        on.drop_acks()
        report = on.send(300)
        on.wait("200us")
        found = on.report(on.dut)
        bench.claim(GIVEN_UP, on.of(on.dut, "TX_DISCARD")[0], equals=100)
        bench.claim("state of the sender", found.state, equals="FLUSH")
        bench.claim("flushes, replays", [found.flushes, *on.of(on.dut, "TX_REPLAY")], equals=[1, 1])
        bench.claim("frames with numbers, of which each was sent twice", on.of(on.dut, "TX_OK")[0], equals=200)
        bench.claim("frames that arrived", report.received, equals=300)
        bench.claim("doubled, out of order", (report.doubled, report.out_of_order), equals=(0, 0))
        on.drop_acks(False)
        bench.claim("frames that arrive afterwards", on.send(100).received, equals=100)
