"""Segment identifiers (SIDs), as a router has instantiated and advertises them.

A SID is an IPv6 address made of locator (block and node), function and argument, with a behaviour behind it. The
behaviours here are those that the End.X.PFC draft's networks use; each has a code point per combination of flavours
(RFC 8986, section 10.2). End.X.PFC has none assigned yet: its four come from the private range and are a setting
(decision 0142). An End.X or End.X.PFC SID has a set J of adjacencies (decision 0141). It may belong to a slice (0146).

SIDs on the wire and in JSON are in `advertisement`, the treatment of a packet by End.X.PFC in `endx_pfc`.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from ipaddress import IPv6Address, IPv6Network
from typing import Annotated

from testbed.subjects.srv6.protocol.behaviours import BEHAVIOURS, END_X_PFC, Behaviour, Parameters
from testbed.subjects.srv6.protocol.domain import LARGEST_SLICE, InterfaceName, SidAddress, Srv6Error
from testbed.typed_json.meta import Meta, message

PRIVATE_CODE_POINTS = range(32768, 34816)
"""The code points for private use (RFC 8986, section 10.2)."""

SID_BITS = 128


class Flavours(enum.Flag):
    """The flavours of RFC 8986, section 4.16. USD is left out: the draft asks for no code point with it."""

    NONE = 0
    PSP = enum.auto()  # the last but one takes the segment routing header off
    USP = enum.auto()  # the last one takes it off

    def __str__(self) -> str:
        return " & ".join(flavour.name or "" for flavour in Flavours if flavour and flavour in self) or "none"


FLAVOURS = (Flavours.NONE, Flavours.PSP, Flavours.USP, Flavours.PSP | Flavours.USP)
"""All combinations of flavours, in the order of their code points."""


@dataclass(frozen=True)
class CodePoints:
    """The numbers of behaviours. Those of End.X.PFC can be set: plain, PSP, USP, both."""

    end_x_pfc: tuple[int, int, int, int] = (0x8000, 0x8001, 0x8002, 0x8003)

    def __post_init__(self) -> None:
        if len(self.end_x_pfc) != len(FLAVOURS) or len(set(self.end_x_pfc)) != len(FLAVOURS):
            raise Srv6Error(f"code points of End.X.PFC are {self.end_x_pfc!r}; give four different numbers")
        taken = {number for behaviour in BEHAVIOURS.values() for number in behaviour.code_points}
        for number in self.end_x_pfc:
            if type(number) is not int or not 1 <= number < 65535 or number in taken:
                raise Srv6Error(
                    f"code point {number!r} cannot be End.X.PFC's: it is taken, or not a number from 1 to 65534; "
                    f"the private range is {PRIVATE_CODE_POINTS[0]} to {PRIVATE_CODE_POINTS[-1]}"
                )

    def number(self, behaviour: Behaviour, flavours: Flavours = Flavours.NONE) -> int:
        numbers = self._of(behaviour)
        index = FLAVOURS.index(flavours)
        if index >= len(numbers):
            raise Srv6Error(f"{behaviour} with {flavours} has no code point; it comes without flavours")
        return numbers[index]

    def meaning(self, number: int) -> tuple[Behaviour, Flavours] | None:
        """Return the behaviour of a code point, or None if it is not registered."""
        for behaviour in BEHAVIOURS.values():
            numbers = self._of(behaviour)
            if number in numbers:
                return behaviour, FLAVOURS[numbers.index(number)]
        return None

    def _of(self, behaviour: Behaviour) -> tuple[int, ...]:
        return self.end_x_pfc if behaviour is END_X_PFC else behaviour.code_points


@message(name="SidStructure", complete=True)
@dataclass(frozen=True)
class Structure:
    """The numbers of bits of a SID's parts, from the front. The remaining bits are zeros."""

    block: Annotated[int, Meta(name="block_bits")] = 32
    node: Annotated[int, Meta(name="node_bits")] = 16
    function: Annotated[int, Meta(name="function_bits")] = 16
    argument: Annotated[int, Meta(name="argument_bits")] = 0

    def __post_init__(self) -> None:
        parts = (self.block, self.node, self.function, self.argument)
        if any(type(bits) is not int or bits < 0 for bits in parts) or sum(parts) > SID_BITS:
            raise Srv6Error(f"a SID of {'+'.join(map(str, parts))} bits is too long; the parts have {SID_BITS} at most")

    @property
    def locator_bits(self) -> int:
        return self.block + self.node

    def locator(self, address: IPv6Address) -> IPv6Network:
        """Return the prefix by which other routers reach the SID."""
        return IPv6Network((address, self.locator_bits), strict=False)

    def function_of(self, address: IPv6Address) -> int:
        return self._part(address, self.locator_bits, self.function)

    def argument_of(self, address: IPv6Address) -> int:
        return self._part(address, self.locator_bits + self.function, self.argument)

    def rest_of(self, address: IPv6Address) -> int:
        """Return the bits behind the argument, which have no meaning and should be 0."""
        used = self.locator_bits + self.function + self.argument
        return self._part(address, used, SID_BITS - used)

    def sid(self, locator: IPv6Network, function: int, argument: int = 0) -> IPv6Address:
        """Return the address of a function in a locator."""
        if locator.prefixlen != self.locator_bits:
            raise Srv6Error(f"locator {locator} has {locator.prefixlen} bits; this structure has {self.locator_bits}")
        for name, value, bits in (("function", function, self.function), ("argument", argument, self.argument)):
            if type(value) is not int or not 0 <= value < 1 << bits:
                raise Srv6Error(f"{name} {value!r} does not fit into {bits} bits")
        low = (function << self.argument | argument) << (SID_BITS - self.locator_bits - self.function - self.argument)
        return IPv6Address(int(locator.network_address) | low)

    @staticmethod
    def _part(address: IPv6Address, start: int, bits: int) -> int:
        return int(address) >> (SID_BITS - start - bits) & ((1 << bits) - 1)


@dataclass(frozen=True)
class Adjacency:
    """One member of J: an interface, and the neighbour's address on the other side."""

    interface: InterfaceName
    next_hop: SidAddress

    def __post_init__(self) -> None:
        if self.next_hop.is_link_local or self.next_hop.is_multicast or self.next_hop.is_unspecified:
            raise Srv6Error(
                f"next hop {self.next_hop} by {self.interface} is not a global address, and the kernel's End.X loses "
                "what it sends to another; give the neighbour's global address"
            )


@dataclass(frozen=True)
class Sid:
    """A SID as its router advertises it."""

    node: str  # the router's name
    address: IPv6Address
    behaviour: Behaviour
    flavours: Flavours = Flavours.NONE
    adjacencies: tuple[Adjacency, ...] = ()  # J, in the order of the router's choice: the first one forwards
    slice_id: int | None = None
    structure: Structure = Structure()
    algorithm: int = 0
    weight: int = 0

    def __post_init__(self) -> None:
        if self.behaviour.has_adjacencies and not self.adjacencies:
            raise Srv6Error(f"{self.name} has no adjacency; give it at least one, with interface and next hop")
        if self.adjacencies and not self.behaviour.has_adjacencies:
            raise Srv6Error(f"{self.name} cannot have an adjacency; only End.X and End.X.PFC do")
        if self.weight and not self.behaviour.has_adjacencies:
            raise Srv6Error(f"{self.name} cannot have a weight; only End.X and End.X.PFC do")
        if len(set(self.interfaces)) != len(self.interfaces):
            raise Srv6Error(f"{self.name} names an interface twice; a PFC frame acts once on each")
        if self.flavours and not self.behaviour.has_flavours:
            raise Srv6Error(f"{self.name} cannot have {self.flavours}; {self.behaviour} comes without flavours")
        if self.structure.rest_of(self.address):
            raise Srv6Error(f"{self.name} has bits after its argument; they must be 0 in this structure")
        if self.slice_id is not None and not (type(self.slice_id) is int and 0 <= self.slice_id <= LARGEST_SLICE):
            raise Srv6Error(f"{self.name} has slice {self.slice_id!r}; an id is a number from 0 to {LARGEST_SLICE}")
        for what in ("algorithm", "weight"):
            value = getattr(self, what)
            if type(value) is not int or not 0 <= value <= 255:
                raise Srv6Error(f"{self.name} has {what} {value!r}; it is a number from 0 to 255")

    @property
    def name(self) -> str:
        """The name for people, as in "R1's End.X.PFC fd00:a:1:100::"."""
        return f"{self.node}'s {self.behaviour} {self.address}"

    @property
    def interfaces(self) -> tuple[str, ...]:
        """The interfaces of J."""
        return tuple(adjacency.interface for adjacency in self.adjacencies)

    @property
    def parameters(self) -> Parameters:
        """The parameters of the behaviour's action in the kernel, as far as the SID itself has them."""
        if not self.adjacencies:
            return Parameters()
        return Parameters(next_hop=self.adjacencies[0].next_hop, interface=self.adjacencies[0].interface)

    @property
    def locator(self) -> IPv6Network:
        return self.structure.locator(self.address)

    @property
    def function(self) -> int:
        return self.structure.function_of(self.address)
