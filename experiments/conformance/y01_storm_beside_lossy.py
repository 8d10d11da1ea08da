"""Y01: a storm on the lossless priorities, and lossy traffic at the full rate of the line."""

import time

from experiments.conformance._case import Bench, Control, case, without_pfc
from xoff import Duration, Flows, PfcFrame, RawPort

_STORM, _SPREAD, _REPEAT = Duration("400us"), Duration("50us"), Duration("100us")
"""Times at 100 Gb/s."""
_LOSSY, _LOSSLESS = "goodput of all lossy priorities", "goodput of the lossless priorities"


@case(ports=3, control=Control("no PFC", without_pfc, fails=[_LOSSY, _LOSSLESS]))
def y01_storm_beside_lossy(bench: Bench) -> None:
    """All lossless priorities are stormed: lossy traffic has the whole line, and loses nothing."""
    share = bench.line // len(bench.lossy)
    flows = [bench.flow("h1", "h2", p, rate=share) for p in bench.lossy]
    flows += [bench.flow("h3", "h2", p, rate=bench.line // 4) for p in bench.lossless]
    with bench.network(hosts=3) as net, RawPort(net["h2"], "h2-eth0") as wire:
        mac, spread = net.fabric.port("h2-eth0").mac, bench.paced(_SPREAD) + bench.round_trip(net)
        repeat = bench.paced(_REPEAT)
        storm = repeat * ((bench.paced(_STORM) + spread) // repeat)
        wire.send(PfcFrame.xoff(mac, bench.lossless).encode())
        with Flows(flows) as running:
            begin_ns = time.monotonic_ns()
            wire.repeat(PfcFrame.xoff(mac, bench.lossless).encode(), bench.lab_ns(repeat), storm // repeat)
            running.stop_sending()
            net.sleep(repeat)
            wire.send(PfcFrame.xon(mac, bench.lossless).encode())
    stormy = begin_ns + bench.lab_ns(spread), begin_ns + bench.lab_ns(storm - repeat)
    during = [one.goodput_between(*stormy) for one in running.reports]
    lossy, lossless = len(bench.lossy), running.reports[len(bench.lossy) :]
    bench.claim(
        _LOSSY, sum(during[1:lossy], during[0]),
        at_least=bench.line * 98 // 100,
    )  # fmt: skip
    bench.claim("goodput of the slowest lossy priority", min(during[:lossy]),
                at_least=share * 98 // 100)  # fmt: skip
    bench.claim("lossy frames lost", sum(report.lost for report in running.reports[:lossy]), equals=0)
    bench.claim(_LOSSLESS, max(during[lossy:]), equals=share * 0)
    bench.claim("lossless frames lost", sum(report.lost for report in lossless), equals=0)
