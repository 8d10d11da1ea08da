"""L13: a storm that lasts longer than the PFC watchdog's detection time."""

import time

from experiments.conformance._case import Bench, Control, case, without_watchdog
from experiments.conformance._watchdog import LATE, dropping, events, in_us, outlasting, settings, stormer
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
            time.sleep(settled.ns / 1e9)
            shortest = outlasting(bench.line, watchdog, watchdog.poll)
            pause = storm.pause(max(watchdog.detection * 3 + watchdog.poll, shortest))
            time.sleep((watchdog.restoration + watchdog.poll + settled * 6).ns / 1e9)
        report = flows.reports[0]
        found = [event.detail["paused_ns"] for event in events(net, port, "storm_detected")]
        over = [event.lab_ns - pause.last_xoff_ns for event in events(net, port, "storm_ended")]
        kept_out = sum(net.fabric.sent(port).blocked_frames)
    found_after = in_us(found[0]) if found else None
    over_after = in_us(over[0]) if over else None
    back_ns = pause.last_xoff_ns + (watchdog.restoration + watchdog.poll + settled).ns
    bench.claim("pause until the storm is found", found_after,
                at_least=watchdog.detection, at_most=watchdog.detection + watchdog.poll + LATE)  # fmt: skip
    bench.claim("storms found", len(found), equals=1)
    bench.claim("restored after the last XOFF", over_after,
                at_least=watchdog.restoration, at_most=watchdog.restoration + watchdog.poll + LATE)  # fmt: skip
    bench.claim("frames dropped as they came", kept_out, at_least=1)
    bench.claim("lost that were neither dropped as they came nor waiting when the storm was found",
                report.lost - kept_out, at_most=_waiting(bench, watchdog.detection + watchdog.poll))  # fmt: skip
    bench.claim("goodput after the storm", bench.real(report.goodput_over(back_ns, settled * 4)),
                at_least=bench.real(rate * 99 // 100))  # fmt: skip


def _waiting(bench: Bench, paused: Duration) -> int:
    """Return the most frames of an eighth of the line that have come in this time."""
    return paused // (bench.frame_time() * 8) + 2
