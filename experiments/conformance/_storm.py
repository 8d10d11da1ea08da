"""Eight flows of an eighth of the line each, and a receiver that storms some of their priorities: for L01 and L02.

Not an experiment.
"""

from __future__ import annotations

import time

from experiments.conformance._case import Bench
from testbed.frames.mac_control import PfcFrame
from testbed.units import Duration

STORM = Duration("600ms")
"""In the lab, as all times here."""
SPREAD = Duration("100ms")
"""For the buffers to fill, and at the end for what is on its way."""
REPEAT = Duration("100ms")
"""A pause of 65535 quanta lasts 335 ms at 100 Mb/s."""
GOODPUT = "goodput of the fastest stormed priority"


def storm_of(bench: Bench, priorities: int) -> None:
    """The first `priorities` of the lossless ones are stormed."""
    from testbed.net.traffic import Flows
    from testbed.net.wire import RawPort

    stormed, all_of = bench.lossless[:priorities], sorted(bench.lossless + bench.lossy)
    share = bench.line // 8
    with bench.network(hosts=2) as net, RawPort(net["h2"], "h2-eth0") as wire:
        fabric, port = net.fabric, bench.port(net, "h2")
        mac = fabric.port("h2-eth0").mac
        with Flows([bench.flow("h1", "h2", p, rate=share) for p in all_of]) as flows, bench.run.measuring():
            time.sleep(SPREAD.ns / 1e9)
            begin_ns = time.monotonic_ns()
            wire.repeat(PfcFrame.xoff(mac, stormed).encode(), REPEAT.ns, STORM // REPEAT)
            wire.send(PfcFrame.xon(mac, stormed).encode())
            time.sleep(SPREAD.ns / 1e9)
        reports = dict(zip(all_of, flows.reports, strict=True))
        received = {p: fabric.pfc(port, p)["xoff_received"] for p in range(8)}
    during = {p: one.goodput_over(begin_ns + SPREAD.ns, STORM - SPREAD * 2) for p, one in reports.items()}
    others = [p for p in all_of if p not in stormed]
    bench.claim(GOODPUT, bench.real(max(during[p] for p in stormed)), equals=bench.real(share * 0))
    for name, bound in (("slowest", min), ("fastest", max)):
        goodput = bound(during[p] for p in others)
        bench.claim(
            f"goodput of the {name} of the others", bench.real(goodput),
            at_least=bench.real(share * 98 // 100), at_most=bench.real(share * 102 // 100),
        )  # fmt: skip
    bench.claim("frames lost", sum(report.lost for report in reports.values()), equals=0)
    bench.claim("priorities with PFC received", [p for p in range(8) if received[p]], equals=stormed)
