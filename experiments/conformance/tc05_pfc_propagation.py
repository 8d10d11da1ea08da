"""TC5: pauses of a receiver go on to its sender."""

from dataclasses import replace

from experiments.conformance._case import Bench, Control, case, without_ecn, without_pfc
from experiments.conformance._ranks import AGAIN, DROPPED, FRAME, INCOMPLETE, MB, SETTINGS, Ranks, missing, reports
from xoff import Duration, Flows, PfcFrame, RawPort

_QUANTA, _PERIODS = 6500, 4
"""The quanta of a pause, each in ten times its length, and the pauses in which the rate is measured."""
_HELD = 10
_WINDOW = 1 << 15
"""Packets of one queue pair on their way: 128 MiB, which fill the group of any switch."""
_GOODPUT = "share of the line of the paused flow, in percent"
_SPREAD = "XOFF sent to the sender of the paused flow"


@case(ports=1, timeout="300s", tables=without_ecn, control=Control("no PFC", without_pfc, fails=[_GOODPUT, _SPREAD]))
def tc05_pfc_propagation(bench: Bench) -> None:
    """A receiver pauses for a tenth of the time: its sender is held to nine tenths, and nobody else notices."""
    ranks = Ranks(bench)
    priority, other = ranks.lossless[0], ranks.lossy[0]
    wide = replace(SETTINGS, window=_WINDOW)
    flows = [ranks.flow(0, 4, priority, settings=wide), ranks.flow(1, 5, other, rate=bench.line * 9 // 10)]
    with ranks.one_switch() as net:
        idle = ranks.run(net, [ranks.flow(0, 4, priority, 2 * MB)])
        before = ranks.xoffs(net)
        pause = bench.line.time_for_quanta(_QUANTA)
        period = Duration.from_ps(pause.ps * 100 // _HELD)
        most = bench.fill_time(net, FRAME) * (100 // _HELD) // period + 1
        with (
            RawPort(net["h5"], "h5-eth0") as wire,
            Flows(flows, settle=bench.settle_time(bench.fill_time(net, FRAME))) as running,
        ):
            xoff = PfcFrame.xoff(net.fabric.port("h5-eth0").mac, [priority], _QUANTA).encode()
            seen = 0
            while seen < most and not ranks.xoffs(net, [priority]) and not (bench.is_control and seen >= _PERIODS):
                seen += 1
                wire.send(xoff)
                net.sleep(period)
            counts = running.received_by(0), running.received_by(1)
            for _ in range(_PERIODS):
                wire.send(xoff)
                net.sleep(period)
            taken = [running.received_by(flow) - count for flow, count in enumerate(counts)]
        shares = [bench.frame_time(FRAME) * frames * 100 // (period * _PERIODS) for frames in taken]
        state = net.fabric.pfc(ranks.port(net, 0), priority)
        bench.claim(_GOODPUT, shares[0], at_least=100 - _HELD - 3, at_most=100 - _HELD + 1)
        bench.claim(_SPREAD, state["xoff_sent"], at_least=1)
        bench.claim("XOFF sent before a receiver paused", before, equals=0)
        bench.claim("share of the line of the other flow, in percent", shares[1], at_least=88)
        bench.claim(AGAIN, sum(one.retransmitted for one in (*reports(idle), *reports(running))), equals=0)
        bench.claim(INCOMPLETE, missing(flows, running), equals=0)
        bench.claim(DROPPED, net.fabric.dropped(), equals=0)
