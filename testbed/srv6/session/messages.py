"""What a router's agent and the controller say to each other in a session.

    agent        report     all that it knows of its router, and all that is installed; first of all, and after a change
                 counters   how often what happened
                 pause      a queue behind an End.X.PFC SID was stopped, or goes on
                 tunnel     a reverse tunnel that the router made, or forgot, by itself (scenario 2)
                 ack, nack  what became of a transaction
    controller   install    an item, in place of the one with the same key; with a transaction's number
                 remove     an item
                 directory  SIDs that routers advertise, to those that learn from them (decision 0145)

Items are in `items`, SIDs in the form of `advertisement`. A report that cannot be is refused as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Any

from testbed.srv6.protocol import advertisement
from testbed.srv6.protocol.domain import Srv6Error
from testbed.srv6.protocol.reverse_tunnel import ReverseTunnel
from testbed.srv6.protocol.sid import LARGEST_SLICE, CodePoints, Sid
from testbed.srv6.session import intents, items
from testbed.srv6.session.intents import ADDRESS, INTERFACE, LABEL, LONGEST_DELAY_NS, SLICE
from testbed.srv6.session.items import (
    ITEM,
    TUNNEL,
    Item,
    closed,
    item_as_json,
    item_from_json,
    ref,
    tunnel_as_json,
    tunnel_from_json,
)
from testbed.srv6.session.session import NAME
from testbed.typed_json.validation import InvalidError, Schema, check

_COUNT: Schema = {"type": "integer", "minimum": 0, "maximum": (1 << 64) - 1}
_FLAG: Schema = {"type": "boolean"}
# It ends up in terminals.
_WHY: Schema = {
    "type": "string",
    "maxLength": 300,
    "pattern": "^[^\\x00-\\x1f\\x7f-\\x9f]*$",
}
_PRIORITY: Schema = {"type": "integer", "minimum": 0, "maximum": 7}
_SLICES: Schema = {
    "type": "array", "items": {"type": "integer", "minimum": 0, "maximum": LARGEST_SLICE}, "maxItems": 1024
}  # fmt: skip


# What is said


@dataclass(frozen=True, order=True)
class RouterPort:
    """An interface of a router: one end of a link."""

    router: str
    interface: str

    def __str__(self) -> str:
        return f"{self.router}:{self.interface}"


@dataclass(frozen=True)
class LinkEnd:
    """A link, as one of its routers sees it."""

    interface: str
    neighbour: RouterPort
    delay_ns: int  # measured, from here to there
    up: bool = True
    pfc: bool = False  # this router can pause what it sends here
    slices: frozenset[int] = frozenset()
    affinity: frozenset[str] = frozenset()


@dataclass(frozen=True)
class SliceInfo:
    """A slice as it is set up on a router."""

    id: int
    name: str
    priorities: frozenset[int] = frozenset()  # with queues of their own
    rate_bps: int = 0  # what it has of a link; 0: not said


@dataclass(frozen=True)
class Report:
    """All that an agent knows of its router."""

    node: str
    sids: tuple[Sid, ...] = ()
    links: tuple[LinkEnd, ...] = ()
    slices: tuple[SliceInfo, ...] = ()
    installed: tuple[Item, ...] = ()
    counters: tuple[tuple[str, int], ...] = ()
    router_id: IPv4Address | None = None  # by which BGP-LS would know it


@dataclass(frozen=True)
class Counters:
    counters: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Pause:
    """A queue at an interface of J."""

    sid: IPv6Address
    interface: str
    priority: int
    slice_id: int | None
    stopped: bool


@dataclass(frozen=True)
class OwnTunnel:
    """A reverse tunnel that a router made or forgot by itself."""

    tunnel: ReverseTunnel
    there: bool
    why: str


@dataclass(frozen=True)
class Ack:
    transaction: int


@dataclass(frozen=True)
class Nack:
    transaction: int
    why: str


@dataclass(frozen=True)
class Install:
    transaction: int
    item: Item


@dataclass(frozen=True)
class Remove:
    transaction: int
    item: Item


FromAgent = Report | Counters | Pause | OwnTunnel | Ack | Nack


@dataclass(frozen=True)
class Directory:
    """What is new of the SIDs of all routers, since the last one in this session."""

    sids: tuple[Sid, ...]
    gone: tuple[IPv6Address, ...] = ()
    is_whole: bool = False  # there are these and no others


Command = Install | Remove
FromController = Command | Directory
Message = FromAgent | FromController


# Schemas


def _message(kind: str, **properties: Any) -> Schema:
    return closed({"type": {"type": "string", "const": kind}, **properties})


_COUNTERS: Schema = {
    "type": "object", "propertyNames": {"type": "string", "pattern": "^[A-Za-z0-9_.:/ -]{1,80}$"},
    "additionalProperties": _COUNT,
}  # fmt: skip
_DEFINITIONS: dict[str, Schema] = items.SCHEMAS | {
    "Link": closed(
        {
            "interface": INTERFACE,
            "neighbour": closed({"router": NAME, "interface": INTERFACE}),
            "delay_ns": {"type": "integer", "minimum": 0, "maximum": LONGEST_DELAY_NS},
            "up": _FLAG,
            "pfc": _FLAG,
            "slices": _SLICES,
            "affinity": {"type": "array", "items": LABEL, "maxItems": 32},
        }
    ),
    "Slice": closed(
        {
            "id": {"type": "integer", "minimum": 0, "maximum": LARGEST_SLICE},
            "name": LABEL,
            "priorities": {"type": "array", "items": _PRIORITY, "maxItems": 8},
            "rate_bps": _COUNT,
        }
    ),
}

_TRANSACTION: Schema = {"type": "integer", "minimum": 1, "maximum": (1 << 53) - 1}
_FROM_AGENT: Schema = {
    "discriminator": {"propertyName": "type"},
    "oneOf": [
        _message(
            "report",
            node=NAME,
            sids={"type": "array", "items": {"type": "object"}, "maxItems": 4096},
            links={"type": "array", "items": ref("Link"), "maxItems": 1024},
            slices={"type": "array", "items": ref("Slice"), "maxItems": 1024},
            installed={"type": "array", "items": ITEM, "maxItems": 16384},
            counters=_COUNTERS,
            router_id={"type": ["string", "null"], "format": "ipv4", "examples": ["10.0.0.1"]},
        ),
        _message("counters", counters=_COUNTERS),
        _message("pause", sid=ADDRESS, interface=INTERFACE, priority=_PRIORITY, slice=SLICE, stopped=_FLAG),
        _message("tunnel", tunnel=closed(TUNNEL), there=_FLAG, why=_WHY),
        _message("ack", transaction=_TRANSACTION),
        _message("nack", transaction=_TRANSACTION, why=_WHY),
    ],
}
_FROM_CONTROLLER: Schema = {
    "discriminator": {"propertyName": "type"},
    "oneOf": [
        _message("install", transaction=_TRANSACTION, item=ITEM),
        _message("remove", transaction=_TRANSACTION, item=ITEM),
        _message(
            "directory",
            sids={"type": "array", "items": {"type": "object"}, "maxItems": 1 << 16},
            gone={"type": "array", "items": ADDRESS, "maxItems": 1 << 16},
            is_whole=_FLAG,
        ),
    ],
}


# Reading


def from_agent(data: object, code_points: CodePoints = CodePoints()) -> FromAgent:
    """InvalidError if it is no message of an agent."""
    check(data, _FROM_AGENT, _DEFINITIONS)
    assert isinstance(data, dict)
    try:
        match data["type"]:
            case "report":
                return _report(data, code_points)
            case "counters":
                return Counters(tuple(sorted(data["counters"].items())))
            case "pause":
                sid = IPv6Address(data["sid"])
                return Pause(sid, data["interface"], data["priority"], data["slice"], data["stopped"])
            case "tunnel":
                return OwnTunnel(tunnel_from_json(data["tunnel"]), data["there"], data["why"])
            case "ack":
                return Ack(data["transaction"])
            case _:
                return Nack(data["transaction"], data["why"])
    except Srv6Error as error:
        raise InvalidError(data["type"], "what cannot be", str(error)) from None


def from_controller(data: object, code_points: CodePoints = CodePoints()) -> FromController:
    """InvalidError if it is no message of a controller."""
    check(data, _FROM_CONTROLLER, _DEFINITIONS)
    assert isinstance(data, dict)
    if data["type"] == "directory":
        return Directory(_sids(data["sids"], code_points), intents.addresses(data["gone"]), data["is_whole"])
    try:
        item = item_from_json(data["item"])
    except Srv6Error as error:
        raise InvalidError("item", data["item"], str(error)) from None
    return (Install if data["type"] == "install" else Remove)(data["transaction"], item)


def _report(data: Mapping[str, Any], code_points: CodePoints) -> Report:
    node = data["node"]
    sids = _sids(data["sids"], code_points)
    for index, sid in enumerate(sids):
        if sid.node != node:
            raise InvalidError(f"sids[{index}]", sid.node, f"{node} can report its own SIDs only")
    links = tuple(_link(entry) for entry in data["links"])
    installed = tuple(map(item_from_json, data["installed"]))
    for index, item in enumerate(installed):
        if item.node != node:
            raise InvalidError(f"installed[{index}]", str(item), f"{node} can report what is on itself only")
    slices = tuple(
        SliceInfo(entry["id"], entry["name"], frozenset(entry["priorities"]), entry["rate_bps"])
        for entry in data["slices"]
    )
    for what, keys in (
        ("sids", [str(sid.address) for sid in sids]),
        ("links", [link.interface for link in links]),
        ("slices", [str(info.id) for info in slices]),
        ("installed", [item.identity for item in installed]),
    ):
        seen = set[object]()
        for index, key in enumerate(keys):
            if key in seen:
                raise InvalidError(f"{what}[{index}]", data[what][index], "it is there already; report it once")
            seen.add(key)
    counters, router_id = tuple(sorted(data["counters"].items())), data["router_id"]
    return Report(node, sids, links, slices, installed, counters, None if router_id is None else IPv4Address(router_id))


def _sids(data: list[Any], code_points: CodePoints) -> tuple[Sid, ...]:
    sids = []
    for index, entry in enumerate(data):
        try:
            sids.append(advertisement.from_json(entry, code_points))
        except advertisement.JsonError as error:
            raise InvalidError(f"sids[{index}]", entry, str(error)) from None
        check(sids[-1].node, NAME, field=f"sids[{index}].nlri.local_node.name")
    return tuple(sids)


def _link(data: Mapping[str, Any]) -> LinkEnd:
    neighbour = RouterPort(data["neighbour"]["router"], data["neighbour"]["interface"])
    slices, affinity = frozenset(data["slices"]), frozenset(data["affinity"])
    return LinkEnd(data["interface"], neighbour, data["delay_ns"], data["up"], data["pfc"], slices, affinity)


# Writing


def as_json(message: Message, code_points: CodePoints = CodePoints()) -> dict[str, Any]:
    match message:
        case Report():
            return {
                "type": "report",
                "node": message.node,
                "sids": [advertisement.to_json(sid, code_points) for sid in message.sids],
                "links": [_link_as_json(link) for link in message.links],
                "slices": [slice_as_json(info) for info in message.slices],
                "installed": [item_as_json(item) for item in message.installed],
                "counters": dict(message.counters),
                "router_id": None if message.router_id is None else str(message.router_id),
            }
        case Counters():
            return {"type": "counters", "counters": dict(message.counters)}
        case Pause():
            return {"type": "pause", **pause_as_json(message)}
        case OwnTunnel():
            tunnel = tunnel_as_json(message.tunnel)
            return {"type": "tunnel", "tunnel": tunnel, "there": message.there, "why": message.why}
        case Ack():
            return {"type": "ack", "transaction": message.transaction}
        case Nack():
            return {"type": "nack", "transaction": message.transaction, "why": message.why}
        case Directory():
            sids = [advertisement.to_json(sid, code_points) for sid in message.sids]
            gone = list(map(str, message.gone))
            return {"type": "directory", "sids": sids, "gone": gone, "is_whole": message.is_whole}
        case Install() | Remove():
            kind = "install" if isinstance(message, Install) else "remove"
            return {"type": kind, "transaction": message.transaction, "item": item_as_json(message.item)}


def pause_as_json(pause: Pause) -> dict[str, Any]:
    return {
        "sid": str(pause.sid),
        "interface": pause.interface,
        "priority": pause.priority,
        "slice": pause.slice_id,
        "stopped": pause.stopped,
    }


def slice_as_json(info: SliceInfo) -> dict[str, Any]:
    priorities = sorted(info.priorities)
    return {"id": info.id, "name": info.name, "priorities": priorities, "rate_bps": info.rate_bps}


def _link_as_json(link: LinkEnd) -> dict[str, Any]:
    return {
        "interface": link.interface,
        "neighbour": {"router": link.neighbour.router, "interface": link.neighbour.interface},
        "delay_ns": link.delay_ns,
        "up": link.up,
        "pfc": link.pfc,
        "slices": sorted(link.slices),
        "affinity": sorted(link.affinity),
    }
