"""Types of fields that several messages have: each with its limits, its documentation and an example."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Address, IPv6Network
from typing import Annotated

from testbed.typed_json.meta import Meta

LARGEST_SLICE = (1 << 32) - 1
LONGEST_DELAY_NS = 10**12

RouterName = Annotated[str, Meta(pattern="^[A-Za-z][A-Za-z0-9_.-]{0,62}$", examples=("R1",))]
InterfaceName = Annotated[str, Meta(pattern="^[A-Za-z0-9_.@-]{1,15}$", examples=("r1-eth1",))]
SidAddress = Annotated[IPv6Address, Meta(examples=("fd00:a:1:f::",))]
Segments = Annotated[tuple[SidAddress, ...], Meta(max_length=127, description="In order of travel")]
SliceId = Annotated[int, Meta(ge=0, le=LARGEST_SLICE)]
SliceOrNone = Annotated[SliceId | None, Meta(name="slice", description="The slice's id; null: none")]
DelayNs = Annotated[int, Meta(ge=0, le=LONGEST_DELAY_NS)]
Colour = Annotated[int, Meta(ge=1, le=(1 << 32) - 1, examples=(100,))]
Priority = Annotated[int, Meta(ge=0, le=7)]
Count = Annotated[int, Meta(ge=0, le=(1 << 64) - 1)]
Label = Annotated[str, Meta(min_length=1, max_length=63, pattern=r"^[^\x00-\x1f\x7f-\x9f]*$", examples=("via R3",))]
"""A name, without control characters since terminals show it."""
Reason = Annotated[str, Meta(max_length=300, pattern=r"^[^\x00-\x1f\x7f-\x9f]*$")]
"""A sentence for people, without control characters."""
Affinities = Annotated[frozenset[Label], Meta(max_length=32)]
Prefix = IPv4Network | IPv6Network
PrefixField = Annotated[Prefix, Meta(examples=("10.1.0.0/16",))]
