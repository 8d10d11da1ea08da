"""Endpoint behaviours of SIDs (RFC 8986, and End.X.PFC of the draft): one small class each, and their registry.

A behaviour has a name, its code points, the needs of its SIDs, and the kernel's action for packets to such a SID. From
that follow its place in the SID table and in BGP-LS (`sid.CodePoints`), in the JSON of SIDs and VPNs and in the
OpenAPI document, and the kernel's route (`linux/netlink/seg6.py`). To add one, write a class here or elsewhere and
register it:

    @register
    class EndT(Behaviour):
        name, code_points = "End.T", (9, 10, 11, 12)

        def kernel_action(self, parameters: Parameters) -> KernelAction:
            return KernelAction("End.T", table=parameters.table)

A behaviour that the kernel does not have is done by a program beside it. Then `kernel_action` is the nearest action,
which leaves the rest of the packets to the program, as for End.X.PFC (decision 0143).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import ClassVar

from testbed.subjects.srv6.protocol.domain import Srv6Error


@dataclass(frozen=True)
class Parameters:
    """The parameters of a SID's behaviour on its router. Those that the behaviour does not need are unset."""

    next_hop: IPv6Address | None = None  # of the first adjacency
    interface: str | None = None
    table: int | None = None  # of the VRF
    segments: tuple[IPv6Address, ...] = ()  # of the policy


@dataclass(frozen=True)
class KernelAction:
    """An action of the kernel's seg6local, with its parameters."""

    name: str  # as in `ip route add ... encap seg6local action NAME`
    next_hop: IPv6Address | None = None
    interface: str | None = None  # None: the action uses none
    table: int | None = None
    segments: tuple[IPv6Address, ...] = ()


class Behaviour:
    """A behaviour: the treatment of packets to a SID."""

    name: ClassVar[str]
    code_points: ClassVar[tuple[int, ...]] = ()
    """The code points (RFC 8986, section 10.2) in the order of `sid.FLAVOURS`: one without flavours, none if not
    assigned.
    """
    has_flavours: ClassVar[bool] = False
    has_adjacencies: ClassVar[bool] = False
    decapsulates: ClassVar[frozenset[int]] = frozenset()
    """The IP versions of the VPN packets that are taken out of the tunnel here."""

    @property
    def takes_ipv6(self) -> bool:
        """True if IPv6 packets get through here: the behaviour does not decapsulate, or decapsulates IPv6 too."""
        return not self.decapsulates or 6 in self.decapsulates

    def kernel_action(self, parameters: Parameters) -> KernelAction | None:
        """Return the kernel's action for a SID, or None if it has none until a controller installs one."""
        return None

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<{self.name}>"

    @classmethod
    def json_choices(cls) -> Mapping[str, Behaviour]:
        return BEHAVIOURS


BEHAVIOURS: dict[str, Behaviour] = {}
"""All behaviours by name."""


def register(cls: type[Behaviour]) -> type[Behaviour]:
    """Add a behaviour to the registry. Srv6Error if its name or one of its code points is taken."""
    for other in BEHAVIOURS.values():
        if other.name == cls.name or set(other.code_points) & set(cls.code_points):
            raise Srv6Error(f"behaviour {cls.name} with code points {cls.code_points} collides with {other.name}")
    BEHAVIOURS[cls.name] = cls()
    return cls


@register
class End(Behaviour):
    """Endpoint (RFC 8986, section 4.1)."""

    name, has_flavours = "End", True
    code_points = (1, 2, 3, 4)

    def kernel_action(self, parameters: Parameters) -> KernelAction:
        return KernelAction("End")


@register
class EndX(Behaviour):
    """Layer-3 cross-connect to an adjacency (RFC 8986, section 4.2)."""

    name, has_flavours, has_adjacencies = "End.X", True, True
    code_points: ClassVar[tuple[int, ...]] = (5, 6, 7, 8)

    def kernel_action(self, parameters: Parameters) -> KernelAction:
        return KernelAction("End.X", next_hop=parameters.next_hop, interface=parameters.interface)


@register
class EndXPfc(EndX):
    """End.X that applies the PFC frames in packets which end here (the draft, section 2).

    Transit is the kernel's End.X. It drops the packets that end here, which the router's WAN agent reads beside it.
    """

    name = "End.X.PFC"
    code_points: ClassVar[tuple[int, ...]] = ()  # not assigned yet; `sid.CodePoints` has private ones


class _EndDt(Behaviour):
    """Decapsulation and lookup in the table of a VRF."""

    def kernel_action(self, parameters: Parameters) -> KernelAction | None:
        return None if parameters.table is None else KernelAction(self.name, table=parameters.table)


@register
class EndDt4(_EndDt):
    """Decapsulation and lookup in an IPv4 table (RFC 8986, section 4.7)."""

    name, code_points, decapsulates = "End.DT4", (19,), frozenset({4})


@register
class EndDt6(_EndDt):
    """Decapsulation and lookup in an IPv6 table (RFC 8986, section 4.6)."""

    name, code_points, decapsulates = "End.DT6", (18,), frozenset({6})


@register
class EndDt46(_EndDt):
    """Decapsulation and lookup in a table of either version (RFC 8986, section 4.8)."""

    name, code_points, decapsulates = "End.DT46", (20,), frozenset({4, 6})


@register
class EndB6Encaps(Behaviour):
    """A policy's binding SID (RFC 8986, section 4.13)."""

    name, code_points = "End.B6.Encaps", (14,)

    def kernel_action(self, parameters: Parameters) -> KernelAction | None:
        return KernelAction("End.B6.Encaps", segments=parameters.segments) if parameters.segments else None


END, END_X, END_X_PFC = BEHAVIOURS["End"], BEHAVIOURS["End.X"], BEHAVIOURS["End.X.PFC"]
END_DT4, END_DT6, END_DT46 = BEHAVIOURS["End.DT4"], BEHAVIOURS["End.DT6"], BEHAVIOURS["End.DT46"]
END_B6_ENCAPS = BEHAVIOURS["End.B6.Encaps"]
