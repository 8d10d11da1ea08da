"""What can be installed on a router: a policy with the segments that it has now, a reverse tunnel, its part of a VPN.

Commands of the controller and reports of routers have items in the same form, so what was installed can be compared
with what should be. Policies and VPNs carry the intent that they came of (`intents`, decision 0151). A policy without
segments has no path now: its router keeps the intent, and drops the packets rather than let them go without
back-pressure (0153).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import Any

from testbed.srv6.protocol.domain import Srv6Error
from testbed.srv6.protocol.reverse_tunnel import ReverseTunnel
from testbed.srv6.session import intents
from testbed.srv6.session.intents import ADDRESS, INTERFACE, LONGEST_DELAY_NS, SLICE, PolicyIntent, VpnIntent
from testbed.srv6.session.policy import Key
from testbed.srv6.session.session import NAME
from testbed.typed_json.validation import Schema


@dataclass(frozen=True)
class PolicyItem:
    """A policy at its headend."""

    intent: PolicyIntent
    segments: tuple[IPv6Address, ...]  # in order of travel; empty: no path now
    slice_id: int | None = None  # its own or its VPN's

    @property
    def node(self) -> str:
        return self.intent.key.headend

    @property
    def identity(self) -> ItemKey:
        return ("policy", self.intent.key)

    def __str__(self) -> str:
        return f"policy {self.intent.id}"


@dataclass(frozen=True)
class TunnelItem:
    """A reverse tunnel at the router that sends PFC frames into it."""

    tunnel: ReverseTunnel

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


@dataclass(frozen=True)
class VpnItem:
    """A VPN at one of its routers: the VRF `intent.name`, its SID, `intent.routes(router)`."""

    intent: VpnIntent
    router: str

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
"""What an item replaces: the item with the same key on the same router."""


# Schemas


def closed(properties: Mapping[str, Any], *optional: str) -> Schema:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": dict(properties), "required": required, "additionalProperties": False}


def _kind(kind: str, **properties: Any) -> Schema:
    return closed({"kind": {"type": "string", "const": kind}, **properties})


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


_SEGMENTS: Schema = {"type": "array", "items": ADDRESS, "maxItems": 127}
ITEM: Schema = {
    "oneOf": [ref("PolicyItem"), ref("TunnelItem"), ref("VpnItem")], "discriminator": {"propertyName": "kind"}
}  # fmt: skip
TUNNEL = {
    "router": NAME, "pauses": NAME, "segments": {**_SEGMENTS, "minItems": 2}, "slice": SLICE,
    "interface": {**INTERFACE, "type": ["string", "null"]},
    "delay_ns": {"type": ["integer", "null"], "minimum": 0, "maximum": LONGEST_DELAY_NS},
}  # fmt: skip


SCHEMAS: dict[str, Schema] = intents.SCHEMAS | {
    "PolicyItem": _kind("policy", intent=ref("PolicyIntent"), segments=_SEGMENTS, slice=SLICE),
    "TunnelItem": _kind("tunnel", **TUNNEL),
    "VpnItem": _kind("vpn", intent=ref("VpnIntent"), router=NAME),
}


def item_from_json(data: Mapping[str, Any]) -> Item:
    match data["kind"]:
        case "policy":
            intent = PolicyIntent.from_json(data["intent"])
            return PolicyItem(intent, intents.addresses(data["segments"]), data["slice"])
        case "tunnel":
            return TunnelItem(tunnel_from_json(data))
        case _:
            return VpnItem(VpnIntent.from_json(data["intent"]), data["router"])


def tunnel_from_json(data: Mapping[str, Any]) -> ReverseTunnel:
    return ReverseTunnel(
        data["router"], data["pauses"], intents.addresses(data["segments"]), data["slice"], data["interface"],
        data["delay_ns"],
    )  # fmt: skip


def item_as_json(item: Item) -> dict[str, Any]:
    match item:
        case PolicyItem():
            segments = list(map(str, item.segments))
            return {"kind": "policy", "intent": item.intent.as_json(), "segments": segments, "slice": item.slice_id}
        case TunnelItem():
            return {"kind": "tunnel", **tunnel_as_json(item.tunnel)}
        case VpnItem():
            return {"kind": "vpn", "intent": item.intent.as_json(), "router": item.router}


def tunnel_as_json(tunnel: ReverseTunnel) -> dict[str, Any]:
    return {
        "router": tunnel.router,
        "pauses": tunnel.pauses,
        "segments": list(map(str, tunnel.segments)),
        "slice": tunnel.slice_id,
        "interface": tunnel.interface,
        "delay_ns": tunnel.delay_ns,
    }
