"""The states of routers: their sessions, reports, lasting pauses, and the tunnels that they learned.

A router whose session has ended is not lost before `grace_ns`, since an agent can be restarted while its router
forwards (decision 0152). Reports that a router sends of its own accord are limited in number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from ipaddress import IPv6Address

from testbed.rest.events import History
from testbed.subjects.srv6.controller.network import differs, steady
from testbed.subjects.srv6.session.messages import Counters, OwnTunnel, Pause, Report
from testbed.typed_json.codec import CODEC

MOST_REMARKS = 1024
"""The most lasting pauses, and the most learned tunnels, of one router."""

TunnelKey = tuple[str, tuple[IPv6Address, ...], int | None]
PauseKey = tuple[str, IPv6Address, str, int, int | None]


class RouterStates:
    """The states of all routers."""

    def __init__(self, grace_ns: int, history: History, counters: Counter[str]) -> None:
        self.reports: dict[str, Report] = {}
        self.pauses: dict[PauseKey, Pause] = {}  # those that last
        self.own_tunnels: dict[TunnelKey, OwnTunnel] = {}
        self.down: frozenset[str] = frozenset()  # lost
        self.removed: set[str] = set()  # by an operator; others may still name them as neighbours
        self.first_ns: int | None = None  # of the reports
        self._grace_ns, self._history, self._counters = grace_ns, history, counters
        self._left_ns: dict[str, int] = {}  # routers without a session, since when

    def reported(self, report: Report, now_ns: int) -> bool:
        """Take in a router's report. Return True if the network may differ by it."""
        node, before = report.node, self.reports.get(report.node)
        self.removed.discard(node)
        report = steady(report, before)
        self.reports[node] = report
        if self.first_ns is None:
            self.first_ns = now_ns
        if before is None or node in self._left_ns:
            self._history.add(now_ns, "router_here", node, f"{node} reports {len(report.sids)} SIDs")
        self._left_ns.pop(node, None)
        return differs(report, before) or node in self.down

    def counted(self, node: str, message: Counters) -> None:
        if (known := self.reports.get(node)) is not None:
            self.reports[node] = replace(known, counters=message.counters)

    def paused(self, node: str, pause: Pause, now_ns: int) -> None:
        """Take in that a router has stopped or resumed a queue."""
        key = (node, pause.sid, pause.interface, pause.priority, pause.slice_id)
        if pause.stopped and _of(node, self.pauses) >= MOST_REMARKS:
            self._counters["pauses_beyond_limit"] += 1
        elif pause.stopped:
            self.pauses[key] = pause
        else:
            self.pauses.pop(key, None)
        self._counters["pauses_begun" if pause.stopped else "pauses_ended"] += 1
        inside = "" if pause.slice_id is None else f" of slice {pause.slice_id}"
        self._history.add(
            now_ns, "pause" if pause.stopped else "resume", node,
            f"{node} {'stops' if pause.stopped else 'resumes'} priority {pause.priority}{inside} at {pause.interface}",
            sid=str(pause.sid), interface=pause.interface, priority=pause.priority, slice=pause.slice_id,
        )  # fmt: skip

    def learned(self, node: str, message: OwnTunnel, now_ns: int) -> None:
        """Take in that a router has learned a tunnel, or removed a learned one."""
        if message.tunnel.router != node:
            self._counters["tunnels_of_others"] += 1  # a router can report its own tunnels only
            return
        if message.there and _of(node, self.own_tunnels) >= MOST_REMARKS:
            self._counters["own_tunnels_beyond_limit"] += 1
        elif message.there:
            self.own_tunnels[message.tunnel.identity] = message
        else:
            self.own_tunnels.pop(message.tunnel.identity, None)
        kind = "tunnel_learned" if message.there else "tunnel_forgotten"
        self._history.add(now_ns, kind, node, f"{node}: {message.why}", tunnel=CODEC.encode(message.tunnel))

    def session_ended(self, node: str, why: str, now_ns: int) -> None:
        """Take in that a router's session has ended."""
        self._drop_remarks(node)  # the router sends them again in its next session
        if node in self.reports:
            self._left_ns[node] = now_ns
            self._history.add(now_ns, "router_away", node, f"the session with {node} ended: {why}")

    def remove(self, node: str, now_ns: int) -> bool:
        """Remove the reports of a router. Return True if there were any. It may report again."""
        if self.reports.pop(node, None) is None:
            return False
        self.removed.add(node)
        self._left_ns.pop(node, None)
        self._drop_remarks(node)
        self._history.add(now_ns, "router_removed", node, f"{node} is removed, with all that it reported")
        return True

    def is_away(self, node: str) -> bool:
        return node in self._left_ns

    def expire(self, now_ns: int) -> bool:
        """Give up routers whose grace time is over. Return True if the network differs by it."""
        late = frozenset(node for node, left_ns in self._left_ns.items() if now_ns >= left_ns + self._grace_ns)
        for node in sorted(late - self.down):
            text = f"{node} has had no session for the grace time; it counts as lost"
            self._history.add(now_ns, "router_lost", node, text)
        changed, self.down = late != self.down, late
        return changed

    @property
    def deadlines_ns(self) -> list[int]:
        """The times at which `expire` has work."""
        return [left_ns + self._grace_ns for node, left_ns in self._left_ns.items() if node not in self.down]

    def _drop_remarks(self, node: str) -> None:
        for pause in [key for key in self.pauses if key[0] == node]:
            del self.pauses[pause]
        for tunnel in [key for key in self.own_tunnels if key[0] == node]:
            del self.own_tunnels[tunnel]


def _of(node: str, keys: Collection[PauseKey] | Collection[TunnelKey]) -> int:
    return sum(key[0] == node for key in keys)
