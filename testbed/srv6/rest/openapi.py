"""The controller's REST as OpenAPI 3.1 says it: every operation, and the schema of all that goes in and comes out.

This is the one description: requests are checked against these schemas, `controllers/openapi.json` is `document()`
written down, and the tests hold every response against it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from testbed.srv6.session import intents
from testbed.srv6.session.intents import ADDRESS, INTERFACE, LONGEST_DELAY_NS, SLICE
from testbed.srv6.session.session import NAME
from testbed.typed_json.validation import Schema

VERSION = "1.0.0"

_TEXT: Schema = {"type": "string"}
_TEXT_OR_NOT: Schema = {"type": ["string", "null"]}
_FLAG: Schema = {"type": "boolean"}
_NUMBER: Schema = {"type": "integer", "minimum": 0}
_DELAY: Schema = {"type": "integer", "minimum": 0}
_TEXTS: Schema = {"type": "array", "items": _TEXT}
_STATE: Schema = {"type": "string", "enum": ["installed", "installing", "refused", "away"]}


def _object(**properties: Any) -> Schema:
    return {
        "type": "object", "properties": properties, "required": list(properties), "additionalProperties": False
    }  # fmt: skip


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


_TUNNEL: dict[str, Schema] = {
    "router": NAME,
    "pauses": {**NAME, "description": "The router that the last segment belongs to"},
    "segments": _list(ADDRESS),
    "slice": SLICE,
    "interface": _TEXT_OR_NOT,
    "delay_ns": {"type": ["integer", "null"], "minimum": 0, "maximum": LONGEST_DELAY_NS},
}
_PAUSE = _object(sid=ADDRESS, interface=INTERFACE, priority=_NUMBER, slice=SLICE, stopped=_FLAG)
_LINK_END = _object(
    router=NAME, interface=INTERFACE, delay_ns=_DELAY, pfc={**_FLAG, "description": "An End.X.PFC SID names it"}
)

SCHEMAS: dict[str, Schema] = intents.SCHEMAS | {
    "Problem": {
        "type": "object",
        "description": "RFC 9457. Field, value and wanted are there if one field is to blame.",
        "properties": {
            "type": _TEXT,
            "title": _TEXT,
            "status": _NUMBER,
            "detail": _TEXT,
            "field": _TEXT,
            "value": _TEXT_OR_NOT,
            "wanted": _TEXT,
        },
        "required": ["type", "title", "status", "detail"],
        "additionalProperties": False,
    },
    "Router": _object(
        name=NAME,
        router_id=_TEXT_OR_NOT,
        state={"type": "string", "enum": ["here", "away", "lost"]},
        pfc_capable=_FLAG,
        counters={"type": "object", "additionalProperties": _NUMBER},
        pauses=_list(_PAUSE),
        own_tunnels=_list(_object(**_TUNNEL)),
    ),
    "Link": _object(name=_TEXT, up=_FLAG, ends=_list(_LINK_END), slices=_list(_NUMBER), affinity=_TEXTS),
    "Leaf": _object(
        datapath={"type": "string", "pattern": "^[0-9a-f]{16}$"},
        name=_TEXT,
        ports=_list(_object(number=_NUMBER, name=_TEXT, up=_FLAG)),
        hosts=_list(_object(mac=_TEXT, port=_NUMBER)),
        links=_list(_object(port=_NUMBER, leaf=_TEXT, leaf_port=_NUMBER)),
    ),
    "Topology": _object(
        settled={**_FLAG, "description": "Whether every router that others name has reported, or was waited for"},
        routers=_list(_ref("Router")),
        links=_list(_ref("Link")),
        leaves=_list(_ref("Leaf")),
        problems=_TEXTS,
        unreported=_list(NAME),
    ),
    "Sid": {
        "type": "object",
        "description": "A SID in the shape of RFC 9514: as JSON, and as octets in hexadecimal.",
        "properties": {
            "nlri": {"type": "object"},
            "endpoint_behavior": {"type": "object"},
            "sid_structure": {"type": "object"},
            "end_x": {"type": "object"},
            "slice_id": _NUMBER,
            "tlvs": _object(nlri=_TEXT_OR_NOT, attribute=_TEXT, end_x=_TEXT_OR_NOT),
        },
        "required": ["nlri", "endpoint_behavior", "sid_structure", "tlvs"],
        "additionalProperties": False,
    },
    "Sids": _object(sids=_list(_ref("Sid"))),
    "ActivePath": {
        **_object(candidate=_TEXT, routers=_list(NAME), segments=_list(ADDRESS), delay_ns=_DELAY),
        "type": ["object", "null"],
    },
    "PolicyStatus": {
        "type": "string",
        "enum": ["active", "installing", "no path", "refused", "away", "waiting"],
    },
    "Policy": _object(
        id={**_TEXT, "examples": ["R1:100:R3"]},
        intent=_ref("PolicyIntent"),
        status=_ref("PolicyStatus"),
        why=_TEXT_OR_NOT,
        slice=SLICE,
        active=_ref("ActivePath"),
        refused=_list(_object(candidate=_TEXT, why=_TEXT)),
        pairs=_list(_object(upstream=NAME, downstream=NAME, missing=_TEXTS)),
    ),
    "Policies": _object(policies=_list(_ref("Policy"))),
    "Reverse": _object(
        policy=_TEXT,
        tunnels=_list(
            _object(
                **_TUNNEL,
                direction={"type": "string", "enum": ["back", "forth"]},
                state=_STATE,
                why=_TEXT_OR_NOT,
            )
        ),
        missing=_TEXTS,
    ),
    "Vpn": _object(
        name=NAME,
        intent=_ref("VpnIntent"),
        sites=_list(_object(router=NAME, state=_STATE, why=_TEXT_OR_NOT)),
        policies=_TEXTS,
    ),
    "Vpns": _object(vpns=_list(_ref("Vpn"))),
    "Slice": _object(
        id=_NUMBER,
        names=_TEXTS,
        routers=_list(_object(router=NAME, priorities=_list(_NUMBER), rate_bps=_NUMBER)),
        links=_TEXTS,
        policies=_TEXTS,
        vpns=_TEXTS,
    ),
    "Slices": _object(slices=_list(_ref("Slice"))),
    "Event": _object(sequence=_NUMBER, time_ns=_NUMBER, kind=_TEXT, subject=_TEXT, text=_TEXT, data={"type": "object"}),
    "Events": _object(events=_list(_ref("Event")), last=_NUMBER),
}


@dataclass(frozen=True)
class Operation:
    """A method of a path."""

    method: str
    path: str
    summary: str
    answers: Mapping[int, str | None]  # the schema of each status; None: no body
    body: str | None = None
    query: Mapping[str, Schema] = field(default_factory=dict)
    needs_token: bool = True

    @property
    def changes(self) -> bool:
        return self.method != "GET"


_ROUTER = {"router": {**NAME, "description": "Of this router only"}}
_FOLLOW: dict[str, Schema] = {
    "after": {
        "type": "string",
        "pattern": "^[0-9]{1,15}$",
        "description": "Events after this one; else all",
    },
    "follow": {"type": "string", "enum": ["true", "false"], "description": "false: what there is, as JSON"},
}

OPERATIONS: tuple[Operation, ...] = (
    Operation("GET", "/openapi.json", "This description", {200: None}, needs_token=False),
    Operation("GET", "/topology", "Routers, links and switches", {200: "Topology"}),
    Operation(
        "DELETE", "/routers/{name}", "End a router's session and forget what it reported; it may come back",
        {204: None, 404: "Problem"},
    ),
    Operation("GET", "/sids", "SIDs that routers advertise", {200: "Sids", 404: "Problem"}, query=_ROUTER),
    Operation("GET", "/policies", "All policies", {200: "Policies"}),
    Operation(
        "POST", "/policies", "Request a policy", {201: "Policy", 200: "Policy", 409: "Problem"}, body="PolicyIntent"
    ),
    Operation("GET", "/policies/{id}", "A policy, and what became of it", {200: "Policy", 404: "Problem"}),
    Operation(
        "PUT", "/policies/{id}", "Request a policy, in place of the one there", {201: "Policy", 200: "Policy"},
        body="PolicyIntent",
    ),
    Operation("DELETE", "/policies/{id}", "Take a policy back", {204: None, 404: "Problem"}),
    Operation(
        "GET", "/policies/{id}/reverse", "The tunnels for PFC frames found for a policy",
        {200: "Reverse", 404: "Problem"},
    ),
    Operation("GET", "/vpns", "All VPNs", {200: "Vpns"}),
    Operation("POST", "/vpns", "Request a VPN", {201: "Vpn", 200: "Vpn", 409: "Problem"}, body="VpnIntent"),
    Operation("GET", "/vpns/{name}", "A VPN, and what became of it", {200: "Vpn", 404: "Problem"}),
    Operation(
        "PUT", "/vpns/{name}", "Request a VPN, in place of the one there", {201: "Vpn", 200: "Vpn", 409: "Problem"},
        body="VpnIntent",
    ),
    Operation("DELETE", "/vpns/{name}", "Take a VPN back", {204: None, 404: "Problem", 409: "Problem"}),
    Operation("GET", "/slices", "Slices, and what is in them", {200: "Slices"}),
    Operation("GET", "/events", "What happens, as it happens (server-sent events)", {200: "Events"}, query=_FOLLOW),
)  # fmt: skip


def document() -> dict[str, Any]:
    """The OpenAPI document."""
    paths: dict[str, Any] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Xoff: SR policies with reverse tunnels for PFC",
            "version": VERSION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "http://127.0.0.1:8181"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": dict(SCHEMAS),
        },
    }


def _operation(operation: Operation) -> dict[str, Any]:
    answers = dict(operation.answers)
    answers |= {421: "Problem"}  # the Host header names somebody else
    answers |= {401: "Problem"} if operation.needs_token else {}
    answers |= {503: "Problem"} if operation.path == "/events" else {}
    answers |= {400: "Problem", 415: "Problem"} if operation.body else {}
    answers |= {422: "Problem"} if operation.body or operation.query else {}
    words = operation.path.strip("/").replace("{", "").replace("}", "").replace(".", "/").split("/")
    described: dict[str, Any] = {
        "operationId": operation.method.lower() + "".join(word.capitalize() for word in words),
        "summary": operation.summary,
        "responses": {str(status): _answer(operation, status, name) for status, name in sorted(answers.items())},
    }
    parameters = [
        {"name": part[1:-1], "in": "path", "required": True, "schema": _TEXT}
        for part in operation.path.split("/")
        if part.startswith("{")
    ]
    parameters += [{"name": name, "in": "query", "schema": schema} for name, schema in operation.query.items()]
    if parameters:
        described["parameters"] = parameters
    if operation.body:
        content = {"application/json": {"schema": _ref(operation.body)}}
        described["requestBody"] = {"required": True, "content": content}
    if not operation.needs_token:
        described["security"] = []
    return described


def _answer(operation: Operation, status: int, name: str | None) -> dict[str, Any]:
    if name == "Problem":
        content = {"application/problem+json": {"schema": _ref("Problem")}}
        return {"description": "What is wrong", "content": content}
    if operation.path == "/openapi.json":
        return {"description": "OpenAPI", "content": {"application/json": {"schema": {"type": "object"}}}}
    if name is None:
        return {"description": "Done"}
    content = {"application/json": {"schema": _ref(name)}}
    if operation.path == "/events":
        text = {**_TEXT, "description": "Each event: id, event (its kind), data (an Event as JSON)"}
        content["text/event-stream"] = {"schema": text}
    return {"description": operation.summary, "content": content}
