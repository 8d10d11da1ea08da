"""Two willing ports that follow each other, and how they come to rest (decision 0102).

By its tie-break a port follows a willing peer. If the peer's tie-break is the opposite one, the peer follows this
port, and two values can go round between them for ever. What a port sees of that is a swap: it takes over a value that
it has left before, and then another one. The first of them alone means nothing: a peer may choose of itself what this
port said (decision 0148). Also the second may mean nothing, because old frames and an administrator can make the same:
so what follows from it is a doubt that ends by itself. While a port doubts a feature it follows no longer, but keeps
the value that it has just taken over, and a peer that follows comes to rest on that. Two ports that doubt at the same
time do not stop at the same time: the one with the lower address follows first, and the other keeps its value until it
has.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass

from testbed.dcbx.negotiation import SYMMETRIC, Feature, PortState
from testbed.frames import Mac
from testbed.units import Duration, Scale

_LOWER, _HIGHER = Duration("5s"), Duration("10s")
"""How long a port doubts, in protocol time: by whose address is its own. Less than either, and than their difference,
is what two ports need until each has heard of a change of the other's: a second for a credit, for each of them."""
_MOST_LEFT = 8
"""More values than can go round at once: two, if frames arrive before the next ones are sent."""
_COME_BACK = 2
"""Values that the port has left and follows again, one after the other, that are a swap."""


@dataclass(frozen=True, slots=True)
class _Doubt:
    kept: object
    end_ns: int


class FlapGuard:
    """One port's, by the name of the feature."""

    def __init__(self, mac: Mac, scale: Scale) -> None:
        self._mac = mac
        self._lower_ns, self._higher_ns = scale.lab(_LOWER).ns, scale.lab(_HIGHER).ns
        self._doubts: dict[str, _Doubt] = {}
        self._left: dict[str, deque[object]] = {}  # values that the port has left to follow its peer, the last ones
        self._come_back: Counter[str] = Counter()  # how many of these it took over again, one after the other

    def kept(self, now_ns: int) -> Mapping[str, object]:
        """The features that are in doubt now, and the value that the port keeps in each."""
        self._doubts = {name: doubt for name, doubt in self._doubts.items() if doubt.end_ns > now_ns}
        return {name: doubt.kept for name, doubt in self._doubts.items()}

    def notice(self, before: PortState, after: PortState, peer: Mac, now_ns: int) -> list[str]:
        """One state has become the other. Returns the features whose values were swapped."""
        lasts_ns = self._higher_ns if self._mac > peer else self._lower_ns
        swapped = []
        for name in SYMMETRIC:
            old: Feature[object] = getattr(before, name)
            new: Feature[object] = getattr(after, name)
            if not (new.willing and new.remote_willing):
                self._left.pop(name, None)
                del self._come_back[name]
            elif old.oper != new.oper == new.remote:
                left = self._left.setdefault(name, deque(maxlen=_MOST_LEFT))
                self._come_back[name] = self._come_back[name] + 1 if new.oper in left else 0
                left.append(old.oper)
                if self._come_back[name] == _COME_BACK:
                    swapped.append(name)
                    left.clear()
                    del self._come_back[name]
                    self._doubts[name] = _Doubt(new.oper, now_ns + lasts_ns)
        return swapped

    def forget(self) -> None:
        """The peer or the settings are others now."""
        self._doubts.clear()
        self._left.clear()
        self._come_back.clear()

    def deadline_ns(self) -> int | None:
        """When the next doubt ends."""
        return min((doubt.end_ns for doubt in self._doubts.values()), default=None)
