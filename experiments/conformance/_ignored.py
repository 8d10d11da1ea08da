"""MAC control frames that a port must neither obey nor forward: for Y02 and Y03.

Not an experiment.
"""

import time
from collections.abc import Callable, Mapping

from experiments.conformance._case import Bench
from xoff import Duration, Flows, Mac, PfcFrame, RawPort, Tap

_REPEAT, _TIMES = Duration("10us"), 40
"""The interval of the frames at 100 Gb/s, and how many there are; more where cables are long."""
_EDGE = Duration("50us")
SLOWEST = "goodput of the slowest flow"


def ignores(bench: Bench, make: Callable[[Mac], Mapping[str, bytes]]) -> None:
    """Claim that flows of all priorities go on to a receiver that sends all of these frames again and again.

    `make` gets the address of the receiver, and gives frames by the counter of ignored frames that has them; "" where a
    frame has none. In the control the frames are valid PFC frames for the lossless priorities.
    """
    share, all_of = bench.line // 8, sorted(bench.lossless + bench.lossy)
    with bench.network(hosts=3) as net, RawPort(net["h2"], "h2-eth0") as wire, Tap(net["h1"], "h1-eth0") as one, Tap(
        net["h3"], "h3-eth0"
    ) as other:  # fmt: skip
        mac, port = net.fabric.port("h2-eth0").mac, bench.port(net, "h2")
        frames, repeat = make(mac), bench.paced(_REPEAT)
        edge = bench.paced(_EDGE) + bench.round_trip(net)
        times = max(_TIMES, edge * 4 // repeat)
        if bench.is_control:
            frames = {"": PfcFrame.xoff(mac, bench.lossless).encode()}
        with Flows([bench.flow("h1", "h2", p, rate=share) for p in all_of]) as running:
            net.sleep(bench.paced(_EDGE))
            begin_ns = time.monotonic_ns()
            for beat in range(times):
                for frame in frames.values():
                    wire.send_at(frame, begin_ns + beat * bench.lab_ns(repeat))
            net.sleep(edge)
        ignored = net.fabric.snapshot(net.fabric.port(port).node.name)["ports"][port]["ignored_frames"]
        forwarded = sum(frame[6:12] == mac.octets for tap in (one, other) for frame in tap.frames())
        received = sum(net.fabric.pfc(port, priority)["xoff_received"] for priority in range(8))
    settled = begin_ns + bench.lab_ns(edge), begin_ns + bench.lab_ns(repeat * times - edge)
    slowest = min(one.goodput_between(*settled) for one in running.reports)
    bench.claim(SLOWEST, slowest, at_least=share * 98 // 100)
    bench.claim("frames lost", running.lost, equals=0)
    bench.claim("frames taken for PFC", received, equals=0)
    bench.claim("frames forwarded", forwarded, equals=0)
    for reason in filter(None, frames):
        bench.claim(f"frames ignored, {reason.replace('_', ' ')}", ignored[reason], equals=times)
