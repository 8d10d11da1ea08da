"""L09: ECN marks appear at a lower load than PFC frames."""

from experiments.conformance._case import Bench, Control, case
from experiments.conformance._tables import without_ecn
from testbed.units import Duration

_LOADS = (80, 110, 140, 200)
"""Percent of the line that two senders share."""
_STEP = Duration("400ms")
"""In the lab, of each load."""
_MARKED = "lowest load with ECN marks, %"


@case(control=Control("no ECN", without_ecn, fails=[_MARKED]))
def l09_ecn_before_pfc(bench: Bench) -> None:
    """Two senders with more and more load for one port: ECN marks come at a lower one than the first PFC frame."""
    from testbed.net.traffic import Flows

    priority = bench.lossless[0]
    marked, paused, lost = {}, {}, 0
    with bench.network(hosts=3) as net:
        ports = [bench.port(net, host) for host in ("h1", "h2")]
        for load in _LOADS:
            before = sum(net.fabric.group(port, priority).xoffs for port in ports)
            rate = bench.line * load // 200
            flows = [bench.flow(host, "h3", priority, rate=rate, duration=_STEP) for host in ("h1", "h2")]
            with Flows(flows) as running, bench.run.measuring():
                running.wait()
            marked[load] = sum(report.marked for report in running.reports)
            lost += sum(report.lost for report in running.reports)
            paused[load] = sum(net.fabric.group(port, priority).xoffs for port in ports) - before
    first_pause = next((load for load in _LOADS if paused[load]), None)
    bench.claim(
        _MARKED, next((load for load in _LOADS if marked[load]), None),
        at_least=_LOADS[1], at_most=(first_pause or _LOADS[-1] + 1) - 1,
    )  # fmt: skip
    bench.claim("lowest load with PFC frames, %", first_pause, at_least=_LOADS[2])
    bench.claim("frames lost", lost, equals=0)
    bench.figure("marked frames by load", marked)
