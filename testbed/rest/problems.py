"""Errors of REST: problem documents (RFC 9457), and the exceptions that lead to them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from testbed.errors import UsageError
from testbed.rest.http import Response
from testbed.typed_json.text import ABSENT, InvalidError, brief

_LONGEST_VALUE = 200


class MissingError(UsageError):
    """The refusal of a request for a resource that is not there: status 404."""


class ConflictError(UsageError):
    """The refusal of a request that contradicts the state of a resource: status 409."""


@dataclass(frozen=True)
class Problem:
    """A problem document (RFC 9457). Field, value and wanted are there if one field is invalid."""

    type: str
    title: str
    status: int
    detail: str
    field: str = ""
    value: str | None = None
    wanted: str = ""


class RefusedError(Exception):
    """The refusal of a request by a certain response."""

    def __init__(self, response: Response) -> None:
        super().__init__(response.status)
        self.response = response


def problem(
    status: HTTPStatus,
    detail: str,
    field: str | None = None,
    value: object = ABSENT,
    wanted: str | None = None,
    *,
    headers: Mapping[str, str] | None = None,
    members: Mapping[str, Any] | None = None,
) -> Response:
    """Return a problem document as a response, with further members of its kind of problem."""
    content: dict[str, Any] = {"type": "about:blank", "title": status.phrase, "status": status.value, "detail": detail}
    if field is not None:
        text = None if value is ABSENT else brief(value, _LONGEST_VALUE)
        content |= {"field": field, "value": text and text[:_LONGEST_VALUE], "wanted": wanted}
    content |= members or {}
    return Response(status, json.dumps(content).encode() + b"\n", "application/problem+json", headers or {})


def problem_of(error: UsageError) -> Response:
    """Return the response to a request that failed by this error."""
    match error:
        case InvalidError():
            status = HTTPStatus.UNPROCESSABLE_ENTITY if error.field else HTTPStatus.BAD_REQUEST
            return problem(status, str(error), error.field or None, error.value, error.wanted)
        case MissingError():
            return problem(HTTPStatus.NOT_FOUND, str(error))
        case ConflictError():
            return problem(HTTPStatus.CONFLICT, str(error))
        case _:
            return problem(HTTPStatus.UNPROCESSABLE_ENTITY, str(error))
