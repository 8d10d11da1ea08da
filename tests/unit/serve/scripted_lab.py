"""An engine without a machine, which answers each job with the records of a lab, for tests of the code around runs."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from testbed.experiment.output import Record, RecordKind
from testbed.lab.engines.engine import Engine, PreparedEngine
from testbed.lab.engines.um import Um
from testbed.lab.job.job import Job

Answer = Callable[[Job], dict[str, Any]]


class Session:
    """A job that has ended already."""

    def __init__(self, stream: Path) -> None:
        self.stream = stream

    def lost(self) -> str | None:
        return None

    def send(self, record: Record) -> None: ...

    def cpu_s(self) -> None: ...
    def used_cpu_s(self) -> None: ...

    def spins(self) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True, kw_only=True)
class ScriptedEngine(PreparedEngine):
    """A prepared engine whose `answer` gives the figures of a job, or raises the error that the run ends with."""

    engine: Engine = field(default_factory=Um)
    answer: Answer = lambda job: {"seed": job.seed}
    jobs: list[Job] = field(default_factory=list)

    @contextmanager
    def start(self, job: bytes, folder: Path) -> Iterator[Session]:
        with tarfile.open(fileobj=io.BytesIO(job)) as archive:
            content = archive.extractfile("job.json")
            assert content is not None
            asked = Job.decode(content.read().decode())
        self.jobs.append(asked)
        records = [Record.of(RecordKind.START, {"kernel": "scripted", "python": "3.11"})]
        end = {"virtual_ns": 10**9, "status": "ok", "reason": ""}
        try:
            for name, value in self.answer(asked).items():
                note = {"note": "figure", "name": name, "value": value, "unit": ""}
                one = Record.of(RecordKind.NOTE, note)
                records.append(Record(one.kind, one.payload + b"\n"))
        except RuntimeError as error:
            end |= {"status": "error", "reason": str(error)}
        records.append(Record.of(RecordKind.END, end))
        (folder / "out").write_bytes(b"".join(record.encode() for record in records))
        yield Session(folder / "out")
