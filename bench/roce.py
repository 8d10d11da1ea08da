"""What RoCE costs: packets per second of the lab and of the machine, in the lab and in the protocol alone.

    ./xoff test --unit && python bench/roce.py

Flows share a line of 100 Mb/s at 1024 octets a packet. As in dataplane.py a short and a long run take turns, and
start-up does not count. The protocol alone is two endpoints that hand each other their datagrams; `--profile` shows
where its time goes.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.dataplane import Load, speeds
from testbed.lab import engine
from testbed.lab.engine import Kind
from testbed.roce.endpoint import Endpoint
from testbed.roce.memory import Content, Sink
from testbed.roce.queue_pair import QueuePair
from testbed.roce.rates import Line
from testbed.roce.requester import Operation, Work
from testbed.units import Rate, Scale

PACKETS = 20_000
GAP_NS = 88_480
"""Between two packets of 1106 octets at 100 Mb/s."""
FLOWS = (1, 8)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--profile", action="store_true", help="where the time of the protocol goes, without the lab")
    if parser.parse_args().profile:
        profile = cProfile.Profile()
        profile.runcall(protocol)
        pstats.Stats(profile).sort_stats("tottime").print_stats(20)
        return 0
    print(f"the protocol alone, both ends: {PACKETS / protocol():.0f} packets per second of CPU")
    ready = engine.prepare(Kind.UM, print)
    loads = [Load(ready, "roce", {"milliseconds": 200}, {"milliseconds": 1200}, {"flows": flows}) for flows in FLOWS]
    for flows, speed in zip(FLOWS, speeds(*loads), strict=True):
        packets = speed.more["packets"]
        print(
            f"{flows} flows: {packets / speed.virtual_s:.0f} packets per second of the lab, "
            f"{packets / speed.wall_s:.0f} of the machine; lost {speed.long['lost']:.0f}"
        )
    return 0


def protocol() -> float:
    """Seconds of CPU that a flow of `PACKETS` takes at both ends."""
    line = Line(Rate("100Mb/s"), Scale(1000))
    one, other = Endpoint("10.0.0.1", line), Endpoint("10.0.0.2", line)

    def answer(request: object, pair: QueuePair) -> bytes:
        pair.responder.receive_into = Sink()
        return b""

    other.listen(1, answer)
    pair = one.connect("10.0.0.2", 1, 0, rate_control="dcqcn")
    pair.post(Work(Operation.SEND, Content(1), PACKETS * one.settings.mtu))
    began, now_ns = time.process_time(), 0
    while not pair.requester.idle:
        now_ns += GAP_NS
        for sender, receiver in ((one, other), (other, one)):
            for outgoing in sender.outgoing(now_ns):
                receiver.receive(outgoing.datagram, 2, now_ns)
    return time.process_time() - began


if __name__ == "__main__":
    sys.exit(main())
