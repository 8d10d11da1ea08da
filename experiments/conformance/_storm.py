"""Flows of an eighth of the line each, of every priority, and receivers that storm some of them: for L01, L02, L05.

Not an experiment.
"""

import time
from collections.abc import Sequence
from contextlib import ExitStack

from experiments.conformance._case import Bench
from xoff import Duration, Flows, PfcFrame, RawPort

STORM = Duration("200us")
"""The length of a storm, without the time to spread at both ends; all times here are for 100 Gb/s."""
SPREAD = Duration("100us")
"""The time for the buffers to fill, and at the end for frames that are on their way."""
REPEAT = Duration("100us")
"""A pause of 65535 quanta lasts 335 us."""
GOODPUT = "goodput of the fastest stormed flow"


def storm_of(bench: Bench, priorities: int, pairs: Sequence[tuple[str, str]] = (("h1", "h2"),), lossy: int = 8) -> None:
    """Storm the first `priorities` of the lossless ones at each receiver of these pairs; as many of the lossy ones
    have a flow.
    """
    stormed, all_of = bench.lossless[:priorities], sorted(bench.lossless + bench.lossy[:lossy])
    share = bench.line // 8
    flows = {(*pair, p): bench.flow(*pair, p, rate=share) for pair in pairs for p in all_of}
    hosts = len({host for pair in pairs for host in pair})
    with bench.network(hosts) as net, ExitStack() as stack:
        fabric, spread, repeat = net.fabric, bench.paced(SPREAD) + bench.round_trip(net), bench.paced(REPEAT)
        beats = (bench.paced(STORM) + spread * 2) // repeat
        targets = {target: fabric.port(f"{target}-eth0").mac for _, target in pairs}
        wires = {target: stack.enter_context(RawPort(net[target], f"{target}-eth0")) for target in targets}
        with Flows(list(flows.values())) as running:
            net.sleep(spread)
            begin_ns = time.monotonic_ns()
            for beat in range(beats):
                for target, wire in wires.items():
                    wire.send_at(
                        PfcFrame.xoff(targets[target], stormed).encode(), begin_ns + beat * bench.lab_ns(repeat)
                    )
            net.sleep(repeat)
            for target, wire in wires.items():
                wire.send(PfcFrame.xon(targets[target], stormed).encode())
            net.sleep(spread)
        reports = dict(zip(flows, running.reports, strict=True))
        received = {
            target: [p for p in range(8) if fabric.pfc(bench.port(net, target), p)["xoff_received"]]
            for target in targets
        }
    begin_ns += bench.lab_ns(spread)
    during = {key: one.goodput_over(begin_ns, repeat * beats - spread * 2) for key, one in reports.items()}
    fastest = max(rate for (*_, priority), rate in during.items() if priority in stormed)
    others = [rate for (*_, priority), rate in during.items() if priority not in stormed]
    bench.claim(GOODPUT, fastest, equals=share * 0)
    for name, goodput in (("slowest", min(others)), ("fastest", max(others))):
        bench.claim(
            f"goodput of the {name} of the others", goodput,
            at_least=share * 98 // 100, at_most=share * 102 // 100,
        )  # fmt: skip
    bench.claim("frames lost", sum(report.lost for report in reports.values()), equals=0)
    bench.claim("priorities with PFC received", list(received.values()), equals=[stormed] * len(targets))
