"""Flows of an eighth of the line each, of every priority, and receivers that storm some: for L01, L02, L05 to L07.

Not an experiment.
"""

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from types import MappingProxyType

from experiments.conformance._case import FRAME, FRAME_WIRE, Bench
from xoff import Duration, Flows, PfcFrame, Rate, RawPort, Size

STORM = Duration("200us")
"""The length of a storm, without the time to spread at both ends; all times here are for 100 Gb/s."""
SPREAD = Duration("100us")
"""The time for the buffers to fill, and at the end for frames that are on their way."""
REPEAT = Duration("100us")
"""A pause of 65535 quanta lasts 335 us."""
GOODPUT = "goodput of the fastest stormed flow"


def storm_of(
    bench: Bench,
    priorities: int,
    pairs: Sequence[tuple[str, str]] = (("h1", "h2"),),
    *,
    lossy: int = 8,
    frames: Mapping[Size, int] = MappingProxyType({FRAME: 1}),
    name: str = "",
) -> None:
    """Storm the first `priorities` of the lossless ones at each receiver of these pairs; so many of the lossy ones have
    a flow. Each flow has frames of several sizes, so many of each at a time. Claims begin with the name.
    """
    stormed, all_of = bench.lossless[:priorities], sorted(bench.lossless + bench.lossy[:lossy])
    share = bench.line // 8
    parts = {size: (size.bytes + FRAME_WIRE) * many for size, many in frames.items()}
    whole, mtu = sum(parts.values()), max(1500, *(size.bytes - 14 for size in frames))
    flows = {
        (*pair, p, size): bench.flow(*pair, p, size, share * part // whole)
        for pair in pairs
        for p in all_of
        for size, part in parts.items()
    }
    hosts = len({host for pair in pairs for host in pair})
    with bench.network(hosts, mtu=mtu) as net, ExitStack() as stack:
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
    stormy = begin_ns + bench.lab_ns(spread), begin_ns + bench.lab_ns(repeat * beats - spread)
    during: dict[tuple[str, str, int], Rate] = {}
    for (source, target, priority, _), one in reports.items():
        rate = one.goodput_between(*stormy)
        during[source, target, priority] = during.get((source, target, priority), share * 0) + rate
    fastest = max(rate for (*_, priority), rate in during.items() if priority in stormed)
    others = [rate for (*_, priority), rate in during.items() if priority not in stormed]
    bench.claim(name + GOODPUT, fastest, equals=share * 0)
    for word, goodput in (("slowest", min(others)), ("fastest", max(others))):
        bench.claim(
            f"{name}goodput of the {word} of the others", goodput,
            at_least=share * 98 // 100, at_most=share * 102 // 100,
        )  # fmt: skip
    bench.claim(f"{name}frames lost", sum(report.lost for report in reports.values()), equals=0)
    bench.claim(f"{name}priorities with PFC received", list(received.values()), equals=[stormed] * len(targets))
