"""Compares the losses of flows with the network's counters.

Congestion drops frames in a buffer, which counts them. A frame that is lost without a counter, for example while a
kernel resolves a neighbour's address, points to another fault and must not pass for a loss by congestion.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

NOT_COUNTED = "lost, and in no counter"


class Notebook(Protocol):
    """A `Run`."""

    def figure(self, name: str, value: Any) -> None: ...
    def claim(self, name: str, measured: Any, *, equals: Any) -> object: ...


def account(run: Notebook, lost: int, losses: Callable[[], dict[str, int] | None]) -> None:
    """Claim that each loss of a flow is in a counter, if flows have lost anything."""
    if not lost or (counted := losses()) is None:
        return
    run.figure("lost by flows", lost)
    run.figure("dropped or still queued, by reason", counted)
    run.claim(NOT_COUNTED, max(0, lost - sum(counted.values())), equals=0)
