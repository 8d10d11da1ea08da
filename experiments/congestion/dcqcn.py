"""DCQCN with ECN thresholds below those of PFC: the senders slow down before a pause is needed."""

from typing import Annotated, Any

from xoff import (
    Between,
    Dumbbell,
    Duration,
    EcnCurve,
    Flow,
    Incast,
    Rate,
    RoceOutcome,
    Run,
    experiment,
    marking,
    roce_outcome,
)

LINE = Rate("10Gb/s")
SENDERS = 4
LASTS, SETTLED, STEADY = Duration("10ms"), Duration("5ms"), Duration("4500us")
HIGH, LOW = 800, 48
"""XOFF thresholds in cells: above what ECN lets a port hold, and below."""


@experiment(timeout="120s")
def dcqcn(run: Run, delay: Annotated[Duration, Between("0s", "1us")] = Duration("0s")) -> None:
    """Four RoCE flows into one port: PFC alone, ECN below PFC, and the thresholds swapped, with and without DCQCN.

    With PFC alone the buffer of each port fills and pauses its host, again and again. With DCQCN, and marks from 40 kB
    of queue on, the switch marks, the receiver sends CNPs, and the flows slow down: at most a tenth of the pauses, and
    the line is full once they have found their rates. With XOFF at 10 kB a port the queue ends before the marks begin:
    there are no CNPs, and as many pauses as with PFC alone. In no case is a packet lost. With a `delay`
    the receiver is behind a second switch, at a cable of that delay, and the port to this cable is the congested one.
    """
    curve = EcnCurve("40kB", "160kB", "20%")
    alone = _run(run, "PFC alone", None, "fixed", xoff=HIGH, delay=delay)
    run.claim("PFC alone: pauses", alone.pauses, at_least=100)
    run.claim("PFC alone: CNPs", alone.cnps, equals=0)

    first = _run(run, "ECN below PFC", curve, "dcqcn", xoff=HIGH, delay=delay)
    run.claim("ECN below PFC: pauses", first.pauses, at_most=alone.pauses // 10)
    run.claim("ECN below PFC: marked packets", first.marks, at_least=100)
    run.claim("ECN below PFC: CNPs", first.cnps, at_least=SENDERS)
    # One for a flow in 50 ms of the lab.
    run.claim("ECN below PFC: CNPs of one flow", max(r.cnps_received for r in first.reports), at_most=210)

    # How long a pause lasts depends on how many frames fit below the threshold, so it is compared with the same one.
    low = _run(run, "PFC alone, at 10 kB", None, "fixed", xoff=LOW, delay=delay)
    swapped = _run(run, "ECN above PFC", curve, "dcqcn", xoff=LOW, delay=delay)
    run.claim("ECN above PFC: pauses", swapped.pauses, equals=low.pauses)
    run.claim("ECN above PFC: marked packets", swapped.marks, equals=0)
    run.claim("ECN above PFC: CNPs", swapped.cnps, equals=0)


def _run(run: Run, case: str, curve: EcnCurve | None, rate_control: str, *, xoff: int, delay: Duration) -> RoceOutcome:
    options: dict[str, Any] = {"total": 6000, "xoff": xoff, "xon_offset": 16, **marking(curve)}
    topology = Dumbbell(n=SENDERS, between=delay, **options) if delay.ns else Incast(n=SENDERS, **options)
    flows = [
        Flow(f"h{number}", "r1" if delay.ns else "r", transport="roce", duration=LASTS, rate_control=rate_control)
        for number in range(1, SENDERS + 1)
    ]
    found = roce_outcome(topology, flows, case)
    run.figure(f"{case}: goodput", found.rates(SETTLED, STEADY))
    run.figure(f"{case}: most cells of one port", found.most_cells)
    run.claim(f"{case}: lost or sent twice", found.lost, equals=0)
    run.claim(f"{case}: every octet as it was sent", found.is_intact, equals=True)
    run.claim(f"{case}: utilisation", found.utilisation(LINE, SETTLED, STEADY), at_least=0.9)
    return found
