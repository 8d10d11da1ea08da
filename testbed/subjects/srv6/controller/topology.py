"""The WAN as the controller sees it: routers, the links between them, and the SIDs that routers advertise.

An interface can act on PFC if its router advertises an End.X.PFC SID for it, which is what such SIDs are for in the
draft; there is no other note of it. A router that advertises one can also generate PFC, so it is PFC-capable.

Links have two directions with a delay each. They carry slices (ids; traffic without a slice may use every link) and
have affinities, names of our choice such as "submarine", by which paths can be kept to or away from them. Nothing here
computes a path; `revision` changes whenever a path may have changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from ipaddress import IPv6Address

from testbed.subjects.srv6.protocol import behaviours
from testbed.subjects.srv6.protocol.behaviours import Behaviour
from testbed.subjects.srv6.protocol.domain import Srv6Error
from testbed.subjects.srv6.protocol.sid import Flavours, Sid
from testbed.subjects.srv6.session.messages import RouterPort


@dataclass(frozen=True)
class Link:
    """A link between two routers. The delays are those from the first end to the second, and back."""

    ends: tuple[RouterPort, RouterPort]
    delays_ns: tuple[int, int]
    slices: frozenset[int] = frozenset()
    affinity: frozenset[str] = frozenset()
    up: bool = True

    def __post_init__(self) -> None:
        if self.ends[0].router == self.ends[1].router:
            raise Srv6Error(f"link {self} leads from {self.ends[0].router} to itself; it needs two routers")
        for delay in self.delays_ns:
            if type(delay) is not int or delay < 0:
                raise Srv6Error(f"link {self} has delay {delay!r}; it is a whole number of nanoseconds, 0 or more")

    def __str__(self) -> str:
        return f"{self.ends[0]}-{self.ends[1]}"


@dataclass(frozen=True)
class Hop:
    """A link in one direction."""

    link: Link
    backwards: bool

    @property
    def out_of(self) -> RouterPort:
        return self.link.ends[self.backwards]

    @property
    def into(self) -> RouterPort:
        return self.link.ends[not self.backwards]

    @property
    def delay_ns(self) -> int:
        return self.link.delays_ns[self.backwards]

    @property
    def reverse(self) -> Hop:
        return Hop(self.link, not self.backwards)


class Topology:
    """The database of the network. An invalid change raises an error and changes nothing."""

    def __init__(self) -> None:
        self._routers: dict[str, bool] = {}  # name: whether it is up
        self._links: dict[frozenset[RouterPort], Link] = {}
        self._port: dict[RouterPort, frozenset[RouterPort]] = {}  # the link at a port
        self._sids: dict[IPv6Address, Sid] = {}
        self._sids_of: dict[str, list[Sid]] = {}
        self.revision = 0

    # Routers and links

    @property
    def routers(self) -> list[str]:
        """All routers in the order of their names."""
        return sorted(self._routers)

    @property
    def links(self) -> list[Link]:
        """All links in the order of their ends."""
        return sorted(self._links.values(), key=lambda link: sorted(link.ends))

    def add_router(self, name: str) -> None:
        if name in self._routers:
            raise Srv6Error(f"router {name} is there already; names are unique")
        self._routers[name] = True
        self.revision += 1

    def set_router(self, name: str, up: bool) -> None:
        """Add a router, or set its state. One that is down takes all its links with it, and keeps its SIDs."""
        self.check_router(name)
        self._routers[name] = up
        self.revision += 1

    def put_link(self, link: Link) -> None:
        """Add a link, or change one that has the same ends."""
        key = frozenset(link.ends)
        for port in link.ends:
            self.check_router(port.router)
            if (other := self._port.get(port, key)) != key:
                raise Srv6Error(f"port {port} is an end of {self._links[other]} already; a port has one link")
        self._links[key] = link
        self._port |= dict.fromkeys(link.ends, key)
        self.revision += 1

    def set_link(self, port: RouterPort, up: bool) -> None:
        """Set the state of the link at this port: it works or it does not."""
        link = self.link_at(port)
        self._links[frozenset(link.ends)] = replace(link, up=up)
        self.revision += 1

    def link_at(self, port: RouterPort) -> Link:
        key = self._port.get(port)
        if key is None:
            raise Srv6Error(f"there is no link at port {port}")
        return self._links[key]

    def hop(self, port: RouterPort) -> Hop | None:
        """Return the way out of a port, or None if there is no link, or the link or a router is down."""
        if port not in self._port:
            return None
        link = self.link_at(port)
        if not link.up or not all(self._routers[end.router] for end in link.ends):
            return None
        return Hop(link, backwards=link.ends[1] == port)

    def hops(self) -> Iterator[Hop]:
        """Return every direction of every link that is up, in the order of ports."""
        for port in sorted(self._port):
            hop = self.hop(port)
            if hop is not None:
                yield hop

    def check_router(self, name: str) -> None:
        if name not in self._routers:
            near = ", ".join(self.routers[:10]) or "none yet"
            raise Srv6Error(f"there is no router {name!r}; there are {near}{' and more' * (len(self._routers) > 10)}")

    def is_up(self, router: str) -> bool:
        return self._routers[router]

    # SIDs

    def put_sids(self, router: str, sids: Iterable[Sid]) -> None:
        """Put all SIDs of a router in place of its earlier ones."""
        self.check_router(router)
        new: dict[IPv6Address, Sid] = {}
        for sid in sids:
            if sid.node != router:
                raise Srv6Error(f"{sid.name} cannot be advertised by {router}")
            other = new.get(sid.address) or self._sids.get(sid.address)
            if other is not None and (other.node != router or sid.address in new):
                raise Srv6Error(f"{sid.name} is also {other.name}; a SID belongs to one router and one behaviour")
            new[sid.address] = sid
        for old in self._sids_of.get(router, ()):
            del self._sids[old.address]
        self._sids |= new
        self._sids_of[router] = sorted(new.values(), key=_preference)
        self.revision += 1

    def sid(self, address: IPv6Address) -> Sid | None:
        return self._sids.get(address)

    def sids(self, router: str | None = None) -> list[Sid]:
        """Return the SIDs of a router, or all, in the order of addresses."""
        chosen = self._sids.values() if router is None else self._sids_of.get(router, ())
        return sorted(chosen, key=lambda sid: sid.address)

    def is_pfc_capable(self, router: str) -> bool:
        return any(sid.behaviour is behaviours.END_X_PFC for sid in self._sids_of.get(router, ()))

    def find_sid(
        self,
        router: str,
        behaviour: Behaviour,
        slice_id: int | None,
        interface: str | None = None,
        *,
        forwards: bool = False,
    ) -> Sid | None:
        """Return a router's SID of a behaviour: the slice's own, else one that has no slice.

        If an interface is named it must be in the SID's J, and with `forwards` be its first member, since only that
        one is sent to (0141).
        If there are several: one without PSP, since PSP hides from the last router by which way a packet came (0140);
        then the lowest address.
        """
        fitting = [
            sid
            for sid in self._sids_of.get(router, ())
            if sid.behaviour is behaviour
            and (interface is None or interface in sid.interfaces[: 1 if forwards else None])
        ]
        for wanted in (slice_id, None):
            for sid in fitting:
                if sid.slice_id == wanted:
                    return sid
        return None


def _preference(sid: Sid) -> tuple[bool, IPv6Address]:
    return Flavours.PSP in sid.flavours, sid.address
