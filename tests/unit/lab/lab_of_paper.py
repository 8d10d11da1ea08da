"""Xoff's command line as a program whose lab is of paper: its output stands here, and nothing is run.

    python -m tests.unit.lab.lab_of_paper prints run hello

`prints` writes 2000 lines, reports a figure and leaves a file; `waits` prints one, and ends when it is asked to.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import testbed.cli.first_steps.running
from testbed.cli import main
from testbed.experiment.output import Record, RecordKind, file_records
from testbed.lab.engines.engine import PreparedEngine
from testbed.lab.engines.host import Host


class _Session:
    def __init__(self, folder: Path) -> None:
        self.stream = folder / "out"
        self.stream.touch()

    def lost(self) -> str | None:
        return None

    def send(self, record: Record) -> None:
        if record.kind is RecordKind.ABORT:
            self.end("aborted")

    def cpu_s(self) -> None: ...
    def used_cpu_s(self) -> None: ...

    def spins(self) -> None: ...

    def close(self) -> None: ...

    def say(self, *records: Record) -> None:
        with self.stream.open("ab") as stream:
            stream.writelines(record.encode() for record in records)

    def end(self, status: str) -> None:
        self.say(*file_records("kept.txt", iter([b"kept"])))
        self.say(Record.of(RecordKind.END, {"status": status, "reason": "", "virtual_ns": 10**9}))


class _Paper(PreparedEngine):
    @contextmanager
    def start(self, job: bytes, folder: Path) -> Iterator[_Session]:
        session = _Session(folder)
        session.say(Record.of(RecordKind.START, {"kernel": "paper"}))
        if _MANNER == "prints":
            session.say(*(Record(RecordKind.OUT, b"line %d of a long output\n" % number) for number in range(2000)))
            session.say(Record(RecordKind.NOTE, b'{"note": "figure", "name": "lines", "value": 2000, "unit": ""}\n'))
            session.end("ok")
        else:
            session.say(Record(RecordKind.OUT, b"begun\n"))
        yield session


if __name__ == "__main__":
    _MANNER = sys.argv[1]
    vars(testbed.cli.first_steps.running)["ready"] = lambda kind: _Paper(engine=Host())
    sys.exit(main(sys.argv[2:]))
