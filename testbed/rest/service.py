"""A service of the REST interface: its operations, with their types and handlers, and its kinds of events.

A service registers by being in the list that `RestServer` gets. It has no access to other services. From an operation's
types follow the check of the body and the query, the encoding of the answer, and its part of the OpenAPI document. To
add a service:

1. Describe bodies and answers as dataclasses (`testbed.typed_json`).
2. Write a class with the members of `Service`, whose handlers take a `Call` and return an `Answer`. Refuse by an
   InvalidError, MissingError, ConflictError or any other UsageError.
3. Add it to the list in `controllers/services.py`. Its events go to the `History` that all services share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Protocol

from testbed.rest.http import LONGEST_BODY, Response
from testbed.typed_json.codec import CODEC, Codec

MOST_VALUES = 1 << 14
"""The most values in one JSON body."""


@dataclass(frozen=True)
class Call:
    """A request to an operation."""

    words: Mapping[str, str]  # what stands in the places of the path, not checked
    query: Any  # of the operation's query type
    body: Any  # of the operation's body type; octets if that is a RawBody
    headers: Mapping[str, str]  # names in lower case
    now_ns: int


@dataclass(frozen=True)
class Answer:
    """The result of an operation: a value for JSON, or none."""

    content: Any = None
    status: HTTPStatus = HTTPStatus.OK
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RawBody:
    """A body that is not JSON. The handler gets its octets."""

    content_types: tuple[str, ...]
    description: str = ""


@dataclass(frozen=True)
class NoQuery:
    """The query of an operation that has none."""


@dataclass(frozen=True)
class Operation:
    """An operation of a service: one method of one path."""

    method: str
    path: str  # as in /policies/{id}
    summary: str
    handler: Callable[[Call], Answer | Response]
    answers: Mapping[int, Any]  # the type of each status; None: no body
    body: Any = None  # a type, or a RawBody
    query: type = NoQuery
    needs_token: bool = True
    longest_body: int = LONGEST_BODY
    most_values: int = MOST_VALUES


class Service(Protocol):
    """The members that a service has."""

    @property
    def name(self) -> str:
        """The tag of its operations in OpenAPI."""

    @property
    def operations(self) -> Sequence[Operation]: ...

    @property
    def event_kinds(self) -> Mapping[str, str]:
        """The kinds of its events, each with a description."""

    @property
    def codec(self) -> Codec:
        """The codec of its types; `CODEC` if they need no adapter."""


@dataclass(frozen=True)
class Registered:
    """An operation, and the codec of its service."""

    operation: Operation
    service: str
    codec: Codec = CODEC


def register(services: Sequence[Service]) -> dict[str, dict[str, Registered]]:
    """Return the operations by path and method. ValueError if two services have the same one."""
    found: dict[str, dict[str, Registered]] = {}
    for service in services:
        for operation in service.operations:
            methods = found.setdefault(operation.path, {})
            if operation.method in methods:
                there = methods[operation.method].service
                raise ValueError(f"{operation.method} {operation.path} is in services {there} and {service.name}")
            methods[operation.method] = Registered(operation, service.name, service.codec)
    return found
