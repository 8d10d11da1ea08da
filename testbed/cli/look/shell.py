"""`xoff shell`: Mininet's command line in the lab, in the user's own terminal; also that of a script for Mininet.

On the engine `um` the lab's time stands still at a prompt. While a command runs it is as fast as the user's, or as many
times as fast, by `--speed`: after each 100 ms the lab waits until it may run on. Captures and other files that the
user leaves in the lab go into a result folder.
"""

from __future__ import annotations

import argparse
import os
import select
import shlex
import shutil
import signal
import sys
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from testbed.cli.arguments import whole_number
from testbed.cli.engine_setup import engine_option, ready
from testbed.cli.house.packages import with_option, with_packages
from testbed.cli.screen import console
from testbed.errors import UsageError
from testbed.experiment import definition, script
from testbed.experiment.fidelity import WINDOW_NS
from testbed.experiment.output import DCBX_LOG, EVENT_LOG, Decoder, Record, RecordKind
from testbed.lab.engines.engine import PreparedEngine, RunningJob
from testbed.lab.engines.words import WORDS
from testbed.lab.host import cache
from testbed.lab.job.job import Job, Limits, Terminal, UserCode, job_for, pack, place_of
from testbed.lab.results.collect import OUTPUT_LOG, Collector
from testbed.lab.results.result import Exit
from testbed.lab.results.result_folder import new_folder
from testbed.net.shell import topologies

_FOREVER = 1e9
_LOOK_S, _SHORTEST_LOOK_S = 0.01, 0.001
_INTERRUPT = b"\x03"


@dataclass(frozen=True)
class _TopologyFile:
    """A user's file with `topos`, in the form that a job takes."""

    source: Path

    @property
    def name(self) -> str:
        return self.source.stem

    @property
    def files(self) -> tuple[str, ...]:
        return script.files(self.source)


def shell(wanted: str, prepared: PreparedEngine, out: Path, speed: float = 1.0) -> int:
    """Hand the terminal to Mininet on a topology, or to a script; return the exit code.

    Files that were left there go below `out`. `speed`: seconds of virtual time in a second, at most; 0 is no limit.
    """
    job, along = _wanted(wanted)
    if not sys.stdin.isatty():
        raise UsageError("xoff shell needs a terminal; for a script, write an experiment and use xoff run")
    size = shutil.get_terminal_size()
    terminal = Terminal(size.lines, size.columns, os.environ.get("TERM", "xterm"))
    limits = Limits(virtual_s=_FOREVER, wall_s=_FOREVER, memory_mb=prepared.memory_mb)
    further = prepared.packages.digest if prepared.packages else ""
    job = replace(job, limits=limits, reproducible=prepared.engine.reproducible, terminal=terminal, packages=further)
    with cache.owned("shell") as workplace, prepared.start(pack(job, along, held=prepared.holds), workplace) as session:
        session.send(Record.of(RecordKind.RESIZE, [size.lines, size.columns]))
        left = workplace / "left"
        left.mkdir()
        with _raw_terminal(), session.stream.open("rb") as stream:
            talk = _Conversation(session, left, WINDOW_NS / 1e9 / speed if speed else 0.0)
            try:
                code = talk.until_its_end(stream)
            finally:
                talk.close()
        _keep(left, out)
        return code


def _wanted(wanted: str) -> tuple[Job, UserCode | None]:
    """Return the job for a topology of Xoff's, for one of a user's file, or for a script, and the code that goes
    along."""
    file, name = topologies.file_of(wanted)
    if file is None:
        topologies.check(wanted)
        return Job("", wanted, {}), None
    if not file.is_file():
        raise UsageError(f"there is no file {file}")
    if script.is_of_topologies(file):
        code = _TopologyFile(file.resolve())
        return Job(place_of(code.source), f"{file.name}{name}", {}), code
    experiment = definition.load_file(file)
    if experiment.script is None:
        raise UsageError(f"{file} is a file of experiments, which have no command line; xoff run runs them")
    if name.startswith(":"):
        raise UsageError(f"{file} defines no `topos`, so there is no {name[1:].partition(',')[0]} in it")
    given = {"arguments": shlex.join(filter(None, name.split(",")))} if name else {}
    return job_for(experiment, given), experiment


class _Conversation:
    """The exchange between the user's terminal and the lab's."""

    def __init__(self, session: RunningJob, left: Path, window_s: float) -> None:
        """Files from the lab go into `left`. 100 ms of the lab's time take at least `window_s`."""
        self._window_s = window_s
        self._sampled, self._resumes_s = False, 0.0
        self._session = session
        self._collector = Collector(left, lambda data, _: _write(data))
        self._decoder = Decoder()
        self._has_network = False
        self._resized = True

    def until_its_end(self, stream: IO[bytes]) -> int:
        previous = signal.signal(signal.SIGWINCH, lambda *_: setattr(self, "_resized", True))
        try:
            while self._collector.ended is None:
                lost = self._session.lost()
                data = stream.read()
                self._take(data)
                if lost is not None and not data:
                    raise UsageError(lost)
                if self._resized:
                    self._resized = False
                    size = shutil.get_terminal_size()
                    self._session.send(Record.of(RecordKind.RESIZE, [size.lines, size.columns]))
                self._let_time_pass(time.monotonic())
                if select.select([0], [], [], min(_LOOK_S, max(self._window_s, _SHORTEST_LOOK_S)))[0]:
                    self._pass_on(os.read(0, 4096))
        finally:
            signal.signal(signal.SIGWINCH, previous)
        return Exit.ERROR if self._collector.failure else Exit.OK

    def close(self) -> None:
        self._collector.close()

    def _take(self, data: bytes) -> None:
        self._collector.feed(data)
        for record in self._decoder.feed(data):
            # The network's phase begins when it runs, right before the first prompt.
            self._has_network = self._has_network or (record.kind is RecordKind.NOTE and b'"phase"' in record.payload)
            self._sampled = self._sampled or record.kind is RecordKind.SAMPLE

    def _let_time_pass(self, now_s: float) -> None:
        """Let the lab run on: in virtual time it waits after each 100 ms."""
        if self._sampled and now_s >= self._resumes_s:
            self._sampled, self._resumes_s = False, now_s + self._window_s
            self._session.send(Record(RecordKind.CONTINUE, b""))

    def _pass_on(self, typed: bytes) -> None:
        """Send what was typed to the lab. Before there is a prompt, Ctrl-C ends the boot here."""
        if _INTERRUPT in typed and not self._has_network:
            raise KeyboardInterrupt
        self._session.send(Record(RecordKind.INPUT, typed or b"\x04"))
        if not typed:
            time.sleep(0.1)


def _write(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]


def _keep(left: Path, out: Path) -> None:
    """Move captures and other files of the user's into a result folder, if there are any."""
    files = [path for path in left.rglob("*") if path.is_file() and path.stat().st_size]
    if not any(path.name not in (OUTPUT_LOG, EVENT_LOG, DCBX_LOG) for path in files):
        return
    folder = new_folder(out, "shell")
    for path in files:
        place = folder / path.relative_to(left)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(path, place)
    console.say(f"what you left in the lab is in {folder}")


@contextmanager
def _raw_terminal() -> Iterator[None]:
    """Pass every key to the lab as it is typed, Ctrl-C too, and restore the terminal afterwards."""
    before = termios.tcgetattr(0)
    tty.setraw(0)
    try:
        yield
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)


def shell_options(parser: argparse.ArgumentParser) -> None:
    what = parser.add_argument(
        "topology", metavar="TOPOLOGY",
        help=f"as in star,8; there are {', '.join(topologies.names())}; FILE.py,8 of a file that defines topos; "
        "or FILE.py, a script for Mininet",
    )  # fmt: skip
    what.completer = lambda **_: topologies.names()  # type: ignore[attr-defined]
    with_option(parser)
    parser.add_argument("--out", type=Path, default=Path("results"), metavar="DIR", help="where captures go in the end")
    engine_option(parser, [engine for engine in WORDS if engine.interactive])
    parser.add_argument(
        "--speed", type=whole_number(0, 10), default=1, metavar="N",
        help="on um: seconds of virtual time in a second while a command runs (default 1; 0: as fast as it can)",
    )  # fmt: skip


def open_shell(options: argparse.Namespace) -> int:
    """Open Mininet's command line on a topology, or a script of yours, in this terminal. On um, time stands still at
    the prompt."""
    _wanted(options.topology)  # a typo is reported before anything is set up
    return shell(options.topology, with_packages(ready(options.engine), options.packages), options.out, options.speed)
