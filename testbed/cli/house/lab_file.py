"""`xoff image export` and `xoff image import`: the lab in one file, for a machine that has only Python.

Standard library only: an import comes before there is a Python environment (see `bootstrap.py`).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from testbed.cli.screen.streams import exact
from testbed.errors import UsageError, plain
from testbed.lab.engines import lab_file, prebuilt
from testbed.lab.engines.lab_file import Contents
from testbed.lab.host import cache

_SHOWN_EVERY_S = 0.2
_LINES = 4
"""The number of progress lines where there is no terminal."""


def import_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="what `xoff image export` wrote on another machine")


def export(options: argparse.Namespace, engines: Sequence[str]) -> int:
    """Write the lab to a file."""
    names = [name for names in options.with_deb for name in names.split(",") if name]
    file, then = options.file, "carry it to the other machine, and there: XOFF_LAB={} ./xoff demo"
    if options.wheel:
        if not file.is_dir():
            raise UsageError(f"{file} is no folder: the name of a wheel says what is in it, so --wheel chooses it")
        if names:
            raise UsageError("--wheel takes no --with-deb: a wheel has the lab of this version, and nothing else")
        file, then = file / prebuilt.wheel_name(), "give it to your index of packages, or: XOFF_LAB={} ./xoff demo"
    elif file.is_dir():
        file /= prebuilt.name()
    with _Meter(f"exporting to {file}") as meter:
        done = lab_file.export(
            file, engines, say, meter.show, with_debs=names, small=options.small, wheel=options.wheel
        )  # fmt: skip
    return _tell(done, options.json, then.format(file.name))


def import_(options: argparse.Namespace) -> int:
    """Put the lab of a file that `xoff image export` wrote into the cache of this machine."""
    with _Meter(f"importing {options.file}") as meter:
        done = lab_file.import_(options.file, say, meter.show)
    return _tell(done, options.json, f"in {cache.root()}; next: ./xoff run incast --engine {done.engines[0]}")


def take() -> Contents:
    """Put the lab that `XOFF_LAB` names into the cache, if it is the one of this version."""
    with _Meter(f"taking the lab from {os.environ[prebuilt.VARIABLE]}") as meter:
        return prebuilt.take(say, meter.show)


def take_from_index() -> Contents | None:
    """Put the lab of the package index into the cache, if it has that of this version."""
    with _Meter("taking the lab from the package index") as meter:
        return prebuilt.take_from_index(say, meter.show)


def say(text: str) -> None:
    """Print a line about what Xoff itself is doing."""
    print(f"xoff: {text}", file=sys.stderr, flush=True)


class _Meter:
    """A progress meter: one line that changes in a terminal, a few lines elsewhere."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._shown = 0.0
        self._lines = 0
        self._is_open = False

    def __enter__(self) -> _Meter:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_open:
            print(file=sys.stderr)

    def show(self, done: int, total: int) -> None:
        percent = 100 * done // total if total else 100
        if not sys.stderr.isatty():
            if percent * _LINES // 100 > self._lines:
                self._lines = percent * _LINES // 100
                say(f"{self._what}: {percent} %")
        elif done == total or time.monotonic() - self._shown > _SHOWN_EVERY_S:
            self._shown, self._is_open = time.monotonic(), True
            print(f"\rxoff: {plain(self._what)}: {percent:3d} %", end="", file=exact(sys.stderr), flush=True)


def _tell(done: Contents, as_json: bool, then: str) -> int:
    file = Path(done.file)
    digest, size = cache.sha256(file), file.stat().st_size
    if as_json:
        content = {"file": str(file), "sha256": digest, "size": size, "engines": done.engines, "image": done.image}
        print(json.dumps(content, indent=1))
    else:
        say(f"{file}: {size / 1e6:.0f} MB, for {' and '.join(done.engines)}, image {done.image[:16]}, SHA-256 {digest}")
        say(then)
    return 0
