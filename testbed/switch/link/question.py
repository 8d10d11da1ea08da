"""A question about the replay buffer of a cable with LLR, as people write it, and its answer, term by term.

Texts go in, as on the command line, by whose names errors call them. `xoff switch replay` and the calculator of the
documentation site ask here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from testbed.errors import UsageError
from testbed.switch.link import retry
from testbed.switch.link.retry import SPACINGS, RetryError, Term
from testbed.units import Duration, Length, Rate, Size

Read = TypeVar("Read")
MTUS = range(64, 65_536)
_FRAME_OF_SAMPLE = 512
"""The octets for which SONiC's sample has a frame: its frames are its octets in such parts, rounded up."""


@dataclass(frozen=True)
class Asked:
    """A question in the words of the command line; the defaults are what is not said."""

    rate: str
    length: str
    medium: str = "fibre"
    mtu: str = "1500"
    spacing: str = "2048"
    response: str = "0s"


@dataclass(frozen=True)
class Answer:
    """The replay buffer of a cable."""

    rate: Rate
    length: Length
    delay: Duration
    terms: tuple[Term, ...]
    frames: int
    octets: int
    timer: Duration | None
    """The replay timer that a cable of the lab has; None: LLR is not for such a cable."""
    sample: tuple[int, int, Duration] | None
    """Frames, octets and replay timer of SONiC's sample for this rate and length, which the lab takes if it has one."""
    notes: tuple[str, ...]


def answer(asked: Asked, delay_of: Callable[[str, Length], Duration]) -> Answer:
    """Return the replay buffer; UsageError names the option that is wrong.

    `delay_of` gives the delay of a cable by its medium and length (`testbed.switch.headroom.annex_n`).
    """
    rate, length = _read("--rate", Rate, asked.rate), _read("--length", Length, asked.length)
    stations = _read("--response", Duration, asked.response)
    mtu, spacing = _whole("--mtu", asked.mtu, MTUS), _whole("--spacing", asked.spacing, SPACINGS)
    delay = delay_of(asked.medium, length)
    terms = retry.terms(rate, delay, mtu, spacing, stations)
    frames, octets = retry.needed(rate, delay, mtu, spacing, stations)
    sample = retry.profile(rate, length)
    timer, notes = _timer(rate, delay + delay + stations, octets)
    if sample is not None:
        notes.append(_about_sample(rate, sample, octets))
        if (shortest := _shortest_frame(terms, sample[0])) > 64:
            notes.append(f"so few frames carry the rate from {shortest} B on: shorter ones wait for acknowledgements")
    return Answer(rate, length, delay, terms, frames, octets, timer, sample, tuple(notes))


def as_json(found: Answer) -> dict[str, Any]:
    """Return an answer as plain data; times are in picoseconds."""
    sample = found.sample
    return {
        "terms": [{"name": term.name, "octets": term.octets, "how": term.how} for term in found.terms],
        "frames": found.frames,
        "octets": found.octets,
        "timer_ps": None if found.timer is None else found.timer.ps,
        "sonic": None if sample is None else {"frames": sample[0], "octets": sample[1], "timer_ps": sample[2].ps},
        "notes": list(found.notes),
    }


def _timer(rate: Rate, way: Duration, octets: int) -> tuple[Duration | None, list[str]]:
    shortest = way + rate.time_for(Size.from_bytes(octets))
    if shortest.ps <= retry.LONGEST_TIMER.ps:
        return max(retry.SHORTEST_TIMER, shortest), []
    return None, [
        f"a replay takes {shortest} to be acknowledged, and a sender replays again after at most "
        f"{retry.LONGEST_TIMER}: the lab refuses LLR on such a cable"
    ]


def _about_sample(rate: Rate, sample: tuple[int, int, Duration], octets: int) -> str:
    """Return how near the law is to SONiC's sample: by the time that makes both equal."""
    more = sample[1] - octets
    time = rate.time_for(Size.from_bytes(abs(more)))
    near = f"{more} B more, for stations that take {time}" if more > 0 else f"{-more} B less" if more else "as much"
    parts = -(-sample[1] // _FRAME_OF_SAMPLE)
    frames = f"; its frames are its bytes in parts of {_FRAME_OF_SAMPLE}" if parts == sample[0] else ""
    return (
        f"SONiC's sample has {sample[0]} frames and {sample[1]} B for this cable, {near}{frames}. A cable of the lab "
        "has the sample's"
    )


def _shortest_frame(terms: tuple[Term, ...], frames: int) -> int:
    """Return the length, with FCS, of the shortest frames of which so many carry the line's rate."""
    line = sum(term.octets for term in terms[:-1])
    return max(64, -(-line // max(1, frames - 2)) - (retry.LINE_OVERHEAD - retry.FCS))


def _read(name: str, kind: Callable[[str], Read], text: str) -> Read:
    try:
        return kind(text)
    except UsageError as error:
        raise UsageError(f"{name}: {error}") from None


def _whole(name: str, text: str, values: range) -> int:
    if not (text.isascii() and text.isdigit() and int(text[:9]) in values):
        raise RetryError(f"{name}: {text[:20]!r} is no number of bytes from {values[0]} to {values[-1]}")
    return int(text)
