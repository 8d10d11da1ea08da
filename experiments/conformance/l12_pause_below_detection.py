"""L12: pauses below the PFC watchdog's detection time."""

from dataclasses import replace

from experiments.conformance._case import Bench, Control, case
from experiments.conformance._watchdog import by_file, dropping, events, read_by_file, settings, stormer
from testbed.subjects.sonic.tables import Tables
from xoff import Flows

PAUSES = 3


def twice_as_eager(tables: Tables) -> Tables:
    """Return the tables with half the detection time, and polls that meet each pause of nine tenths of it."""
    rows = {
        port: replace(row, detection_time=max(1, row.detection_time // 2)) for port, row in tables.watchdogs.items()
    }
    least = min((row.detection_time for row in rows.values()), default=1)
    return replace(tables, watchdogs=rows, watchdog_poll=max(1, min(tables.watchdog_poll or least, least * 2) // 4))


@case(
    control=Control("half the detection time", twice_as_eager, fails=["storms found", "frames lost"]),
    tables=dropping,
    watchdog_scale=1,
)
def l12_pause_below_detection(bench: Bench) -> None:
    """Pauses of nine tenths of the detection time, one after the other: no action of the watchdog, and no loss."""
    priority, length = bench.lossless[0], settings(bench).detection * 9 // 10
    rate = bench.line // 8
    with bench.network(hosts=2) as net, stormer(bench, net, priority) as storm:
        port, settled = bench.port(net, "h2"), storm.settled
        with Flows([bench.flow("h1", "h2", priority, rate=rate)]) as flows:
            net.sleep(settled)
            for _ in range(PAUSES):
                end_ns = storm.pause(length).end_ns
                net.sleep(settled)
            net.sleep(settled * 4)
        report = flows.reports[0]
        found = len(events(net, port, "storm_detected"))
        paused = read_by_file(bench, net.fabric.pfc(port, priority)["paused_ns"])
    bench.claim("storms found", found, equals=0)
    bench.claim("frames lost", report.lost, equals=0)
    least = by_file(bench, length * PAUSES)
    bench.claim("paused, in ms", paused.ns // 10**6, at_least=least.ns // 10**6 - 1)
    afterwards = report.goodput_between(end_ns + bench.lab_ns(settled), end_ns + bench.lab_ns(settled * 4))
    bench.claim("goodput after the pauses", afterwards, at_least=rate * 99 // 100)
