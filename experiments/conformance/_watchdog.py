"""Pauses of a known length at a port with a PFC watchdog, whose times in the lab are those of the file.

Not an experiment. The host h2 pauses the switch's port to it; what the watchdog did is in the event log. How long a
storm lasts and how often it repeats XOFF follow from the watchdog's times, whatever a file has.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from experiments.conformance._case import Bench
from testbed.subjects.sonic.tables import Tables, WatchdogAction, WatchdogRow
from xoff import LONGEST_PAUSE, Duration, Network, PfcFrame, Rate, RawPort, WatchdogSettings

LATE = Duration("1ms")
"""The time for the agent's own work, in the lab and so in the file's time."""
SETTLED = Duration("50us")
"""The time for frames on their way, and for the windows in which goodput is counted, at 100 Gb/s."""
_DEFAULT = WatchdogRow(WatchdogAction.DROP, 200, 200)


def watched(tables: Tables) -> Tables:
    """Return the tables with a watchdog: the switch's own, and 200 ms for both times where it has none."""
    rows = {port: tables.watchdogs.get(port, _DEFAULT) for port in tables.ports}
    rows = {
        port: replace(row, restoration_time=row.restoration_time or row.detection_time) for port, row in rows.items()
    }
    qos = {port: replace(row, pfcwd_sw_enable=None) for port, row in tables.qos.items()}
    return replace(tables, watchdogs=rows, qos=qos, watchdog_poll=tables.watchdog_poll or 100)


def with_action(tables: Tables, action: WatchdogAction) -> Tables:
    """Return a change of tables that gives all watchdogs this action."""
    return replace(tables, watchdogs={port: replace(row, action=action) for port, row in tables.watchdogs.items()})


def dropping(tables: Tables) -> Tables:
    return with_action(watched(tables), WatchdogAction.DROP)


def soon_over(tables: Tables) -> Tables:
    """Return the tables as `dropping` makes them, where a storm is over after its detection time at the
    latest: for cases that are not about the restoration time, which may be a minute.
    """
    tables = dropping(tables)
    rows = {
        port: replace(row, restoration_time=min(row.restoration_time or row.detection_time, row.detection_time))
        for port, row in tables.watchdogs.items()
    }
    return replace(tables, watchdogs=rows)


def settings(bench: Bench) -> WatchdogSettings:
    """Return the watchdog's settings at the ports under test, as the case has them; in the control, too.

    The times are the hardware's, whose watchdog is so quick that in the lab they are those of the file.
    """
    found = bench.given.ports[bench.ports[0]].settings.pfc.watchdog
    assert found is not None  # `watched` has seen to it
    return found


def by_file(bench: Bench, duration: Duration) -> Duration:
    """Return a time of the hardware in the file's time, which is the lab's where a watchdog has the file's times."""
    return bench.switch.scale.lab(duration)


def repeats_after(line: Rate, watchdog: WatchdogSettings) -> Duration:
    """Return the interval at which a storm repeats XOFF.

    It is well below the pause of one XOFF, and below the restoration time, after which the watchdog would take the
    storm for over.
    """
    return min(line.time_for_quanta(LONGEST_PAUSE) // 3, watchdog.restoration * 3 // 4)


def outlasting(line: Rate, watchdog: WatchdogSettings, poll: Duration, settled: Duration) -> Duration:
    """Return the length of a storm that goes on after it was found: XOFF comes once more, however late the poll is."""
    return watchdog.detection + poll + repeats_after(line, watchdog) + settled


@dataclass(frozen=True)
class Pause:
    """One pause by the time of the paused port, on the lab's clock: the cable's delay after its frames were sent."""

    begin_ns: int
    last_xoff_ns: int
    end_ns: int


class Stormer:
    """A sender of pauses to the switch's port to h2, for one priority."""

    def __init__(self, wire: Any, net: Network, bench: Bench, priority: int) -> None:
        port = net.fabric.port("h2-eth0")
        self._wire, self._mac, self._priority = wire, port.mac, priority
        self._bench = bench
        self._delay_ns = bench.lab_ns(port.cable.delay)
        self._period_ns = bench.lab_ns(repeats_after(bench.line, settings(bench)))
        self.settled = bench.paced(SETTLED) + bench.round_trip(net)
        """The time for frames on their way, in the cables too."""

    def pause(self, length: Duration) -> Pause:
        """Send XOFF again and again, before the last one's time is over, and XON at the end."""
        xoff = PfcFrame.xoff(self._mac, [self._priority]).encode()
        begin_ns = time.monotonic_ns()
        last_ns, end_ns = begin_ns, begin_ns + self._bench.lab_ns(length)
        for moment_ns in range(begin_ns, end_ns, self._period_ns):
            self._wire.send_at(xoff, moment_ns)
            last_ns = moment_ns
        self._wire.send_at(PfcFrame.xon(self._mac, [self._priority]).encode(), end_ns)
        return Pause(*(moment_ns + self._delay_ns for moment_ns in (begin_ns, last_ns, end_ns)))


@contextmanager
def stormer(bench: Bench, net: Network, priority: int) -> Iterator[Stormer]:
    with RawPort(net["h2"], "h2-eth0") as wire:
        yield Stormer(wire, net, bench, priority)


def events(net: Network, port: str, kind: str) -> list[Any]:
    """Return the events of a kind at a port."""
    return [event for event in net.fabric.events() if event.port == port and event.kind == kind]


def read_by_file(bench: Bench, hardware_ns: float) -> Duration:
    """Return a time that the network read, in ns of the hardware, in whole microseconds of the file's time."""
    return in_us(round(hardware_ns * bench.switch.scale.k))


def in_us(lab_ns: int) -> Duration:
    """Return a time that was measured in the lab, in whole microseconds, rounded down."""
    return Duration.from_ns(lab_ns // 1000 * 1000)
