"""Interfaces between a network and routing software. The software, and the code that runs its daemons, are a subject.

A router is added with it: `addRouter("r1", routing=Frr(Bgp()))`. The subject that knows it (`Subject.control_plane`)
runs the daemons while the network is up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import MappingProxyType
from typing import Any, Protocol, Self, runtime_checkable

from testbed import subject
from testbed.experiment.run import Run
from testbed.net.fabric.core import FabricCore
from testbed.net.fabric.ports import FabricError
from testbed.units import Duration


@runtime_checkable
class RoutingSoftware(Protocol):
    """Routing software for a router, with what it is to speak."""

    @property
    def protocols(self) -> Mapping[type, Any]:
        """The settings of each protocol that it is to speak; none if its configuration is the user's."""

    def with_asn(self, asn: int) -> Self:
        """Return the same software for a router of this AS, if it is to speak BGP and was given none."""


class RoutingDaemons(Protocol):
    """The routing daemons of one router, while the network runs."""

    def ask(self, program: str, *words: str) -> str:
        """Return the answer of one of the software's programs."""


class ControlPlane(Protocol):
    """The routing daemons of a network that runs: `net.routing`. A network without any has none."""

    @property
    def routers(self) -> Mapping[str, Any]:
        """The routers with daemons, by name, as their configurations are made of them."""

    def routes(self, router: str) -> Mapping[str, frozenset[str]]:
        """Return the routes that a router's kernel has of its daemons, with the ports of their equal ways."""

    def changes(self, router: str = "") -> Sequence[Any]:
        """Return the changes of routes in this run so far, of one router or of all."""

    def converged(self, within: Duration | str, since_ns: int | None, quiet: Duration | str | None) -> Duration:
        """Wait until routers have their routes; see `Network.converged`."""


MakeControlPlane = Callable[[Sequence[Any], FabricCore, Run | None], AbstractContextManager[ControlPlane]]
"""The function that a subject names: of a network's nodes, its core and the run; its block has the daemons running."""


@contextmanager
def running(nodes: Sequence[Any], core: FabricCore, run: Run | None) -> Iterator[ControlPlane]:
    """Run the daemons of a network's routers for the time of the block."""
    make: MakeControlPlane = next(subject.loaded("control_plane"), _nobody)
    with make(nodes, core, run) as plane:
        yield plane


@contextmanager
def _nobody(nodes: Sequence[Any], core: FabricCore, run: Run | None) -> Iterator[ControlPlane]:
    yield _NoDaemons()


class _NoDaemons:
    """The control plane where no subject has routing daemons."""

    routers: Mapping[str, Any] = MappingProxyType({})

    def routes(self, router: str) -> Mapping[str, frozenset[str]]:
        raise FabricError(f"{router} is no router with routing daemons; there are none")

    def changes(self, router: str = "") -> Sequence[Any]:
        return ()

    def converged(self, within: Duration | str, since_ns: int | None, quiet: Duration | str | None) -> Duration:
        raise FabricError("net.converged: no router has routing daemons")
