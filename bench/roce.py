"""Measure the cost of RoCE in the lab whose CPU takes time (`vm`), and where that time goes.

    ./xoff test --unit && python bench/roce.py

One flow and eight share a line of 100 Mb/s at 1024 octets a packet: how full the line is, how busy the lab's CPU,
packets per second of the lab and of the machine, and the time of a packet at its source and its target, with the work
of the kernel that falls into it. Then each way to send, to receive, to make and to check a packet by itself, and
the protocol alone on this machine, two endpoints that hand each other their datagrams; `--profile` shows where its
time goes. An instruction of the lab is a nanosecond, so microseconds are thousands of instructions.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from testbed import lab
from testbed.experiment import definition
from testbed.lab.engines import table
from testbed.lab.engines.engine import PreparedEngine
from testbed.lab.results.result import Result, Status
from testbed.roce.endpoint import Endpoint
from testbed.roce.memory import Content, Sink
from testbed.roce.queue_pair import QueuePair
from testbed.roce.rates import Line
from testbed.roce.work import Operation, Work
from testbed.units import Rate, Scale

JOBS = Path(__file__).parent / "jobs" / "roce.py"
PACKETS = 20_000
GAP_NS = 88_480
"""Between two packets of 1106 octets at 100 Mb/s."""
FLOWS = (1, 8)
MILLISECONDS = (100, 1000)
"""The difference of a long run and a short one has no start-up in it."""
FULL, BUSY = 0.98, 0.6


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--profile", action="store_true", help="where the time of the protocol goes, without the lab")
    if parser.parse_args().profile:
        profile = cProfile.Profile()
        profile.runcall(protocol)
        pstats.Stats(profile).sort_stats("tottime").print_stats(20)
        return 0
    ready, holds = table.prepare("vm", print), True
    for flows in FLOWS:
        short, long = (run(ready, "whole", flows=flows, milliseconds=lasts) for lasts in MILLISECONDS)
        found = {figure.name: float(figure.value) for figure in long.figures}
        packets = found["packets"] - float(short.figure("packets"))
        wall_s = long.times.wall_s - short.times.wall_s
        is_full, is_idle = found["filled"] >= FULL, found["busy"] <= BUSY or flows > 1
        holds = holds and is_full and is_idle
        print(f"{'✓' if is_full else '✗'} {flows} flows: line filled {found['filled']:.1%}, lost {found['lost']:.0f}")
        print(f"{'✓' if is_idle else '✗'} {flows} flows: CPU busy {found['busy']:.0%}, at most {BUSY:.0%} for one")
        virtual_s = (long.times.virtual_ns - short.times.virtual_ns) / 1e9
        print(f"  {packets / virtual_s:.0f} packets per second of the lab, {packets / wall_s:.0f} of the machine")
        for end in ("source", "target"):
            print(f"  {end}: {found[f'{end}: us of CPU per packet']:.1f} us of CPU per packet")
    for figure in run(ready, "calls").figures:
        print(f"  {figure.name}: {float(figure.value):.1f}")
    print(f"the protocol alone, both ends: {PACKETS / protocol():.0f} packets per second of this machine's CPU")
    return 0 if holds else 1


def run(ready: PreparedEngine, name: str, **parameters: int) -> Result:
    given = {key: str(value) for key, value in parameters.items()}
    with tempfile.TemporaryDirectory() as out:
        result = lab.run(definition.load_file(JOBS, name), parameters=given, on=ready, out=out)
    if result.status is not Status.OK:
        sys.exit(f"{name}: {result.reason}")
    return result


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
