"""Where networks write what happened in them: the run of the experiment in this process."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Protocol

DCBX_LOG = "dcbx.jsonl"
"""In a result folder: every LLDP frame and every change, for `xoff export --ladder`."""

CAPTURES = "captures"
"""In a result folder; in it a folder for each network, 1 for the first."""
CAPTURE_PROCESS = "xoff-capture"
"""The name of a process that writes captures. When a run is cut short the lab ends it by SIGTERM, before all else."""


class Notebook(Protocol):
    """What a network needs of a `Run`."""

    directory: Path
    capture_octets: int
    series_ns: int
    follower: int
    """Where a network reports what it does while it runs, as a file descriptor; -1: nowhere."""
    is_in_lab_time: bool

    @property
    def lab_ns(self) -> int: ...
    def history(self, lines: Callable[[int], Iterable[str]]) -> None: ...
    def agent_lateness(self, worst_ns: int) -> None: ...
    def lines(self, file: str, events: Iterable[Mapping[str, Any]]) -> None: ...
    def figure(self, name: str, value: Any) -> None: ...
    def claim(self, name: str, measured: Any, *, equals: Any) -> object: ...
    def network_is_up(self) -> AbstractContextManager[None]: ...
    def traffic_is_running(self) -> AbstractContextManager[None]: ...
    def measuring(self) -> AbstractContextManager[None]: ...


def warn(text: str) -> None:
    """Print a warning: it is in the run's output, and the user sees it at once."""
    print(f"warning: {text}", file=sys.stderr, flush=True)


_CURRENT: ContextVar[Notebook | None] = ContextVar("notebook", default=None)


def current() -> Notebook | None:
    """The run at work; None outside an experiment."""
    return _CURRENT.get()


@contextmanager
def current_is(notebook: Notebook) -> Iterator[None]:
    """Make it the run at work for as long as the block lasts."""
    token = _CURRENT.set(notebook)
    try:
        yield
    finally:
        _CURRENT.reset(token)
