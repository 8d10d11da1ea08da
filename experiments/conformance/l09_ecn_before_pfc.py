"""L09: ECN marks appear at a lower load than PFC frames."""

import time

from experiments.conformance._case import Bench, Control, case, without_ecn
from xoff import Duration, Flow, Flows

_MOST, *_LESS = 200, 140, 110, 80
"""Loads, in percent of the line that two senders share."""
_LOOK = Duration("10us")
"""The interval of looks for the first PFC frame, at 100 Gb/s."""
_MARKED, _PAUSED = "lowest load with ECN marks, %", "lowest load with PFC frames, %"


@case(ports=3, control=Control("no ECN", without_ecn, fails=[_MARKED]))
def l09_ecn_before_pfc(bench: Bench) -> None:
    """Two senders with several loads for one port: ECN marks come at a lower one than the first PFC frame."""
    priority = bench.lossless[0]
    marked, paused, lost = {}, {}, 0
    with bench.network(hosts=3) as net:
        ports = [bench.port(net, host) for host in ("h1", "h2")]

        def xoffs() -> int:
            return sum(net.fabric.group(port, priority).xoffs for port in ports)

        def flows(load: int, duration: Duration | None = None) -> list[Flow]:
            return [
                bench.flow(host, "h3", priority, rate=bench.line * load // 200, duration=duration)
                for host in ("h1", "h2")
            ]

        within = bench.fill_time(net)
        settle = bench.settle_time(within)
        with Flows(flows(_MOST), settle) as running:
            begin_ns = time.monotonic_ns()
            while not xoffs() and time.monotonic_ns() - begin_ns < bench.lab_ns(within):
                net.sleep(bench.paced(_LOOK))
            # With less load the queue has a fifth more time than it took to reach the threshold of PFC here.
            lasts = bench.measured((time.monotonic_ns() - begin_ns) * 6 // 5)
        reports = {_MOST: running.reports}
        paused[_MOST] = xoffs()
        for load in _LESS:
            before = xoffs()
            running = net.run(*flows(load, duration=lasts), settle=settle)
            reports[load] = running.reports
            paused[load] = xoffs() - before
    for load, found in reports.items():
        marked[load] = sum(report.marked for report in found)
        lost += sum(report.lost for report in found)
    first_mark, first_pause = (min((load for load in one if one[load]), default=None) for one in (marked, paused))
    bench.claim(_MARKED, first_mark, at_least=_LESS[-1] + 1, at_most=(first_pause or _MOST + 1) - 1)
    bench.claim(_PAUSED, first_pause, at_least=_LESS[-1] + 1)
    bench.claim("frames lost", lost, equals=0)
    bench.figure("marked frames by load", marked)
