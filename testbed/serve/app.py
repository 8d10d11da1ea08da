"""The web application: pages and a WebSocket, behind the access rule."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from testbed.errors import UsageError, XoffError
from testbed.lab.results.result import RESULT
from testbed.metrics.openmetrics import CONTENT_TYPE
from testbed.report.pages.page import report
from testbed.serve import history, page
from testbed.serve.access import Access, Verdict
from testbed.serve.commands import FILE
from testbed.serve.live_lab import MOST, LiveLab, Viewer

Scope = MutableMapping[str, Any]
App = Callable[[Scope, Any, Any], Awaitable[None]]
_TRY_LATER, _REFUSED = 1013, 1008
_LONGEST_SEND_S = 10.0
"""The seconds after which a viewer that takes nothing is disconnected."""
_WORDS = {
    Verdict.WRONG_TOKEN: "This address needs the token that xoff serve has printed.",
    Verdict.WRONG_HOST: "This is not the address of this server.",
    Verdict.WRONG_ORIGIN: "This server takes nothing from pages of other servers.",
}
HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


def application(access: Access, results: list[Path], live: LiveLab | None) -> App:
    """Return the application for some results, a lab, or both."""
    pages = _Pages(access, results, live)
    routes: list[Any] = [
        Route("/", pages.first),
        Route("/results", pages.results),
        Route("/favicon.ico", _no_icon),
        Route("/result/{number}", pages.result),
        Route("/metrics", pages.metrics),
        Route("/result/{number}/metrics", pages.metrics),
    ]
    if live is not None:
        routes += [
            Route("/lab", pages.lab),
            Route(f"/{FILE}", pages.session),
            WebSocketRoute("/socket", pages.socket),
        ]
    return _Guard(access, Starlette(routes=routes, exception_handlers={404: _not_found}))


class _Guard:
    """The middleware that passes only those requests on that the access rule admits."""

    def __init__(self, access: Access, inner: App) -> None:
        self._access, self._inner = access, inner

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope.get("headers", [])}
        if scope["type"] == "websocket":
            if self._access.judge_socket(headers) is not Verdict.ADMIT:
                await receive()
                await send({"type": "websocket.close", "code": _REFUSED})  # before it is accepted: HTTP 403
                return
            await self._inner(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [None])[0]
        verdict = self._access.judge(headers, given)
        if verdict is Verdict.ADMIT:
            await self._inner(scope, receive, send)
            return
        response: Response
        if verdict is Verdict.TAKE_COOKIE:
            response = RedirectResponse(scope["path"] if scope["path"].startswith("/r") else "/", 303, HEADERS)
            response.set_cookie(self._access.cookie, self._access.token, httponly=True, samesite="strict")
        else:
            closing = HEADERS | {"Connection": "close"}  # a place for others
            response = PlainTextResponse(f"{_WORDS[verdict]}\n", verdict.value, closing)
        await response(scope, receive, send)


class _Pages:
    def __init__(self, access: Access, results: list[Path], live: LiveLab | None) -> None:
        self._access, self._results, self._live = access, results, live
        self._made: dict[tuple[Path, ...], tuple[list[int], str]] = {}
        self._making = asyncio.Lock()

    async def first(self, request: Request) -> Response:
        if self._live is not None and not self._results:
            return await self.lab(request)
        if self._live is None and len(self._results) == 1:
            return await self._report(self._results)
        return _html(page.index(self._results, self._live.lab.topology if self._live else None))

    async def lab(self, request: Request) -> Response:
        assert self._live is not None
        source, policy = page.live(
            self._live.lab.topology, self._live.feed, request.headers["host"], bool(self._results)
        )
        return _html(source, policy)

    async def session(self, request: Request) -> Response:
        """Return the session so far as an experiment file."""
        assert self._live is not None
        source = self._live.session.as_experiment(self._live.feed.t_ns)
        kept = {"Content-Disposition": f'attachment; filename="{FILE}"'}
        return PlainTextResponse(source, 200, HEADERS | kept, media_type="text/x-python")

    async def results(self, request: Request) -> Response:
        return await self._report(self._results) if self._results else await _not_found(request, None)

    async def result(self, request: Request) -> Response:
        numbered = {str(number): path for number, path in enumerate(self._results, 1)}
        path = numbered.get(request.path_params["number"])
        return await self._report([path]) if path is not None else await _not_found(request, None)

    async def metrics(self, request: Request) -> Response:
        """Answer with the metrics of the lab as it is now, or with the history of a result."""
        number = request.path_params.get("number")
        if number is None and self._live is not None:
            return _metrics(self._live.metrics.text())
        if number is None and len(self._results) != 1:
            text = f"There are {len(self._results)} results; /result/1/metrics has the metrics of the first.\n"
            return PlainTextResponse(text, 404, HEADERS)
        path = {str(place): path for place, path in enumerate(self._results, 1)}.get(number or "1")
        if path is None:
            return await _not_found(request, None)
        async with self._making:
            try:
                return _metrics(await asyncio.to_thread(history.exposition, path, *history.asked(request.query_params)))
            except UsageError as error:
                return PlainTextResponse(f"{error}\n", 400, HEADERS)
            except (XoffError, OSError) as error:
                return PlainTextResponse(f"{error}\n", 500, HEADERS)

    async def socket(self, socket: WebSocket) -> None:
        live = self._live
        assert live is not None
        await socket.accept()
        if len(live.viewers) >= MOST:
            await socket.close(_TRY_LATER, f"there are {MOST} viewers already")
            return
        viewer = live.join()
        tasks: list[asyncio.Future[Any]] = [
            asyncio.ensure_future(_send(socket, viewer)),
            asyncio.ensure_future(_receive(socket, live, viewer)),
            asyncio.ensure_future(viewer.is_behind.wait()),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            live.viewers.leave(viewer)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if viewer.is_behind.is_set():
            await asyncio.wait([asyncio.ensure_future(_close(socket, _TRY_LATER))], timeout=1)

    async def _report(self, paths: list[Path]) -> Response:
        """Return the report, made anew if a result has changed; one at a time, beside the lab and other viewers."""
        async with self._making:
            try:
                stamps = [(path / RESULT).stat().st_mtime_ns for path in paths]
                made = self._made.get(tuple(paths))
                if made is None or made[0] != stamps:
                    made = stamps, await asyncio.to_thread(report, paths)
                    self._made[tuple(paths)] = made
            except (XoffError, OSError) as error:
                return PlainTextResponse(f"{error}\n", 500, HEADERS)
        return _html(made[1])


async def _send(socket: WebSocket, viewer: Viewer) -> None:
    while True:
        await asyncio.wait_for(socket.send_text(await viewer.get()), _LONGEST_SEND_S)


async def _receive(socket: WebSocket, live: LiveLab, viewer: Viewer) -> None:
    try:
        while True:
            live.perform(viewer, await socket.receive_text())
    except (WebSocketDisconnect, RuntimeError, KeyError):  # it has gone, or has sent octets in place of text
        return


async def _close(socket: WebSocket, code: int) -> None:
    try:
        await socket.close(code, "too far behind")
    except RuntimeError:  # it has gone
        return


async def _no_icon(request: Request) -> Response:
    """Answer the request for an icon, which browsers make by themselves."""
    return Response(None, 204, HEADERS)


async def _not_found(request: Request, _: Any) -> Response:
    return PlainTextResponse("There is no such page; / has links to all.\n", 404, HEADERS)


def _metrics(text: str) -> Response:
    return Response(text, 200, HEADERS | {"Content-Type": CONTENT_TYPE})


def _html(source: str, policy: str = "frame-ancestors 'none'") -> Response:
    return HTMLResponse(source, 200, HEADERS | {"Content-Security-Policy": policy})
