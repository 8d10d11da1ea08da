"""The times at which a port sends its frames: its flows side by side on one line, and their pauses. Sans-I/O.

A frame is due by its flow's rate, counted from the flow's start. It starts when it is due, when the line is free, and
when its queue is not paused; of several, the one that is due first. A flow that was paused does not make up for it: its
later frames are due as much later. Times are picoseconds of the monotonic clock.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from testbed.frames.mac_control import MacControlError, PauseFrame, parse
from testbed.subjects.snappi.config import FlowControl, FlowPlan
from testbed.subjects.snappi.pacing import GAP, PREAMBLE, PS, TestPortLine
from testbed.units import PFC_QUANTUM_BITS

NEVER = 1 << 100
_QUEUES = range(8)


class State(Enum):
    """The state of a flow, as in the model."""

    STOPPED = "stopped"
    STARTED = "started"
    PAUSED = "paused"


@dataclass
class Stream:
    """One flow at its port."""

    plan: FlowPlan
    state: State = State.STOPPED
    number: int = 0
    """The number of the next frame, since the configuration was set."""
    remaining: int | None = None
    """The number of frames until the flow ends, or None if their number does not end it."""
    due_ps: int = NEVER
    size: int = 0
    _origin_ps: int = 0
    _units: int = 0
    _end_ps: int = NEVER
    _in_burst: int = 0
    _held_ps: int = 0
    _sizes: Iterator[int] = field(default_factory=lambda: iter(()))

    def start(self, now_ps: int) -> None:
        span = self.plan.span
        self.state, self.remaining = State.STARTED, span.frames
        self._sizes = self.plan.sizes.each(seed=self.plan.number + 1)
        self._origin_ps = self.due_ps = now_ps + span.delay_ps
        self._units = self._in_burst = 0
        self._end_ps = self.due_ps + span.lasts_ps if span.lasts_ps is not None else NEVER
        self.size = next(self._sizes)
        self._end_if_over()

    def pause(self, now_ps: int) -> None:
        self.state, self._held_ps = State.PAUSED, now_ps

    def resume(self, now_ps: int) -> None:
        self.state = State.STARTED
        self.delay(now_ps - self._held_ps)

    def delay(self, by_ps: int) -> None:
        """Make all later frames later by this time."""
        self._origin_ps += by_ps
        self.due_ps += by_ps

    def change(self, plan: FlowPlan) -> None:
        """Go on with the rate and the sizes of another plan, from the next frame."""
        self.plan = replace(self.plan, sizes=plan.sizes, pace=plan.pace)
        self._sizes = plan.sizes.each(seed=plan.number + 1)
        self._origin_ps, self._units = self.due_ps, 0
        if self.state is not State.STOPPED:
            self.size = next(self._sizes)

    def stop(self) -> None:
        self.state, self.due_ps = State.STOPPED, NEVER

    def sent(self, end_ps: int) -> None:
        """Go on to the next frame: the last octet of this one left at `end_ps`."""
        plan, span = self.plan, self.plan.span
        self.number += 1
        self._units += plan.pace.weight(self.size)
        self.size = next(self._sizes)
        if self.remaining is not None:
            self.remaining -= 1
        self._in_burst += 1
        if span.burst is not None and self._in_burst == span.burst:
            self._in_burst = self._units = 0
            self._origin_ps = self.due_ps = end_ps + span.between_ps
        else:
            self.due_ps = self._origin_ps + plan.pace.after_ps(self._units)
        self._end_if_over()

    def _end_if_over(self) -> None:
        if self.remaining == 0 or self.due_ps >= self._end_ps:
            self.stop()


@dataclass
class _Pause:
    """The pause of one queue, from one moment to another."""

    from_ps: int = 0
    until_ps: int = 0

    def stops(self, moment_ps: int) -> bool:
        return self.from_ps <= moment_ps < self.until_ps


_NO_PAUSE = _Pause()


@dataclass(frozen=True)
class Start:
    """The next frame of a port: its start and its flow."""

    at_ps: int
    stream: Stream


class Transmitter:
    """All flows of one port."""

    def __init__(self, flows: Sequence[FlowPlan], line: TestPortLine, control: FlowControl | None) -> None:
        self.streams = [Stream(flow) for flow in flows]
        self._line, self._control = line, control
        self._free_ps = 0
        """The time at which the line is free or the last pause came. No frame starts before it."""
        self._pauses = [_Pause() for _ in _QUEUES]
        self.received_pauses = 0

    def next(self) -> Start | None:
        """Return the frame that starts next, or None if none does."""
        best: Start | None = None
        for stream in self.streams:
            if stream.state is not State.STARTED:
                continue
            at_ps = self._released(stream.plan.queue, max(stream.due_ps, self._free_ps))
            if at_ps >= NEVER:
                continue
            # Of frames that wait for the line, the one that was due first.
            if best is None or (at_ps, stream.due_ps) < (best.at_ps, best.stream.due_ps):
                best = Start(at_ps, stream)
        return best

    def sent(self, start: Start) -> tuple[Stream, int, int]:
        """Count the next frame as sent at its time, and return its flow, its number and its size."""
        stream, at_ps = start.stream, start.at_ps
        number, size = stream.number, stream.size
        pause = self._pause_of(stream.plan.queue)
        if stream.due_ps < at_ps == pause.until_ps:  # it was paused: no frame makes up for that
            stream.delay(at_ps - max(stream.due_ps, pause.from_ps))
        end_ps = at_ps + self._line.octets_ps(PREAMBLE + size)
        self._free_ps = end_ps + self._line.octets_ps(max(GAP, stream.plan.span.gap))
        stream.sent(end_ps)
        return stream, number, size

    def receive(self, frame: bytes, now_ps: int) -> None:
        """Take in a received MAC control frame."""
        if self._control is None:
            return
        try:
            found = parse(frame)
        except MacControlError:
            return
        self._free_ps = max(self._free_ps, now_ps)
        if isinstance(found, PauseFrame):
            if not self._control.queues:
                self.received_pauses += 1
                for queue in _QUEUES:
                    self._pause(queue, found.quanta, now_ps)
            return
        if self._control.queues:
            self.received_pauses += 1
            for priority, quanta in found.changes():
                self._pause(self._control.queues[priority], quanta, now_ps)

    def hold(self, queue: int, now_ps: int) -> None:
        """Stop a queue until it is released, as its frames may not leave."""
        self._pauses[queue] = _Pause(now_ps, NEVER)

    def release(self, queue: int, now_ps: int) -> None:
        """Have a queue go on that was held."""
        self._free_ps = max(self._free_ps, now_ps)
        self._pauses[queue].until_ps = now_ps

    def _pause(self, queue: int, quanta: int, now_ps: int) -> None:
        assert self._control is not None
        pause = self._pauses[queue]
        if not quanta:
            pause.until_ps = min(pause.until_ps, now_ps)
            return
        if pause.until_ps <= now_ps:  # it does not stand still yet
            pause.from_ps = now_ps + self._quanta_ps(self._control.delay_quanta)
        pause.until_ps = now_ps + self._quanta_ps(quanta)

    def _quanta_ps(self, quanta: int) -> int:
        return quanta * PFC_QUANTUM_BITS * PS // self._line.bps

    def _pause_of(self, queue: int | None) -> _Pause:
        return _NO_PAUSE if queue is None else self._pauses[queue]

    def _released(self, queue: int | None, moment_ps: int) -> int:
        pause = self._pause_of(queue)
        return pause.until_ps if pause.stops(moment_ps) else moment_ps
