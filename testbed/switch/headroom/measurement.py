"""The measurement of one port's headroom: the headroom proposal's phases 1 and 2, as a machine without sockets and
clocks.

    measurer.announced(ours, theirs, now)   from DCBX: whether the two ends announce that they can
    measurer.link(up, now)                  at the start, and on every change: other cable, other rate, other peer
    measurer.receive(octets, now, arrived)  every MAC control frame with the measurement's opcode
    measurer.poll(now)                      frames to send now, and the status if it is another than before
    measurer.take_back(output)              none of these frames was sent in time: the next poll gives them anew
    measurer.deadline()                     when to poll at the latest

Nothing is asked or answered unless both ends announce the capability; else the procedure stops, the configured default
stays, and `status` has the reason. Each end measures for itself, since each needs its own headroom: a port sends
requests (a `Series` of requests, repeated on schedule and when the link changes) and answers (a `Responder`),
independently of each other.

Timestamps (decision 0111). T1 and T3 are `now` of the poll that gives the frame out, so give it to the port at once.
T4 is `arrived`: where arriving frames are charged to the buffer, the kernel's stamp for example, and `now` if there is
none. T2 is `effective` of `receive`: when a PFC frame that came in its place would have taken effect; `now` by default,
for those who hand frames in there. All are ns of a clock of the station's own that does not go back. What if a clock is
set all the same:
- `now` goes back: noticed at once, and what was going on starts anew.
- `arrived` comes from another clock, and that one is set: it is after `now` or too long before; the frame is ignored.
- The far station's clock is set between T2 and T3: that sample is impossible and ignored, or it is too short, which
  headroom does not mind as long as another one is right, or it is too long by less than the time to answer.
- `now` jumps forward: looks like time that passed; a clock that does not stop in a suspended machine helps.

The session numbers come from `seed`, secret octets. Sharing `key` with the peer makes answers provable.
"""

from __future__ import annotations

import enum
import hashlib
import re
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from testbed.frames import Mac
from testbed.frames.headroom import MeasurementFrameError, MeasurementReason, MeasurementRequest, check_key, parse
from testbed.switch.headroom.calculation import HeadroomError
from testbed.switch.headroom.exchange import REMEMBERED_SESSIONS, Ignored, Points, Responder, Series, Settings
from testbed.switch.headroom.samples import TIMES, Measurement
from testbed.units import Duration

_DEFAULT_STAYS = "the configured default stays"
_TIME = re.compile(r"\{(\w+)\}")


class Phase(enum.StrEnum):
    """The phases of a port's measurement."""

    OFF_HERE = "off_here"  # we do not announce the capability
    OFF_THERE = "off_there"  # the peer does not
    LINK_DOWN = "link_down"
    MEASURING = "measuring"  # for the first time since the link changed
    MEASURED = "measured"
    UNANSWERED = "unanswered"  # the last series had too few answers


@dataclass(frozen=True)
class Status:
    """The state of a port's measurement. Without a result the configured default holds."""

    phase: Phase
    measurement: Measurement | None
    pattern: str
    """One line for people, with names of `TIMES` in braces where it has times."""

    @property
    def text(self) -> str:
        """The line with times of the clock by which they were measured."""
        return _filled(self.pattern, self.measurement.times if self.measurement else {})

    def reading(self) -> dict[str, Any]:
        """Return the line and the times as plain data, in ns; `readable` completes the line."""
        times = self.measurement.times if self.measurement else {}
        return {"text": self.pattern, **{name: times[name].ns if times else None for name in TIMES}}


def readable(reading: Mapping[str, Any]) -> dict[str, Any]:
    """Return a reading with its own times in its line: whoever converts the times to those of another clock does it
    before.
    """
    times = {name: Duration.nearest_ns(reading[name]) for name in TIMES if reading[name] is not None}
    return {**reading, "text": _filled(reading["text"], times)}


def _filled(pattern: str, times: Mapping[str, Duration]) -> str:
    return _TIME.sub(lambda name: str(times.get(name[1], name[0])), pattern)


@dataclass(frozen=True)
class Output:
    answers: tuple[bytes, ...]
    request: bytes | None
    status: Status | None  # None: the same as before

    @property
    def frames(self) -> tuple[bytes, ...]:
        """All frames to be sent, in this order."""
        return self.answers if self.request is None else (*self.answers, self.request)


class Measurer:
    """The measurer of one port. The module's docstring explains the calls."""

    def __init__(self, port: str, mac: Mac, seed: bytes, settings: Settings | None = None, key: bytes = b"") -> None:
        if not 1 <= len(seed) <= 32:
            raise HeadroomError(f"port {port}: a seed has 1 to 32 octets, not {len(seed)}; draw it at random")
        check_key(key)
        self._port = port
        self._mac = mac
        self._seed = seed
        self._key = key
        self._settings = Settings() if settings is None else settings
        self._responder = Responder(mac, self._settings, key)
        self._ours = self._theirs = self._up = False
        self._series: Series | None = None
        self._past: deque[Series] = deque(maxlen=REMEMBERED_SESSIONS)
        self._drawn = 0  # sessions so far
        self._next_ns: int | None = None  # when to begin the next series
        self._measurement: Measurement | None = None
        self._failure = ""
        self._reported: Status | None = None
        self._now_ns = 0
        self._counters: Counter[str] = Counter()

    def announced(self, ours: bool, theirs: bool, now_ns: int) -> None:
        """Note what the two ends announce by now; a peer that is not known announces nothing."""
        self._tick(now_ns)
        if (ours, theirs) != (self._ours, self._theirs):
            self._ours, self._theirs = ours, theirs
            self._start_over(now_ns)

    def link(self, up: bool, now_ns: int) -> None:
        """Note that the link changed: what was measured before no longer holds."""
        self._tick(now_ns)
        self._up = up
        self._start_over(now_ns)

    def measure(self, now_ns: int) -> None:
        """Measure again now, independent of the schedule; what is measured holds until it is done."""
        self._tick(now_ns)
        if self._may_run and self._series is None:
            self._next_ns = now_ns

    def receive(
        self, data: bytes, now_ns: int, arrived_ns: int | None = None, effective_ns: int | None = None
    ) -> Ignored | MeasurementReason | None:
        """Process a frame, and return the reason if it had no effect. Answers come with the next poll, which is due at
        once.
        """
        self._tick(now_ns)
        arrived = now_ns if arrived_ns is None else arrived_ns
        why = self._process(data, now_ns, arrived, now_ns if effective_ns is None else effective_ns)
        self._counters["received" if why is None else str(why)] += 1
        return why

    def poll(self, now_ns: int) -> Output:
        """Return the frames to be sent now, answers first, and a new status."""
        self._tick(now_ns)
        answers: list[bytes] = []
        request = None
        if self._may_run:
            answers = self._responder.poll(now_ns)
            if self._series is None and self._next_ns is not None and now_ns >= self._next_ns:
                self._series = Series(self._mac, self._draw_session(), self._settings, self._key, now_ns)
            if self._series is not None:
                request = self._series.poll(now_ns)
                if request is not None:
                    self._counters["requests"] += 1
                if self._series.is_over:
                    self._finish(self._series, now_ns)
        status = self.status
        news = None if status == self._reported else status
        self._reported = status
        return Output(tuple(answers), request, news)

    def take_back(self, output: Output) -> None:
        """Take back the frames of the last poll, which were not sent because the moment that is in them had passed."""
        if output.answers:
            self._responder.take_back()
        if output.request is not None and self._series is not None:
            self._counters["requests"] -= 1
            self._series.take_back()

    def deadline(self) -> int | None:
        """Return the time to poll at the latest, in ns, or None if only a frame, the link or the peer can bring
        something new.
        """
        if self._responder.has_answers or self.status != self._reported:
            return self._now_ns
        if self._series is None:
            return self._next_ns
        return self._now_ns if self._series.is_over else self._series.deadline()

    @property
    def status(self) -> Status:
        phase = self._phase()
        return Status(phase, self._measurement, f"{self._port}: {self._pattern(phase)}")

    def snapshot(self) -> dict[str, Any]:
        """Return every counter as plain data; `ignored` has all reasons, those of damaged and foreign frames too."""
        sent = {"requests": self._counters["requests"], "responses": self._responder.answered}
        reasons = [*MeasurementReason, *Ignored]
        return {
            "phase": str(self.status.phase),
            "sent": sent,
            "received": self._counters["received"],
            "ignored": {str(reason): self._counters[str(reason)] for reason in reasons},
            "clock_went_back": self._counters["clock_went_back"],
        }

    @property
    def _may_run(self) -> bool:
        return self._ours and self._theirs and self._up

    def _process(
        self, data: bytes, now_ns: int, arrived_ns: int, effective_ns: int
    ) -> Ignored | MeasurementReason | None:
        try:
            message = parse(data, self._key, self._settings.opcode)
        except MeasurementFrameError as error:
            return error.reason
        if message.source == self._mac:
            return Ignored.OWN
        if not self._may_run:
            return Ignored.NOT_AGREED
        if not 0 <= now_ns - arrived_ns <= self._settings.stamp_lag_ns:
            return Ignored.CLOCK_STEP
        if isinstance(message, MeasurementRequest):
            t2_ns = effective_ns if self._settings.points is Points.PFC else arrived_ns
            return self._responder.accept(message, now_ns, t2_ns)
        if self._series is not None and message.session == self._series.session:
            return self._series.accept(message, now_ns, arrived_ns)
        for past in self._past:
            if message.session == past.session:
                return past.judge_leftover(message)
        return Ignored.STRAY

    def _tick(self, now_ns: int) -> None:
        if now_ns < self._now_ns:
            self._counters["clock_went_back"] += 1
            self._responder.restart_clock()
            self._abandon()
            if self._may_run:
                self._next_ns = now_ns
        self._now_ns = now_ns

    def _start_over(self, now_ns: int) -> None:
        self._abandon()
        self._responder.forget_pending()
        self._measurement = None
        self._failure = ""
        self._next_ns = now_ns if self._may_run else None

    def _abandon(self) -> None:
        if self._series is not None:
            self._past.append(self._series)
            self._series = None

    def _finish(self, series: Series, now_ns: int) -> None:
        self._abandon()
        result = series.result(now_ns)
        if result is None:
            self._failure = f"{series.answered} answers to {series.asked} requests"
            self._next_ns = now_ns + self._settings.retry_ns
            return
        self._measurement, self._failure = result, ""
        repeat_ns = self._settings.repeat_ns
        self._next_ns = None if repeat_ns is None else now_ns + repeat_ns

    def _draw_session(self) -> int:
        """Return an unpredictable number that was not used lately."""
        recent = {past.session for past in self._past}
        while True:
            counter = self._drawn.to_bytes(8, "big") + self._mac.octets
            self._drawn += 1
            drawn = hashlib.blake2s(counter, digest_size=4, key=self._seed, person=b"xoffsess").digest()
            if (session := int.from_bytes(drawn, "big")) not in recent:
                return session

    def _phase(self) -> Phase:
        if not self._ours:
            return Phase.OFF_HERE
        if not self._theirs:
            return Phase.OFF_THERE
        if not self._up:
            return Phase.LINK_DOWN
        if self._failure:
            return Phase.UNANSWERED
        return Phase.MEASURING if self._measurement is None else Phase.MEASURED

    def _pattern(self, phase: Phase) -> str:
        known = self._measurement
        if phase is Phase.OFF_HERE:
            return f"headroom is not measured, since this end does not announce it; {_DEFAULT_STAYS}"
        if phase is Phase.OFF_THERE:
            return f"headroom is not measured, since the peer does not announce it; {_DEFAULT_STAYS}"
        if phase is Phase.LINK_DOWN:
            return f"the link is down; {_DEFAULT_STAYS}"
        if phase is Phase.UNANSWERED:
            stays = _DEFAULT_STAYS if known is None else "{round_trip_ns}, measured before, stays"
            return f"headroom cannot be measured: {self._failure}, and {self._settings.enough} are needed; {stays}"
        if known is None:
            return f"headroom is being measured; until then {_DEFAULT_STAYS}"
        return (
            f"round trip {{shortest_ns}} to {{longest_ns}} in {len(known.samples)} samples, {known.lost} lost; "
            "the peer took up to {peer_response_ns} to answer"
        )
