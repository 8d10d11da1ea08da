"""A student's run for the checks of a lesson: figures, networks by their case, and events in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from testbed.lab.results import folder
from testbed.lab.results.folder import Event, Network


class NotYet(Exception):
    """Raised if something is not right yet, in words that do not give the answer away."""


class Missing(NotYet):
    """Raised if the run lacks what a check looks at, because the student has changed a part that was to stay."""


class Seen:
    """The result folder of a run, for checks."""

    def __init__(self, path: Path) -> None:
        self._folder = folder.read(path)

    @cached_property
    def _events(self) -> list[Event]:
        return list(self._folder.events())

    def figure(self, name: str) -> Any:
        """Return the value of a figure that the run reported."""
        for figure in self._folder.figures:
            if figure.name == name:
                return figure.value
        raise Missing(f"the run has no figure {name!r}: keep the part of the file that reports it, or start anew")

    def network(self, case: str) -> Network:
        """Return the network of a case."""
        for network in self._folder.networks:
            if network.case == case:
                return network
        raise Missing(f"the run has no network {case!r}: keep the part of the file that makes it, or start anew")

    def events(self, case: str, *names: str, port: str = "", priority: int | None = None) -> Iterator[Event]:
        """Yield the events of some kinds while a network ran."""
        network = self.network(case)
        for event in self._events:
            if (
                event.name in names
                and network.start_ns <= event.t_ns <= network.end_ns
                and port in ("", event.port)
                and (priority is None or priority in event.priorities)
            ):
                yield event

    def count(self, case: str, *names: str, port: str = "", priority: int | None = None) -> int:
        return sum(1 for _ in self.events(case, *names, port=port, priority=priority))

    def group(self, case: str, port: str, priority: int) -> dict[str, Any]:
        """Return the thresholds of a priority of frames that come in by a port, as `networks.jsonl` has them."""
        found = self.network(case).ports.get(port, {}).get("groups", {}).get(str(priority))
        if not isinstance(found, dict):
            raise NotYet(f"{port} has no thresholds of its own for priority {priority}: is it lossless there?")
        return found

    def lossless(self, case: str, port: str) -> list[int]:
        """Return the priorities with PFC at a port, at the start of the network."""
        found = self.network(case).ports.get(port, {}).get("lossless", [])
        return found if isinstance(found, list) else []


def require(holds: object, otherwise: str) -> None:
    """Raise NotYet unless something holds."""
    if not holds:
        raise NotYet(otherwise)


def every(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"
