"""LR18: frames with numbers and frames without."""

import time

from experiments.conformance._case import Bench, case
from experiments.conformance._retry import link, no_llr
from xoff import RawPort, Tap

LOST = "frames lost that may be repeated, of 300"
_COUNT = 300
_TO_ONE_LINK = bytes.fromhex("0180c200000e")
"""Frames of LLDP and MAC control have no number."""


@case(control=no_llr(LOST))
def lr18_mixed(bench: Bench) -> None:
    """Half of the frames have no number: the cable loses some of these, and none of the others; counters have these."""
    with (
        link(bench, loss="1/20") as on,
        RawPort(on.fabric.port(on.dut).node, on.dut) as raw,
        Tap(on.net["h2"], on.tester) as tap,
    ):
        mac = on.fabric.port(on.dut).mac.octets
        plain = (_TO_ONE_LINK + mac + b"\x88\xcc").ljust(1514, b"\0")
        gap_s = bench.lab_ns(bench.frame_time()) * 2 / 1e9
        with on.sending(on.flow(_COUNT, rate=bench.line // 2)):
            for _ in range(_COUNT):
                raw.send(plain)
                time.sleep(gap_s)
            on.wait("100us")
            came = sum(frame[:6] == _TO_ONE_LINK for frame in tap.frames())
            good = on.of(on.tester, "RX_EXPECTED_SEQ_GOOD")[0]
            sender = on.report(on.dut)
        bench.claim(LOST, _COUNT - good, equals=0)
        bench.claim("frames without a number that came", came, at_least=_COUNT // 2, at_most=_COUNT - 1)
        sent, replays = on.of(on.dut, "TX_OK", "TX_REPLAY")
        bench.claim("frames sent, less losses: those received", sent + _COUNT - sender.lost,
                    equals=on.of(on.tester, "RX_OK")[0] + came)  # fmt: skip
        bench.claim("replays", replays, at_least=1)
        on.ready()
