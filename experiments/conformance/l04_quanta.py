"""L04: one PFC frame pauses for its quanta."""

import time
from itertools import pairwise

from experiments.conformance._case import Bench, Control, case
from experiments.conformance._tables import without_pfc
from testbed.frames.mac_control import LONGEST_PAUSE, PfcFrame
from testbed.units import Duration

_QUANTA = (2_000, 20_000, LONGEST_PAUSE)
_IPV4 = b"\x08\x00"


@case(control=Control("no PFC", without_pfc, fails=[f"pause by {quanta} quanta" for quanta in _QUANTA]))
def l04_quanta(bench: Bench) -> None:
    """One PFC frame of known quanta: the pause, as the receiver sees it, is quanta x 512 bit times within 5 %."""
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
        for quanta in _QUANTA:
            expected = bench.line.time_for_quanta(quanta)
            with bench.run.measuring():
                time.sleep(0.05)
                wire.send(PfcFrame.xoff(mac, [priority], quanta).encode())
                time.sleep((expected + trip).ns / 1e9 + 0.05)
            arrived = [t_ns for t_ns, frame in tap.arrivals() if frame[12:14] == _IPV4]
            paused = Duration.from_ns(max(later - earlier for earlier, later in pairwise(arrived)))
            bench.claim(
                f"pause by {quanta} quanta", bench.real(paused),
                at_least=bench.real(expected * 95 // 100), at_most=bench.real(expected * 105 // 100),
            )  # fmt: skip
