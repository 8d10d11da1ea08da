"""PFC watchdog timer accuracy: how long a storm lasts until it is found, and how long until it is over."""

import time
from dataclasses import replace

from experiments.conformance._case import Bench, Control, case
from experiments.conformance._watchdog import LATE, SETTLED, dropping, events, in_us, settings, stormer
from testbed.sonic.tables import Tables

STORMS = 6
"""Each begins a sixth of the polling interval later than the one before, as the watchdog's clock has it."""


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
    poll_ns = watchdog.poll.ns
    used = bench.switch.ports[bench.ports[0]].settings.pfc.watchdog
    assert used is not None
    found, over = [], []
    with bench.network(hosts=2) as net, stormer(bench, net, priority) as storm, bench.run.measuring():
        port = bench.port(net, "h2")
        for number in range(STORMS):
            moment_ns = (time.monotonic_ns() // poll_ns + 1) * poll_ns + poll_ns * number // STORMS
            time.sleep((moment_ns - time.monotonic_ns()) / 1e9)
            pause = storm.pause(watchdog.detection + used.poll + SETTLED)
            time.sleep((watchdog.restoration + used.poll + SETTLED).ns / 1e9)
            found.append(events(net, port, "storm_detected")[-1].t_ns - pause.begin_ns)
            over.append(events(net, port, "storm_ended")[-1].t_ns - pause.last_xoff_ns)
        times = len(events(net, port, "storm_detected")), len(events(net, port, "storm_ended"))
    for name, wanted, measured in (
        ("detection", watchdog.detection, found),
        ("restoration", watchdog.restoration, over),
    ):
        bench.claim(f"{name}, longest", in_us(max(measured)), at_most=wanted + watchdog.poll + LATE)
        bench.claim(f"{name}, shortest", in_us(min(measured)), at_least=wanted)
    bench.claim("storms found and over", list(times), equals=[STORMS, STORMS])
