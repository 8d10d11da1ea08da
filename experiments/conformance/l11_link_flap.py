"""L11: a link that goes down and up in a storm."""

import time

from experiments.conformance._case import Bench, Control, case
from testbed.frames.mac_control import LONGEST_PAUSE, PfcFrame
from testbed.units import Duration

_STEP, _EDGE = Duration("50ms"), Duration("30ms")
"""In the lab, beside a round trip."""
_RESUMED = "first frame after the link came up"
_IPV4 = b"\x08\x00"


@case(control=Control("no flap", fails=[_RESUMED]))
def l11_link_flap(bench: Bench) -> None:
    """A link flaps in a storm: the pause ends with it, the next XOFF works again, and another port notices nothing."""
    from testbed.net.traffic import Flows
    from testbed.net.wire import RawPort, Tap

    priority, rate = bench.lossless[0], bench.line // 4
    with (
        bench.network(hosts=3) as net,
        RawPort(net["h2"], "h2-eth0") as wire,
        Tap(net["h2"], "h2-eth0") as tap,
        Flows(
            [bench.flow("h1", "h2", priority, rate=rate), bench.flow("h1", "h3", bench.lossy[0], rate=rate)],
            settle=Duration("2s"),
        ) as running,
    ):
        port, trip = bench.port(net, "h2"), bench.round_trip(net)
        down, up, again, over, end = ((_STEP + trip) * times for times in (1, 2, 4, 6, 10))
        edge = _EDGE + trip
        mac = net.fabric.port("h2-eth0").mac
        xoff, xon = PfcFrame.xoff(mac, [priority]).encode(), PfcFrame.xon(mac, [priority]).encode()
        with bench.run.measuring():
            time.sleep(0.05)
            begin_ns = time.monotonic_ns()
            wire.send(xoff)
            _sleep_until(begin_ns + down.ns)
            if not bench.is_control:
                net.fabric.cabling.pull(port)
            _sleep_until(begin_ns + up.ns)
            if not bench.is_control:
                net.fabric.cabling.plug(port)
            wire.send_at(xoff, begin_ns + again.ns)
            wire.send_at(xon, begin_ns + over.ns)
            _sleep_until(begin_ns + end.ns)
        arrived = [t_ns - begin_ns for t_ns, frame in tap.arrivals() if frame[12:14] == _IPV4]
    left = bench.line.time_for_quanta(LONGEST_PAUSE) - up
    resumed_ns = next((t_ns for t_ns in arrived if t_ns >= up.ns), end.ns) - up.ns
    bench.claim(_RESUMED, bench.real(Duration.from_ns(resumed_ns)), at_most=bench.real(left // 2))
    for name, begin, stop in (("before the flap", edge, down), ("after it, paused again", again + edge, over)):
        bench.claim(f"frames in the pause {name}", sum(begin.ns <= t_ns < stop.ns for t_ns in arrived), equals=0)
    stormed, other = running.reports
    afterwards = stormed.goodput_over(begin_ns + (over + edge).ns, end - over - edge * 2)
    bench.claim("goodput after the storm", bench.real(afterwards), at_least=bench.real(rate * 98 // 100))
    throughout = other.goodput_over(begin_ns, end - edge)
    bench.claim("goodput at the other port", bench.real(throughout), at_least=bench.real(rate * 98 // 100))
    bench.claim("frames lost at the other port", other.lost, equals=0)


def _sleep_until(moment_ns: int) -> None:
    time.sleep(max(0, moment_ns - time.monotonic_ns()) / 1e9)
