"""One step of AI training: an all-reduce over a leaf-spine fabric, with PFC, with ECN, and with both."""

from typing import Annotated, Any

from testbed.net.traffic import workload
from testbed.workload import transfers
from xoff import (
    ROCE_PRIORITY,
    Between,
    Duration,
    EcnCurve,
    LeafSpine,
    Port,
    Rate,
    RoceOutcome,
    Run,
    Size,
    experiment,
    roce_outcome,
)

LINE = Rate("10Gb/s")
HOSTS = 8


@experiment(timeout="180s")
def ai_training_step(
    run: Run,
    kilobytes: Annotated[int, Between(150, 1000)] = 200,
    delay: Annotated[Duration, Between("0s", "1us")] = Duration("0s"),
) -> None:
    """Eight hosts under two leaves reduce their gradients in a ring whose every hop crosses the two spines.

    Each leaf sends 40 Gb/s up two lines of 10 Gb/s, so these are congested. With PFC alone nothing is lost and hosts
    are paused; with DCQCN and marks before PFC there are fewer pauses; with DCQCN and no PFC the buffer of lossy
    traffic is all there is, and go-back-N makes up for what it drops. Each host sends 14/8 of the data in any case. The
    control case is a ring in the order of the hosts, of which one hop in four crosses the spines: it is faster. `delay`
    is that of each cable.
    """
    size = Size.from_bytes(kilobytes * 1000)
    across = ["h1", "h5", "h2", "h6", "h3", "h7", "h4", "h8"]
    ring = transfers.ring_all_reduce(across, size)
    took = {}
    for case, pfc, marks in (("PFC", True, False), ("ECN", False, True), ("PFC and ECN", True, True)):
        found = _run(run, case, ring, delay, pfc=pfc, marks=marks)
        took[case] = found
        sent = [report.size for report in found.reports]
        run.claim(f"{case}: received by each host", sent, equals=[one.size for one in ring])
        run.claim(f"{case}: every octet as it was sent", found.is_intact, equals=True)
        if pfc:
            run.claim(f"{case}: lost or sent twice", found.lost, equals=0)
        # All that goes up has to pass two lines: four hosts of each leaf, two lines.
        bound = LINE.time_for(ring[0].size) * 2
        run.claim(f"{case}: completion", _completion(found), at_least=bound)
    run.claim("PFC: pauses", took["PFC"].pauses, at_least=10)
    run.claim("ECN: pauses", took["ECN"].pauses, equals=0)
    run.claim("PFC and ECN: pauses", took["PFC and ECN"].pauses, at_most=took["PFC"].pauses)
    run.claim("PFC and ECN: CNPs", took["PFC and ECN"].cnps, at_least=1)

    near = _run(
        run, "ring of neighbours", transfers.ring_all_reduce(sorted(across), size), delay, pfc=True, marks=False
    )
    run.claim("ring of neighbours: completion", _completion(near), at_most=_completion(took["PFC"]))


def _completion(found: RoceOutcome) -> Duration:
    return workload.completion(found.reports)


def _run(run: Run, case: str, ring: Any, delay: Duration, *, pfc: bool, marks: bool) -> RoceOutcome:
    host = Port() if pfc else Port().without_pfc()
    port = Port(pfc=host.pfc, ecn={ROCE_PRIORITY: EcnCurve("5kB", "20kB", "20%")} if marks else {})
    topology = LeafSpine(
        leaves=2,
        spines=2,
        hosts=HOSTS // 2,
        delay=delay,
        ways="host number",
        port=port,
        hopts={"port": host},
        total=6000,
        xoff=60,
        xon_offset=16,
    )
    found = roce_outcome(topology, workload.flows(ring, rate_control="dcqcn" if marks else "fixed"), case)
    run.figure(f"{case}: completion", _completion(found))
    run.figure(f"{case}: pauses", found.pauses)
    run.figure(f"{case}: packets sent again", found.lost)
    return found
