"""The items that can be installed on a router: a policy with its present segments, a reverse tunnel, a part of a VPN.

Commands of the controller and reports of routers have items in the same form, so installed items can be compared with
the desired ones. Policies and VPNs carry their intent (`intents`, decision 0151). A policy without
segments has no path now: its router keeps the intent, and drops the packets rather than let them go without
back-pressure (0153).
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import Annotated, Any

from testbed.subjects.srv6.protocol.domain import RouterName, Segments, SliceOrNone, Srv6Error
from testbed.subjects.srv6.protocol.reverse_tunnel import ReverseTunnel
from testbed.subjects.srv6.session.intents import Key, PolicyIntent, VpnIntent
from testbed.typed_json.codec import CODEC
from testbed.typed_json.meta import Meta, message

_JSON = "_json"


@message(tag="policy", tag_field="kind", complete=True)
@dataclass(frozen=True)
class PolicyItem:
    """A policy at its headend."""

    intent: PolicyIntent
    segments: Segments  # empty: no path now
    slice_id: SliceOrNone = None  # its own or its VPN's

    @property
    def node(self) -> str:
        return self.intent.key.headend

    @property
    def identity(self) -> ItemKey:
        return ("policy", self.intent.key)

    def __str__(self) -> str:
        return f"policy {self.intent.id}"


@message(tag="tunnel", tag_field="kind", complete=True)
@dataclass(frozen=True)
class TunnelItem:
    """A reverse tunnel at the router that sends PFC frames into it."""

    tunnel: Annotated[ReverseTunnel, Meta(flatten=True)]

    @property
    def node(self) -> str:
        return self.tunnel.router

    @property
    def identity(self) -> ItemKey:
        return ("tunnel", self.tunnel.identity)

    def __str__(self) -> str:
        way = ", ".join(map(str, self.tunnel.segments))
        inside = f" in slice {self.tunnel.slice_id}" if self.tunnel.slice_id is not None else ""
        return f"tunnel {self.tunnel.router} to {self.tunnel.pauses}{inside} ({way})"


@message(tag="vpn", tag_field="kind", complete=True)
@dataclass(frozen=True)
class VpnItem:
    """A VPN at one of its routers: the VRF `intent.name`, its SID, `intent.routes(router)`."""

    intent: VpnIntent
    router: RouterName

    def __post_init__(self) -> None:
        if self.intent.site(self.router) is None:
            raise Srv6Error(f"VPN {self.intent.name} has no site at {self.router}")

    @property
    def node(self) -> str:
        return self.router

    @property
    def identity(self) -> ItemKey:
        return ("vpn", self.intent.name)

    def __str__(self) -> str:
        return f"VPN {self.intent.name} at {self.router}"


Item = PolicyItem | TunnelItem | VpnItem
ItemKey = tuple[str, Key | str | tuple[str, tuple[IPv6Address, ...], int | None]]
"""The key of an item. It replaces an item with the same key on the same router."""


def item_from_json(data: object) -> Item:
    """Decode an item, which keeps its JSON for `item_as_json`. InvalidError if it is none."""
    item: Item = CODEC.decode(Item, data)
    keep_json(item, data)
    return item


def keep_json(item: Item, data: object) -> None:
    """Keep the JSON that an item was decoded from, so that a router makes no JSON of it anew, for notes and reports."""
    object.__setattr__(item, _JSON, data)


def item_as_json(item: Item) -> dict[str, Any]:
    """Return the JSON that the item was decoded from, or else encode it."""
    found: dict[str, Any] = item.__dict__.get(_JSON) or CODEC.encode(item)
    return found
