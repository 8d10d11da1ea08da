"""Settings of Link Layer Retry (LLR), in the words of SONiC's and OTG's models, and what a cable needs of them.

A frame stays in the sender's replay buffer until it is acknowledged. `frames` and `octets` are the size of that buffer:
who wants the line's rate needs as much as can be under way and not acknowledged yet.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from testbed.errors import UsageError
from testbed.units import Duration, Length, Rate, Scale, Size

SEQUENCES = 1 << 20
"""The sequence numbers of frames."""
MOST_FRAMES = SEQUENCES // 2
MOST_OCTETS = (1 << 31) - 1
NO_LIMIT = 255
SPACINGS = range(320, 32760 + 1)
LONGEST_TIMER = Duration("65535ns")
LONGEST_AGE = Duration("4290ms")
_SHORTEST = LEAST_OCTETS = 60
FCS = 4
LINE_OVERHEAD = 24
"""The octets that a frame takes of the line beside those that Linux counts: preamble, FCS and gap."""
_SETS = 2 * 8
_TABLED = {
    (200, 5): (61, 31_184, "5us"),
    (200, 40): (71, 35_952, "5.5us"),
    (400, 5): (115, 58_768, "5us"),
    (400, 40): (133, 67_760, "5.5us"),
}
"""The profiles of SONiC's sample of `llr_profile_lookup.ini`, by Gb/s and metres."""
SHORTEST_TIMER = Duration("5us")
"""The replay timer of a cable that would do with less."""
_NOTHING = Duration.from_ps(0)


class RetryError(UsageError):
    """Settings of LLR that are out of range, or a cable on which it cannot work."""


class LlrAction(enum.StrEnum):
    """What a sender does with frames while it has no sequence numbers for them: in INIT, and in FLUSH."""

    DISCARD = "discard"
    BLOCK = "block"
    BEST_EFFORT = "best_effort"


@dataclass(frozen=True)
class Llr:
    """Link Layer Retry on both directions of a cable: `Cable("200Gb/s", "5m", llr=Llr())`.

    What is None is chosen by the cable: the profile that SONiC has for its rate and length, or else as much as the
    line's rate needs.
    """

    frames: int | None = None
    """The most frames that are not acknowledged."""
    octets: int | None = None
    """The most octets of them, with FCS."""
    replay_timer: Duration | str | None = None
    """The time without progress after which a sender replays by itself."""
    replay_count: int = NO_LIMIT
    """The most replays in a row without progress; one more flushes the buffer. 255 is no limit."""
    spacing: int = 2048
    """The octets on the line from one LLR_ACK to the next."""
    init_action: LlrAction | str = LlrAction.BEST_EFFORT
    flush_action: LlrAction | str = LlrAction.BEST_EFFORT
    re_init: bool = True
    """True if a sender that has flushed its buffer begins again; else it stays in FLUSH."""
    data_age: Duration | str | None = None
    """The time after which a frame that is not acknowledged flushes the buffer; None: there is no such time."""
    first_sequence: int = 0
    """The sequence number of the first frame, as for a test of what happens when numbers begin again at 0."""
    is_in_lab_time: bool = False
    """True if its times are the lab's; otherwise they are the hardware's, as the limits of times are."""

    def __post_init__(self) -> None:
        _check("frames", self.frames, range(1, MOST_FRAMES + 1))
        _check("octets", self.octets, range(_SHORTEST, MOST_OCTETS + 1))
        if None in (self.replay_count, self.spacing, self.first_sequence):
            raise RetryError("LLR: replay_count, spacing and first_sequence are numbers")
        _check("replay_count", self.replay_count, range(NO_LIMIT + 1))
        _check("spacing", self.spacing, SPACINGS)
        _check("first_sequence", self.first_sequence, range(SEQUENCES))
        for name, longest in (("replay_timer", LONGEST_TIMER), ("data_age", LONGEST_AGE)):
            if getattr(self, name) is not None:
                time = Duration(getattr(self, name))
                object.__setattr__(self, name, time)
                if not (self.is_in_lab_time or 0 < time.ps <= longest.ps):
                    raise RetryError(f"LLR: {name} is {time}; it is more than 0 and at most {longest}")
        for name in ("init_action", "flush_action"):
            given = getattr(self, name)
            if given not in list(LlrAction):
                raise RetryError(f"LLR: {name} is {given!r}; write {', '.join(repr(one.value) for one in LlrAction)}")
            object.__setattr__(self, name, LlrAction(given))

    def on(self, rate: Rate, delay: Duration, length: Length | None, mtu: int) -> Llr:
        """Return the same settings with what the cable chooses, in the hardware's time."""
        frames, octets, timer = chosen(rate, delay, length, mtu, self.spacing)
        return replace(
            self,
            frames=self.frames or (frames if self.octets is None else max(1, self.octets // (_SHORTEST + 4))),
            octets=self.octets or (octets if self.frames is None else min(self.frames * (mtu + 18), MOST_OCTETS)),
            replay_timer=self.replay_timer or timer,
        )

    def completed(self, by: Llr) -> Llr:
        """Return the same settings, with what they leave open as others have it."""
        names = ("frames", "octets", "replay_timer")
        return replace(self, **{name: getattr(self, name) or getattr(by, name) for name in names})

    def in_lab(self, scale: Scale) -> Llr:
        """Return the same settings with the lab's times."""
        return self if self.is_in_lab_time else self._times(scale.lab, True)

    def in_hardware(self, scale: Scale) -> Llr:
        """Return the same settings with the hardware's times, to the nearest picosecond."""
        return self._times(scale.nearest_real, False) if self.is_in_lab_time else self

    def _times(self, change: Callable[[Duration], Duration], is_in_lab_time: bool) -> Llr:
        timer, age = (one and change(Duration(one)) for one in (self.replay_timer, self.data_age))
        return replace(self, replay_timer=timer, data_age=age, is_in_lab_time=is_in_lab_time)


@dataclass(frozen=True)
class Term:
    """One summand of a replay buffer, in octets of the line, and how it came about."""

    name: str
    octets: int
    how: str


def terms(
    rate: Rate, delay: Duration, mtu: int, spacing: int = 2048, stations: Duration = _NOTHING
) -> tuple[Term, ...]:
    """Return the summands of the replay buffer with which a cable carries its rate, whatever the frames' size.

    When a frame's last bit leaves, all must still fit that leaves until its acknowledgement comes: the frame itself,
    what the way there and back takes, the spacing of acknowledgements, a frame that was leaving then, and the ordered
    sets. `stations` is what both ends take beside it, there and back: the lab's take no time.
    """
    frame = mtu + 14 + LINE_OVERHEAD
    found = [Term("cable, there and back", _octets_in(rate, delay + delay), f"2 x {delay}")]
    if stations.ps:
        found.append(Term("stations", _octets_in(rate, stations), str(stations)))
    found += [
        Term("spacing of acknowledgements", spacing, "octets of the line"),
        Term("ordered sets", _SETS, "one that leaves, and one that comes"),
        Term("frames", 2 * frame, f"the frame itself, and the one that was leaving: 2 x {frame}"),
    ]
    return tuple(found)


def needed(
    rate: Rate, delay: Duration, mtu: int, spacing: int = 2048, stations: Duration = _NOTHING
) -> tuple[int, int]:
    """Return the frames and octets of the replay buffer of `terms`. Frames are counted as the shortest ones."""
    *line, frames = terms(rate, delay, mtu, spacing, stations)
    octets = sum(term.octets for term in line)
    return math.ceil(octets / (_SHORTEST + LINE_OVERHEAD)) + 2, octets + frames.octets


def profile(rate: Rate, length: Length | None) -> tuple[int, int, Duration] | None:
    """Return frames, octets and replay timer of SONiC's sample for a rate and a length, or None if it has none."""
    if length is None or rate.bps % 10**9 or length.mm % 1000:
        return None
    found = _TABLED.get((rate.bps // 10**9, length.mm // 1000))
    return found and (found[0], found[1], Duration(found[2]))


def chosen(
    rate: Rate, delay: Duration, length: Length | None, mtu: int, spacing: int = 2048
) -> tuple[int, int, Duration]:
    """Return the frames, octets and replay timer that a cable of the lab chooses for itself."""
    if tabled := profile(rate, length):
        return tabled
    frames, octets = needed(rate, delay, mtu, spacing)
    shortest = delay + delay + rate.time_for(Size.from_bytes(octets))
    if shortest.ps > LONGEST_TIMER.ps:
        raise RetryError(
            f"LLR: a replay on this cable takes {shortest} to be acknowledged, and a sender replays again after at "
            f"most {LONGEST_TIMER}; it is for cables within a building"
        )
    return min(frames, MOST_FRAMES), octets, max(SHORTEST_TIMER, shortest)


def _octets_in(rate: Rate, time: Duration) -> int:
    return math.ceil(rate.bits_in(time) / 8)


def _check(name: str, value: int | None, values: range) -> None:
    if value is not None and (type(value) is not int or value not in values):
        raise RetryError(f"LLR: {name} is {value!r}; it is {values[0]} to {values[-1]}")
