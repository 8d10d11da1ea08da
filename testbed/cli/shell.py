"""`xoff shell`: Mininet's command line in the lab, in the user's own terminal.

On the engine `um` the lab's time stands still at a prompt. While a command runs it is as fast as the user's, or as many
times as fast as `--speed` says: after each 100 ms the lab waits until it may run on.
"""

from __future__ import annotations

import argparse
import os
import select
import shutil
import signal
import sys
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from testbed.cli.arguments import whole
from testbed.cli.ready import engine_option, ready
from testbed.errors import UsageError
from testbed.lab import cache
from testbed.lab.engine import Kind as Engine
from testbed.lab.engine import Ready, Session
from testbed.lab.fidelity import WINDOW_NS
from testbed.lab.job import Job, Limits, Terminal, pack
from testbed.lab.wire import Decoder, Frame, Kind
from testbed.net import shell as topologies

_FOREVER = 1e9
_LOOK_S = 0.01


def shell(topology: str, ready: Ready, speed: float = 1.0) -> int:
    """Hand the terminal to Mininet on `topology`; return the exit code.

    `speed`: seconds of virtual time in a second, at most; 0 is no limit.
    """
    topologies.check(topology)
    if not sys.stdin.isatty():
        raise UsageError("xoff shell needs a terminal; for a script, write an experiment and use xoff run")
    size = shutil.get_terminal_size()
    terminal = Terminal(size.lines, size.columns, os.environ.get("TERM", "xterm"))
    limits = Limits(virtual_s=_FOREVER, wall_s=_FOREVER, memory_mb=ready.memory_mb)
    job = Job("", topology, {}, limits=limits, reproducible=ready.kind.reproducible, terminal=terminal)
    with cache.owned("shell") as workplace, ready.start(pack(job, held=ready.holds), workplace) as session:
        session.send(Frame.of(Kind.RESIZE, [size.lines, size.columns]))
        with _raw_terminal(), session.stream.open("rb") as stream:
            return _converse(session, stream, WINDOW_NS / 1e9 / speed if speed else 0.0)


def _converse(session: Session, stream: Any, window_s: float) -> int:
    """Pass on what is typed and shown until the shell ends; `window_s`: how long 100 ms of the lab take at least."""
    decoder = Decoder()
    stdin = sys.stdin.fileno()
    resized = [False]
    previous = signal.signal(signal.SIGWINCH, lambda *_: resized.__setitem__(0, True))
    failure = ""
    sampled, resumes_s = False, 0.0
    try:
        while True:
            lost = session.lost()
            data = stream.read()
            for frame in decoder.feed(data):
                if frame.kind in (Kind.OUT, Kind.ERR):
                    os.write(1, frame.payload)
                elif frame.kind is Kind.SAMPLE:
                    sampled = True
                elif frame.kind is Kind.NOTE:
                    failure = str(frame.content().get("message", ""))
                elif frame.kind is Kind.END:
                    return 4 if failure else 0
            if lost is not None and not data:
                raise UsageError(lost)
            now_s = time.monotonic()
            if sampled and now_s >= resumes_s:
                sampled, resumes_s = False, now_s + window_s
                session.send(Frame(Kind.CONTINUE, b""))
            if resized[0]:
                resized[0] = False
                size = shutil.get_terminal_size()
                session.send(Frame.of(Kind.RESIZE, [size.lines, size.columns]))
            if select.select([stdin], [], [], min(_LOOK_S, window_s))[0]:
                typed = os.read(stdin, 4096)
                session.send(Frame(Kind.INPUT, typed or b"\x04"))
                if not typed:
                    time.sleep(0.1)
    finally:
        signal.signal(signal.SIGWINCH, previous)


@contextmanager
def _raw_terminal() -> Iterator[None]:
    """Every key goes to the lab as it is typed, Ctrl-C too; afterwards the terminal is as it was."""
    before = termios.tcgetattr(0)
    tty.setraw(0)
    try:
        yield
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)


def shell_options(parser: argparse.ArgumentParser) -> None:
    what = parser.add_argument(
        "topology", metavar="TOPOLOGY", help=f"as in star,8; there are {', '.join(topologies.names())}"
    )
    what.completer = lambda **_: topologies.names()  # type: ignore[attr-defined]
    engine_option(parser, Engine.UM, Engine.UM, Engine.REALTIME, Engine.HOST)
    parser.add_argument(
        "--speed", type=whole(0, 10), default=1, metavar="N",
        help="on um: seconds of virtual time in a second while a command runs (default 1; 0: as fast as it can)",
    )  # fmt: skip


def open_shell(options: argparse.Namespace) -> int:
    """Mininet's command line on a topology, in this terminal. On um, time stands still at the prompt."""
    topologies.check(options.topology)
    return shell(options.topology, ready(options.engine), options.speed)
