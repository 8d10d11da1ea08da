"""The server of a class: each student hands in work of a lesson in a browser, and a queue runs it in the lab.

Each student has an address with a token of their own, and sees nothing of others; the teacher has one for the table.
What is handed in is text here, and runs in the lab alone, within limits. Nothing is kept when the server ends, except
what the teacher has saved of the table.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from testbed.errors import UsageError
from testbed.report.pages.markup import asset, digest, heading, text
from testbed.serve.access import Access
from testbed.serve.access import Verdict as Admission
from testbed.serve.app import HEADERS, App, Scope
from testbed.subjects.lessons import grading
from testbed.subjects.lessons.grading import Row, Submission
from testbed.subjects.lessons.lesson import ANSWERS, EXPERIMENT, KEEP, STUDENT, Lesson, Verdict, sheet
from testbed.subjects.lessons.run_queue import RunQueue

MOST_STUDENTS = 500
LARGEST = 2 * grading.LARGEST + (1 << 16)
"""The most octets of a request: a file and answers, as JSON."""
_AREA = 'rows="24" cols="100" spellcheck="false"'
Done = tuple[Row, list[Verdict]]
Queue = RunQueue[Submission, Done]


@dataclass
class Classroom:
    """A lesson, the students who may hand in work, and the queue that runs it."""

    lesson: Lesson
    queue: Queue
    students: Mapping[str, Access]
    teacher: Access
    handed_in: dict[str, Submission] = field(default_factory=dict)

    def missing(self) -> list[str]:
        """Return the students who have not handed in anything."""
        return [name for name in self.students if name not in self.handed_in]

    def table(self) -> list[Row]:
        """Return a line for each student whose work was run."""
        done = self.queue.all()
        names = [name for name in self.students if name in done]
        return grading.compared([done[name][0] for name in names], [self.handed_in[name] for name in names])


def application(room: Classroom) -> App:
    """Return the web application of a class."""
    pages = _Pages(room)
    routes = [
        Route("/", pages.first),
        Route("/state", pages.state),
        Route("/run", pages.run, methods=["POST"]),
        Route("/table.csv", pages.table),
    ]
    return _Door(room, Starlette(routes=routes))


class _Door:
    """Passes those requests on whose token is a student's or the teacher's, and says whose it is."""

    def __init__(self, room: Classroom, inner: App) -> None:
        self._room, self._inner = room, inner

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope.get("headers", [])}
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [None])[0]
        for name, access in (("", self._room.teacher), *self._room.students.items()):
            verdict = access.judge(headers, given)
            if verdict is Admission.TAKE_COOKIE:
                response = RedirectResponse("/", 303, HEADERS)
                response.set_cookie(access.cookie, access.token, httponly=True, samesite="strict")
                await response(scope, receive, send)
                return
            if verdict is Admission.ADMIT:
                scope["student"] = name
                await self._inner(scope, receive, send)
                return
            if verdict is Admission.WRONG_HOST:
                break
        refused = PlainTextResponse("This address needs the token that your teacher has given you.\n", 401, HEADERS)
        await refused(scope, receive, send)


class _Pages:
    def __init__(self, room: Classroom) -> None:
        self._room = room

    async def first(self, request: Request) -> Response:
        student, lesson = request.scope["student"], self._room.lesson
        if not student:
            return _html(f"Lesson {lesson.number}", _table(self._room), "")
        start = (lesson.folder / "start.py").read_text(encoding="utf-8")
        values = "".join(f"<li>{text(what)}: {text(value)}</li>" for what, value in lesson.drawn(student).items())
        body = (
            f"{heading(1, f'Lesson {lesson.number}: {lesson.title}')}<p>{text(student)}</p><ul>{values}</ul>"
            '<p><label for="source">Your part of the file</label></p>'
            f'<textarea id="source" {_AREA}>{escape(start[: start.index(KEEP)])}</textarea>'
            '<p><label for="answers">Your answers</label></p>'
            f'<textarea id="answers" {_AREA}>{escape(sheet(lesson))}</textarea>'
            '<p><button id="hand-in" type="button">Hand in</button></p>'
            '<p id="state" role="status"></p><ul id="items"></ul>'
        )
        return _html(f"Lesson {lesson.number}", body, asset("testbed.subjects.lessons", "class.js"))

    async def state(self, request: Request) -> Response:
        return JSONResponse(self._state(request.scope["student"]), headers=HEADERS)

    async def run(self, request: Request) -> Response:
        student = request.scope["student"]
        if request.headers.get("origin", f"http://{request.headers['host']}") != f"http://{request.headers['host']}":
            return _refused(403, "This server takes nothing from pages of other servers.")
        if not student:
            return _refused(403, "The teacher's address has the table; work is handed in at a student's.")
        octets = b""
        async for piece in request.stream():
            octets += piece
            if len(octets) > LARGEST:
                return _refused(413, f"Your file and your answers are larger than {LARGEST >> 10} KiB together.")
        try:
            submitted = await asyncio.to_thread(_read, self._room.lesson, student, octets)
            if submitted.problem:
                raise UsageError(submitted.problem)
            self._room.queue.submit(student, submitted)
        except UsageError as error:
            return _refused(400, str(error))
        self._room.handed_in[student] = submitted
        return JSONResponse(self._state(student), headers=HEADERS)

    async def table(self, request: Request) -> Response:
        if request.scope["student"]:
            return _refused(403, "The table is the teacher's.")
        return Response(grading.as_csv(self._room.lesson, self._room.table()), headers=HEADERS, media_type="text/csv")

    def _state(self, student: str) -> dict[str, Any]:
        state = self._room.queue.state(student)
        row, verdicts = state.last if state.last is not None else (None, [])
        return {
            "before": state.before,
            "failure": state.failure or (row.why if row is not None else ""),
            "right": row.right if row is not None else None,
            "items": [{"what": one.what, "right": one.is_right, "why": one.why} for one in verdicts],
        }


def _read(lesson: Lesson, student: str, octets: bytes) -> Submission:
    """Return what a student has handed in, by the same rules as a folder."""
    try:
        handed_in = json.loads(octets)
    except (ValueError, RecursionError):
        handed_in = None
    if not isinstance(handed_in, dict) or not all(isinstance(handed_in.get(key), str) for key in ("source", "answers")):
        raise UsageError('a file and answers are expected, as {"source": "...", "answers": "..."}')
    with tempfile.TemporaryDirectory(prefix="xoff-class-") as place:
        folder = Path(place)
        for name, content in (
            (EXPERIMENT, f"{handed_in['source'].partition(KEEP)[0]}\n{KEEP}\n"), (ANSWERS, handed_in["answers"]),
            (STUDENT, student),
        ):  # fmt: skip
            (folder / name).write_text(content, encoding="utf-8", errors="replace")
        return grading.submission(lesson, folder)


def _table(room: Classroom) -> str:
    rows = "".join(
        f"<tr><td>{text(one.student)}</td><td>{one.right} of {one.of}</td><td>{text(one.same_as)}</td>"
        f"<td>{text(one.why)}</td></tr>"
        for one in room.table()
    )
    missing = f" Not yet: {', '.join(room.missing())}." if room.missing() else ""
    return (
        f"{heading(1, f'Lesson {room.lesson.number}: {room.lesson.title}')}"
        f"<p>{len(room.handed_in)} of {len(room.students)} have handed in.{text(missing)}</p>"
        "<table><thead><tr><th>student</th><th>right</th><th>same as</th><th>why</th></tr></thead>"
        f'<tbody>{rows}</tbody></table><p><a href="/table.csv">As CSV</a></p>'
    )


def _refused(status: int, why: str) -> Response:
    return JSONResponse({"refused": why}, status, HEADERS)


def _html(title: str, body: str, script: str) -> Response:
    style = asset("testbed.report", "report.css")
    policy = (
        f"default-src 'none'; script-src '{digest(script)}'; style-src '{digest(style)}'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    source = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<link rel="icon" href="data:,">\n'
        f"<title>{text(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n<main>{body}</main>\n"
        f"{f'<script>{script}</script>' if script else ''}\n</body>\n</html>\n"
    )
    return HTMLResponse(source, 200, HEADERS | {"Content-Security-Policy": policy})
