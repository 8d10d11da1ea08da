"""A limit on how often a port processes changed frames from its link: as often as LLDP lets one neighbour send.

IEEE 802.1AB gives a transmitter 10 frames at most at once (txCreditMax), and one more each second. A neighbour that
changes its TLVs with every frame would otherwise make this port negotiate, program a NIC and write a log thousands
of times in a second. A frame beyond that is held; of each neighbour the last one, so nothing that lasts is lost. Held
frames are read one a second, the longest held first. Frames that repeat what is known cost nothing and are never held.

A guard that stops two willing ports from following each other for ever (decision 0102).

By its tie-break a port follows a willing peer. If the peer's tie-break is the opposite one, the peer follows this
port, and two values can go round between them for ever. What a port sees of that is a swap: it takes over a value that
it has left before, and then another one. The first of them alone is no evidence: a peer may choose by itself the value
that this port had (decision 0148). The second can have other causes too, such as delayed frames or an administrator, so
the reaction is a hold that ends by itself. While a feature is on hold, the port keeps the value that it has just taken
over, and a peer that follows converges on it. If both ports hold at the same time, their holds end at different times:
the port with the lower address follows first, and the other keeps its value until then.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass

from testbed.frames import Mac
from testbed.frames.lldp import LldpFrame
from testbed.subjects.dcbx import features
from testbed.subjects.dcbx.features.feature import FeatureState
from testbed.subjects.dcbx.negotiation import PortState
from testbed.subjects.dcbx.neighbours import MOST, Identifier
from testbed.units import Duration, Scale

MOST_AT_ONCE = 10
_TICK = Duration("1s")


class TokenBucket:
    """A token bucket with room for `most` tokens, into which one more comes each `tick_ns`."""

    def __init__(self, most: int, tick_ns: int) -> None:
        self._most, self._tick_ns = most, tick_ns
        self._full_ns = 0  # when all of them are there again

    def spend(self, now_ns: int) -> bool:
        """Take a token out and return True, or return False if there is none."""
        if self.next_ns > now_ns:
            return False
        self._full_ns = max(self._full_ns, now_ns) + self._tick_ns
        return True

    @property
    def next_ns(self) -> int:
        """The time when the next token can be taken; a time in the past if it can be taken now."""
        return self._full_ns - (self._most - 1) * self._tick_ns


class Damping:
    """The changed frames of one port that have to wait."""

    def __init__(self, scale: Scale) -> None:
        self._tick_ns = scale.lab(_TICK).ns
        self._held: dict[Identifier, tuple[LldpFrame, bytes]] = {}
        self.forget()

    def admits(self, now_ns: int) -> bool:
        """Return True if a changed frame may be processed now. It has to wait while others are held."""
        return not self._held and self._bucket.spend(now_ns)

    def hold(self, identifier: Identifier, frame: LldpFrame, octets: bytes) -> bool:
        """Hold a frame in place of an earlier one of the neighbour; return False if there is no room."""
        if identifier not in self._held and len(self._held) == MOST:
            return False
        self._held[identifier] = frame, octets
        return True

    def drop(self, identifier: Identifier) -> None:
        """Drop a held frame: a later one of the neighbour was processed."""
        self._held.pop(identifier, None)

    def release(self, now_ns: int) -> tuple[LldpFrame, bytes] | None:
        """Return a held frame whose time has come, or None if there is none."""
        if self._held and self._bucket.spend(now_ns):
            return self._held.pop(next(iter(self._held)))
        return None

    def forget(self) -> None:
        """Drop all held frames: the link is another one now."""
        self._held.clear()
        self._bucket = TokenBucket(MOST_AT_ONCE, self._tick_ns)

    def deadline_ns(self) -> int | None:
        return self._bucket.next_ns if self._held else None


_LOWER, _HIGHER = Duration("5s"), Duration("10s")
"""The length of a hold, in protocol time, for the port with the lower and with the higher address. Both, and their
difference, are longer than two ports need to exchange a change: a second for a credit, for each of them."""
_MOST_LEFT = 8
"""The number of remembered values that the port has left: more than can go round at once, which is two if frames arrive
before the next ones are sent."""
_COME_BACK = 2
"""The number of values, one after the other, that the port follows again after it left them, and that make a swap."""


@dataclass(frozen=True, slots=True)
class _Hold:
    value: object
    end_ns: int


class FlapGuard:
    """The holds of one port's features."""

    def __init__(self, mac: Mac, scale: Scale) -> None:
        self._mac = mac
        self._lower_ns, self._higher_ns = scale.lab(_LOWER).ns, scale.lab(_HIGHER).ns
        self._holds: dict[str, _Hold] = {}
        self._left: dict[str, deque[object]] = {}  # values that the port has left to follow its peer, the last ones
        self._come_back: Counter[str] = Counter()  # how many of these it took over again, one after the other

    def pinned(self, now_ns: int) -> Mapping[str, object]:
        """Return the features that are on hold now, each with the value that the port keeps."""
        self._holds = {name: hold for name, hold in self._holds.items() if hold.end_ns > now_ns}
        return {name: hold.value for name, hold in self._holds.items()}

    def notice(self, before: PortState, after: PortState, peer: Mac, now_ns: int) -> list[str]:
        """Note a change of state, and return the features whose values were swapped."""
        lasts_ns = self._higher_ns if self._mac > peer else self._lower_ns
        swapped = []
        for name in (feature.name for feature in features.every() if feature.is_symmetric):
            old: FeatureState[object] = before.states[name]
            new: FeatureState[object] = after.states[name]
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
                    self._holds[name] = _Hold(new.oper, now_ns + lasts_ns)
        return swapped

    def clear(self) -> None:
        """Forget everything: the peer or the settings have changed."""
        self._holds.clear()
        self._left.clear()
        self._come_back.clear()

    def deadline_ns(self) -> int | None:
        """Return the time when the next hold ends, or None if there is no hold."""
        return min((hold.end_ns for hold in self._holds.values()), default=None)
