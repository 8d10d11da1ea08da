"""A process that notes each change of the routes of a network's routers, with the moment of the lab's clock.

The run's folder gets them as `routes.jsonl`. The experiment's process asks when the last change was, and waits for the
next one.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from testbed.experiment.run import Run
from testbed.experiment.run_files import ROUTE_LOG
from testbed.linux.process import kernel
from testbed.linux.process.forked_helper import READY, STOP, Ending, ForkedHelper, PacketPipe
from testbed.subjects.routing.lab.route_table import RouteNotices, RouteTable

_MOST_NAMES = 100
"""The most routers that an answer names; more are all."""


@dataclass(frozen=True)
class Changes:
    """What has happened so far: the number of changes, the last one's moment, and the routers that changed lately."""

    count: int
    last_ns: int
    routers: tuple[str, ...] | None
    """None: any of them."""


@dataclass(frozen=True)
class RouteEvent:
    """A change of a route, as the run's log has it."""

    lab_ns: int
    """The moment by the lab's clock."""
    router: str
    route: str
    ports: tuple[str, ...]
    """The ports of its equal ways; none: it was removed."""
    by: str


def events(run: Run) -> list[RouteEvent]:
    """Return the changes of routes in a run so far."""
    log, begin_ns = run.directory / ROUTE_LOG, run.start_ns
    lines = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    return [
        RouteEvent(one["lab_ns"] + begin_ns, one["router"], one["route"], tuple(one["ports"]), one["by"])
        for one in lines
    ]


def taken_from(run: Run, line: int) -> list[dict[str, Any]]:
    """Remove the lines of a run's log from a line on, and return them with moments by the lab's clock."""
    log, begin_ns = run.directory / ROUTE_LOG, run.start_ns
    lines = log.read_text().splitlines(keepends=True) if log.exists() else []
    if lines[line:]:
        log.write_text("".join(lines[:line]))
    return [found | {"t_ns": found["lab_ns"] + begin_ns} for found in map(json.loads, lines[line:])]


class RouteWatch:
    """The watch over routers, which are given as a process in the namespace of each."""

    def __init__(self, routers: Mapping[str, int], run: Run | None) -> None:
        self._helper: ForkedHelper[PacketPipe] = ForkedHelper(
            "watching the routes failed", lambda pipe: _Watcher(routers, run).watch(pipe), PacketPipe.pair(),
            Ending.RETURNS, name="xoff-routes",
        )  # fmt: skip
        self._helper.receive()  # from now on no change is missed

    def after(self, count: int, until_ns: int) -> Changes:
        """Return what has happened as soon as it is more than `count` changes, or at a moment at the latest."""
        self._helper.send((count, until_ns))
        found: Changes = self._helper.receive()
        return found

    def stop(self) -> None:
        self._helper.stop()


class _Watcher:
    """The watch, in its own process."""

    def __init__(self, routers: Mapping[str, int], run: Run | None) -> None:
        self._run = run
        self._notices, self._names = {}, {}
        for name, pid in routers.items():
            notices = RouteNotices(pid)
            self._notices[notices.fileno()] = name, notices
            table = RouteTable(pid)
            self._names[name] = {link.index: link.name for link in table.links()}
            table.close()
        self._count, self._last_ns, self._changed = 0, time.monotonic_ns(), set[str]()

    def watch(self, pipe: PacketPipe) -> None:
        pipe.send(READY)
        asked: tuple[int, int] | None = None
        while True:
            timeout_s = None
            if asked is not None:
                if self._count > asked[0] or time.monotonic_ns() >= asked[1]:
                    names = tuple(sorted(self._changed)) if len(self._changed) <= _MOST_NAMES else None
                    pipe.send(Changes(self._count, self._last_ns, names))
                    self._changed.clear()
                    asked = None
                else:
                    timeout_s = (asked[1] - time.monotonic_ns()) / 1e9
            for descriptor in kernel.wait_readable([pipe, *self._notices], timeout_s):
                if descriptor != pipe.fileno():
                    self._read(*self._notices[descriptor])
                    continue
                message = pipe.recv()
                if message == STOP:
                    return
                asked = message

    def _read(self, name: str, notices: RouteNotices) -> None:
        now_ns, lines = time.monotonic_ns(), []
        for change in notices.read():
            self._count, self._last_ns = self._count + 1, now_ns
            self._changed.add(name)
            if change.destination:
                ports = [self._names[name].get(port, str(port)) for port in change.ports]
                lines.append(
                    {"t_ns": now_ns, "router": name, "route": change.destination, "ports": ports, "by": change.by}
                )
        if self._run is not None:
            self._run.lines(ROUTE_LOG, lines)
