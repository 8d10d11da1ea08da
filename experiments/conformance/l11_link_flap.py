"""L11: a link that goes down and up in a storm."""

import time

from experiments.conformance._arrivals import Arrivals
from experiments.conformance._case import Bench, Control, case
from xoff import LONGEST_PAUSE, Duration, Flows, PfcFrame, RawPort, Tap

_STEP, _EDGE, _MARGIN = Duration("50us"), Duration("30us"), Duration("10us")
"""Times at 100 Gb/s, beside a round trip."""
_REPEAT = Duration("100us")
"""A pause of 65535 quanta lasts 335 us at 100 Gb/s, less than a round trip in the longest cables."""
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
            settle=bench.paced("2ms"),
        ) as running,
    ):
        seen = Arrivals(tap, bench.switch.scale)
        port, delay = bench.port(net, "h2"), net.fabric.port("h2-eth0").cable.delay
        step, basis, margin, repeat = map(bench.paced, (_STEP, _EDGE, _MARGIN, _REPEAT))
        down = step + delay * 2
        up = down + min(down, repeat)
        again, over = (up + down * times for times in (2, 4))
        near, edge = basis + delay * 2, basis + bench.round_trip(net)
        end = over + down * 4 + (edge - near) * 2
        storms = 1 + (down - delay - margin) // repeat  # the last one arrives before the cable is pulled
        mac = net.fabric.port("h2-eth0").mac
        xoff, xon = PfcFrame.xoff(mac, [priority]).encode(), PfcFrame.xon(mac, [priority]).encode()
        with bench.run.measuring():
            seen.wait(step + bench.round_trip(net))
            begin_ns = time.monotonic_ns()
            last_ns = wire.repeat(xoff, bench.lab_ns(repeat), storms) - begin_ns
            seen.wait_until(begin_ns + bench.lab_ns(down))
            if not bench.is_control:
                net.fabric.cabling.pull(port)
            seen.wait_until(begin_ns + bench.lab_ns(up))
            if not bench.is_control:
                net.fabric.cabling.plug(port)
            seen.wait_until(begin_ns + bench.lab_ns(again))
            wire.repeat(xoff, bench.lab_ns(repeat), max(1, (over - again) // repeat))
            wire.send_at(xon, begin_ns + bench.lab_ns(over))
            seen.wait_until(begin_ns + bench.lab_ns(end))
        arrived = [t_ns - begin_ns for t_ns in seen.taken()]
    left = bench.line.time_for_quanta(LONGEST_PAUSE) + bench.measured(last_ns) + delay - up
    up_ns = bench.lab_ns(up + delay)
    resumed_ns = next((t_ns for t_ns in arrived if t_ns >= up_ns), bench.lab_ns(end)) - up_ns
    bench.claim(_RESUMED, bench.measured(resumed_ns), at_most=left // 2)
    for name, begin, stop in (("before the flap", near, down), ("after it, paused again", again + near, over)):
        begin_pause_ns, end_pause_ns = map(bench.lab_ns, (begin, stop))
        in_it = sum(begin_pause_ns <= t_ns < end_pause_ns for t_ns in arrived)
        bench.claim(f"frames in the pause {name}", in_it, equals=0)
    stormed, other = running.reports
    afterwards = stormed.goodput_between(begin_ns + bench.lab_ns(over + edge), begin_ns + bench.lab_ns(end - edge))
    bench.claim("goodput after the storm", afterwards, at_least=rate * 98 // 100)
    throughout = other.goodput_between(begin_ns, begin_ns + bench.lab_ns(end - edge))
    bench.claim("goodput at the other port", throughout, at_least=rate * 98 // 100)
    bench.claim("frames lost at the other port", other.lost, equals=0)
