"""The collector of a run's records, which makes the result folder and the result of them as they come in.

A stream that ends early is used as far as it goes: what has arrived is written, and the result has the reason why there
is not more. It trusts nothing in the stream: what no lab of ours would send is a StreamError, and no file
gets out of the folder.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import IO, Any

from testbed.errors import UsageError
from testbed.experiment import demand
from testbed.experiment import output as wire
from testbed.experiment.demand import Demand
from testbed.experiment.fidelity import Fidelity, Phase, Thresholds, judge
from testbed.experiment.output import Record, RecordKind, Sample, StreamError, merged
from testbed.experiment.run import DEEPEST, LARGEST_NOTE, plain
from testbed.lab.results.result import BOUNDS, RESULT, Claim, Figure, Status

OUTPUT_LOG = "output.log"
RESERVE = ".reserve"
_OURS = re.compile(rf"(job-)*({'|'.join(map(re.escape, (OUTPUT_LOG, RESULT, RESERVE)))})(/.*)?", re.DOTALL)
_LONGEST_PART = 255  # octets, as in every file system of Linux
_LONGEST_NAME = 2048  # half of what Linux takes; the rest is for where the folder is
_LONGEST_PLACE = 300
_LATEST_NS = 10**18  # the longest `Duration`
_ABORTED = "aborted"  # the reason is known where the command was sent


@dataclass
class _Marks:
    """The parts of a run with one kind of mark."""

    _over: list[tuple[int, int]] = field(default_factory=list)
    _start_ns: int = 0
    _open: int = 0

    def take(self, begins: bool, now_ns: int) -> bool:
        """Note that a part begins or ends, maybe within another; return False if none could end."""
        if not begins and not self._open:
            return False
        if begins and not self._open:
            self._start_ns = now_ns
        self._open += 1 if begins else -1
        if not self._open:
            self._over.append((self._start_ns, now_ns))
        return True

    def until(self, end_ns: int) -> list[tuple[int, int]]:
        """Return all parts, with an open one as if it ended now."""
        return self._over + ([(self._start_ns, end_ns)] if self._open else [])


@dataclass
class Collector:
    """The collector of one run, which has all that is known of the run so far."""

    folder: Path
    output: Callable[[bytes, bool], None]
    """A function that is called with each piece of output; the flag is True for standard error."""
    live: Callable[[Any], None] = lambda line: None
    """A function that is called with each line that networks report while they run; the line may be any JSON."""
    started: dict[str, Any] = field(default_factory=dict)
    heard: bool = False
    """True if anything has come from the job itself."""
    ended: dict[str, Any] | None = None
    figures: list[Figure] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    failure: str = ""
    nodes: int = 0
    """The nodes of the network that was set up last."""
    setting_up_ns: int | None = None
    """The time of the run at which the set-up of a network began that is not up yet; else None."""
    demands: tuple[Demand, ...] = ()
    """The work that running flows ask for."""
    _phases: dict[Phase, _Marks] = field(default_factory=lambda: {phase: _Marks() for phase in Phase})
    _half_note: bytes = b""
    """The beginning of a note whose end has not come."""
    _half_line: bytes = b""
    """The beginning of a live line whose end has not come."""
    _agent_late_ns: int | None = None
    _decoder: wire.Decoder = field(default_factory=wire.Decoder)
    _log: IO[bytes] | None = None
    _file: IO[bytes] | None = None
    _file_name: str | None = None
    _digests: dict[str, Any] = field(default_factory=dict)
    rate_controls: dict[str, str] = field(default_factory=dict)
    """The way in which each rate control ran that the lab's kernel does not have itself."""
    switch_rules: dict[str, str] = field(default_factory=dict)
    """The way in which each rule of the user's for switches ran."""

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the stream."""
        for record in self._decoder.feed(data):
            self._take(record)

    def close(self) -> None:
        for handle in (self._log, self._file):
            if handle is not None:
                with suppress(OSError):  # a full disk has been reported already
                    handle.close()

    def adopt(self, other: Collector, folder: str) -> None:
        """Take the files in a folder of another collector; StreamError if a file is here already."""
        for place in [place for place in other._digests if place.startswith(f"{folder}/")]:
            if place in self._digests:
                raise StreamError(f"two parts of the network have a file {place}")
            target = self.folder / place
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(other.folder / place, target)
            self._digests[place] = other._digests.pop(place)

    def join_series(self, others: Sequence[Collector], place: str) -> None:
        """Have the rows of a time series of all parts in its file, as each part has those of its own ports; StreamError
        if a row has no moment.
        """
        if place not in self._digests:
            return
        digest, joined = hashlib.sha256(), self.folder / f"{place}.joined"
        with ExitStack() as opened:
            files = [
                opened.enter_context((one.folder / place).open("rb"))
                for one in (self, *others)
                if place in one._digests
            ]
            heads = [file.readline() for file in files]
            target = opened.enter_context(joined.open("wb"))
            try:
                for row in chain(heads[:1], merged(files)):
                    digest.update(row)
                    target.write(row)
            except (ValueError, IndexError):
                joined.unlink()
                raise StreamError(f"{place} of a part of the network has a row without a time") from None
        joined.replace(self.folder / place)
        self._digests[place] = digest

    @property
    def virtual_ns(self) -> int:
        """The latest virtual time that is known, in ns."""
        if self.ended is not None:
            return int(self.ended["virtual_ns"])
        return self.samples[-1].time_ns if self.samples else 0

    @property
    def files(self) -> dict[str, str]:
        """The SHA-256 of every file in the folder that came from the run."""
        return {name: digest.hexdigest() for name, digest in sorted(self._digests.items())}

    def fidelity(self, thresholds: Thresholds) -> Fidelity:
        """Judge the time that the run marked, by its last kind of mark, except for flows that were too short to see."""
        for phase in reversed(Phase):
            if spans := self._phases[phase].until(self.virtual_ns):
                found = judge(self.samples, spans, self._agent_late_ns, thresholds)
                if found.windows or phase is not Phase.TRAFFIC:
                    return found
        return judge(self.samples, [], self._agent_late_ns, thresholds)

    def status(self) -> tuple[Status, str]:
        """Return the job's status and reason as the lab reported them."""
        assert self.ended is not None
        if self.ended["status"] == _ABORTED:
            return Status.LOST, "the lab ended the job without a command to do so"
        status = Status(self.ended["status"])
        return status, self.failure if status is Status.ERROR and self.failure else self.ended["reason"]

    @property
    def where(self) -> str:
        """The job's line when its time was over, as in "in loop, at line 5 of mine.py"; empty if not known."""
        found = (self.ended or {}).get("where", "")
        return found[:_LONGEST_PLACE] if isinstance(found, str) else ""

    def _take(self, record: Record) -> None:
        self.heard = self.heard or record.kind in (RecordKind.OUT, RecordKind.ERR, RecordKind.NOTE)
        if record.kind in (RecordKind.OUT, RecordKind.ERR):
            self._write_log(record.payload)
            self.output(record.payload, record.kind is RecordKind.ERR)
        elif record.kind is RecordKind.SAMPLE:
            self._sample(record)
        elif record.kind is RecordKind.NOTE:
            # A pipe delivers several lines at once, and a long one in pieces.
            *lines, self._half_note = (self._half_note + record.payload).split(b"\n")
            for line in lines:
                self._note(Record(RecordKind.NOTE, line))
            if len(self._half_note) > LARGEST_NOTE:
                raise _damage(record)
        elif record.kind is RecordKind.LIVE:
            *lines, self._half_line = (self._half_line + record.payload).split(b"\n")
            for line in lines:
                self.live(_content(Record(RecordKind.LIVE, line)))
            if len(self._half_line) > LARGEST_NOTE:
                raise _damage(record)
        elif record.kind is RecordKind.DEMAND:
            if (told := demand.demands(_content(record))) is None:
                raise _damage(record)
            self.demands = told
        elif record.kind is RecordKind.FILE:
            self._write_file(*wire.file_piece(record))
        else:
            self._start_or_end(record)

    def _start_or_end(self, record: Record) -> None:
        match record.kind, _content(record):
            case RecordKind.START, dict(started):
                self.started = started
            case RecordKind.END, {"virtual_ns": int(end_ns), "status": str(status), "reason": str()} as ended if (
                0 <= end_ns <= _LATEST_NS and status in {*Status, _ABORTED}
            ):
                self.ended = ended
            case _:
                raise _damage(record)

    def _sample(self, record: Record) -> None:
        sample = Sample.decode(record.payload)
        previous_ns = self.samples[-1].time_ns if self.samples else -1
        if not previous_ns < sample.time_ns <= _LATEST_NS or sample.late_ns > _LATEST_NS:
            raise _damage(record)
        if not 0 <= sample.tick_ns <= _LATEST_NS:
            raise _damage(record)
        self.samples.append(sample)

    def _note(self, record: Record) -> None:
        match _content(record):
            case {"note": "figure", "name": str(name), "value": value, "unit": str(unit)}:
                self.figures.append(Figure(name, value, unit))
            case {
                "note": "claim",
                "name": str(name),
                "expected": dict(bounds),
                "measured": value,
                "passed": bool(passed),
                "unit": str(unit),
            } if bounds.keys() <= BOUNDS.keys():
                self.claims.append(Claim(name, bounds, value, passed, unit))
            case {"note": "phase", "phase": str(phase), "begins": bool(begins), "t": int(time_ns)} if phase in {*Phase}:
                if not self._phases[Phase(phase)].take(begins, time_ns):
                    raise _damage(record)
                self.setting_up_ns = None
            case {"note": "set_up", "nodes": int(nodes), "t": int(since_ns)} if min(nodes, since_ns) >= 0:
                self.nodes, self.setting_up_ns = nodes, since_ns
            case {"note": "agent_lateness", "worst_ns": int(worst_ns)} if 0 <= worst_ns <= _LATEST_NS:
                self._agent_late_ns = max(self._agent_late_ns or 0, worst_ns)
            case {"note": "rate_control", "name": str(name), "how": str(how)}:
                _add(self.rate_controls, name, how)
            case {"note": "switch_rule", "name": str(name), "how": str(how)}:
                _add(self.switch_rules, name, how)
            case {"note": "failure", "type": str(kind), "message": str(message)}:
                self.failure = f"{kind}: {message}"
            case _:
                raise _damage(record)

    def _write_log(self, data: bytes) -> None:
        if self._log is None:
            self._log = self._open(OUTPUT_LOG)
        self._write(self._log, OUTPUT_LOG, data)

    def _write_file(self, name: str, piece: bytes) -> None:
        place = _place(name)
        if self._file is None or name != self._file_name:
            if self._file is not None:
                self._file.close()
            try:
                self._file, self._file_name = self._open(place), name
            except (FileExistsError, IsADirectoryError, NotADirectoryError):
                raise StreamError(f"the lab's stream is damaged: {name!r} is both a file and a folder") from None
        self._write(self._file, place, piece)

    def _open(self, place: str) -> IO[bytes]:
        path = self.folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = path.open("wb")
        self._digests[place] = hashlib.sha256()
        return handle

    def _write(self, handle: IO[bytes], place: str, data: bytes) -> None:
        handle.write(data)
        handle.flush()  # what has arrived is kept, and a full disk is noticed before the run counts as ended
        self._digests[place].update(data)


def _content(record: Record) -> Any:
    """Return the JSON in a record; it is nested no deeper than `Run` sends it."""
    try:
        return plain(record.content(), DEEPEST + 2)  # a value in the bounds of a claim in a note
    except (ValueError, RecursionError, UsageError):
        raise _damage(record) from None


def _add(ways: dict[str, str], name: str, how: str) -> None:
    """Note how something of the user's ran, beside other ways in which it did."""
    ways[name] = f"{known}, {how}" if (known := ways.get(name)) else how


def _damage(record: Record) -> StreamError:
    return StreamError(f"the lab's stream is damaged: {record.payload[:80]!r} is no {record.kind.name}")


def _place(name: str) -> str:
    """Return the path of a file in the folder: its own, unless it is reserved or no file can have it.

    No two files of a lab share a place, and it depends on the name alone, on every machine.
    """
    place = f"job-{name}" if _OURS.fullmatch(name) else name
    octets = place.encode(errors="surrogateescape")
    if len(octets) <= _LONGEST_NAME and all(
        len(part) <= _LONGEST_PART and part not in (b"", b".", b"..") for part in octets.split(b"/")
    ):
        return place
    return f"unnamed-{hashlib.sha256(octets).hexdigest()[:16]}"
