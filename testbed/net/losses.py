"""What flows have lost, beside what the network's counters say of it.

Congestion drops frames in a buffer. A frame that vanishes where nobody counts, as in a kernel's search for a neighbour,
says that something else is wrong, and must not pass for the loss that an experiment wants to see.
"""

from __future__ import annotations

from typing import Any, Protocol


class Notebook(Protocol):
    """A `Run`."""

    def figure(self, name: str, value: Any) -> None: ...
    def claim(self, name: str, measured: Any, *, equals: Any) -> object: ...


class Network(Protocol):
    """A fabric."""

    lost: int

    def losses(self) -> dict[str, int] | None: ...


def account(run: Notebook, fabric: Network) -> None:
    """Claim that each loss of a flow is in a counter. Without a loss there is nothing to say."""
    if not fabric.lost or (counted := fabric.losses()) is None:
        return
    run.figure("lost by flows", fabric.lost)
    run.figure("dropped, or waiting still, by reason", counted)
    run.claim("lost without a counter that tells where", max(0, fabric.lost - sum(counted.values())), equals=0)
