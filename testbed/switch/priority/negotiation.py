"""The interface of settings that a port negotiates with its peer. DCBX, which negotiates them, is a subject.

`Port(dcbx=...)` takes them, and `Port.with_dcbx` makes them by the subject that knows how (`Subject.negotiation`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from testbed.frames.dcbx.values import Ets


class Negotiation(Protocol):
    """The settings with which a port negotiates."""

    @property
    def lossless(self) -> frozenset[int] | None:
        """The priorities that are lossless until the port finds a peer; None if PFC is not negotiated."""

    @property
    def shares(self) -> Ets | None:
        """The shares of the line until the port finds a peer; None if they are not negotiated."""

    @property
    def measures_headroom(self) -> bool:
        """True if the port measures its headroom when its peer does, too."""

    @property
    def buffer_by_classes(self) -> bool:
        """True if this port's buffer is sized for as many traffic classes as the peer has."""

    def with_lossless(self, priorities: frozenset[int]) -> Negotiation:
        """Return the same settings with these priorities lossless."""


Negotiate = Callable[..., Negotiation]
"""The function that a subject names: of a `Port` and the options of `Port.with_dcbx`; it returns the settings."""
