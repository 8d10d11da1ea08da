"""`xoff demo` in a terminal: it shows the network while it runs, and at the end one screen with table and report."""

from __future__ import annotations

import codecs
import os
import pty
import struct
import sys
from collections.abc import Iterator
from fcntl import ioctl
from pathlib import Path
from termios import TIOCSWINSZ

from testbed.lab.engines.engine import PreparedEngine
from tests.terminal import Terminal

ROWS, COLUMNS = 24, 80
ROOT = Path(__file__).parents[3]


def screens(command: list[str]) -> Iterator[Terminal]:
    """The terminal of a command each time that it has written something; the command has to end with 0."""
    pid, end = pty.fork()
    if pid == 0:
        ioctl(0, TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        plain = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "LINES")}
        os.execvpe(command[0], command, plain | {"TERM": "xterm-256color", "PYTHONPATH": str(ROOT)})
    terminal, decoder = Terminal(ROWS, COLUMNS), codecs.getincrementaldecoder("utf-8")()
    try:
        while data := os.read(end, 1 << 16):
            terminal.feed(decoder.decode(data))
            yield terminal
    except OSError:  # how a pseudo terminal ends
        pass
    finally:
        os.close(end)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_the_demo_shows_its_network_live_and_ends_with_one_screen(ready: PreparedEngine, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "testbed", "demo", "--engine", str(ready.engine.name), "--out", str(tmp_path)]
    stopped, heads, last = set[str](), set[str](), list[str]()
    for terminal in screens(command):
        last = terminal.screen
        for line in last:
            if line.split()[:1] in (["s1"], ["r1"], ["r2"], ["s2"]) and "‖3" in line:
                stopped.add(line.split()[0])
            if " through tunnels " in line:
                heads.add(line.partition("  XOFF")[0].split("of the lab  ")[-1])
    assert heads == {"without End.X.PFC", "with End.X.PFC"}
    assert stopped, "a neighbour of one of these is stopped; which of them is seen depends on when the screen is drawn"
    shown = [line for line in last if line]
    table = next(number for number, line in enumerate(shown) if line.split() == ["without", "with", "End.X.PFC"])
    assert any(line.startswith("✓ with End.X.PFC: lost") for line in shown[table:])
    path = "".join(shown).rpartition("report: ")[2]
    assert Path(path).is_file() and path.endswith("report.html")
