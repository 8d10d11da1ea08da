"""PFC watchdog timer accuracy: how long a storm lasts until it is found, and how long until it is over."""

import time
from dataclasses import replace

from experiments.conformance._case import Bench, Control, case
from experiments.conformance._watchdog import (
    LATE,
    SETTLED,
    by_file,
    dropping,
    events,
    in_us,
    outlasting,
    settings,
    stormer,
)
from testbed.subjects.sonic.tables import Tables

STORMS = 6
"""The number of storms. Each begins a sixth of the polling interval in use later than the one before, by the watchdog's
clock: so at least one is found five sixths of it too late, with any times.
"""


def polls_rarely(tables: Tables) -> Tables:
    return replace(tables, watchdog_poll=(tables.watchdog_poll or 0) * 5)


@case(
    control=Control("five times the polling interval", polls_rarely,
                    fails=["detection, longest", "restoration, longest"]),
    tables=dropping,
    watchdog_scale=1,
)  # fmt: skip
def watchdog_timer(bench: Bench) -> None:
    """Storms that begin at any moment between polls are found, and over, at the configured time or one poll later."""
    priority, watchdog = bench.lossless[0], settings(bench)
    used = bench.switch.ports[bench.ports[0]].settings.pfc.watchdog
    assert used is not None
    poll_ns = bench.lab_ns(used.poll)
    lasts = outlasting(bench.line, watchdog, used.poll, bench.paced(SETTLED))
    found: list[int] = []
    over: list[int] = []
    with bench.network(hosts=2) as net, stormer(bench, net, priority) as storm, bench.run.measuring():
        port = bench.port(net, "h2")
        for number in range(STORMS):
            moment_ns = (time.monotonic_ns() // poll_ns + 1) * poll_ns + poll_ns * number // STORMS
            time.sleep((moment_ns - time.monotonic_ns()) / 1e9)
            pause = storm.pause(lasts)
            net.sleep(watchdog.restoration + used.poll + storm.settled)
            for kind, since_ns, times in (
                ("storm_detected", pause.begin_ns, found),
                ("storm_ended", pause.last_xoff_ns, over),
            ):
                moments = [event.lab_ns for event in events(net, port, kind) if event.lab_ns >= pause.begin_ns]
                times += [moment_ns - since_ns for moment_ns in moments]
    for name, wanted, measured in (
        ("detection", watchdog.detection, found),
        ("restoration", watchdog.restoration, over),
    ):
        longest, shortest = (in_us(one(measured)) if measured else None for one in (max, min))
        bench.claim(f"{name}, longest", longest, at_most=by_file(bench, wanted + watchdog.poll) + LATE)
        bench.claim(f"{name}, shortest", shortest, at_least=by_file(bench, wanted))
    bench.claim("storms found and over", [len(found), len(over)], equals=[STORMS, STORMS])
