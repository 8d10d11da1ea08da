"""A lab that runs for the live view: commands go in and lines come out, at a pace that can be changed.

After each 100 ms of its time the lab waits for leave to go on (`supervisor.py`). So its clock goes as fast as ours, N
times as fast, or stands, whatever viewers do. On engines with real time it goes as it does.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from testbed.errors import UsageError, XoffError
from testbed.experiment.fidelity import WINDOW_NS
from testbed.experiment.output import Decoder, Record, RecordKind
from testbed.lab.engines.engine import PreparedEngine, RunningJob
from testbed.lab.host import cache
from testbed.lab.job.job import Job, Limits, Terminal, pack
from testbed.net.shell import topologies

_FOREVER = 1e9
SLOWEST, FASTEST = 0.001, 100.0
_MOST_PENDING = 1 << 22
"""The most octets of one line of the lab's."""


class RunningLab:
    """A running lab. `lines` has to be called often: it reads the lab's output, and lets the lab's time go on when it
    is due."""

    def __init__(self, topology: str, session: RunningJob, stream: IO[bytes], speed: float, has_pace: bool) -> None:
        self.topology = topology
        self.has_pace = has_pace
        """True if its time can be paced and stopped."""
        self.speed, self.paused = speed, False
        self.ended: str | None = None
        """The reason why it has ended, or None while it runs."""
        self._session, self._stream = session, stream
        self._decoder = Decoder()
        self._rest = b""
        self._failure = ""
        self._waits, self._resumes_s, self._steps = False, 0.0, 0
        self._is_up = False

    def lines(self, now_s: float) -> list[dict[str, Any]]:
        """Return the lines that the lab has written since the last time; a line of anything else has the key `text`."""
        if self.ended is not None:
            return []
        lost = self._session.lost()
        data = self._stream.read()
        found: list[dict[str, Any]] = []
        for record in self._decoder.feed(data):
            found += self._take(record)
        if lost is not None and not data and self.ended is None:
            self.ended = lost
        self._let_time_pass(now_s)
        return found

    def send(self, command: dict[str, Any]) -> None:
        """Give the lab a command, one line of JSON."""
        self._session.send(Record(RecordKind.INPUT, json.dumps(command).encode() + b"\n"))

    def pace(self, speed: float | None = None, paused: bool | None = None) -> None:
        """Set the speed, or stop the lab or let it go on."""
        if not self.has_pace:
            raise UsageError("the time of this lab is real; its pace cannot be changed. The engine um has virtual time")
        if speed is not None:
            if not SLOWEST <= speed <= FASTEST:
                raise UsageError(f"a speed of {speed:g} is not possible; it is {SLOWEST:g} to {FASTEST:g}")
            self.speed, self._resumes_s = speed, 0.0
        if paused is not None:
            self.paused, self._steps = paused, 0

    def step(self) -> None:
        """Stop the lab after 100 ms more of its time."""
        self.pace(paused=True)
        self._steps = 1

    def _take(self, record: Record) -> Iterator[dict[str, Any]]:
        if record.kind is RecordKind.SAMPLE:
            self._waits = True
        elif record.kind in (RecordKind.OUT, RecordKind.ERR):
            self._rest += record.payload
            *lines, self._rest = self._rest.split(b"\n")
            if len(self._rest) > _MOST_PENDING:
                raise XoffError("the lab wrote a line without end")
            yield from filter(None, map(self._parsed, lines))
        elif record.kind is RecordKind.NOTE:
            content = record.content()
            if isinstance(content, dict) and content.get("note") == "failure":
                self._failure = f"{content.get('type')}: {content.get('message')}"
        elif record.kind is RecordKind.END:
            content = record.content()
            reason = content.get("reason", "") if isinstance(content, dict) else ""
            self.ended = self._failure or str(reason) or "the lab has ended"

    def _parsed(self, line: bytes) -> dict[str, Any] | None:
        text = line.decode(errors="replace").strip()
        if text.startswith('{"live"'):
            try:
                found = json.loads(text)
            except (ValueError, RecursionError):
                return {"text": text}
            self._is_up = self._is_up or found["live"] == "network"
            return found if isinstance(found, dict) else {"text": text}
        return {"text": text} if text else None

    def _let_time_pass(self, now_s: float) -> None:
        """Let the lab's time go on; before the network runs there is nothing to see, so it passes as fast as it can."""
        if not self._waits:
            return
        if self._is_up and ((self.paused and not self._steps) or now_s < self._resumes_s):
            return
        self._steps = 0
        self._waits = False
        window_s = WINDOW_NS / 1e9 / self.speed
        # From when it was due, so that what the lab itself takes of a window does not slow it down.
        due_s = self._resumes_s if self._resumes_s > now_s - window_s else now_s
        self._resumes_s = due_s + window_s if self._is_up else 0.0
        self._session.send(Record(RecordKind.CONTINUE, b""))


@contextmanager
def started(topology: str, prepared: PreparedEngine, speed: float = 1.0) -> Iterator[RunningLab]:
    """Start a lab on a topology, and remove everything of it at the end of the block."""
    topologies.check(topology)
    limits = Limits(virtual_s=_FOREVER, wall_s=_FOREVER, memory_mb=prepared.memory_mb)
    further = prepared.packages.digest if prepared.packages else ""
    job = Job("", topology, {}, limits=limits, reproducible=prepared.engine.reproducible,
              terminal=Terminal(term="dumb"), packages=further, live=True)  # fmt: skip
    with cache.owned("serve") as workplace, prepared.start(pack(job, held=prepared.holds), workplace) as session:
        # The first record towards the lab has it listen; a shell sends its size.
        session.send(Record.of(RecordKind.RESIZE, [24, 80]))
        with _opened(session.stream).open("rb") as stream:
            yield RunningLab(topology, session, stream, speed, prepared.engine.reproducible)


def _opened(stream: Path) -> Path:
    deadline = time.monotonic() + 10
    while not stream.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    return stream
