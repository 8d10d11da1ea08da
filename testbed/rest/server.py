"""REST requests in, responses out, for any number of services. No sockets, no clock.

A client has to show the token, but for the OpenAPI document. The Host header must name this service, so that no web
page can make a browser send requests under a name of its own (DNS rebinding). An error is a problem document (RFC 9457)
that names the field, the value and what is valid. A request that is refused changes nothing.
"""

from __future__ import annotations

import hmac
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import cached_property
from http import HTTPStatus
from ipaddress import ip_address
from typing import Any

from testbed.errors import UsageError
from testbed.rest.events import EventService, History, as_stream
from testbed.rest.http import LONGEST_BODY, Request, Response
from testbed.rest.openapi import document
from testbed.rest.problems import RefusedError, problem, problem_of
from testbed.rest.service import Answer, Call, Operation, RawBody, Registered, Service, register
from testbed.typed_json.codec import CODEC
from testbed.typed_json.text import InvalidError, read

SHORTEST_TOKEN = 16
_PORT = re.compile(r":[0-9]{0,5}$")


class RestServer:
    """The server without its sockets: it finds the operation of a request, checks the request and calls the handler."""

    def __init__(self, services: Sequence[Service], token: str, history: History, *, names: Iterable[str] = ()) -> None:
        """`names` are host names of this service besides localhost; addresses need not be among them."""
        if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
            raise UsageError(
                f"the token has {len(token)} characters; it needs {SHORTEST_TOKEN} or more, printable ASCII, no spaces"
            )
        self.history = history
        self.counters: Counter[str] = Counter()
        self.services: tuple[Service, ...] = (DescriptionService(self), *services, EventService(history))
        self._operations = register(self.services)
        self._token = token.encode()
        self._names = {"localhost", *(name.lower() for name in names)}

    def admit(self, request: Request) -> Response | int:
        """Return the refusal of a request whose head has been received, or the longest body that it may have."""
        try:
            methods, _ = self._check_head(request)
        except RefusedError as refused:
            self._count(refused.response)
            return refused.response
        registered = methods.get(request.method)
        return registered.operation.longest_body if registered else LONGEST_BODY

    def has_token(self, request: Request) -> bool:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(token.strip().encode(), self._token)

    def handle(self, request: Request, now_ns: int) -> Response:
        """Return the response to a request; every error is in the response."""
        try:
            response = self._handle(request, now_ns)
        except RefusedError as refused:
            response = refused.response
        except UsageError as error:
            response = problem_of(error)
        self._count(response)
        return response

    def events(self, after: int) -> tuple[bytes, int]:
        """Return the events after this one as a stream, and the number of the last."""
        events = self.history.after(after)
        return as_stream(events), events[-1].sequence if events else after

    @cached_property
    def description(self) -> Response:
        """The OpenAPI document. It is made once: it needs no token, so anyone may request it often."""
        return Response(HTTPStatus.OK, json.dumps(document(self.services)).encode() + b"\n")

    def _handle(self, request: Request, now_ns: int) -> Response:
        methods, words = self._check_head(request)
        registered = methods.get(request.method)
        if registered is None:
            there = ", ".join(methods)
            text = f"{request.path[:60]!a} has no method {request.method}; it has {there}"
            raise RefusedError(problem(HTTPStatus.METHOD_NOT_ALLOWED, text, headers={"Allow": there}))
        operation, codec = registered.operation, registered.codec
        body = self._body(request, registered)
        query = codec.decode(operation.query, _unique(request.query), "query")
        answer = operation.handler(Call(words, query, body, request.headers, now_ns))
        if isinstance(answer, Response):
            return answer
        if operation.answers.get(int(answer.status)) is None:
            return Response(answer.status, headers=answer.headers)
        content = codec.encode(answer.content, operation.answers[int(answer.status)])
        return Response(answer.status, json.dumps(content).encode() + b"\n", headers=answer.headers)

    def _body(self, request: Request, registered: Registered) -> Any:
        operation = registered.operation
        if operation.body is None:
            return None
        sent = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        is_raw = isinstance(operation.body, RawBody)
        wanted = operation.body.content_types if is_raw else ("application/json",)
        if sent not in wanted:
            text = f"the body is of type {sent[:60]!a}; send Content-Type: {' or '.join(wanted)}"
            raise RefusedError(problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, text))
        if is_raw:
            return request.body
        return registered.codec.decode(operation.body, read(request.body, operation.most_values))

    def _check_head(self, request: Request) -> tuple[Mapping[str, Registered], dict[str, str]]:
        """Return the methods of the path, and its words, for a client that may ask."""
        host = request.headers.get("host", "")
        if not self._is_ours(host):
            text = f"{host[:60]!a} is not a name of this service; use an address, or configure it by --rest-name"
            raise RefusedError(problem(HTTPStatus.MISDIRECTED_REQUEST, text))
        found = self._find(request.path)
        methods = self._operations[found[0]] if found else {}
        registered = methods.get(request.method) or next(iter(methods.values()), None)
        if registered is None or registered.operation.needs_token:
            self._check_token(request)
        if found is None:
            raise RefusedError(self._not_found(request.path))
        return methods, found[1]

    def _is_ours(self, host: str) -> bool:
        name = _PORT.sub("", host).lower()
        try:
            ip_address(name.removeprefix("[").removesuffix("]"))
        except ValueError:
            return name.removesuffix(".") in self._names
        return True

    def _check_token(self, request: Request) -> None:
        if self.has_token(request):
            return
        self.counters["without_token"] += 1
        why = "the token is wrong" if request.headers.get("authorization") else "there is no token"
        text = f"{why}; send 'Authorization: Bearer TOKEN' with the content of the controller's token file"
        raise RefusedError(problem(HTTPStatus.UNAUTHORIZED, text, headers={"WWW-Authenticate": 'Bearer realm="xoff"'}))

    def _find(self, path: str) -> tuple[str, dict[str, str]] | None:
        """Return the template that a path matches, and the words in its places."""
        parts = path.split("/")
        for template in self._operations:
            wanted = template.split("/")
            if len(wanted) == len(parts) and all(
                name.startswith("{") or name == part for name, part in zip(wanted, parts, strict=True)
            ):
                words = zip(wanted, parts, strict=True)
                return template, {name[1:-1]: part for name, part in words if name.startswith("{")}
        return None

    def _not_found(self, path: str) -> Response:
        near = get_close_matches(path[:60], self._operations, 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(self._operations)}"
        return problem(HTTPStatus.NOT_FOUND, f"there is nothing at {path[:60]!a}; {hint}")

    def _count(self, response: Response) -> None:
        self.counters[f"{int(response.status)}"] += 1


class DescriptionService:
    """The OpenAPI document as a service."""

    name = "description"
    event_kinds: Mapping[str, str] = {}
    codec = CODEC

    def __init__(self, server: RestServer) -> None:
        self._server = server

    @property
    def operations(self) -> tuple[Operation, ...]:
        summary = "This description, in OpenAPI"
        answers = {200: Mapping[str, Any]}
        return (Operation("GET", "/openapi.json", summary, self._get, answers, needs_token=False),)

    def _get(self, call: Call) -> Answer | Response:
        return self._server.description


def _unique(query: Sequence[tuple[str, str]]) -> dict[str, str]:
    found = dict(query)
    if len(found) < len(query):
        name = next(name for index, (name, _) in enumerate(query) if name in dict(query[:index]))
        raise InvalidError(f"query.{name[:60]}", found[name], "repeated; give it once")
    return found
