"""L10: a circular dependency of three switches."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from experiments.conformance._case import Bench, Control, case, without_watchdog
from experiments.conformance._watchdog import LATE, by_file, read_by_file, settings, soon_over
from testbed.subjects.sonic.tables import NeighbourRow, Tables
from xoff import Duration, Flows, Size, SonicTopo

SWITCHES = 3
_LOOK, _LOAD = Duration("100us"), Duration("1500us")
"""The interval of looks, and the load's length, at 100 Gb/s; it is longer where a deadlock is broken late."""
_POLL = Duration("5us")
"""The interval at which the lab looks for deadlocks, at 100 Gb/s."""
BROKEN = "deadlock until it was broken, longest"


@case(
    ports=3,
    control=Control("no watchdog", without_watchdog, fails=[BROKEN, "deadlocks that last at the end"]),
    tables=soon_over,
    watchdog_scale=1,
    timeout="120s",
)
def l10_deadlock(bench: Bench) -> None:
    """Three such switches in a circle wait for each other: the deadlock is found, and broken by the watchdog."""
    watchdog, priority = settings(bench), bench.lossless[0]
    with bench.network(topo=_circle(bench)) as net:
        # Each to the host at the switch before it, so that every cable of the circle has two flows.
        names = [f"h{number}" for number in range(1, SWITCHES + 1)]
        flows = [bench.flow(name, names[place - 1], priority, buffer=Size("64kB")) for place, name in enumerate(names)]
        longest_fill, broken_in = bench.fill_time(net) * SWITCHES, watchdog.detection + watchdog.poll
        with Flows(flows, settle=bench.paced("8ms")) as running:
            look = bench.paced(_LOOK)
            for _ in range(longest_fill // look + 1):
                net.sleep(look)
                if net.fabric.deadlocks():
                    break
            net.sleep(broken_in)
            halfway = sum(running.received_by(place) for place in range(SWITCHES))
            net.sleep(max(bench.paced(_LOAD), broken_in * 3))
            at_the_end = sum(running.received_by(place) for place in range(SWITCHES))
            running.stop_sending()
            net.sleep(broken_in + bench.paced("1ms"))
        found = net.fabric.deadlocks()
        storms = sum(event.kind == "storm_detected" for event in net.fabric.events())
    lasted = [read_by_file(bench, one.lasted_ns) if one.lasted_ns is not None else None for one in found]
    broken = [one for one in lasted if one is not None]
    longest = max(broken) if broken and len(broken) == len(lasted) else None
    bench.claim(BROKEN, longest, at_most=by_file(bench, broken_in + bench.paced(_POLL)) + LATE)
    bench.claim("deadlocks found", len(found), at_least=1)
    bench.claim("queues in each circle", sorted({len(one.queues) for one in found}), equals=[SWITCHES])
    bench.claim("deadlocks that last at the end", len(lasted) - len(broken), equals=0)
    bench.claim("storms found", storms, at_least=1)
    bench.claim("frames received afterwards, under the same load", at_the_end - halfway, at_least=1000)


def _circle(bench: Bench) -> Any:
    """Return the topology of the switch three times, each with a host and cables to the next one and the one before."""
    names = [f"dut{number}" for number in range(1, SWITCHES + 1)]
    tables = [_cabled(bench.tables, names, place, bench.ports) for place in range(SWITCHES)]
    switches = [bench.switch_of(one) for one in tables]

    class Circle(SonicTopo):
        """A circle in which all frames go the same way round."""

        deadlock_poll = bench.paced(_POLL)

        def next_hop(self, switch: str, host: str) -> str:
            if self.at[host][0] == switch:
                return host
            nodes = [self.nodes_by_hostname[name] for name in names]
            return nodes[(nodes.index(switch) + 1) % SWITCHES]

    return Circle(*switches, hosts=1)


def _cabled(tables: Tables, names: Sequence[str], place: int, ports: Sequence[str]) -> Tables:
    """Return the switch with its second port on a cable to the next one's third port."""
    following, before = names[(place + 1) % SWITCHES], names[place - 1]
    near = {ports[1]: NeighbourRow(following, ports[2]), ports[2]: NeighbourRow(before, ports[1])}
    return replace(tables, hostname=names[place], neighbours=near)
