"""PFC watchdog, functional: what each action does to the stormed queue, and to others."""

from experiments.conformance._case import Bench, Control, case, without_watchdog
from experiments.conformance._watchdog import events, settings, soon_over, stormer, with_action
from testbed.subjects.sonic.tables import WatchdogAction
from xoff import Flows, Rate, SonicTopo

FORWARDED, FOUND = "forward: goodput of the stormed queue", "drop: storms found"
_SAME = "its priority to another port"


@case(
    ports=3,
    control=Control("no watchdog", without_watchdog, fails=[FORWARDED, FOUND]),
    tables=soon_over,
    watchdog_scale=1,
)
def watchdog_functional(bench: Bench) -> None:
    """In a storm `forward` sends, `drop` drops and `alert` only reports; other queues and ports go on."""
    for action in (WatchdogAction.FORWARD, WatchdogAction.DROP, WatchdogAction.ALERT):
        _storm(bench, action)


def _storm(bench: Bench, action: WatchdogAction) -> None:
    priority, watchdog = bench.lossless[0], settings(bench)
    rate, nothing = bench.line // 10, Rate.from_bps(0)
    switch = bench.switch_of(with_action(bench.tables, action))
    others = {f"priority {number}": bench.flow("h1", "h2", number, rate=rate)
              for number in [*bench.lossless[1:2], *bench.lossy[:1]]}  # fmt: skip
    with bench.network(topo=SonicTopo(switch, hosts=3)) as net, stormer(bench, net, priority) as storm:
        port, settled = bench.port(net, "h2"), storm.settled
        steady = settled * 6
        given = {
            "the stormed queue": bench.flow("h1", "h2", priority, rate=rate),
            _SAME: bench.flow("h1", "h3", priority, rate=rate),
        } | others
        with Flows([*given.values()]) as flows:
            net.sleep(settled)
            pause = storm.pause(watchdog.detection + watchdog.poll + settled + steady)
            net.sleep(watchdog.restoration + watchdog.poll + settled * 2)
        reports = dict(zip(given, flows.reports, strict=True))
        found = len(events(net, port, "storm_detected"))
        emptied = len(events(net, port, "queue_emptied"))
    in_storm = pause.end_ns - bench.lab_ns(steady), pause.end_ns - bench.lab_ns(settled)
    during = {name: report.goodput_between(*in_storm) for name, report in reports.items()}
    stormed = during.pop("the stormed queue")
    if action is WatchdogAction.FORWARD:
        bench.claim(FORWARDED, stormed, at_least=rate * 98 // 100)
    else:
        bench.claim(f"{action}: goodput of the stormed queue", stormed, equals=nothing)
    bench.claim(f"{action}: storms found", found, equals=1)
    bench.claim(f"{action}: queues emptied", emptied, equals=int(action is WatchdogAction.DROP))
    lost = reports["the stormed queue"].lost
    if action is WatchdogAction.DROP:
        bench.claim("drop: frames lost of the stormed queue", lost, at_least=1)
    else:
        bench.claim(f"{action}: frames lost of the stormed queue", lost, equals=0)
    if action is WatchdogAction.ALERT:  # the queue stays paused, so a host that sends into it may be, too
        del during[_SAME]
    for name, goodput in during.items():
        bench.claim(f"{action}: goodput of {name}", goodput, at_least=rate * 98 // 100)
        bench.claim(f"{action}: frames lost of {name}", reports[name].lost, equals=0)
