"""L11: a link that goes down and up in a storm."""

import time

from experiments.conformance._arrivals import Arrivals
from experiments.conformance._case import Bench, Control, case
from xoff import LONGEST_PAUSE, Duration, Flows, PfcFrame, RawPort, Tap

_STEP, _EDGE, _MARGIN = Duration("50ms"), Duration("30ms"), Duration("10ms")
"""Times in the lab, beside a round trip."""
_REPEAT = Duration("100ms")
"""A pause of 65535 quanta lasts 335 ms at 100 Mb/s, less than a round trip in the longest cables."""
_RESUMED = "first frame after the link came up"


@case(ports=3, control=Control("no flap", fails=[_RESUMED]))
def l11_link_flap(bench: Bench) -> None:
    """A link flaps in a storm: the pause ends with it, the next XOFF works again, and another port notices nothing."""
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
        seen = Arrivals(tap)
        port, delay = bench.port(net, "h2"), net.fabric.port("h2-eth0").cable.delay
        down = _STEP + delay * 2
        up = down + min(down, _REPEAT)
        again, over = (up + down * times for times in (2, 4))
        near, edge = _EDGE + delay * 2, _EDGE + bench.round_trip(net)
        end = over + down * 4 + (edge - near) * 2
        storms = 1 + (down - delay - _MARGIN) // _REPEAT  # the last one arrives before the cable is pulled
        mac = net.fabric.port("h2-eth0").mac
        xoff, xon = PfcFrame.xoff(mac, [priority]).encode(), PfcFrame.xon(mac, [priority]).encode()
        with bench.run.measuring():
            seen.wait(0.05 + bench.round_trip(net).ns / 1e9)
            begin_ns = time.monotonic_ns()
            last_ns = wire.repeat(xoff, _REPEAT.ns, storms) - begin_ns
            seen.wait_until(begin_ns + down.ns)
            if not bench.is_control:
                net.fabric.cabling.pull(port)
            seen.wait_until(begin_ns + up.ns)
            if not bench.is_control:
                net.fabric.cabling.plug(port)
            seen.wait_until(begin_ns + again.ns)
            wire.repeat(xoff, _REPEAT.ns, max(1, (over - again) // _REPEAT))
            wire.send_at(xon, begin_ns + over.ns)
            seen.wait_until(begin_ns + end.ns)
        arrived = [t_ns - begin_ns for t_ns in seen.taken()]
    left = bench.line.time_for_quanta(LONGEST_PAUSE) + Duration.from_ns(last_ns) + delay - up
    resumed_ns = next((t_ns for t_ns in arrived if t_ns >= (up + delay).ns), end.ns) - (up + delay).ns
    bench.claim(_RESUMED, bench.real(Duration.from_ns(resumed_ns)), at_most=bench.real(left // 2))
    for name, begin, stop in (("before the flap", near, down), ("after it, paused again", again + near, over)):
        bench.claim(f"frames in the pause {name}", sum(begin.ns <= t_ns < stop.ns for t_ns in arrived), equals=0)
    stormed, other = running.reports
    afterwards = stormed.goodput_over(begin_ns + (over + edge).ns, end - over - edge * 2)
    bench.claim("goodput after the storm", bench.real(afterwards), at_least=bench.real(rate * 98 // 100))
    throughout = other.goodput_over(begin_ns, end - edge)
    bench.claim("goodput at the other port", bench.real(throughout), at_least=bench.real(rate * 98 // 100))
    bench.claim("frames lost at the other port", other.lost, equals=0)
