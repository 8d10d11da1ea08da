"""The controller's REST: a request in, a response out, over the manager. No sockets, no clock.

Whoever asks has to show the token; only the description of the interface is for everybody. The Host header has to name
this service, so that no web page can have a browser ask it under a name of its own (DNS rebinding). What comes in is
checked against the schemas of that description (`openapi`), and an error is a problem document (RFC 9457) that names
the field, the value and what has to stand there. Nothing is changed by a request that is refused.
"""

from __future__ import annotations

import hmac
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from http import HTTPStatus
from ipaddress import ip_address
from typing import Any

from testbed.rest.http import Request, Response
from testbed.srv6.controller.admission import ConflictError, MissingError
from testbed.srv6.controller.manager import Manager
from testbed.srv6.protocol.domain import Srv6Error
from testbed.srv6.protocol.sid import CodePoints
from testbed.srv6.rest import openapi, views
from testbed.srv6.session.intents import PolicyIntent, VpnIntent, id_of
from testbed.srv6.session.policy import Key
from testbed.typed_json.validation import ABSENT, InvalidError, brief, check, read

SHORTEST_TOKEN = 16
MOST_VALUES = 1 << 14
"""In one body."""
_PORT = re.compile(r":[0-9]{0,5}$")
_LONGEST_VALUE = 200

Handler = Callable[["Northbound", "Call"], Response]


@dataclass(frozen=True)
class Call:
    """A request that has found its operation."""

    words: Mapping[str, str]  # what the path names
    query: Mapping[str, str]
    body: Any  # checked against the operation's schema
    headers: Mapping[str, str]
    now_ns: int


class _Refused(Exception):
    def __init__(self, response: Response) -> None:
        super().__init__()
        self.response = response


class Northbound:
    """Answers requests."""

    def __init__(
        self,
        manager: Manager,
        token: str,
        *,
        names: Iterable[str] = (),
        remove: Callable[[str, str, int], None] | None = None,
        code_points: CodePoints = CodePoints(),
        as_number: int = 64512,
    ) -> None:
        """`names` are host names of this service beside localhost; addresses need not be among them.

        `remove` ends the session of a router, for a reason, and has it forgotten.
        """
        if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
            raise Srv6Error(
                f"the token has {len(token)} characters; give it {SHORTEST_TOKEN} or more, printable ASCII, no spaces"
            )
        self.manager = manager
        self.code_points = code_points
        self.as_number = as_number
        self.counters: Counter[str] = Counter()
        self._token = token.encode()
        self._remove = remove
        self._names = {"localhost", *(name.lower() for name in names)}

    def admit(self, request: Request) -> Response | None:
        """The refusal of a request of which only the head is there; None if it is admitted."""
        try:
            self._check_head(request)
        except _Refused as refused:
            self.counters[f"{refused.response.status}"] += 1
            return refused.response
        return None

    def shows_token(self, request: Request) -> bool:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(token.strip().encode(), self._token)

    def handle(self, request: Request, now_ns: int) -> Response:
        """The response to a request; whatever is wrong with it is in the response."""
        try:
            response = self._handle(request, now_ns)
        except _Refused as refused:
            response = refused.response
        except InvalidError as error:
            status = HTTPStatus.UNPROCESSABLE_ENTITY if error.field else HTTPStatus.BAD_REQUEST
            response = problem(status, str(error), error.field or None, error.value, error.wanted)
        except MissingError as error:
            response = problem(HTTPStatus.NOT_FOUND, str(error))
        except ConflictError as error:
            response = problem(HTTPStatus.CONFLICT, str(error))
        except Srv6Error as error:
            response = problem(HTTPStatus.UNPROCESSABLE_ENTITY, str(error))
        self.counters[f"{response.status}"] += 1
        return response

    def events(self, after: int) -> tuple[bytes, int]:
        """What a stream of events says after this one, and the last one that it then has told."""
        text, last = [], after
        for event in self.manager.history.after(after):
            number = f"id: {event.sequence}\n" if event.sequence else ""
            text.append(f"{number}event: {event.kind}\ndata: {json.dumps(event.as_json())}\n\n")
            last = event.sequence
        return "".join(text).encode(), last

    def _handle(self, request: Request, now_ns: int) -> Response:
        template, words = self._check_head(request)
        methods = _methods(template)
        operation = methods.get(request.method)
        if template is None:
            raise _Refused(_no_such_path(request.path))
        if operation is None:
            there = ", ".join(methods)
            text = f"{request.method} is not there for {template}; there are {there}"
            raise _Refused(problem(HTTPStatus.METHOD_NOT_ALLOWED, text, headers={"Allow": there}))
        body = None
        if operation.body is not None:
            kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind != "application/json":
                text = f"the body is of type {kind[:60]!a}; send Content-Type: application/json"
                raise _Refused(problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, text))
            body = read(request.body, MOST_VALUES)
            check(body, openapi.SCHEMAS[operation.body], openapi.SCHEMAS)
        query = dict(request.query)
        for name, value in request.query:
            if name not in operation.query:
                there = ", ".join(operation.query) or "none"
                raise InvalidError(f"query.{name[:60]}", value, f"leave it out; there are {there}")
            check(value, operation.query[name], field=f"query.{name}")
        call = Call(words, query, body, request.headers, now_ns)
        return _HANDLERS[operation.method, operation.path](self, call)

    def _check_head(self, request: Request) -> tuple[str | None, dict[str, str]]:
        """What the path asks for, for one who may ask."""
        host = request.headers.get("host", "")
        if not self._is_ours(host):
            text = f"{host[:60]!a} is no name of this service; ask it by an address, or give it the name by --rest-name"
            raise _Refused(problem(HTTPStatus.MISDIRECTED_REQUEST, text))
        template, words = _find(request.path)
        methods = _methods(template)
        operation = methods.get(request.method) or next(iter(methods.values()), None)
        if operation is None or operation.needs_token:
            self._check_token(request)
        return template, words

    def _is_ours(self, host: str) -> bool:
        name = _PORT.sub("", host).lower()
        try:
            ip_address(name.removeprefix("[").removesuffix("]"))
        except ValueError:
            return name.removesuffix(".") in self._names
        return True

    def _check_token(self, request: Request) -> None:
        if self.shows_token(request):
            return
        self.counters["without_token"] += 1
        why = "the token is wrong" if request.headers.get("authorization") else "there is no token"
        text = f"{why}; send 'Authorization: Bearer TOKEN' with what is in the controller's token file"
        raise _Refused(problem(HTTPStatus.UNAUTHORIZED, text, headers={"WWW-Authenticate": 'Bearer realm="xoff"'}))

    # Reading

    def get_description(self, call: Call) -> Response:
        return _description()

    def get_topology(self, call: Call) -> Response:
        return _json(views.topology(self.manager))

    def get_sids(self, call: Call) -> Response:
        router = call.query.get("router")
        if router is not None and router not in self.manager.reports:
            raise MissingError(
                f"there is no router {router[:60]!a}; there are {', '.join(sorted(self.manager.reports))}"
            )
        return _json(views.sids(self.manager, self.code_points, self.as_number, router))

    def get_policies(self, call: Call) -> Response:
        keys = sorted(self.manager.policies, key=lambda key: (key.headend, key.colour, key.endpoint))
        return _json({"policies": [views.policy(self.manager, key) for key in keys]})

    def get_policy(self, call: Call) -> Response:
        return _json(views.policy(self.manager, self._known_policy(call)))

    def get_reverse(self, call: Call) -> Response:
        return _json(views.reverse(self.manager, self._known_policy(call)))

    def get_vpns(self, call: Call) -> Response:
        return _json({"vpns": [views.vpn(self.manager, name) for name in sorted(self.manager.vpns)]})

    def get_vpn(self, call: Call) -> Response:
        name = call.words["name"]
        if name not in self.manager.vpns:
            raise MissingError(
                f"there is no VPN {name[:60]!a}; there are {', '.join(sorted(self.manager.vpns)) or 'none'}"
            )
        return _json(views.vpn(self.manager, name))

    def get_slices(self, call: Call) -> Response:
        return _json(views.slices(self.manager))

    def get_events(self, call: Call) -> Response:
        after = int(call.query.get("after", "0"))
        resumed = call.headers.get("last-event-id", "")
        if resumed.isascii() and resumed.isdigit() and len(resumed) <= 15:
            after = int(resumed)
        if call.query.get("follow", "true") == "true":
            return Response(HTTPStatus.OK, content_type="text/event-stream", events_after=after)
        events = [event.as_json() for event in self.manager.history.after(after)]
        return _json({"events": events, "last": self.manager.history.last})

    # Changing

    def post_policy(self, call: Call) -> Response:
        intent = PolicyIntent.from_json(call.body)
        there = self.manager.policies.get(intent.key)
        if there is not None and there != intent:
            raise ConflictError(
                f"policy {intent.id} is there already and is not the same; replace it with PUT /policies/{intent.id}"
            )
        return self._put_policy(intent, call)

    def put_policy(self, call: Call) -> Response:
        intent = PolicyIntent.from_json(call.body)
        if intent.id != call.words["id"]:
            wanted = f"headend, colour and endpoint of the body have to give it: {intent.id}"
            raise InvalidError("path.id", call.words["id"], wanted)
        return self._put_policy(intent, call)

    def delete_policy(self, call: Call) -> Response:
        self.manager.remove_policy(self._known_policy(call), call.now_ns)
        return Response(HTTPStatus.NO_CONTENT)

    def post_vpn(self, call: Call) -> Response:
        intent = VpnIntent.from_json(call.body)
        if intent.name in self.manager.vpns and not views.same_vpn(self.manager.vpns[intent.name], intent):
            raise ConflictError(
                f"VPN {intent.name} is there already and is not the same; replace it with PUT /vpns/{intent.name}"
            )
        return self._put_vpn(intent, call)

    def put_vpn(self, call: Call) -> Response:
        intent = VpnIntent.from_json(call.body)
        if intent.name != call.words["name"]:
            raise InvalidError("path.name", call.words["name"], f"the body's name has to be the same: {intent.name}")
        return self._put_vpn(intent, call)

    def delete_vpn(self, call: Call) -> Response:
        self.manager.remove_vpn(call.words["name"], call.now_ns)
        return Response(HTTPStatus.NO_CONTENT)

    def delete_router(self, call: Call) -> Response:
        name = call.words["name"]
        if name not in self.manager.reports:
            there = ", ".join(sorted(self.manager.reports)) or "none"
            raise MissingError(f"there is no router {name[:60]!a}; there are {there}")
        if self._remove is not None:
            self._remove(name, "an operator has removed it", call.now_ns)
        else:
            self.manager.remove_router(name, call.now_ns)
        return Response(HTTPStatus.NO_CONTENT)

    def _put_policy(self, intent: PolicyIntent, call: Call) -> Response:
        is_new = self.manager.put_policy(intent, call.now_ns)
        status = HTTPStatus.CREATED if is_new else HTTPStatus.OK
        return _json(views.policy(self.manager, intent.key), status, {"Location": f"/policies/{intent.id}"})

    def _put_vpn(self, intent: VpnIntent, call: Call) -> Response:
        is_new = self.manager.put_vpn(intent, call.now_ns)
        status = HTTPStatus.CREATED if is_new else HTTPStatus.OK
        return _json(views.vpn(self.manager, intent.name), status, {"Location": f"/vpns/{intent.name}"})

    def _known_policy(self, call: Call) -> Key:
        text = call.words["id"]
        match text.split(":"):
            case [headend, colour, endpoint] if colour.isascii() and colour.isdigit() and len(colour) <= 10:
                found = Key(headend, int(colour), endpoint)
                if found in self.manager.policies and id_of(found) == text:
                    return found
        ids = sorted(map(id_of, self.manager.policies))
        shown = ", ".join(ids[:10]) + (" and more" if len(ids) > 10 else "") if ids else "none"
        raise MissingError(f"there is no policy {text[:60]!a}; there are {shown}")


_HANDLERS: dict[tuple[str, str], Handler] = {
    ("GET", "/openapi.json"): Northbound.get_description,
    ("GET", "/topology"): Northbound.get_topology,
    ("DELETE", "/routers/{name}"): Northbound.delete_router,
    ("GET", "/sids"): Northbound.get_sids,
    ("GET", "/policies"): Northbound.get_policies,
    ("POST", "/policies"): Northbound.post_policy,
    ("GET", "/policies/{id}"): Northbound.get_policy,
    ("PUT", "/policies/{id}"): Northbound.put_policy,
    ("DELETE", "/policies/{id}"): Northbound.delete_policy,
    ("GET", "/policies/{id}/reverse"): Northbound.get_reverse,
    ("GET", "/vpns"): Northbound.get_vpns,
    ("POST", "/vpns"): Northbound.post_vpn,
    ("GET", "/vpns/{name}"): Northbound.get_vpn,
    ("PUT", "/vpns/{name}"): Northbound.put_vpn,
    ("DELETE", "/vpns/{name}"): Northbound.delete_vpn,
    ("GET", "/slices"): Northbound.get_slices,
    ("GET", "/events"): Northbound.get_events,
}


def problem(
    status: HTTPStatus,
    detail: str,
    field: str | None = None,
    value: object = ABSENT,
    wanted: str | None = None,
    *,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """A problem document (RFC 9457)."""
    content: dict[str, Any] = {"type": "about:blank", "title": status.phrase, "status": status.value, "detail": detail}
    if field is not None:
        text = None if value is ABSENT else brief(value, _LONGEST_VALUE)
        content |= {"field": field, "value": text and text[:_LONGEST_VALUE], "wanted": wanted}
    return Response(status, json.dumps(content).encode() + b"\n", "application/problem+json", headers or {})


def _json(content: Any, status: HTTPStatus = HTTPStatus.OK, headers: Mapping[str, str] | None = None) -> Response:
    return Response(status, json.dumps(content).encode() + b"\n", headers=headers or {})


@cache
def _description() -> Response:
    """Made once: strangers may ask for it as often as they like."""
    return _json(openapi.document())


def _methods(template: str | None) -> dict[str, openapi.Operation]:
    return {operation.method: operation for operation in openapi.OPERATIONS if operation.path == template}


def _find(path: str) -> tuple[str | None, dict[str, str]]:
    """The template that a path fits, and the words in its places."""
    parts = path.split("/")
    for template in dict.fromkeys(operation.path for operation in openapi.OPERATIONS):
        wanted = template.split("/")
        if len(wanted) != len(parts):
            continue
        words = {name[1:-1]: part for name, part in zip(wanted, parts, strict=True) if name.startswith("{")}
        if all(name.startswith("{") or name == part for name, part in zip(wanted, parts, strict=True)):
            return template, words
    return None, {}


def _no_such_path(path: str) -> Response:
    known = list(dict.fromkeys(operation.path for operation in openapi.OPERATIONS))
    near = get_close_matches(path[:60], known, 1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
    return problem(HTTPStatus.NOT_FOUND, f"there is nothing at {path[:60]!a}; {hint}")
