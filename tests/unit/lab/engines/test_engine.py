"""A new engine is a class and an entry in the table: commands offer it, and runs happen in it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from testbed import lab
from testbed.cli import main
from testbed.errors import UsageError
from testbed.experiment.output import Record
from testbed.lab import Run, Status, experiment
from testbed.lab.engines import table, words
from testbed.lab.engines.engine import Engine, PreparedEngine
from testbed.lab.host.cache import Report
from testbed.lab.host.checks import Check

# The lab of this engine is a process without a network: it reports one figure and ends.
PROGRAM = """
import sys
from pathlib import Path
from testbed.experiment.output import Record, RecordKind
note = b'{"note": "figure", "name": "answer", "value": 42, "unit": ""}\\n'
with open(sys.argv[1], "ab") as out:
    for record in (
        Record.of(RecordKind.START, {"kernel": "none"}),
        Record(RecordKind.NOTE, note),
        Record.of(RecordKind.END, {"virtual_ns": 5, "status": "ok", "reason": ""}),
    ):
        out.write(record.encode())
"""


class Toy(Engine):
    """An engine whose lab is a child process."""

    name = "toy"
    summary = "a process that gives the answer"
    reproducible = True

    def prepare(self, report: Report, packages: Sequence[str] = ()) -> PreparedToy:
        report("the toy is ready")
        return PreparedToy(engine=self)

    def checks(self) -> list[Check]:
        return [Check(self.name, "a wheel", False, "three wheels", "glue it on")]


@dataclass(frozen=True, kw_only=True)
class PreparedToy(PreparedEngine):
    @contextmanager
    def start(self, job: bytes, folder: Path) -> Iterator[ToySession]:
        with closing(ToySession(folder)) as session:
            yield session


class ToySession:
    def __init__(self, folder: Path) -> None:
        self.stream = folder / "out"
        self.stream.touch()
        self._process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(self.stream)])

    def lost(self) -> str | None:
        return None if self._process.poll() is None else "the toy broke"

    def send(self, record: Record) -> None: ...

    def cpu_s(self) -> None: ...
    def used_cpu_s(self) -> None: ...

    def spins(self) -> None: ...

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch, xoff_cache: Path) -> None:
    monkeypatch.setitem(table.ENGINES, "toy", Toy())
    monkeypatch.setattr(words, "WORDS", (*words.WORDS, words.EngineWord("toy", Toy.summary)))


@experiment()
def asks(run: Run) -> None:
    """Do nothing."""


def test_a_run_happens_in_it(tmp_path: Path) -> None:
    result = lab.run(asks, on="toy", out=tmp_path)
    assert (result.status, result.figure("answer"), result.times.virtual_ns) == (Status.OK, 42, 5)
    made_with = result.provenance
    assert (made_with.engine, made_with.kernel, made_with.accelerator) == ("toy", "none", "none")
    assert result.again is not None
    assert result.again.command[-2:] == ("--engine", "toy")


def test_the_command_line_runs_experiments_in_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "hello", "--engine", "toy", "--out", str(tmp_path), "--json"]) == 0
    (content,) = json.loads(capsys.readouterr().out)
    assert content["provenance"]["engine"] == "toy"


def test_help_of_the_option_describes_it(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["run", "--help"])
    assert "toy: a process that gives the answer" in " ".join(capsys.readouterr().out.split())


def test_the_doctor_looks_at_what_it_needs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--engine", "toy"]) == 3
    assert "toy  a wheel" in (said := capsys.readouterr().out)
    assert "-> glue it on" in said


def test_commands_that_a_user_takes_part_in_offer_engines_that_wait_for_users() -> None:
    interactive = [engine.name for engine in table.ENGINES.values() if engine.interactive]
    assert interactive == ["um", "realtime", "host", "toy"]


def test_a_name_of_no_engine_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"there is no engine tox; did you mean toy\?"):
        table.find("tox")
