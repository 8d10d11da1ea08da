"""LR04: each frame has a number."""

from experiments.conformance._case import Bench, case
from experiments.conformance._retry import link, no_llr

GOOD = "TX_OK at the switch, RX_OK and EXPECTED_SEQ_GOOD at the tester, of 1000 frames"


@case(control=no_llr(GOOD))
def lr04_numbers(bench: Bench) -> None:
    """1000 frames have the numbers that are expected, none twice."""
    with link(bench) as on:
        report = on.send(1000)
        counted = on.of(on.dut, "TX_OK") + on.of(on.tester, "RX_OK", "RX_EXPECTED_SEQ_GOOD")
        bench.claim(GOOD, counted, equals=[1000] * 3)
        bench.claim("duplicate, missing, bad", on.of(on.tester, "RX_DUPLICATE_SEQ", "RX_MISSING_SEQ", "RX_BAD"),
                    equals=[0, 0, 0])  # fmt: skip
        on.ready()
        on.whole(report)
