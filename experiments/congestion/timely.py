"""TIMELY: two flows find their rates by their round trips alone. The switch marks nothing."""

from typing import Any

from xoff import Duration, Flow, Incast, Rate, Run, experiment, jain_index, roce_outcome

LINE = Rate("10Gb/s")
SENDERS = 2
LASTS, SETTLED, STEADY = Duration("10ms"), Duration("4ms"), Duration("5900us")
"""Rates oscillate with TIMELY. On vm, where the work of the endpoints is part of round trips, 1.9 ms are too short."""
HIGH = Duration("500us")
"""TIMELY's T_high: above it a rate is cut whatever the gradient is."""


@experiment(timeout="60s")
def timely(run: Run) -> None:
    """Two RoCE flows into one port, with TIMELY and with none; nothing is marked, and the switch has PFC.

    With line rate at both ends, the control case, the port is full by pauses alone. With TIMELY the round trips grow
    with the queue, and the flows slow down before it is at the XOFF threshold: a tenth of the pauses at most, no more
    queue than T_high stands for once the rates are found, and most of the line is used. Nothing is lost.
    """
    alone = _run(run, "fixed", "fixed")
    run.claim("fixed: pauses", alone.pauses, at_least=100)
    found = _run(run, "timely", "timely")
    run.claim("timely: pauses", found.pauses, at_most=alone.pauses // 10)
    run.claim("timely: marked packets and CNPs", found.marks + found.cnps, equals=0)
    waits = LINE.time_for(found.longest_queue)
    run.claim("timely: time in the longest queue", waits, at_most=HIGH)


def _run(run: Run, case: str, rate_control: str) -> Any:
    flows = [
        Flow(f"h{number}", "r", transport="roce", duration=LASTS, rate_control=rate_control)
        for number in range(1, SENDERS + 1)
    ]
    topology = Incast(n=SENDERS, total=6000, xoff=800, xon_offset=16)
    found = roce_outcome(topology, flows, case)
    rates = found.rates(SETTLED, STEADY)
    run.figure(f"{case}: goodput", rates)
    run.figure(f"{case}: Jain's index", jain_index(rates))
    run.figure(f"{case}: longest queue", found.longest_queue)
    run.figure(f"{case}: part of the time paused, by port", found.pause_shares)
    run.claim(f"{case}: lost or sent twice", found.lost, equals=0)
    run.claim(f"{case}: every octet as it was sent", found.is_intact, equals=True)
    run.claim(f"{case}: utilisation", found.utilisation(LINE, SETTLED, STEADY), at_least=0.9)
    return found
