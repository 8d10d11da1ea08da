"""`xoff test`: Xoff's own tests."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

import testbed
from testbed.cli import machine
from testbed.cli.engine_setup import ready
from testbed.errors import UsageError
from testbed.lab.engines import table
from testbed.lab.host import cache, cores, prerequisites
from testbed.lab.results.result import Exit

_MANY = 100
_UNIT, _PLACES = ("tests/unit",), ("tests/unit", "tests/lab", "tests/browser")


def test_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--unit", action="store_true", help="only what needs no lab and no second of its own")
    parser.add_argument("--all", action="store_true", help="also those that take more than five minutes")
    parser.add_argument("pattern", nargs="?", metavar="PATTERN", help="a test file, or a word of test names")


@dataclass(frozen=True)
class _Need:
    """The needs of the tests that were chosen."""

    chosen: int
    engines: list[str]
    packages: list[str]
    names: list[str]
    """Words like the one that was given, if no test was chosen."""


def test(options: argparse.Namespace) -> int:
    """Run Xoff's own tests: --unit on this machine and within a minute, else those with the lab too."""
    root = Path(testbed.__path__[0]).parent
    if not (root / "tests").is_dir():
        raise UsageError("the tests come with the source: clone the repository and use ./xoff test there")
    chosen = _chosen(root, options)
    command = [sys.executable, "-m", "pytest", *chosen]
    # A lab takes a core of its own. A sixth of the time a test with a lab waits: for a limit, a browser, a network.
    width = len(cores.available()) + (not options.unit)
    if options.pattern is not None:
        need = _need(root, options.pattern, chosen)
        if not options.unit:
            _set_up(
                need.engines, [package for package in prerequisites.test_packages() if package.name in need.packages]
            )
        # A few tests without a lab are done before others have started.
        width = min(width, need.chosen if need.engines else need.chosen // _MANY)
    elif not options.unit:
        _set_up(["um", "vm"], prerequisites.test_packages())
    if width > 1:
        command += ["-n", str(width), "--dist", "worksteal"]
    return _run(command, root) and Exit.FAILED


def _chosen(root: Path, options: argparse.Namespace) -> list[str]:
    """Return the arguments of pytest."""
    places = _UNIT if options.unit else _PLACES
    if options.pattern is None and options.unit:
        return ["-m", "not long and not slow", "--hypothesis-profile", "quick", *places]
    if options.pattern is None:
        return [*places] if options.all else ["-m", "not long", *places]
    if (root / options.pattern.partition("::")[0]).exists():
        return [options.pattern]
    return ["-k", options.pattern, *places]


def _need(root: Path, pattern: str, chosen: list[str]) -> _Need:
    """Return the needs of the chosen tests; if there are none, the error has similar names."""
    asked = subprocess.run(
        [sys.executable, "-m", "tests.selection", *chosen], cwd=root, capture_output=True, text=True, check=False
    )
    if asked.returncode:
        lines = asked.stderr.strip().splitlines()
        tail = "\n  ".join([line for line in lines if line.startswith(("E ", "ERROR"))] or lines[-6:])
        raise UsageError(f"xoff test {pattern}: the tests cannot be read:\n  {tail}")
    need = _Need(**json.loads(asked.stdout.splitlines()[-1]))
    if not need.chosen:
        near = get_close_matches(pattern, need.names, 3)
        hint = f"did you mean {' or '.join(near)}?" if near else "a word of test names is expected, or a file of tests/"
        raise UsageError(f"there is no test {pattern}; {hint}")
    return need


def _set_up(names: Sequence[str], packages: Sequence[prerequisites.Package]) -> None:
    engines = [table.find(name) for name in names]
    machines = {package.name: package for engine in engines for package in engine.requirements(building=True)}
    if machines or packages:
        from testbed.cli.screen.progress import setting_up

        with setting_up() as report:
            machine.require([*machines.values(), *packages], report)
    for engine in engines:
        ready(engine)


def _run(command: Sequence[str], root: Path) -> int:
    """Run pytest to its end; after Ctrl-C or SIGTERM it prints what there is, and after another one it is killed."""
    environment = {"PYTHONPYCACHEPREFIX": str(_bytecode(root))} | os.environ | {"PYTHONDONTWRITEBYTECODE": ""}
    # In a group of its own, so that it is we who choose what it gets: its workers are for it to end.
    child = subprocess.Popen(command, cwd=root, stdin=subprocess.DEVNULL, process_group=0, env=environment)
    interruption: KeyboardInterrupt | None = None
    while True:
        try:
            code = child.wait()
            break
        except KeyboardInterrupt as error:
            if interruption is None:
                interruption = error
                child.send_signal(signal.SIGINT)
            else:
                os.killpg(child.pid, signal.SIGKILL)
    if interruption is not None:
        raise interruption
    return code


def _bytecode(root: Path) -> Path:
    """Return the folder of compiled tests and modules of this checkout, without files that tests of before have made
    somewhere else.

    To compile all takes each worker 13 s of CPU time, to find that nothing has changed takes none.
    """
    cache.prune("bytecode-*")
    place = cache.bytecode(root)
    temporary = Path(tempfile.gettempdir())
    if not root.is_relative_to(temporary):
        cache.remove_tree(place / temporary.relative_to("/"))
    return place
