"""LR15: the most replays in a row."""

from dataclasses import replace

from experiments.conformance._case import Bench, case
from experiments.conformance._retry import LARGE, link, no_llr

REPLAYS = "replays of frames that never come, with a limit of 3"


@case(control=no_llr(REPLAYS))
def lr15_limit(bench: Bench) -> None:
    """Frames that are lost again and again are sent again three times and no more; the sender says so, and goes on."""
    with link(bench, replace(LARGE, replay_count=3, re_init=False)) as on:
        on.jam_frames("lost", after=50, count=10**6)
        report = on.send(60)
        on.wait("200us")
        found = on.report(on.dut)
        bench.claim(REPLAYS, on.of(on.dut, "TX_REPLAY")[0], equals=3)
        bench.claim("state of the sender, flushes", (found.state, found.flushes), equals=("FLUSH", 1))
        bench.claim("frames that were given up", on.of(on.dut, "TX_DISCARD")[0], equals=10)
        bench.claim("frames lost", report.lost, equals=10)
        bench.claim("state of the receiver", on.report(on.tester).receiver, equals="SEND_ACKS")
        bench.claim("NACKs, of frames that never came", on.of(on.tester, "TX_NACK_CTL_OS")[0], equals=0)
        bench.claim("replays that were seen", on.of(on.tester, "RX_REPLAY")[0], equals=0)
        on.jam(on.dut)
        bench.claim("frames that arrive afterwards", on.send(100).received, equals=100)
