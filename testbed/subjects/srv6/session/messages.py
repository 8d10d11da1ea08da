"""The messages of a session between a router's agent and the controller.

    agent        report     all about its router, and all that is installed; sent first, and after a change
                 counters   values of counters
                 pause      a queue behind an End.X.PFC SID was stopped, or resumed
                 tunnel     a reverse tunnel that the router learned or removed by itself (scenario 2)
                 ack, nack  the result of a transaction
    controller   install    an item, in place of the one with the same key; with a transaction's number
                 remove     an item
                 directory  SIDs that routers advertise, for routers that learn tunnels (decision 0145)

Each is a dataclass, from which its JSON follows (`testbed.typed_json`); every member has to be there. Items are in
`items`, SIDs in the form of `advertisement`. A report with one invalid member is refused as a whole.

The items that can be installed on a router: a policy with its present segments, a reverse tunnel, a part of a VPN.

Commands of the controller and reports of routers have items in the same form, so installed items can be compared with
the desired ones. Policies and VPNs carry their intent (`intents`, decision 0151). A policy without
segments has no path now: its router keeps the intent, and drops the packets rather than let them go without
back-pressure (0153).

The hello of a control session, and the keys that follow from both hellos.

Each router shares a key of its own with the controller. Each direction of a session has a key: HMAC-SHA-256, with the
shared key, over the direction's name and both hellos, the agent's first. So a frame of another session or direction
does not authenticate, and neither does a frame after a hello that was changed on the way.
"""

from __future__ import annotations

import enum
import hashlib
import hmac
import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Annotated, Any, Literal

from testbed.subjects.srv6.protocol.advertisement import codec
from testbed.subjects.srv6.protocol.domain import (
    Affinities,
    Count,
    DelayNs,
    InterfaceName,
    Label,
    Priority,
    Reason,
    RouterName,
    Segments,
    SidAddress,
    SliceId,
    SliceOrNone,
    Srv6Error,
)
from testbed.subjects.srv6.protocol.reverse_tunnel import ReverseTunnel
from testbed.subjects.srv6.protocol.sid import CodePoints, Sid
from testbed.subjects.srv6.session.intents import Key, PolicyIntent, VpnIntent
from testbed.typed_json.codec import CODEC
from testbed.typed_json.meta import Meta, message
from testbed.typed_json.text import InvalidError

PROTOCOL: Literal["xoff-srv6"] = "xoff-srv6"
VERSIONS = (2,)
"""The versions of the protocol, newest first. Version 1 had another name for intents."""
NONCE_OCTETS = 32
SHORTEST_KEY = 16
LENGTH = struct.Struct("!I")
HASH = hashlib.sha256().name


class Role(enum.StrEnum):
    AGENT = "agent"
    CONTROLLER = "controller"

    @property
    def peer(self) -> Role:
        return Role.CONTROLLER if self is Role.AGENT else Role.AGENT


@message(open=True)  # a later version may have more members
@dataclass(frozen=True)
class Hello:
    """The first frame of each side, in the clear."""

    protocol: Literal["xoff-srv6"]
    versions: Annotated[tuple[Annotated[int, Meta(ge=1, le=255)], ...], Meta(min_length=1, max_length=16)]
    role: Role
    name: RouterName
    nonce: Annotated[str, Meta(pattern=f"^[0-9a-f]{{{2 * NONCE_OCTETS}}}$")]

    def encode(self) -> bytes:
        return json.dumps(CODEC.encode(self)).encode()


def router_key(key: bytes, router: str, issue: int = 1) -> bytes:
    """Return a router's own key, made of the controller's. Each issue is another key; it is text, for a key file."""
    return hmac.digest(key, f"xoff-srv6 router {issue} {router}".encode(), HASH).hex().encode()


def direction_keys(key: bytes, hellos: Mapping[Role, bytes]) -> dict[Role, bytes]:
    """Return the key for the frames of each sender."""
    transcript = b"".join(LENGTH.pack(len(hellos[role])) + hellos[role] for role in Role)
    return {role: hmac.digest(key, f"{role}:".encode() + transcript, HASH) for role in Role}


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


Transaction = Annotated[int, Meta(ge=1, le=(1 << 53) - 1)]
CounterName = Annotated[str, Meta(pattern="^[A-Za-z0-9_.:/ -]{1,80}$")]
CounterValues = Annotated[tuple[tuple[CounterName, Count], ...], Meta(pairs=True)]


@dataclass(frozen=True, order=True)
class RouterPort:
    """An interface of a router: one end of a link."""

    router: RouterName
    interface: InterfaceName

    def __str__(self) -> str:
        return f"{self.router}:{self.interface}"


@message(complete=True)
@dataclass(frozen=True)
class LinkEnd:
    """A link, as one of its routers sees it."""

    interface: InterfaceName
    neighbour: RouterPort
    delay_ns: DelayNs  # measured, from here to there
    up: bool = True
    pfc: bool = False  # this router can pause what it sends here
    slices: Annotated[frozenset[SliceId], Meta(max_length=1024)] = frozenset()
    affinity: Affinities = frozenset()


@message(complete=True)
@dataclass(frozen=True)
class SliceInfo:
    """A slice as it is set up on a router."""

    id: SliceId
    name: Label
    priorities: Annotated[frozenset[Priority], Meta(max_length=8)] = frozenset()  # with queues of their own
    rate_bps: Count = 0  # its share of a link; 0: not stated


@message(tag="report", complete=True)
@dataclass(frozen=True)
class Report:
    """The report of an agent on its router."""

    node: RouterName
    sids: Annotated[tuple[Sid, ...], Meta(max_length=4096)] = ()
    links: Annotated[tuple[LinkEnd, ...], Meta(max_length=1024)] = ()
    slices: Annotated[tuple[SliceInfo, ...], Meta(max_length=1024)] = ()
    installed: Annotated[tuple[Item, ...], Meta(max_length=16384)] = ()
    counters: CounterValues = ()
    router_id: Annotated[IPv4Address | None, Meta(examples=("10.0.0.1",))] = None  # by which BGP-LS would know it


@message(tag="counters", complete=True)
@dataclass(frozen=True)
class Counters:
    """The counters of a router."""

    counters: CounterValues


@message(tag="pause", complete=True)
@dataclass(frozen=True)
class Pause:
    """A queue at an interface of J."""

    sid: SidAddress
    interface: InterfaceName
    priority: Priority
    slice_id: SliceOrNone
    stopped: bool


@message(tag="tunnel", complete=True)
@dataclass(frozen=True)
class OwnTunnel:
    """A reverse tunnel that a router made or forgot by itself."""

    tunnel: ReverseTunnel
    there: bool
    why: Reason


@message(tag="ack", complete=True)
@dataclass(frozen=True)
class Ack:
    transaction: Transaction


@message(tag="nack", complete=True)
@dataclass(frozen=True)
class Nack:
    transaction: Transaction
    why: Reason


@message(tag="install", complete=True)
@dataclass(frozen=True)
class Install:
    transaction: Transaction
    item: Item


@message(tag="remove", complete=True)
@dataclass(frozen=True)
class Remove:
    transaction: Transaction
    item: Item


FromAgent = Report | Counters | Pause | OwnTunnel | Ack | Nack


@message(tag="directory", complete=True)
@dataclass(frozen=True)
class Directory:
    """The changes of the SIDs of all routers since the last directory in this session."""

    sids: Annotated[tuple[Sid, ...], Meta(max_length=1 << 16)]
    gone: Annotated[tuple[SidAddress, ...], Meta(max_length=1 << 16)] = ()
    is_whole: bool = False  # there are these and no others


Command = Install | Remove
FromController = Command | Directory
Message = FromAgent | FromController


def from_agent(data: object, code_points: CodePoints = CodePoints()) -> FromAgent:
    """Return a message of an agent; InvalidError if it is none."""
    message: FromAgent = _decode(FromAgent, data, code_points)
    if isinstance(message, Report):
        _check_report(message)
    return message


def from_controller(data: object, code_points: CodePoints = CodePoints()) -> FromController:
    """Return a message of a controller; InvalidError if it is none."""
    message: FromController = _decode(FromController, data, code_points)
    if isinstance(message, Install) and isinstance(data, Mapping):
        keep_json(message.item, data["item"])
    return message


def as_json(message: Message, code_points: CodePoints = CodePoints()) -> dict[str, Any]:
    encoded: dict[str, Any] = codec(code_points).encode(message)
    return encoded


def _decode(hint: Any, data: object, code_points: CodePoints) -> Any:
    try:
        return codec(code_points).decode(hint, data)
    except Srv6Error as error:
        raise InvalidError("", "contradictory", str(error)) from None


def _check_report(report: Report) -> None:
    """Raise an InvalidError if a router reports about another one, or reports a thing twice."""
    for index, sid in enumerate(report.sids):
        if sid.node != report.node:
            raise InvalidError(f"sids[{index}]", sid.node, f"{report.node} can report its own SIDs only")
    for index, item in enumerate(report.installed):
        if item.node != report.node:
            raise InvalidError(f"installed[{index}]", str(item), f"{report.node} can report its own items only")
    keys: dict[str, Sequence[object]] = {
        "sids": [sid.address for sid in report.sids],
        "links": [link.interface for link in report.links],
        "slices": [info.id for info in report.slices],
        "installed": [item.identity for item in report.installed],
    }
    for what, those in keys.items():
        seen = set[object]()
        for index, key in enumerate(those):
            if key in seen:
                raise InvalidError(f"{what}[{index}]", str(key), "repeated; report it once")
            seen.add(key)
