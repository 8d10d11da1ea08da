"""TC5: pauses of receivers go on to the sender of lossless data, and stop no lossy data."""

from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from experiments.conformance._case import Bench, Control, case, without_pfc
from experiments.conformance._ranks import AGAIN, DROPPED, FRAME, INCOMPLETE, MB, Ranks, missing, reports
from xoff import Ecn, Flow, Flows, PfcFrame, RawPort

_QUANTA, _PERIODS = 6500, 4
"""The quanta of a pause, each in ten times its length, and the periods in which rates are measured."""
_HELD, _FILLING = 10, 2
"""The part of the time that pauses take, as one in so many: when rates are measured, and until XOFF is sent."""
_WINDOW = 1 << 14
"""Packets of one queue pair on their way: 64 MiB, as many as it has messages, which fill the group of any switch."""
_GOODPUT = "share of the line of the paused flows, in percent"


def _spread(place: int) -> str:
    return f"XOFF sent to the sender of the {('first', 'last')[place]} lossless priority"


@case(ports=1, timeout="300s", control=Control("no PFC", without_pfc, fails=[_GOODPUT, *map(_spread, range(2))]))
def tc05_pfc_propagation(bench: Bench) -> None:
    """Receivers pause for a tenth of the time: lossless senders keep nine tenths, and lossy ones notice nothing."""
    ranks = Ranks(bench)
    wide = replace(ranks.settings, window=_WINDOW)
    lossless, line = sorted(set(ranks.lossless)), bench.line

    def flows(octets: int | None = None, **options: Any) -> list[Flow]:
        pairs = [(0, 2, lossless, one) for one in lossless] + [(1, 3, ranks.lossy, one) for one in ranks.lossy]
        return [
            ranks.flow(source, target, priority, octets, rate=line // len(queues), ecn=Ecn.ECT_0, **options)
            for source, target, queues, priority in pairs
        ]  # each queue of a NIC of the lab has a whole line

    with ranks.one_switch() as net:
        alone = flows(MB)
        idle = ranks.run(net, alone)
        before = [ranks.pauses(net, rank) for rank in range(4)]
        pause, settle = line.time_for_quanta(_QUANTA), bench.settle_time(bench.fill_time(net, FRAME))
        most = bench.fill_time(net, FRAME) * _FILLING // (pause * _FILLING) + 1
        macs = {host: net.fabric.port(f"{host}-eth0").mac for host in ("h3", "h4")}
        sent = 0
        with ExitStack() as stack:
            wires = [(stack.enter_context(RawPort(net[host], f"{host}-eth0")), mac) for host, mac in macs.items()]
            running = stack.enter_context(Flows(flows(settings=wide), settle=settle))

            def periods(many: int, held: int) -> None:
                nonlocal sent
                for _ in range(many):
                    for wire, mac in wires:
                        wire.send(PfcFrame.xoff(mac, lossless, _QUANTA).encode())
                    sent += 1
                    net.sleep(pause * held)

            def xoffs() -> list[int]:
                return [int(net.fabric.pfc(ranks.port(net, 0), one)["xoff_sent"]) for one in lossless]

            seen = 0
            while seen < most and not all(xoffs()) and not (bench.is_control and seen >= _PERIODS):
                seen += 1
                periods(1, _FILLING)
            counts, earlier = [running.received_by(place) for place in range(len(alone))], xoffs()
            periods(_PERIODS, _HELD)
            taken = [running.received_by(place) - count for place, count in enumerate(counts)]
            grown = [after - count for after, count in zip(xoffs(), earlier, strict=True)]
        whole = pause * _HELD * _PERIODS
        paused, others = (
            bench.frame_time(FRAME) * sum(some) * 100 // whole
            for some in (taken[: len(lossless)], taken[len(lossless) :])
        )
        bench.claim(_GOODPUT, paused, at_least=100 - 100 // _HELD - 3, at_most=100 - 100 // _HELD + 1)
        for place in range(2):
            bench.claim(_spread(place), grown[-place], at_least=1)
        bench.claim("share of the line of the lossy flows, in percent", others, at_least=97)
        bench.claim("PFC frames before receivers paused", [sum(map(sum, one)) for one in before], equals=[0] * 4)
        for rank in (0, 1):
            by_switch, at_rank = ranks.pauses(net, rank)
            bench.claim(f"PFC frames that rank {rank} received, by priority", at_rank, equals=by_switch)
        received = [
            [int(net.fabric.pfc(ranks.port(net, rank), one)["xoff_received"]) for one in lossless] for rank in (2, 3)
        ]
        bench.claim(
            "PFC frames that the switch counts from ranks 2 and 3", received, equals=[[sent] * len(lossless)] * 2
        )
        first = range(len(lossless))
        found = [*reports(idle), *(reports(running)[place] for place in first)]
        bench.claim(AGAIN, sum(one.retransmitted for one in found), equals=0)
        bench.claim(INCOMPLETE, missing(alone, idle), equals=0)
        bench.claim(DROPPED, net.fabric.dropped(), equals=0)
        bench.figure("pauses until XOFF was sent on all lossless priorities", seen)
