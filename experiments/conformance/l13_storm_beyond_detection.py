"""L13: a storm that lasts longer than the PFC watchdog's detection time."""

from experiments.conformance._case import Bench, Control, case, without_watchdog
from experiments.conformance._watchdog import (
    LATE,
    SETTLED,
    by_file,
    dropping,
    events,
    in_us,
    outlasting,
    read_by_file,
    settings,
    stormer,
)
from xoff import Duration, Flows


@case(
    control=Control(
        "no watchdog", without_watchdog, fails=["pause until the storm is found", "restored after the last XOFF"]
    ),
    tables=dropping,
    watchdog_scale=1,
)
def l13_storm_beyond_detection(bench: Bench) -> None:
    """A storm of three detection times: the watchdog finds it, drops, and restores the queue when the storm is over."""
    priority, watchdog = bench.lossless[0], settings(bench)
    rate = bench.line // 8
    with bench.network(hosts=2) as net, stormer(bench, net, priority) as storm:
        port = bench.port(net, "h2")
        with Flows([bench.flow("h1", "h2", priority, rate=rate)]) as flows:
            settled = storm.settled
            net.sleep(settled)
            shortest = outlasting(bench.line, watchdog, watchdog.poll, bench.paced(SETTLED))
            pause = storm.pause(max(watchdog.detection * 3 + watchdog.poll, shortest))
            net.sleep(watchdog.restoration + watchdog.poll + settled * 6)
        report = flows.reports[0]
        found = [event.detail["paused_ns"] for event in events(net, port, "storm_detected")]
        over = [event.lab_ns - pause.last_xoff_ns for event in events(net, port, "storm_ended")]
        kept_out = sum(net.fabric.sent(port).blocked_frames)
    found_after = read_by_file(bench, found[0]) if found else None
    over_after = in_us(over[0]) if over else None
    back_ns = pause.last_xoff_ns + bench.lab_ns(watchdog.restoration + watchdog.poll + settled)
    detection, restoration, poll = (
        by_file(bench, one) for one in (watchdog.detection, watchdog.restoration, watchdog.poll)
    )
    bench.claim("pause until the storm is found", found_after,
                at_least=detection, at_most=detection + poll + LATE)  # fmt: skip
    bench.claim("storms found", len(found), equals=1)
    bench.claim("restored after the last XOFF", over_after,
                at_least=restoration, at_most=restoration + poll + LATE)  # fmt: skip
    bench.claim("frames dropped as they came", kept_out, at_least=1)
    bench.claim("lost that were neither dropped as they came nor waiting when the storm was found",
                report.lost - kept_out, at_most=_waiting(bench, watchdog.detection + watchdog.poll))  # fmt: skip
    afterwards = report.goodput_between(back_ns, back_ns + bench.lab_ns(settled * 4))
    bench.claim("goodput after the storm", afterwards, at_least=rate * 99 // 100)


def _waiting(bench: Bench, paused: Duration) -> int:
    """Return the most frames of an eighth of the line that have come in this time."""
    return paused // (bench.frame_time() * 8) + 2
