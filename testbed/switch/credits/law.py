"""The buffer with which a direction of a cable loses nothing and never waits: by credits, and by PFC beside it.

With credits a frame that has no room never leaves, so any buffer that holds the credits loses nothing. What the credits
decide is the rate. A credit is out from the first bit of its frame until the CF_Update that gives it back has come:

    loop      = 2 x cable + frame + wait + ordered set      (+ frame, if the receiver waits for the whole frame)
    frames    = loop / frame, rounded up: as many begin in that time
    credits   = frames x cells of a frame                   (the round trip x the rate, and a frame)

`wait` is 0 if a frame takes `cf_min` octets of the line or more, for then each has a CF_Update of its own; below, freed
cells wait for up to `cf_min`. One credit less, and a frame less fits into the loop: the line stands still once a loop.

With PFC frames leave until a PAUSE is obeyed. They need headroom, and what is below the threshold has to keep the line
of the next hop busy from XON until frames come again:

    headroom  = frames that begin in 2 x cable + the longest frame + PFC frame + reaction, rounded up
    threshold = frames that the next hop sends in the same time: as many

So PFC needs the round trip twice, and credits need it once. Frames have one length; the longest frame is that of the
other direction, behind which a PFC frame may have to wait. An ordered set waits for none.

All times are exact, in picoseconds. Not here: what stations take beside (`testbed.switch.headroom`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from testbed.switch.credits.settings import (
    CC_OCTETS,
    CF_MIN,
    FCS,
    LINE_OVERHEAD,
    SET_OCTETS,
    CreditError,
    Credits,
    check,
)
from testbed.units import Duration, Rate, Size

PFC_OCTETS = 84
"""The octets of a PFC frame on the line, with preamble, FCS and gap."""
MOST_FRAME = 65_535
_NOTHING = Duration.from_ps(0)


@dataclass(frozen=True)
class Link:
    """One direction of a cable, and the frames on it. Lengths are with FCS, without preamble and gap."""

    rate: Rate
    delay: Duration
    """The time from one end to the other."""
    frame: int
    """The length of the frames of the virtual channel, or of the priority."""
    cell: int = 64
    overhead: int = -FCS
    """The octets that a frame takes of the buffer beside its own."""
    longest: int | None = None
    """The length of the longest frame of the other direction; None: that of `frame`."""
    reaction: Duration = _NOTHING
    """The time from PAUSE to the queue that stands, with PFC."""
    cf_min: int = CF_MIN
    whole: bool = False
    """True if the receiver passes a frame on when its last bit is there, not with its first."""

    def __post_init__(self) -> None:
        check("the frame", self.frame, range(64, MOST_FRAME + 1))
        if self.longest is not None:
            check("the longest frame", self.longest, range(64, MOST_FRAME + 1))
        Credits({0: 1}, cell=self.cell, overhead=self.overhead, cf_min=self.cf_min)

    @property
    def octet_ps(self) -> int:
        """The time of an octet on the line."""
        return self.rate.time_for(Size.from_bytes(1)).ps

    @property
    def on_line(self) -> int:
        """The octets of a frame on the line."""
        return self.frame + LINE_OVERHEAD

    @property
    def frame_ps(self) -> int:
        """The time of a frame on the line, with preamble and gap."""
        return self.on_line * self.octet_ps

    @property
    def cells(self) -> int:
        """The cells of a frame."""
        return max(1, -(-(self.frame + self.overhead) // self.cell))


@dataclass(frozen=True)
class Term:
    """One summand of a time, and how it came about."""

    name: str
    ps: int
    how: str


@dataclass(frozen=True)
class Need:
    """The frames that a buffer has to hold, with the time in which they begin."""

    name: str
    terms: tuple[Term, ...]
    frames: int
    cells_of_frame: int
    cell_bytes: int
    frame_ps: int
    why: str

    @property
    def ps(self) -> int:
        """The sum of the terms."""
        return sum(term.ps for term in self.terms)

    @property
    def cells(self) -> int:
        """The buffer, in cells."""
        return self.frames * self.cells_of_frame

    @property
    def share_with_one_less(self) -> float:
        """The share of the line that is left with one cell less: a frame less begins in that time."""
        return (self.frames - 1) * self.frame_ps / self.ps


def credits(link: Link) -> Need:
    """Return the credits with which a sender never waits, which are the buffer that loses nothing."""
    octet = link.octet_ps
    terms = [
        Term("cable, there and back", 2 * link.delay.ps, f"2 x {link.delay}"),
        Term("the frame leaves the receiver", link.frame_ps, f"{link.on_line} B"),
        Term("ordered set", SET_OCTETS * octet, f"{SET_OCTETS} B"),
    ]
    if link.whole:
        terms.insert(1, Term("the frame comes in", link.frame_ps, f"{link.on_line} B"))
    if link.on_line < link.cf_min:
        terms.append(Term("wait for the next CF_Update", link.cf_min * octet, f"at most {link.cf_min} B"))
    return _need("credits", link, terms, "what begins until the first frame's credits are back")


def for_any_frame(link: Link) -> int:
    """Return credits with which a sender never waits, whichever length its frames have, up to that of the link's.

    Of all frames that fill a number of cells the shortest fills them worst.
    """
    kept, least = link.frame + link.overhead, 64
    shortest = {max(least, cells * link.cell - link.overhead + 1) for cells in range(-(-kept // link.cell))}
    return max(credits(replace(link, frame=length)).cells for length in shortest | {link.frame})


def headroom(link: Link) -> Need:
    """Return the headroom of PFC: what begins until a PAUSE is obeyed, with the frame that brings it about."""
    return _need("headroom", link, _pause_terms(link), "what begins until PAUSE is obeyed")


def threshold(link: Link) -> Need:
    """Return the cells below the XON threshold of PFC with which the next hop's line is never without a frame."""
    return _need("threshold", link, _pause_terms(link), "what the next hop sends from XON until frames come again")


def overheads(settings: Credits) -> tuple[float, float]:
    """Return the shares of the line that messages take at the most: CF_Updates of the way back, CC_Updates of the way
    there.
    """
    return SET_OCTETS / settings.cf_min, CC_OCTETS / settings.cc_interval


def _pause_terms(link: Link) -> list[Term]:
    octet = link.octet_ps
    longest = (link.longest or link.frame) + LINE_OVERHEAD
    return [
        Term("cable, there and back", 2 * link.delay.ps, f"2 x {link.delay}"),
        Term("PAUSE waits for a frame", longest * octet, f"{longest} B"),
        Term("PFC frame", PFC_OCTETS * octet, f"{PFC_OCTETS} B"),
        Term("reaction", link.reaction.ps, str(link.reaction)),
    ]


def _need(name: str, link: Link, terms: list[Term], why: str) -> Need:
    frames = -(-sum(term.ps for term in terms) // link.frame_ps)
    if frames * link.cells >= 1 << 32:
        raise CreditError(f"{frames} frames of {link.cells} cells are more than a buffer has; shorten the cable")
    return Need(name, tuple(terms), frames, link.cells, link.cell, link.frame_ps, why)
