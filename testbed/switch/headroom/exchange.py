"""The two parts of a measurement: a `Series` sends requests, a `Responder` answers. A port has both, and they share
nothing.

What may happen to frames on the way is all provided for. A lost request or response costs one request more, up to a
limit. Order does not matter, because responses name their request. Of several responses to one request the first
counts. What is late, repeated, from another session, unasked for or impossible has no effect and is counted under its
reason. Memory is bounded by the settings, and both sides send at a limited rate, so that neither a fault nor a peer
that sends requests without end can fill a link with answers.

Time is what the caller hands in, in ns of one clock that does not go back. A port uses
`testbed.switch.headroom.measurement`, which decides when to ask and has the sessions.
"""

from __future__ import annotations

import enum
from collections import OrderedDict, deque
from dataclasses import dataclass

from testbed.frames import Mac
from testbed.frames.headroom import EXTENSION_OPCODE, MeasurementRequest, Response, check_key
from testbed.switch.headroom.calculation import HeadroomError
from testbed.switch.headroom.samples import Measurement, Sample

MOST_REQUESTS = 1024
"""The most requests in one series; a responder has to keep one bit for each."""
REMEMBERED_SESSIONS = 8

_LONGEST_NS = 10**18


class Ignored(enum.StrEnum):
    """The reason why a whole measurement frame had no effect; the values are names of counters."""

    OWN = "own"  # a frame of this port came back
    NOT_AGREED = "not_agreed"  # the two ends have not both announced the capability
    STRAY = "stray"  # answers no request of this port, or has a sequence number that no series has
    LATE = "late"  # answers a request after its timeout
    DUPLICATE = "duplicate"  # the exchange has been made already
    REPLAYED = "replayed"  # belongs to a session that is over
    FORGED = "forged"  # a known request, but with another T1 than it had
    CLOCK_STEP = "clock_step"  # impossible stamps: a clock was set
    RATE_LIMITED = "rate_limited"  # the peer sends requests faster than the limit


class Points(enum.StrEnum):
    """The points at which timestamps are taken (decision 0111)."""

    PFC = "pfc"  # where a PFC frame would take effect: when the frame is handed in
    WIRE = "wire"  # where the frame arrived, as for time synchronisation; the round trip then lacks the reaction


@dataclass(frozen=True)
class Settings:
    """The settings of a measurement. The defaults suit a real link. In a lab at scale k, `interval_ns` and `timeout_ns`
    are multiplied by k.
    """

    samples: int = 16
    enough: int = 8  # fewer answers than this are no measurement
    most_requests: int = 48  # of one series, lost ones included
    interval_ns: int = 10_000_000  # between two requests
    timeout_ns: int = 1_000_000_000  # a response that takes longer is late
    repeat_ns: int | None = 60_000_000_000  # from the end of one series to the next; None: only if the link changes
    retry_ns: int = 5_000_000_000  # the same, if the last one had not enough answers
    answer_interval_ns: int = 1_000_000  # on average, between two answers to a peer
    answer_burst: int = 32  # answers that may follow each other at once
    stamp_lag_ns: int = 1_000_000  # the longest from a frame's arrival to when it is handed in
    points: Points = Points.PFC
    opcode: int = EXTENSION_OPCODE

    def __post_init__(self) -> None:
        for name, least, most in (
            ("samples", 1, MOST_REQUESTS),
            ("enough", 1, self.samples),
            ("most_requests", self.samples, MOST_REQUESTS),
            ("interval_ns", 1, _LONGEST_NS),
            ("timeout_ns", 1, _LONGEST_NS),
            ("repeat_ns", 1, _LONGEST_NS),
            ("retry_ns", 1, _LONGEST_NS),
            ("answer_interval_ns", 1, _LONGEST_NS),
            ("answer_burst", 1, MOST_REQUESTS),
            ("stamp_lag_ns", 0, _LONGEST_NS),
            ("opcode", 0, 0xFFFF),
        ):
            value = getattr(self, name)
            if name == "repeat_ns" and value is None:
                continue
            if type(value) is not int or not least <= value <= most:
                raise HeadroomError(f"{name} is {value!r}; it is a whole number from {least} to {most}")


class _Fate(enum.Enum):
    WAITING = enum.auto()
    ANSWERED = enum.auto()
    LOST = enum.auto()


@dataclass
class _Asked:
    t1_ns: int
    fate: _Fate = _Fate.WAITING


class Series:
    """The asking side of one measurement, from its first request to the last answer or timeout."""

    def __init__(self, mac: Mac, session: int, settings: Settings, key: bytes, now_ns: int) -> None:
        self.session = session
        self._mac = mac
        self._settings = settings
        self._key = key
        self._asked: list[_Asked] = []  # by sequence
        self._samples: list[Sample] = []
        self._next_ns = now_ns

    @property
    def asked(self) -> int:
        return len(self._asked)

    @property
    def answered(self) -> int:
        return len(self._samples)

    @property
    def is_over(self) -> bool:
        return not self._waiting and not self._wants_more

    def poll(self, now_ns: int) -> bytes | None:
        """Return the next request if it is time for it, else None; T1 is now."""
        self._expire(now_ns)
        if not self._wants_more or now_ns < self._next_ns:
            return None
        request = MeasurementRequest(self._mac, self.session, len(self._asked), now_ns)
        self._asked.append(_Asked(now_ns))
        self._next_ns = now_ns + self._settings.interval_ns
        return request.encode(self._key, self._settings.opcode)

    def take_back(self) -> None:
        """Take back the last request, which was not sent: the next poll gives it anew."""
        self._next_ns = self._asked.pop().t1_ns

    def deadline(self) -> int | None:
        """Return the time to poll again, or None if the series is over."""
        first = min((asked.t1_ns for asked in self._waiting), default=None)
        timeouts = [] if first is None else [first + self._settings.timeout_ns]
        return min([self._next_ns, *timeouts] if self._wants_more else timeouts, default=None)

    def accept(self, response: Response, now_ns: int, t4_ns: int) -> Ignored | None:
        """Process a response, and return the reason if it is ignored."""
        self._expire(now_ns)
        if response.sequence >= len(self._asked):
            return Ignored.STRAY
        asked = self._asked[response.sequence]
        if response.t1_ns != asked.t1_ns:
            return Ignored.FORGED
        if asked.fate is _Fate.ANSWERED:
            return Ignored.DUPLICATE
        if asked.fate is _Fate.LOST:
            return Ignored.LATE
        sample = Sample(response.t1_ns, response.t2_ns, response.t3_ns, t4_ns)
        if not sample.is_possible:
            return Ignored.CLOCK_STEP  # a better answer may still come; if not, the request is lost
        asked.fate = _Fate.ANSWERED
        self._samples.append(sample)
        return None

    def judge_leftover(self, response: Response) -> Ignored:
        """Return what a response to this series is when the next series has begun, or none may."""
        if response.sequence >= len(self._asked):
            return Ignored.STRAY
        asked = self._asked[response.sequence]
        if response.t1_ns != asked.t1_ns:
            return Ignored.FORGED
        return Ignored.REPLAYED if asked.fate is _Fate.ANSWERED else Ignored.LATE

    def result(self, now_ns: int) -> Measurement | None:
        """Return the measurement, or None if there are not enough samples."""
        if len(self._samples) < self._settings.enough:
            return None
        return Measurement(tuple(self._samples), len(self._asked), now_ns)

    @property
    def _waiting(self) -> list[_Asked]:
        return [asked for asked in self._asked if asked.fate is _Fate.WAITING]

    @property
    def _wants_more(self) -> bool:
        """True if another request is needed, at the start or to replace a lost one, and allowed."""
        promising = len(self._waiting) + len(self._samples)
        return promising < self._settings.samples and len(self._asked) < self._settings.most_requests

    def _expire(self, now_ns: int) -> None:
        for asked in self._waiting:
            if now_ns >= asked.t1_ns + self._settings.timeout_ns:
                asked.fate = _Fate.LOST


class Responder:
    """The answering side. `accept` notes a request with T2, `poll` gives the response, and T3 is then."""

    def __init__(self, mac: Mac, settings: Settings, key: bytes) -> None:
        check_key(key)
        self._mac = mac
        self._settings = settings
        self._key = key
        self._pending: deque[tuple[MeasurementRequest, int]] = deque()
        self._given: tuple[tuple[MeasurementRequest, int], ...] = ()
        self._sessions: OrderedDict[int, int] = OrderedDict()  # bits of the sequences seen, newest session last
        self._tokens = settings.answer_burst
        self._token_ns: int | None = None  # when the last token came
        self.answered = 0

    def accept(self, request: MeasurementRequest, now_ns: int, t2_ns: int) -> Ignored | None:
        """Process a request, and return the reason if it is ignored."""
        if request.sequence >= MOST_REQUESTS:
            return Ignored.STRAY
        seen = self._sessions.get(request.session)
        bit = 1 << request.sequence
        if seen is not None and request.session != next(reversed(self._sessions)):
            return Ignored.REPLAYED
        if seen is not None and seen & bit:
            return Ignored.DUPLICATE
        if len(self._pending) >= self._settings.answer_burst or not self._take_token(now_ns):
            return Ignored.RATE_LIMITED
        self._sessions[request.session] = (seen or 0) | bit
        if len(self._sessions) > REMEMBERED_SESSIONS:
            self._sessions.popitem(last=False)
        self._pending.append((request, t2_ns))
        return None

    def poll(self, now_ns: int) -> list[bytes]:
        """Return the responses that are due, which are all."""
        answers = [
            Response.to(request, self._mac, t2_ns, now_ns).encode(self._key, self._settings.opcode)
            for request, t2_ns in self._pending
        ]
        self.answered += len(answers)
        self._given = tuple(self._pending)
        self._pending.clear()
        return answers

    def take_back(self) -> None:
        """Take back the responses of the last poll, which were not sent: the next one gives them anew."""
        self.answered -= len(self._given)
        self._pending.extendleft(reversed(self._given))
        self._given = ()

    @property
    def has_answers(self) -> bool:
        return bool(self._pending)

    def forget_pending(self) -> None:
        """Answer nothing any more, because the agreement or the link is gone. What was seen stays seen."""
        self._pending.clear()
        self._given = ()

    def restart_clock(self) -> None:
        """Begin anew with a clock that went back."""
        self.forget_pending()
        self._token_ns = None

    def _take_token(self, now_ns: int) -> bool:
        """Take a token out of a bucket of `answer_burst` tokens, into which one comes every `answer_interval_ns`;
        return False if there is none.
        """
        interval = self._settings.answer_interval_ns
        if self._token_ns is None:
            self._token_ns = now_ns
        fresh = (now_ns - self._token_ns) // interval
        self._token_ns += fresh * interval
        self._tokens = min(self._tokens + fresh, self._settings.answer_burst)
        if not self._tokens:
            return False
        self._tokens -= 1
        return True
