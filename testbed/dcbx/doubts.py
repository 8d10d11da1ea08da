"""Two willing ports that follow each other, and how they come to rest (decision 0102).

By its tie-break a port follows a willing peer. If the peer's tie-break is the opposite one, the peer follows this port,
and two values can go round between them for ever. What a port sees of that is a swap: it has taken over a value of the
peer's, and then the peer says this port's own. It may mean nothing, because old frames and an administrator can make
the same: so what follows from it is a doubt that ends by itself. While a port doubts a feature it follows no longer but
stands by its own value, and a peer that follows comes to rest on that. Two ports that doubt at the same time do not
stop at the same time: the one with the lower address follows first, and the other stands until it has.
"""

from __future__ import annotations

from testbed.dcbx.negotiation import SYMMETRIC, Feature, PortState
from testbed.frames import Mac
from testbed.units import Duration, Scale

_LOWER, _HIGHER = Duration("5s"), Duration("10s")
"""How long a port doubts, in protocol time: by whose address is its own. Less than either, and than their difference,
is what two ports need until each has heard of a change of the other's: a second for a credit, for each of them."""


class Doubts:
    """One port's, by the name of the feature."""

    def __init__(self, mac: Mac, scale: Scale) -> None:
        self._mac = mac
        self._lower_ns, self._higher_ns = scale.lab(_LOWER).ns, scale.lab(_HIGHER).ns
        self._ends_ns: dict[str, int] = {}

    def at(self, now_ns: int) -> frozenset[str]:
        """The features that are in doubt now."""
        self._ends_ns = {name: end for name, end in self._ends_ns.items() if end > now_ns}
        return frozenset(self._ends_ns)

    def notice(self, before: PortState, after: PortState, peer: Mac, now_ns: int) -> list[str]:
        """A frame of the peer's made one state of the other. Returns the features whose values were swapped."""
        swapped = [name for name in SYMMETRIC if _swaps(getattr(before, name), getattr(after, name))]
        lasts_ns = self._higher_ns if self._mac > peer else self._lower_ns
        self._ends_ns.update(dict.fromkeys(swapped, now_ns + lasts_ns))
        return swapped

    def forget(self) -> None:
        """The peer or the settings are others now."""
        self._ends_ns.clear()

    def deadline_ns(self) -> int | None:
        """When the next doubt ends."""
        return min(self._ends_ns.values(), default=None)


def _swaps(before: Feature[object], after: Feature[object]) -> bool:
    """Has this port followed a willing peer, and the peer turned to this port's own value?"""
    both_are_willing = before.willing and before.remote_willing and after.willing and after.remote_willing
    followed = before.admin == after.admin and before.oper == before.remote != before.admin
    return bool(both_are_willing and followed and after.remote == after.admin)
