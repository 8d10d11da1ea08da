"""Connections without a request take no place from others, whoever opens them and however slowly they send."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.live_lab import scripted, window
from tests.report_folders import MS, small

pytest.importorskip("uvicorn", reason="the Python packages of the extra `serve` are missing")
from testbed.serve import server
from testbed.serve.access import Access
from testbed.serve.server import MOST_WAITING, Waiting
from tests.unit.serve.test_app import asked, cookie, served, viewing

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def connected(access: Access, number: int, address: str = "127.0.0.1") -> AsyncIterator[list[Connection]]:
    """Open so many connections that send nothing."""
    made = [await asyncio.open_connection("127.0.0.1", access.port, local_addr=(address, 0)) for _ in range(number)]
    try:
        yield made
    finally:
        for _, writer in made:
            writer.transport.abort()


async def open_ones(connections: list[Connection]) -> list[bool]:
    """Return the connections that the server has not closed."""
    await asyncio.sleep(0.2)  # for what the server has sent
    return [not reader.at_eof() and reader.exception() is None for reader, _ in connections]


def test_silent_connections_shut_out_no_other(tmp_path: Path) -> None:
    session, live = scripted(tmp_path)

    async def test(access: Access) -> None:
        async with viewing(access) as before, connected(access, 400) as silent:
            assert sum(await open_ones(silent)) <= MOST_WAITING
            status, headers, _ = await asyncio.wait_for(asked(access, "/"), 5)
            assert (status, headers["connection"]) == (401, "close")
            assert (await asyncio.wait_for(asked(access, "/lab", Cookie=cookie(access)), 5))[0] == 200
            async with viewing(access) as after:
                session.write(window(5 * MS))
                for viewer in (before, after):
                    for _ in range(3):
                        await asyncio.wait_for(viewer.recv(), 5)

    served(test, [], live)


def test_one_address_takes_no_place_from_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "Waiting", functools.partial(Waiting, 20))

    async def test(access: Access) -> None:
        async with connected(access, 5) as few, connected(access, 50, "127.0.0.2") as many:
            assert await open_ones(few) == [True] * 5
            assert await open_ones(many) == [False] * 35 + [True] * 15

    served(test, [small(tmp_path / "one")], None)


@pytest.mark.slow
def test_a_request_has_its_time_from_first_to_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit holds however steadily a request comes; one with a token is subject to it, too."""
    monkeypatch.setattr(server, "Waiting", functools.partial(Waiting, request_s=1.0))
    session, live = scripted(tmp_path)

    async def test(access: Access) -> None:
        head = f"Host: 127.0.0.1:{access.port}\r\nCookie: {cookie(access)}\r\n".encode()
        starts = [
            b"",
            b"GET / HTTP/1.1\r\n",
            b"POST / HTTP/1.1\r\n" + head + b"Content-Length: 100000\r\n\r\n",
            b"GET /favicon.ico HTTP/1.1\r\n" + head + b"\r\nGET / HTTP/1.1\r\n",
        ]
        drips = [b"", b"X: y\r\n", b"body", b"X: y\r\n"]
        async with viewing(access) as viewer, connected(access, len(starts)) as slow:
            for (_, writer), start in zip(slow, starts, strict=True):
                writer.write(start)
            begun = asyncio.get_running_loop().time()
            gone: set[int] = set()
            while len(gone) < len(slow):
                for number, (reader, writer) in enumerate(slow):
                    if reader.at_eof() or reader.exception() is not None or writer.transport.is_closing():
                        gone.add(number)
                    elif drips[number]:
                        writer.write(drips[number])
                        reader._buffer.clear()  # type: ignore[attr-defined]
                await asyncio.sleep(0.1)
                assert asyncio.get_running_loop().time() - begun < 20, f"only {gone} are gone"
            await asyncio.sleep(max(0, begun + 2.5 - asyncio.get_running_loop().time()))
            session.write(window(5 * MS))  # a viewer may be silent
            for _ in range(3):
                await asyncio.wait_for(viewer.recv(), 5)

    served(test, [], live)


def test_a_result_of_any_other_number_is_not_there(tmp_path: Path) -> None:
    async def test(access: Access) -> None:
        for number in ("9" * 5000, "0", "2", "01", "-1", "%D9%A1", "1.0", "one"):
            assert (await asked(access, f"/result/{number}", Cookie=cookie(access)))[0] == 404, number
        assert (await asked(access, "/result/1", Cookie=cookie(access)))[0] == 200

    served(test, [small(tmp_path / "one")], None)
