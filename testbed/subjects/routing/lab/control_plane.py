"""The routing daemons of a network, from their start to their end, and the wait until routers have their routes.

In a network over several kernels each part has the daemons, the tables and the watch of its own routers. What a script
asks of them all parts get, and they wait together, by looking again after a time in place of being woken.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from ipaddress import ip_interface
from itertools import chain
from typing import Any

from testbed.errors import listed
from testbed.experiment.output import ROUTE_LOG
from testbed.experiment.run import Run
from testbed.net.fabric.core import FabricCore
from testbed.net.fabric.ports import PortTable
from testbed.subjects.routing.bird import Bird
from testbed.subjects.routing.expected import Routes, expected
from testbed.subjects.routing.frr import Frr
from testbed.subjects.routing.lab.daemons import BirdDaemons, Daemons, FrrDaemons, RoutingError
from testbed.subjects.routing.lab.route_table import Changes, RouteEvent, RouteTable, RouteWatch, events, taken_from
from testbed.subjects.routing.protocols import Bgp, Isis
from testbed.subjects.routing.router import Router, RouterPort, same_for_all
from testbed.units import Duration

_KINDS: tuple[tuple[type, type], ...] = ((Frr, FrrDaemons), (Bird, BirdDaemons))
_SHOWN = 3
_STEP_NS = 1_000_000_000
"""How often it is looked whether all daemons are alive while nothing else happens."""
_LOOK_NS = 250_000_000
"""How often it is looked whether sessions have come up."""
_TOGETHER_S = 0.02
"""The time in which several parts wait between two looks."""


class ControlPlane:
    """The routing daemons of a network that runs: `net.routing`. A network without any has none."""

    def __init__(self, nodes: Sequence[Any], core: FabricCore, run: Run | None) -> None:
        self._parts, ports = core.parts, core.ports
        speaking = [node for node in nodes if node.params.get("routing") is not None]
        self.routers = {node.name: _router(node, number, ports) for number, node in enumerate(speaking, start=1)}
        """The routers with daemons, by name, as their configurations are made of them."""
        self._nodes = {node.name: node for node in speaking}
        self._here = {name: node for name, node in self._nodes.items() if self._parts.has(name)}
        self._run = run
        self._daemons: list[Daemons] = []
        self._tables: dict[str, RouteTable] = {}
        self._watch: RouteWatch | None = None
        self._were_up: set[tuple[str, str, str]] = set()
        """The sessions that have been up: routers, protocols, and neighbours' names or ports."""
        self._before = 0
        """The changes of routes in networks before this one, which all parts have in their logs."""

    def start(self) -> None:
        """Start the daemons of all routers, stage by stage."""
        if not self.routers:
            return
        self._require_other_ases()
        if self._run is not None:
            self._before = len(events(self._run))
        pids = {name: node.pid for name, node in self._here.items()}
        self._watch = RouteWatch(pids, self._run)
        self._tables = {name: RouteTable(pid) for name, pid in pids.items()}
        for name, node in self._here.items():
            node.daemons = _daemons(node.params["routing"], self.routers[name], node)
            self._daemons.append(node.daemons)
        checks = [(one, one.check()) for one in self._daemons]
        for one, check in checks:
            one.require_done(check, "its configuration")
        for one in self._daemons:
            one.require_interfaces(link.name for link in self._tables[one.router.name].links())
        stages = [(one, one.stages()) for one in self._daemons]
        for number in range(max((len(daemons) for _, daemons in stages), default=0)):
            started = [(one, daemons[number]) for one, daemons in stages if number < len(daemons)]
            for one, names in started:
                for name in names:
                    one.start(name)
            for one, names in started:
                one.wait_for(names)
        applied = [(one, program) for one in self._daemons if (program := one.apply()) is not None]
        for one, program in applied:
            one.require_done(program, "its configuration")
        self._parts.exchange("routing daemons run", None)

    def _require_other_ases(self) -> None:
        """Refuse neighbours of one AS, which would take each other for no neighbours of external BGP."""
        software = {name: node.params["routing"] for name, node in self._nodes.items()}
        for name, router in self.routers.items():
            for port in router.uplinks:
                far = self.routers.get(port.neighbour)
                if far is None or any(Bgp not in software[one].protocols for one in (name, far.name)):
                    continue
                if (asn := software[name].asn(router)) == software[far.name].asn(far):
                    raise RoutingError(
                        f"routers {name} and {far.name} are neighbours and both of AS {asn}; external BGP needs two: "
                        "give one another, as in Bgp(asn=65001), or leave asn out, and each router has its own"
                    )

    def stop(self) -> None:
        """End all daemons; nothing of them is left."""
        for one in self._daemons:
            one.stop()
        for node in self._nodes.values():
            node.daemons = None
        self._daemons.clear()
        if self._watch is not None:
            self._watch.stop()
            self._watch = None
        for table in self._tables.values():
            table.close()
        self._tables.clear()

    def require_alive(self) -> None:
        """Raise an error that names a daemon which has ended."""
        for one in self._daemons:
            one.require_alive()

    def routes(self, router: str) -> Routes:
        """Return the routes that a router's kernel has of its daemons, with the ports of their equal ways."""
        if router not in self._nodes:
            raise RoutingError(f"{router} is no router with routing daemons; there are {listed(self._nodes)}")

        def read() -> Routes:
            return self._tables[router].routes()

        return self._parts.of(router, "routes", read)

    def changes(self, router: str = "") -> list[RouteEvent]:
        """Return the changes of routes in this run so far, of one router or of all."""
        own = [] if self._run is None or self._watch is None else events(self._run)
        of_all = self._parts.exchange("changes of routes", (own[: self._before], own[self._before :]))
        before, now = of_all[0][0], chain.from_iterable(routes for _, routes in of_all)
        routes = [*before, *sorted(now, key=lambda one: one.lab_ns)]
        return [one for one in routes if router in ("", one.router)]

    def expected(self) -> dict[str, Routes] | None:
        """Return the routes that all routers should have by the cables that have their link now.

        None if configurations are the user's own, or routers speak different protocols.
        """
        software = {name: node.params["routing"] for name, node in self._nodes.items()}
        protocols = same_for_all(software.values())
        if protocols is None:
            return None
        links = [link for table in self._tables.values() for link in table.links()]
        up = set[str]().union(*self._parts.exchange("links", {link.name for link in links if link.can_talk}))
        return expected(
            self.routers, protocols, lambda router: software[router.name].asn(router), lambda port: port in up
        )

    def converged(self, within: Duration | str, since_ns: int | None, quiet: Duration | str | None) -> Duration:
        """Wait until routes are as they should be, or have not changed for a time."""
        begin_ns = time.monotonic_ns()
        since_ns = begin_ns if since_ns is None else since_ns
        if not self.routers or self._watch is None:
            raise RoutingError(
                "net.converged: no router of this network has routing daemons, as in addRouter(routing=Frr(Bgp()))"
            )
        goal = self.expected() if quiet is None else None
        if goal is None and quiet is None:
            raise RoutingError(
                "net.converged: which routes there should be is known if all routers speak the same protocols, "
                'configured by the topology; here say after which time without a change it is over: quiet="3s"'
            )
        since_ns, begin_ns = self._parts.exchange("net.converged", (since_ns, begin_ns))[0]
        deadline_ns = begin_ns + Duration(within).ns
        changes = self._watch.after(-1, begin_ns)
        if goal is None:
            last_ns = self._until_quiet(changes, Duration(quiet or "0s").ns, deadline_ns)
        else:
            last_ns = self._until(goal, changes, deadline_ns)
        return Duration.from_ns(max(0, last_ns - since_ns))

    def _until(self, goal: dict[str, Routes], changes: Changes, deadline_ns: int) -> int:
        missing = set(self._here)
        look: set[str] = set(self._here)
        while True:
            for name in look:
                if _differs(self._tables[name].routes(), goal[name], goal):
                    missing.add(name)
                else:
                    missing.discard(name)
            state = self._parts.exchange("routes of all", (len(missing), changes.last_ns))
            if not sum(many for many, _ in state):
                return max(last_ns for _, last_ns in state)
            self.require_alive()
            now_ns = time.monotonic_ns()
            if self._is_late(now_ns, deadline_ns):
                late = chain(*self._parts.exchange("what is late", self._late(goal, sorted(missing))))
                raise RoutingError(f"net.converged: not all routers have their routes in time: {_shown(list(late))}")
            changes = self._next(changes, min(deadline_ns, now_ns + _STEP_NS))
            look = set(self._here) if changes.routers is None else set(changes.routers)

    def _until_quiet(self, changes: Changes, quiet_ns: int, deadline_ns: int) -> int:
        changes = self._until_sessions_were_up(changes, deadline_ns)
        begin_ns = max(self._parts.exchange("it is to be quiet", time.monotonic_ns()))
        while True:
            state = self._parts.exchange("changes of all", (changes.last_ns, time.monotonic_ns()))
            last_ns, now_ns = max(last for last, _ in state), max(now for _, now in state)
            if now_ns >= max(last_ns, begin_ns) + quiet_ns:
                return last_ns
            self.require_alive()
            if self._is_late(now_ns, deadline_ns):
                raise RoutingError("net.converged: routes still change at the end of the time that it may take")
            changes = self._next(changes, min(deadline_ns, max(last_ns, begin_ns) + quiet_ns, now_ns + _STEP_NS))

    def _until_sessions_were_up(self, changes: Changes, deadline_ns: int) -> Changes:
        """Wait until each session that is configured has been up once: before that there are no routes to change.

        One that was up and is not any more is what the caller looks at. OSPF and IS-IS find neighbours by themselves,
        so they have one to come on each cable between two routers that both look for one there.
        """
        while True:
            own: dict[tuple[str, str, str], str] = {}
            for one in self._daemons:
                own |= {(one.router.name, "BGP", neighbour): state for neighbour, state in one.sessions().items()}
                own |= {(one.router.name, *at): state for at, state in one.adjacencies().items()}
            states: dict[tuple[str, str, str], str] = {}
            for found in self._parts.exchange("sessions", own):
                states |= found
            self._were_up |= {session for session, state in states.items() if not state}
            down = {
                it: state for it, state in states.items() if it not in self._were_up and self._can_be_up(it, states)
            }
            if not down:
                return changes
            self.require_alive()
            now_ns = time.monotonic_ns()
            if self._is_late(now_ns, deadline_ns):
                lines = [f"{router} with {far} is {state}" for (router, _, far), state in down.items()]
                kinds = listed(sorted({kind for _, kind, _ in down}))
                raise RoutingError(f"net.converged: not all sessions of {kinds} were up in time: {_shown(lines)}")
            changes = self._next(changes, min(deadline_ns, now_ns + _LOOK_NS))

    def _can_be_up(self, session: tuple[str, str, str], states: Mapping[tuple[str, str, str], str]) -> bool:
        """Return False for a port with OSPF or IS-IS at whose other end nobody speaks it."""
        router, kind, at = session
        ports = self.routers[router].uplinks
        return kind == "BGP" or any(
            port.name == at and (port.neighbour, kind, port.far_port) in states for port in ports
        )

    def _is_late(self, now_ns: int, deadline_ns: int) -> bool:
        return self._parts.exchange("is it late", now_ns >= deadline_ns)[0]

    def _next(self, changes: Changes, until_ns: int) -> Changes:
        """Return what has happened after the next change, or at a moment; of several parts, after a time."""
        assert self._watch is not None
        if self._parts.many == 1:
            return self._watch.after(changes.count, until_ns)
        time.sleep(_TOGETHER_S)
        return self._watch.after(-1, 0)

    def _late(self, goal: dict[str, Routes], routers: list[str]) -> list[str]:
        """Return what is missing or wrong, for the message of a wait that was too short."""
        lines = []
        for name in routers:
            own = self._tables[name].routes()
            for prefix in sorted({prefix for routes in goal.values() for prefix in routes}):
                has, should = own.get(prefix, frozenset()), goal[name].get(prefix, frozenset())
                if has != should:
                    lines.append(f"{name} to {prefix}: by {listed(sorted(has))}, expected {listed(sorted(should))}")
        return lines

    def gather(self) -> None:
        """Have the changes of all parts' routes in the run's log, in which each part has noted its own."""
        if self._parts.many == 1 or self._watch is None or self._run is None:
            return
        self._watch.stop()
        self._watch = None
        of_all = self._parts.exchange("log of routes", taken_from(self._run, self._before))
        self._run.lines(ROUTE_LOG, sorted(chain(*of_all), key=lambda line: line["t_ns"]))


def _shown(lines: list[str]) -> str:
    more = f", and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""
    return "; ".join(lines[:_SHOWN]) + more


@contextmanager
def running(nodes: Sequence[Any], core: FabricCore, run: Run | None) -> Iterator[ControlPlane]:
    """Run the daemons of a network's routers for the time of the block; one that dies in it is an error at its end."""
    plane = ControlPlane(nodes, core, run)
    try:
        plane.start()
        yield plane
        plane.require_alive()
        plane.gather()
    finally:
        plane.stop()


def _differs(own: Routes, should: Routes, goal: dict[str, Routes]) -> bool:
    """Report whether a router lacks a route, or has one that it should not have, to any of the routers' prefixes."""
    prefixes = {prefix for routes in goal.values() for prefix in routes}
    return any(own.get(prefix, frozenset()) != should.get(prefix, frozenset()) for prefix in prefixes)


def _daemons(software: Any, router: Router, node: Any) -> Daemons:
    for kind, daemons in _KINDS:
        if isinstance(software, kind):
            made: Daemons = daemons(software, router, node)
            return made
    raise RoutingError(
        f"router {router.name}: routing is {software!r}; write routing=Frr(Bgp()) or routing=Bird(Bgp())"
    )


def _router(node: Any, number: int, ports: PortTable) -> Router:
    found = []
    for port in ports.by_node().get(node.name, []):
        far = ports.far_end(port)
        is_router = getattr(far.node, "forwards", False) and not getattr(far.node, "bridges", False)
        found.append(
            RouterPort(
                port.name, far.node.name, far.name, is_router, _address(port.intf), str(far.mac),
                ports.graph.costs.get(port.name, 1),
            )
        )  # fmt: skip
    isis = node.params["routing"].protocols.get(Isis)
    return Router(node.name, number, tuple(found), isis.locator if isis is not None else "")


def _address(intf: Any) -> Any:
    return ip_interface(f"{intf.ip}/{intf.prefixLen}") if intf.ip else None
