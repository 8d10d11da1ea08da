"""Fairness: PFC divides a line between ports, DCQCN between flows."""

from xoff import (
    Duration,
    EcnCurve,
    Flow,
    ParkingLot,
    Rate,
    RoceOutcome,
    Run,
    experiment,
    jain_index,
    marking,
    roce_outcome,
)

LINE = Rate("10Gb/s")
HOSTS = 4
SHORT = (Duration("5ms"), Duration("2ms"), Duration("2500us"))
LONG = (Duration("12ms"), Duration("5ms"), Duration("6500us"))
"""The length of flows, the time until they are steady, and the time that is looked at: DCQCN takes longer."""


@experiment(timeout="120s")
def fairness(run: Run) -> None:
    """Senders join a row of switches one after the other, as in parking_lot, but with RoCE.

    With PFC alone each switch divides its line between two ports: h4 gets 1/2, h3 1/4, h2 and h1 1/8 each. With DCQCN
    and marks before PFC the flows come to equal shares, wherever they join. Control case: DCQCN without marks is as
    PFC alone. Nothing is lost, and the last line is full. DCQCN has the parameters `dcqcn-mlx`, whose steps are larger;
    with the paper's it takes three times as long.
    """
    curve = EcnCurve("40kB", "160kB", "20%")
    for case, rate_control, marks in (("PFC alone", "fixed", None), ("DCQCN without marks", "dcqcn-mlx", None)):
        found, index = _run(run, case, rate_control, marks, SHORT)
        run.claim(f"{case}: Jain's index", index, at_most=0.8)
        run.claim(f"{case}: pauses", found.pauses, at_least=100)
    found, index = _run(run, "DCQCN", "dcqcn-mlx", curve, LONG)
    run.claim("DCQCN: Jain's index", index, at_least=0.95)


def _run(
    run: Run, case: str, rate_control: str, curve: EcnCurve | None, times: tuple[Duration, Duration, Duration]
) -> tuple[RoceOutcome, float]:
    lasts, settled, steady = times
    topology = ParkingLot(n=HOSTS, total=6000, xoff=800, xon_offset=16, **marking(curve))
    flows = [
        Flow(f"h{number}", "r", transport="roce", duration=lasts, rate_control=rate_control)
        for number in range(1, HOSTS + 1)
    ]
    found = roce_outcome(topology, flows, case)
    rates = found.rates(settled, steady)
    run.figure(f"{case}: goodput", rates)
    run.figure(f"{case}: Jain's index", jain_index(rates))
    run.claim(f"{case}: lost or sent twice", found.lost, equals=0)
    run.claim(f"{case}: every octet as it was sent", found.is_intact, equals=True)
    run.claim(f"{case}: utilisation", found.utilisation(LINE, settled, steady), at_least=0.9)
    return found, jain_index(rates)
