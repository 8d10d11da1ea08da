"""The server of a class over real sockets: who sees what, what is taken, and the table. Nothing runs in a lab here."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

pytest.importorskip("uvicorn", reason="the Python packages of the extra `serve` are missing")
from testbed import cli
from testbed.serve import server
from testbed.serve.access import Access
from testbed.subjects.lessons import grading
from testbed.subjects.lessons import lesson as files
from testbed.subjects.lessons.classroom import LARGEST, Classroom, Done, application
from testbed.subjects.lessons.grading import Submission
from testbed.subjects.lessons.lesson import Verdict
from testbed.subjects.lessons.run_queue import RunQueue

BASICS = files.lessons()[0]
WORK = json.dumps({"source": "LOSSLESS = {3}\n", "answers": ""})


def judged(work: Submission) -> Done:
    """Stand in for the lab."""
    found = [Verdict(f"step {number}", "{3}" in work.source) for number in range(9)]
    return grading.row(work, BASICS, found), found


def served(test: Callable[[Classroom], Awaitable[None]]) -> None:
    async def both() -> None:
        listening = server.listen("127.0.0.1", 0)
        port = listening.getsockname()[1]
        students = {name: Access("127.0.0.1", port) for name in ("Ada", "Bob", "=1+1")}
        room = Classroom(BASICS, RunQueue(judged, 1), students, Access("127.0.0.1", port))
        up = asyncio.Event()
        serving = asyncio.ensure_future(server.serving(application(room), listening, None, up.set))
        await asyncio.wait_for(up.wait(), 20)
        try:
            await asyncio.wait_for(test(room), 60)
        finally:
            room.queue.close()
            os.kill(os.getpid(), signal.SIGINT)
            assert await asyncio.wait_for(serving, 20) == signal.SIGINT

    asyncio.run(both())


async def asked(
    access: Access, path: str, body: str | None = None, token: str | None = None, **headers: str
) -> tuple[int, str, str]:
    """Return status, head and body of a request with a token."""
    reader, writer = await asyncio.open_connection("127.0.0.1", access.port)
    given = {"Host": f"127.0.0.1:{access.port}", "Connection": "close"} | headers
    given |= {"Authorization": f"Bearer {access.token if token is None else token}"} if token != "" else {}
    given |= {} if body is None else {"Content-Length": str(len(body.encode()))}
    lines = "".join(f"{name}: {value}\r\n" for name, value in given.items())
    writer.write(f"{'GET' if body is None else 'POST'} {path} HTTP/1.1\r\n{lines}\r\n{body or ''}".encode())
    head, _, rest = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    return int(head.split()[1]), head.decode(), rest.decode()


async def finished(access: Access) -> dict[str, object]:
    while True:
        found: dict[str, object] = json.loads((await asked(access, "/state"))[2])
        if found["before"] is None:
            return found
        await asyncio.sleep(0.01)


def test_a_student_hands_in_and_sees_nothing_of_others() -> None:
    async def test(room: Classroom) -> None:
        ada, bob = room.students["Ada"], room.students["Bob"]
        status, head, page = await asked(ada, "/")
        assert status == 200 and "LOSSLESS: set[int] = set()" in page and "Keep this part" not in page
        assert BASICS.drawn("Ada")["cells of the buffer"] in page and "script-src 'sha256-" in head
        assert (await asked(ada, "/run", WORK))[0] == 200
        assert await finished(ada) == {
            "before": None, "failure": "", "right": 9,
            "items": [{"what": f"step {number}", "right": True, "why": ""} for number in range(9)],
        }  # fmt: skip
        assert (await finished(bob))["items"] == []
        assert (await asked(ada, "/table.csv"))[0] == 403

    served(test)


def test_the_teacher_has_the_table_and_equal_work_is_in_it() -> None:
    async def test(room: Classroom) -> None:
        assert "0 of 3 have handed in. Not yet: Ada, Bob, =1+1." in (await asked(room.teacher, "/"))[2]
        for name in ("Ada", "Bob", "=1+1"):
            source = WORK if name != "=1+1" else json.dumps({"source": "X = 1", "answers": ""})
            assert (await asked(room.students[name], "/run", source))[0] == 200
            await finished(room.students[name])
        status, _, table = await asked(room.teacher, "/table.csv")
        rows = [line.split(",") for line in table.splitlines()]
        assert status == 200 and [row[:3] for row in rows[1:]] == [
            ["Ada", "9", "9"],
            ["Bob", "9", "9"],
            ["'=1+1", "0", "9"],
        ]
        assert rows[1][-2] == "Bob" and rows[2][-2] == "Ada"
        assert "3 of 3 have handed in.</p>" in (await asked(room.teacher, "/"))[2]
        assert (await asked(room.teacher, "/run", WORK))[0] == 403

    served(test)


def test_without_a_token_a_foreign_page_and_what_is_no_work_are_refused() -> None:
    async def test(room: Classroom) -> None:
        ada = room.students["Ada"]
        for path in ("/", "/state", "/table.csv"):
            assert (await asked(ada, path, token=""))[0] == 401
            assert (await asked(ada, path, token="x" * 43))[0] == 401
        assert (await asked(ada, "/run", WORK, Origin="http://evil.example"))[0] == 403
        assert (await asked(ada, "/", Host=f"evil.example:{ada.port}"))[0] == 401
        status, head, _ = await asked(ada, f"/?token={ada.token}", token="")
        assert status == 303 and "samesite=strict" in head.lower()
        for body, says in (
            ("[" * 100_000, "a file and answers are expected"), ("{}", "a file and answers are expected"),
            (json.dumps({"source": "", "answers": "["}), "answers.toml"),
            (json.dumps({"source": "#" * (grading.LARGEST + 1), "answers": ""}), "experiment.py"),
        ):  # fmt: skip
            status, _, answer = await asked(ada, "/run", body)
            assert status == 400 and says in json.loads(answer)["refused"]
        assert (await asked(ada, "/run", "x" * (LARGEST + 1)))[0] == 413
        assert (await asked(ada, "/run", json.dumps({"source": "\ud800", "answers": ""})))[0] == 200

    served(test)


@pytest.mark.parametrize(
    ("content", "says"), [("", "1 to 500 students"), ("Ada\n ada \n", "each once"), ("a\x1bb\n", "no name or number")]
)
def test_a_list_of_students_has_each_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, says: str
) -> None:
    file = tmp_path / "class.txt"
    file.write_text(content)
    assert cli.main(["lesson", "serve", "1", "--students", str(file)]) == 2
    assert says in capsys.readouterr().err
