"""The live view over real sockets: hostile requests, several viewers, one that does not read, Ctrl-C, a port in use."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.live_lab import scripted, window
from tests.report_folders import HOSTILE, MS, hostile, small

pytest.importorskip("uvicorn", reason="the Python packages of the extra `serve` are missing")
from testbed.serve import server
from testbed.serve.access import Access
from testbed.serve.app import application
from testbed.serve.live_lab import LiveLab

ROOT = Path(__file__).parents[3]
Test = Callable[[Access], Awaitable[None]]


def served(test: Test, results: list[Path], live: LiveLab | None) -> None:
    """Run the server and the test in one loop."""

    async def both() -> None:
        listening = server.listen("127.0.0.1", 0)
        access = Access("127.0.0.1", listening.getsockname()[1])
        up = asyncio.Event()
        serving = asyncio.ensure_future(server.serving(application(access, results, live), listening, live, up.set))
        await asyncio.wait_for(up.wait(), 20)
        try:
            await asyncio.wait_for(test(access), 60)
        finally:
            os.kill(os.getpid(), signal.SIGINT)  # as Ctrl-C does
            assert await asyncio.wait_for(serving, 20) == signal.SIGINT

    asyncio.run(both())


async def asked(access: Access, path: str, **headers: str) -> tuple[int, dict[str, str], str]:
    """Return status, headers and body of a GET."""
    reader, writer = await asyncio.open_connection("127.0.0.1", access.port)
    given = {"Host": f"127.0.0.1:{access.port}", "Connection": "close"}
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = "".join(f"{name}: {value}\r\n" for name, value in given.items())
    writer.write(f"GET {path} HTTP/1.1\r\n{lines}\r\n".encode())
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    first, *rest = head.decode().split("\r\n")
    return int(first.split()[1]), dict(line.lower().split(": ", 1) for line in rest), body.decode()


def cookie(access: Access) -> str:
    return f"{access.cookie}={access.token}"


def viewing(access: Access, **changes: Any) -> Any:
    """Open a viewer's socket as its browser does."""
    from websockets.asyncio.client import connect

    settings = {
        "origin": f"http://127.0.0.1:{access.port}",
        "additional_headers": {"Cookie": cookie(access)},
        "proxy": None,
    }
    return connect(f"ws://127.0.0.1:{access.port}/socket", **settings | changes)


def test_pages_take_the_token_a_host_of_this_machine_and_nothing_else(tmp_path: Path) -> None:
    folder = small(tmp_path / "one")

    async def test(access: Access) -> None:
        ours = f"127.0.0.1:{access.port}"
        for path in ("/", "/result/1", "/results", "/nothing"):
            assert (await asked(access, path))[0] == 401
            assert (await asked(access, path, Cookie=f"{access.cookie}=wrong"))[0] == 401
            assert (await asked(access, path, Cookie=cookie(access), Host=f"evil.example:{access.port}"))[0] == 421
        status, headers, _ = await asked(access, f"/?token={access.token}")
        assert status == 303 and headers["location"] == "/"
        assert "httponly" in headers["set-cookie"] and "samesite=strict" in headers["set-cookie"]
        status, headers, body = await asked(access, "/", Cookie=cookie(access), Host=ours)
        assert status == 200 and "xoffReport" in body and access.token not in body
        assert headers["content-security-policy"] == "frame-ancestors 'none'" and headers["cache-control"] == "no-store"
        assert (await asked(access, "/result/2", Cookie=cookie(access)))[0] == 404
        assert (await asked(access, "/result/../../etc/passwd", Cookie=cookie(access)))[0] == 404
        assert (await asked(access, f"/?token={access.token}x"))[0] == 401

    served(test, [folder], None)


def test_a_page_of_another_origin_a_wrong_token_and_a_wrong_host_get_no_socket(tmp_path: Path) -> None:
    from websockets.exceptions import InvalidStatus

    _, live = scripted(tmp_path)

    async def test(access: Access) -> None:
        refused: list[dict[str, Any]] = [
            {"origin": "http://evil.example"},
            {"origin": None},
            {"additional_headers": {}},
            {"additional_headers": {"Cookie": f"{access.cookie}=wrong"}},
            {"additional_headers": {"Cookie": cookie(access), "Host": f"evil.example:{access.port}"}},
        ]
        for changes in refused:
            with pytest.raises(InvalidStatus) as error:
                async with viewing(access, **changes):
                    pass
            assert error.value.response.status_code in (400, 403), changes
        assert len(live.viewers) == 0
        async with viewing(access, origin=None, additional_headers={"Authorization": f"Bearer {access.token}"}) as one:
            assert json.loads(await one.recv())["type"] == "snapshot"

    served(test, [], live)


def test_all_viewers_see_the_same_and_commands_reach_the_lab(tmp_path: Path) -> None:
    session, live = scripted(tmp_path)

    async def test(access: Access) -> None:
        async with viewing(access) as one, viewing(access) as other:
            for viewer in (one, other):
                assert [json.loads(await viewer.recv())["type"] for _ in range(2)] == ["snapshot", "pace"]
            session.write(window(5 * MS, loads=[[MS, "h1-eth0", 10**7]]))
            same = [await viewer.recv() for viewer in (one, other)]
            assert same[0] == same[1] and json.loads(same[0])["rows"] == [[0, MS, 10**7]]
            await one.send('{"do": "kill", "node": "s1"}')
            while not session.commands:
                await asyncio.sleep(0.01)
            assert session.commands == [{"id": 1, "do": "kill", "node": "s1"}]
            session.write({"live": "answer", "id": 1, "ok": True, "text": "the agent of s1 was killed"})
            answers = [json.loads(await one.recv()) for _ in range(2)]
            assert {"type": "answer", "ok": True, "text": "the agent of s1 was killed"} in answers
            await other.recv()
            await one.send('{"do": "pause", "on": true}')
            assert json.loads(await other.recv())["paused"] is True
            await other.send("no command " + "x" * 1000)
            assert json.loads(await other.recv())["ok"] is False
            assert len(session.commands) == 1

    served(test, [], live)


@pytest.mark.slow
def test_a_viewer_that_stops_reading_holds_up_no_other(tmp_path: Path) -> None:
    session, live = scripted(tmp_path)
    long = [[step, "h1-eth0", step] for step in range(1, 3000)]

    async def test(access: Access) -> None:
        async with viewing(access) as reads, viewing(access, max_queue=1) as stuck:
            stuck.transport.pause_reading()
            for _ in range(2):
                await reads.recv()
            async with asyncio.timeout(120):  # it takes some seconds, or for ever; a busy machine is no failure
                for number in range(220):
                    session.write(window(number * MS, loads=long))
                    assert json.loads(await reads.recv())["t_ns"] == number * MS
            while len(live.viewers) > 1:
                await asyncio.sleep(0.05)
            session.write(window(10**9))
            assert json.loads(await reads.recv())["t_ns"] == 10**9
            stuck.transport.abort()

    served(test, [], live)


def test_hostile_names_do_not_leave_the_text_of_the_page(tmp_path: Path) -> None:
    _, live = scripted(tmp_path, nodes={HOSTILE: "host", "s1": "switch"}, hosts=[HOSTILE])
    folder = hostile(tmp_path / "one")

    async def test(access: Access) -> None:
        for path in ("/lab", "/result/1", "/"):
            status, _, body = await asked(access, path, Cookie=cookie(access))
            assert status == 200
            assert "<img src=x" not in body and "\x1b" not in body and "<script>document.title" not in body

    served(test, [folder], live)


@pytest.mark.slow
def test_the_command_reports_a_port_in_use_and_ends_at_ctrl_c(tmp_path: Path) -> None:
    folder = small(tmp_path / "one")
    command = [sys.executable, "-m", "testbed", "serve", str(folder), "--port"]
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        number = str(taken.getsockname()[1])
        done = subprocess.run([*command, number], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (
        done.returncode == 3 and f"port {number} of 127.0.0.1 is in use" in done.stderr and "Trace" not in done.stderr
    )
    running = subprocess.Popen([*command, "0"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert running.stdout is not None
    assert running.stdout.readline().startswith("http://127.0.0.1:")
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=20)
    assert running.returncode == 130 and "interrupted" in said and "Trace" not in said


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["incats"], "did you mean incast?"),
        (["results/none"], "there is no result folder"),
        (["incast", "chain"], "one lab runs at a time"),
        (["incast", "--speed", "0"], "it is 0.001 to 100"),
        (["incast", "--port", "70000"], "70000 is not a port"),
        (["incast", "--partitions", "2"], "2 kernels cannot have a live view: what a click does acts at a node"),
        (["incast", "--listen", "example.org"], "is not an IP address"),
    ],
)
def test_a_mistake_gets_one_line(given: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    from testbed.cli import main

    assert main(["serve", *given]) == 2
    assert message in " ".join(capsys.readouterr().err.split())
