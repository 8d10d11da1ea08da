"""L04: one PFC frame pauses for its quanta."""

from itertools import pairwise

from experiments.conformance._case import Bench, Control, case, without_pfc
from experiments.conformance._paused_flow import paused_flow
from xoff import LONGEST_PAUSE, Duration

_QUANTA = (2_000, 20_000, LONGEST_PAUSE)
_BESIDE = Duration("50us")
"""The time in which the flow is looked at before a pause and after it, at 100 Gb/s."""


@case(control=Control("no PFC", without_pfc, fails=[f"pause by {quanta} quanta" for quanta in _QUANTA]))
def l04_quanta(bench: Bench) -> None:
    """One PFC frame of known quanta: the pause, as the receiver sees it, is quanta x 512 bit times within 5 %."""
    with paused_flow(bench) as flow:
        for quanta in _QUANTA:
            expected = bench.line.time_for_quanta(quanta)
            with bench.run.measuring():
                flow.arrivals.wait(bench.paced(_BESIDE) + flow.begun)
                flow.wire.send(flow.xoff(quanta))
                flow.arrivals.wait(expected + flow.round_trip + bench.paced(_BESIDE))
            paused = bench.measured(max(later - earlier for earlier, later in pairwise(flow.arrivals.taken())))
            bench.claim(
                f"pause by {quanta} quanta", paused,
                at_least=expected * 95 // 100, at_most=expected * 105 // 100,
            )  # fmt: skip
