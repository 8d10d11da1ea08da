"""The counters of PFC for each port and priority, counted from the events of the agents' logs.

The events of a running lab and those of a result are the same, so both have the same metrics of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from testbed.lab.results.folder import Event
from testbed.metrics import names
from testbed.metrics.names import Exported, Exposition
from testbed.metrics.openmetrics import Value
from testbed.switch.pfc.record import Ignored, PfcCounters, PfcEvent

_OF_PRIORITIES = (Ignored.NOT_ENABLED, Ignored.STORM)
_RECEIVED = (PfcEvent.XOFF_RECEIVED, PfcEvent.XON_RECEIVED)
_SENT = (PfcEvent.XOFF_SENT, PfcEvent.XOFF_REFRESHED, PfcEvent.XON_SENT)
_KINDS = {kind.name.lower(): kind for kind in PfcEvent}
_REASONS = {reason.name.lower(): reason for reason in Ignored}


class PfcCounts:
    """The counters of all ports of one network."""

    def __init__(self) -> None:
        self._ports: defaultdict[str, PfcCounters] = defaultdict(PfcCounters)
        self._seen: set[tuple[str, int]] = set()

    @staticmethod
    def concerned(event: Event) -> tuple[int, ...]:
        """Return the priorities whose counters an event changes; events of other kinds change none."""
        is_counted = event.name in _KINDS and (event.name != "ignored" or _reason(event) is not None)
        return tuple(sorted(set(event.priorities))) if is_counted else ()

    def add(self, event: Event) -> None:
        """Count an event."""
        priorities = self.concerned(event)
        if not priorities:
            return
        value = int(_reason(event) or 0)
        mask = sum(1 << priority for priority in priorities)
        self._ports[event.port].add([(event.t_ns, _KINDS[event.name], mask, value)])
        self._seen |= {(event.port, priority) for priority in priorities}

    def seen(self) -> Iterator[tuple[str, int]]:
        """Yield each port and priority with an event."""
        yield from sorted(self._seen)

    def frames(self, port: str, priority: int) -> tuple[int, int]:
        """Return the PFC frames that a port has received, obeyed or not, and sent for a priority."""
        counted = self._ports[port]
        received = sum(counted.count(kind, priority) for kind in _RECEIVED)
        received += sum(counted.ignored(reason, priority) for reason in _OF_PRIORITIES)
        return received, sum(counted.count(kind, priority) for kind in _SENT)

    def put(
        self,
        into: Exposition,
        key: tuple[str, int],
        now_ns: int,
        labels: Mapping[str, str],
        *,
        t_ns: int | None = None,
        is_last: bool = False,
    ) -> int:
        """Put the counters of a priority into an exposition, as they are at `now_ns`, with or without a time; return
        how many were not left out.
        """
        port, priority = key
        counted = self._ports[port]

        def count(*kinds: PfcEvent) -> int:
            return sum(counted.count(kind, priority) for kind in kinds)

        received, sent = self.frames(port, priority)
        storms, ended = count(PfcEvent.STORM_DETECTED), count(PfcEvent.STORM_ENDED)
        values: dict[Exported, Value] = {
            names.PFC_RECEIVED: received,
            names.PFC_SENT: sent,
            names.PFC_PAUSED: max(0, counted.paused_ns(priority, now_ns)) / 1e9,
            names.PFC_CONGESTED: count(PfcEvent.CONGESTED),
            names.STORMS: storms,
            names.STORMS_ENDED: ended,
            names.STORMED: int(storms > ended),
        }
        found = {**labels, "port": port, "priority": str(priority)}
        return sum(into.add(family, value, t_ns, found, is_last) for family, value in values.items())


def _reason(event: Event) -> Ignored | None:
    """Return the reason for which the part of a frame for some priorities was ignored."""
    found = _REASONS.get(str(event.fields.get("reason")))
    return found if found in _OF_PRIORITIES else None
