"""PFC frames that must not stop anything: for a lossy priority, with enable bit 0, or a PAUSE of the whole link."""

import time

from xoff import (
    LONGEST_PAUSE,
    Duration,
    Flow,
    Flows,
    Incast,
    Mac,
    PauseFrame,
    PfcFrame,
    Rate,
    RawPort,
    Run,
    experiment,
    network,
)

LOSSLESS, LOSSY = 3, 5
RATE = Rate("4Gb/s")
STEP = Duration("1ms")
EDGE = Duration("20us")
RECEIVER = Mac.parse("02:00:00:00:00:01")
NO_BIT = PfcFrame(RECEIVER, 0, (LONGEST_PAUSE,) * 8)
NO_BIT_NO_TIME = PfcFrame(RECEIVER, 0, (0,) * 8)

HARMLESS: dict[str, PfcFrame | PauseFrame] = {
    "XOFF of the lossy priority": PfcFrame.xoff(RECEIVER, [LOSSY]),
    "the longest time, enable bit 0": NO_BIT,
    "PAUSE of the whole link": PauseFrame(RECEIVER, LONGEST_PAUSE),
}


@experiment(timeout="60s")
def not_enabled(run: Run) -> None:
    """Frames that do not concern a priority leave it alone, and the one that does stops it: nothing is lost.

    A lossless and a lossy flow share a link. The receiver sends a frame each second that must do nothing; then XOFF
    of both priorities, for half a second, which only the lossless one may obey. Enable bit 0 must not end that early,
    nor prolong it.
    """
    half = STEP // 2
    with network(Incast(n=2)) as net, RawPort(net["r"], "r-eth0") as wire, run.measuring():
        senders = [Flow("h1", "r", LOSSLESS, rate=RATE), Flow("h2", "r", LOSSY, rate=RATE)]
        with Flows(senders) as flows:
            step_ns, half_ns, edge_ns = map(net.lab_ns, (STEP, half, EDGE))
            begin_ns = time.monotonic_ns() + 100_000_000
            for number, frame in enumerate(HARMLESS.values()):
                wire.send_at(frame.encode(), begin_ns + number * step_ns)
            stop_ns = begin_ns + len(HARMLESS) * step_ns
            quanta = net.fabric.port("s1-eth3").cable.rate.quanta(half)
            wire.send_at(PfcFrame.xoff(RECEIVER, [LOSSLESS, LOSSY], quanta).encode(), stop_ns)
            wire.send_at(NO_BIT_NO_TIME.encode(), stop_ns + half_ns // 3)
            wire.send_at(NO_BIT.encode(), stop_ns + half_ns // 3 * 2)
            net.sleep(STEP)
        lossless, lossy = flows.reports
        for number, name in enumerate(HARMLESS):
            for priority, report in (("lossless", lossless), ("lossy", lossy)):
                step_begin_ns = begin_ns + number * step_ns
                goodput = report.goodput_between(step_begin_ns, step_begin_ns + step_ns - edge_ns)
                run.claim(f"{name}: goodput of the {priority} priority", goodput, at_least=RATE * 99 // 100)
        run.claim(
            "XOFF of both: goodput of the lossless priority until its time is over",
            lossless.goodput_between(stop_ns + edge_ns, stop_ns + half_ns - edge_ns),
            equals=Rate.from_bps(0),
        )
        run.claim(
            "XOFF of both: goodput of the lossless priority after that",
            lossless.goodput_between(stop_ns + half_ns, stop_ns + half_ns * 2 - edge_ns),
            at_least=RATE,
        )
        run.claim(
            "XOFF of both: goodput of the lossy priority",
            lossy.goodput_between(stop_ns, stop_ns + step_ns - edge_ns),
            at_least=RATE * 99 // 100,
        )
        run.claim("lost", lossless.lost + lossy.lost, equals=0)
        ignored = net.fabric.snapshot("s1")["ports"]["s1-eth3"]
        run.claim(
            "XOFF ignored because the priority has no PFC",
            ignored["priorities"][LOSSY]["ignored"]["not_enabled"],
            equals=2,
        )
        run.claim("PAUSE of the whole link ignored", ignored["ignored_frames"]["global_pause"], equals=1)
