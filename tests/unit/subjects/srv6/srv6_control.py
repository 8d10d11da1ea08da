"""A controller and its routers in memory, for tests: real sessions, made-up routers, a clock that is set by hand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import ip_network

from testbed.subjects.srv6.controller.manager import Manager, ManagerSettings
from testbed.subjects.srv6.controller.southbound import Southbound
from testbed.subjects.srv6.session.intents import Candidate, Dynamic, Key, PolicyIntent, Site, VpnIntent
from tests.fake_routers import FIGURE_2, FIGURE_3, MS, FakeRouter, Links, S, report, sid

__all__ = ["FIGURE_2", "FIGURE_3", "MS", "SHARED_KEY", "FakeRouter", "S", "World", "report", "sid"]

SHARED_KEY = b"a key for tests, and for nothing else"


class World:
    """A controller and routers, connected by octets."""

    def __init__(
        self,
        links: Links = FIGURE_3,
        pfc: Iterable[str] = ("R1", "R3"),
        slices: frozenset[int] = frozenset(),
        settings: ManagerSettings = ManagerSettings(),
    ) -> None:
        self.now_ns = 0
        names = sorted({name for a, b, _ in links for name in (a, b)}, key=lambda name: int(name[1:]))
        self.routers = {name: FakeRouter(report(name, links, tuple(pfc), slices), SHARED_KEY) for name in names}
        self.settings = settings
        self._nonce = 0
        self._at: dict[int, FakeRouter] = {}
        self.restart()

    def restart(self) -> None:
        """Begin anew with a controller without state and without sessions."""
        self._at = {}
        self.manager = Manager(self.settings)
        self.south = Southbound(self.manager, "controller", lambda name: SHARED_KEY, self.nonce)
        for fake in self.routers.values():
            fake.router.disconnected(self.now_ns)
            fake.waiting.clear()

    def nonce(self) -> bytes:
        self._nonce += 1
        return self._nonce.to_bytes(32)

    def connect(self, *names: str) -> None:
        for name in names or list(self.routers):
            connection = self.south.connect(self.now_ns)
            assert connection is not None
            self._at = {other: fake for other, fake in self._at.items() if fake.name != name}  # a line that was cut
            self._at[connection] = self.routers[name]
            self.routers[name].router.connect(self.nonce(), self.now_ns)
        self.run()

    def disconnect(self, name: str) -> None:
        for connection, fake in list(self._at.items()):
            if fake.name == name:
                del self._at[connection]
                fake.router.disconnected(self.now_ns)
                self.south.disconnected(connection, self.now_ns)
        self.run()

    def run(self, later_ns: int = 0) -> None:
        """Let time pass in steps of 100 ms, and then carry octets until there are no more."""
        until = self.now_ns + later_ns
        while True:
            self._carry()
            if self.now_ns >= until:
                break
            self.now_ns = min(self.now_ns + 100 * MS, until)
            for fake in self.routers.values():
                fake.router.poll(self.now_ns)

    def _carry(self) -> None:
        while True:
            busy = False
            for connection, fake in list(self._at.items()):
                if data := fake.router.data_to_send():
                    busy = True
                    self.south.receive(connection, data, self.now_ns)
                    while self.south.has_more(connection):
                        self.south.receive(connection, b"", self.now_ns)
            self.south.advance(self.now_ns)
            self._check_plan()
            for connection, data, is_over in self.south.output():
                busy = True
                fake_or_none = self._at.get(connection)
                if fake_or_none is not None:
                    fake_or_none.obey(fake_or_none.router.receive(data, self.now_ns), self.now_ns)
                    if is_over:
                        del self._at[connection]
                        fake_or_none.router.disconnected(self.now_ns)
            if not busy:
                return

    def _check_plan(self) -> None:
        """Check that a plan of everything has nothing to add to a step, which plans changes only."""
        manager, deployment = self.manager, self.manager.deployment
        if manager.is_settled and not manager.intents.all_changed and not manager.intents.changed:
            waits = deployment.waits_to_remove
            planner = manager.planner
            left = deployment.plan(planner.desired.items, planner.may_install, planner.removals())
            deployment.waits_to_remove = waits
            assert left == []

    # What tests ask for

    def vpn(
        self, name: str = "red", ends: Sequence[str] = ("R1", "R3"), colour: int = 100, **more: object
    ) -> VpnIntent:
        sites = tuple(
            Site(router, (f"{name}0",), (ip_network(f"10.{router[1:]}.{colour % 256}.0/24"),)) for router in ends
        )
        intent = VpnIntent(name, colour, sites, **more)  # type: ignore[arg-type]
        self.manager.intents.put_vpn(intent, self.now_ns)
        self.run()
        return intent

    def policy(self, start: str, end: str, *candidates: Candidate, vpn: str = "red", colour: int = 100) -> Key:
        key = Key(start, colour, end)
        intent = PolicyIntent(key, candidates or (Dynamic(pfc_ends=True),), vpn=vpn)
        self.manager.intents.put_policy(intent, self.now_ns)
        self.run()
        return key

    def log(self) -> list[str]:
        """Return the actions of all routers since the last call."""
        done = [f"{fake.name}: {line}" for fake in self.routers.values() for line in fake.log]
        for fake in self.routers.values():
            fake.log.clear()
        return done

    def events(self, *kinds: str) -> list[str]:
        return [event.text for event in self.manager.history.after(0) if not kinds or event.kind in kinds]
