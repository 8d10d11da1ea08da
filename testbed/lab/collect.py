"""Turns the frames of a run into its result folder and its result, as they come in.

It makes the best of a stream that ends early: what has arrived is written, and the result says why there
is not more.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Any

from testbed.lab import wire
from testbed.lab.fidelity import Fidelity, Thresholds, judge
from testbed.lab.result import RESULT, Claim, Figure, Status
from testbed.lab.wire import Frame, Kind, Sample

OUTPUT_LOG = "output.log"
_RESERVED = (RESULT, OUTPUT_LOG)


@dataclass
class Collector:
    """What is known of a run so far."""

    folder: Path
    output: Callable[[bytes, bool], None]
    """Called with each piece of what the job prints; the flag says that it is standard error."""
    started: dict[str, Any] = field(default_factory=dict)
    heard: bool = False
    """Whether the job itself has said anything yet."""
    ended: dict[str, Any] | None = None
    figures: list[Figure] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    failure: str = ""
    _phases: list[tuple[int, int]] = field(default_factory=list)
    _phase_start: int | None = None
    _agent_late_ns: int | None = None
    _decoder: wire.Decoder = field(default_factory=wire.Decoder)
    _log: IO[bytes] | None = None
    _file: IO[bytes] | None = None
    _file_name: str = ""
    _digests: dict[str, Any] = field(default_factory=dict)

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the stream."""
        for frame in self._decoder.feed(data):
            self._take(frame)

    def close(self) -> None:
        for handle in (self._log, self._file):
            if handle is not None:
                with suppress(OSError):  # a full disk has been reported already
                    handle.close()

    @property
    def virtual_ns(self) -> int:
        """How far the lab's time has come, as far as we know."""
        if self.ended is not None:
            return int(self.ended["virtual_ns"])
        return self.samples[-1].time_ns if self.samples else 0

    @property
    def files(self) -> dict[str, str]:
        """SHA-256 of every file in the folder that came from the run."""
        return {name: digest.hexdigest() for name, digest in sorted(self._digests.items())}

    def fidelity(self, thresholds: Thresholds) -> Fidelity:
        phases = list(self._phases)
        if self._phase_start is not None:
            phases.append((self._phase_start, self.virtual_ns))
        return judge(self.samples, phases, self._agent_late_ns, thresholds)

    def status(self) -> tuple[Status, str]:
        """How the job ended, by its own account."""
        assert self.ended is not None
        status, reason = str(self.ended["status"]), str(self.ended["reason"])
        if status == Status.ERROR and self.failure:
            reason = self.failure
        return Status(status), reason

    def _take(self, frame: Frame) -> None:
        self.heard = self.heard or frame.kind in (Kind.OUT, Kind.ERR, Kind.NOTE)
        if frame.kind is Kind.START:
            self.started = frame.content()
        elif frame.kind in (Kind.OUT, Kind.ERR):
            self._write_log(frame.payload)
            self.output(frame.payload, frame.kind is Kind.ERR)
        elif frame.kind is Kind.SAMPLE:
            self.samples.append(Sample.decode(frame.payload))
        elif frame.kind is Kind.NOTE:
            # A pipe may deliver several lines at once, never half of one: they are short.
            for line in frame.payload.splitlines():
                self._note(Frame(Kind.NOTE, line).content())
        elif frame.kind is Kind.FILE:
            self._write_file(*wire.file_piece(frame))
        elif frame.kind is Kind.END:
            self.ended = frame.content()

    def _note(self, note: dict[str, Any]) -> None:
        kind = note.pop("note")
        if kind == "figure":
            self.figures.append(Figure(**note))
        elif kind == "claim":
            self.claims.append(Claim(**note))
        elif kind == "phase":
            if note["measuring"]:
                self._phase_start = note["t"]
            elif self._phase_start is not None:
                self._phases.append((self._phase_start, note["t"]))
                self._phase_start = None
        elif kind == "agent_lateness":
            self._agent_late_ns = max(self._agent_late_ns or 0, note["worst_ns"])
        elif kind == "failure":
            self.failure = f"{note['type']}: {note['message']}"

    def _write_log(self, data: bytes) -> None:
        if self._log is None:
            self._log = (self.folder / OUTPUT_LOG).open("wb", buffering=0)
            self._digests[OUTPUT_LOG] = hashlib.sha256()
        self._digests[OUTPUT_LOG].update(data)
        self._log.write(data)

    def _write_file(self, name: str, piece: bytes) -> None:
        place = _safe(name)
        if name != self._file_name:
            if self._file is not None:
                self._file.close()
            path = self.folder / place
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file, self._file_name = path.open("wb"), name
            self._digests[place] = hashlib.sha256()
        assert self._file is not None
        self._digests[place].update(piece)
        self._file.write(piece)


def _safe(name: str) -> str:
    """A name inside the folder, whatever the lab says, and none of ours."""
    parts = [part for part in PurePosixPath(name).parts if part not in ("/", "..")]
    place = "/".join(parts) or "unnamed"
    return f"job-{place}" if place in _RESERVED else place
