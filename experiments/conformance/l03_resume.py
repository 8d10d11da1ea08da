"""L03: a pause that XON ends before its quanta do."""

import time

from experiments.conformance._case import Bench, Control, case
from testbed.frames.mac_control import LONGEST_PAUSE, PfcFrame
from testbed.units import Duration

_PAUSED = Duration("20ms")
"""In the lab, beside two round trips, of the 335 ms that 65535 quanta are at 100 Mb/s."""
_PART = "resume latency, % of what was left of the pause"
_IPV4 = b"\x08\x00"


@case(control=Control("no XON", fails=[_PART]))
def l03_resume(bench: Bench) -> None:
    """A pause that quanta of 0 end: how long after them the next frame arrives; in the control they are not sent."""
    from testbed.net.traffic import Flows
    from testbed.net.wire import RawPort, Tap

    priority = bench.lossless[0]
    with (
        bench.network(hosts=2) as net,
        RawPort(net["h2"], "h2-eth0") as wire,
        Tap(net["h2"], "h2-eth0") as tap,
        Flows([bench.flow("h1", "h2", priority)]),
    ):
        mac, trip = net.fabric.port("h2-eth0").mac, bench.round_trip(net)
        paused = _PAUSED + trip * 2
        with bench.run.measuring():
            time.sleep(0.1)
            off_ns = time.monotonic_ns()
            wire.send(PfcFrame.xoff(mac, [priority]).encode())
            on_ns = off_ns + paused.ns
            if not bench.is_control:
                wire.send_at(PfcFrame.xon(mac, [priority]).encode(), on_ns)
            time.sleep(0.5 + trip.ns / 1e9)
        arrived = [t_ns for t_ns, frame in tap.arrivals() if frame[12:14] == _IPV4]
    left = bench.line.time_for_quanta(LONGEST_PAUSE) - paused
    resumed_ns = next(t_ns for t_ns in arrived if t_ns >= on_ns)
    latency = Duration.from_ns(resumed_ns - on_ns)
    bench.claim("resume latency", bench.real(latency), at_most=Duration("1ms"))
    bench.claim(_PART, round(float(latency / left * 100), 2), at_most=50)
    before = [t_ns for t_ns in arrived if off_ns + paused.ns // 2 <= t_ns < on_ns]
    bench.claim("frames that arrived in the second half of the pause", len(before), equals=0)
