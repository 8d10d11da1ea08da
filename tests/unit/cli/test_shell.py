"""`xoff shell` between the user's terminal and a scripted lab: Ctrl-C, and files that are left there."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.experiment import output as wire
from testbed.experiment.output import Decoder, Record, RecordKind

ROOT = Path(__file__).parents[3]
NETWORK = Record.of(RecordKind.NOTE, {"note": "phase", "phase": "network", "begins": True, "t": 5}).payload + b"\n"
END = Record.of(RecordKind.END, {"virtual_ns": 9, "status": "ok", "reason": ""})
PROGRAM = """
import sys
from contextlib import contextmanager
from pathlib import Path
from testbed.cli import main
from testbed.cli.look import shell
from testbed.lab.engines.engine import PreparedEngine

class Session:
    stream = Path("stream")
    def lost(self): return None
    def send(self, record):
        with open("typed", "ab") as typed:
            typed.write(record.encode())

class Played(PreparedEngine):
    @contextmanager
    def start(self, job, folder):
        print("booting", flush=True)
        yield Session()

shell.ready = lambda engine: Played(engine=engine)
sys.exit(main(["shell", "star,2"]))
"""


class Terminal:
    """A user, a terminal and `xoff shell` in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "stream").touch()
        self._ours, theirs = pty.openpty()
        self.before = termios.tcgetattr(theirs)
        self._theirs = theirs
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM], cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs,
            env={**os.environ, "PYTHONPATH": str(ROOT), "XOFF_CACHE": str(folder / "cache"), "COLUMNS": "200"},
        )  # fmt: skip
        self.seen = b""

    def say(self, *records: Record) -> None:
        """Send records as the lab does."""
        with (self.folder / "stream").open("ab") as stream:
            stream.write(b"".join(record.encode() for record in records))

    def type(self, text: bytes) -> None:
        os.write(self._ours, text)

    def until(self, wanted: bytes) -> None:
        while wanted not in self.seen:
            assert select.select([self._ours], [], [], 60)[0], self.seen
            self.seen += os.read(self._ours, 4096)

    def until_typed(self, wanted: bytes) -> None:
        while wanted not in self.typed():
            assert self.process.poll() is None
            select.select([], [], [], 0.01)

    def typed(self) -> bytes:
        """Return the keys that reached the lab."""
        path = self.folder / "typed"
        records = Decoder().feed(path.read_bytes() if path.exists() else b"")
        return b"".join(record.payload for record in records if record.kind is RecordKind.INPUT)

    def settings(self) -> list[object]:
        return termios.tcgetattr(self._theirs)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)
        os.close(self._theirs)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    one = Terminal(tmp_path)
    yield one
    one.close()


@pytest.mark.slow
def test_ctrl_c_while_the_lab_boots_ends_the_shell(terminal: Terminal) -> None:
    terminal.say(Record(RecordKind.OUT, b"*** Creating network\r\n"))
    terminal.until(b"*** Creating network")
    terminal.type(b"\x03")
    assert terminal.process.wait(60) == 130
    terminal.until(b"interrupted")
    assert b"Traceback" not in terminal.seen
    assert terminal.settings() == terminal.before
    assert terminal.typed() == b""
    assert not (terminal.folder / "results").exists()


@pytest.mark.slow
def test_ctrl_c_at_the_prompt_is_the_labs(terminal: Terminal) -> None:
    terminal.say(Record(RecordKind.NOTE, NETWORK), Record(RecordKind.OUT, b"mininet> "))
    terminal.until(b"mininet> ")
    terminal.type(b"h1 ping h2\n\x03")
    terminal.until_typed(b"\x03")
    terminal.say(END)
    assert terminal.process.wait(60) == 0
    assert not (terminal.folder / "results").exists(), "nothing was left, so there is no folder"


@pytest.mark.slow
def test_captures_come_out_with_what_was_said(terminal: Terminal) -> None:
    terminal.say(Record(RecordKind.NOTE, NETWORK), Record(RecordKind.OUT, b"mininet> "))
    terminal.say(*wire.file_records("events.jsonl", iter([b""])), *wire.file_records("p.pcap", iter([b"frames"])), END)
    assert terminal.process.wait(60) == 0
    terminal.until(b"results/shell-001")
    folder = terminal.folder / "results" / "shell-001"
    assert {path.name for path in folder.iterdir()} == {"p.pcap", "output.log"}
    assert (folder / "p.pcap").read_bytes() == b"frames"


@pytest.mark.slow
def test_a_lab_that_fails_ends_with_an_exit_code(terminal: Terminal) -> None:
    failure = Record.of(RecordKind.NOTE, {"note": "failure", "type": "UsageError", "message": "no"}).payload + b"\n"
    terminal.say(Record(RecordKind.NOTE, NETWORK), Record(RecordKind.NOTE, failure), END)
    assert terminal.process.wait(60) == 4
