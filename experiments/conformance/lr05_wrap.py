"""LR05: numbers begin again at 0."""

from dataclasses import replace

from experiments.conformance._case import Bench, case
from experiments.conformance._retry import LARGE, link, no_llr

GOOD = "frames in order, of 1000 around the wrap"
_COUNT = 1000
_FIRST = {"around the wrap": (1 << 20) - _COUNT // 2, "around 524287": (1 << 19) - _COUNT // 2}
"""Numbers have 20 bits; the plan says so, and has them end at 524287."""


@case(control=no_llr(GOOD))
def lr05_wrap(bench: Bench) -> None:
    """Numbers run from 1048575 to 0 and on, and ACKs with them: no duplicate, no loss; 524287 is like any other."""
    for name, first in _FIRST.items():
        with link(bench, replace(LARGE, first_sequence=first)) as on:
            report = on.send(_COUNT)
            bench.claim(
                f"frames in order, of {_COUNT} {name}", on.of(on.tester, "RX_EXPECTED_SEQ_GOOD")[0], equals=_COUNT
            )
            bench.claim(
                f"{name}: TX_OK, RX_OK", on.of(on.dut, "TX_OK") + on.of(on.tester, "RX_OK"), equals=[_COUNT] * 2
            )
            wrong = on.of(on.tester, "RX_DUPLICATE_SEQ", "RX_MISSING_SEQ", "RX_REPLAY")
            bench.claim(f"{name}: duplicate, missing, replays", wrong, equals=[0, 0, 0])
            acks = on.of(on.tester, "TX_ACK_CTL_OS")[0]
            bench.claim(f"{name}: ACKs that came", on.of(on.dut, "RX_ACK_CTL_OS")[0], equals=acks)
            bench.claim(f"{name}: ACKs", acks, at_least=10)
            bench.claim(f"{name}: errors of ACKs", on.of(on.dut, "RX_ACK_NACK_SEQ_ERROR")[0], equals=0)
            bench.claim(f"{name}: number of the next frame", on.report(on.dut).next_sequence,
                        equals=(first + _COUNT) % (1 << 20))  # fmt: skip
            bench.claim(f"{name}: frames not acknowledged", on.report(on.dut).kept, equals=0)
            on.ready(f"{name}: states")
            on.whole(report, f"{name}: lost, doubled, out of order")
