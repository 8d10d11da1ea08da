"""The OpenAPI 3.1 document of some services: all of it follows from their operations and types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, get_type_hints

from testbed.rest.problems import Problem
from testbed.rest.service import Operation, RawBody, Registered, Service, register
from testbed.typed_json.codec import CODEC
from testbed.typed_json.kinds import Schema

VERSION = "2.0.0"
_EVENTS = "/events"


@dataclass(frozen=True)
class Title:
    """The title of the document."""

    title: str = "Xoff's controller"
    version: str = VERSION


def document(services: Sequence[Service], title: Title = Title()) -> dict[str, Any]:
    """Return the OpenAPI document."""
    components: dict[str, Schema] = {}
    CODEC.schema(Problem, components)
    paths: dict[str, Any] = {}
    for path, methods in register(services).items():
        for method, registered in methods.items():
            paths.setdefault(path, {})[method.lower()] = _operation(registered, components)
    kinds = {kind: text for service in services for kind, text in service.event_kinds.items()}
    if "Event" in components:
        described = "\n".join(f"- {kind}: {text}" for kind, text in sorted(kinds.items()))
        components["Event"]["properties"]["kind"] = {"type": "string", "enum": sorted(kinds), "description": described}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": title.title,
            "version": title.version,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "http://127.0.0.1:8181"}],
        "security": [{"token": []}],
        "tags": [{"name": service.name} for service in services],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": dict(sorted(components.items())),
        },
    }


def _operation(registered: Registered, components: dict[str, Schema]) -> dict[str, Any]:
    operation = registered.operation
    words = operation.path.strip("/").replace("{", "").replace("}", "").replace(".", "/").replace("-", "/").split("/")
    answers = operation_statuses(operation)
    described: dict[str, Any] = {
        "operationId": operation.method.lower() + "".join(word.capitalize() for word in words),
        "summary": operation.summary,
        "tags": [registered.service],
        "responses": {
            str(status): _answer(registered, status, kind, components) for status, kind in sorted(answers.items())
        },
    }
    parameters = [
        {"name": part[1:-1], "in": "path", "required": True, "schema": {"type": "string"}}
        for part in operation.path.split("/")
        if part.startswith("{")
    ]
    parameters += list(_query(registered))
    if parameters:
        described["parameters"] = parameters
    if isinstance(operation.body, RawBody):
        text = {"type": "string", "description": operation.body.description}
        content: Mapping[str, Any] = {kind: {"schema": text} for kind in operation.body.content_types}
        described["requestBody"] = {"required": True, "content": content}
    elif operation.body is not None:
        schema = registered.codec.schema(operation.body, components)
        described["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    if not operation.needs_token:
        described["security"] = []
    return described


def operation_statuses(operation: Operation) -> dict[int, Any]:
    """Return the answers that an operation states, and those that every operation of its form can have."""
    answers = dict(operation.answers)
    answers |= {421: Problem}  # the Host header names another host
    answers |= {401: Problem} if operation.needs_token else {}
    answers |= {503: Problem} if operation.path == _EVENTS else {}
    answers |= {400: Problem, 415: Problem} if operation.body else {}
    answers |= {422: Problem} if operation.body or fields(operation.query) else {}
    return answers


def _query(registered: Registered) -> Iterable[dict[str, Any]]:
    query = registered.operation.query
    hints = get_type_hints(query, include_extras=True)
    for parameter in fields(query):
        schema = registered.codec.schema(hints[parameter.name], {})
        found = {"name": parameter.name, "in": "query", "schema": schema}
        yield found | ({"required": True} if parameter.default is MISSING else {})


def _answer(registered: Registered, status: int, kind: Any, components: dict[str, Schema]) -> dict[str, Any]:
    operation = registered.operation
    if kind is Problem:
        content = {"application/problem+json": {"schema": CODEC.schema(Problem, components)}}
        return {"description": "What is wrong", "content": content}
    if kind is None:
        return {"description": "Done"}
    content = {"application/json": {"schema": registered.codec.schema(kind, components)}}
    if operation.path == _EVENTS:
        text = "Each event: id, event (its kind), data (an Event as JSON)"
        content["text/event-stream"] = {"schema": {"type": "string", "description": text}}
    return {"description": operation.summary, "content": content}
