"""A plugin of pytest: workers begin with the files that take longest, and end with quick tests, which can be shared.

xdist gives each worker a part of the list of tests, and a worker that is done takes half of what another one has left,
from the end. In the order of folders that is the lab's tests and the browser's, which come last and take minutes.
Here the files are dealt out first, by the time that each took in the last run on this machine, or by a guess.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from testbed.errors import XoffError
from testbed.lab.host import cache

_WORKERS = "PYTEST_XDIST_WORKER_COUNT"
_TIMES = "seconds of test files"
"""The key under which the times reach workers: all have to come to the same order."""
_GUESSES = {"tests/browser": 6.0, "tests/lab": 3.0}
"""The time in s of a test of a file that has not been run here yet, by its folder."""
_GUESS, _SLOW, _EMULATED = 0.02, 30.0, 20.0
"""That of a test of another folder, of one that is marked as slow, and of one in the emulated machine `vm`."""


@dataclass
class Share:
    """The tests of one worker: how many it has room for, and the files that it got, with their time for each test."""

    room: int
    seconds: float = 0.0
    files: list[tuple[float, list[int]]] = field(default_factory=list)

    def take(self, tests: Sequence[int], seconds_each: float) -> None:
        self.room -= len(tests)
        self.seconds += seconds_each * len(tests)
        self.files.append((seconds_each, list(tests)))


def dealt(files: Sequence[str], seconds: Mapping[str, float], workers: int) -> list[int]:
    """Return the positions of tests in the order in which `workers` that get equal parts of them should have them.

    `files` has the file of each test, and `seconds` the time of each file. A file stays in one piece if a part has
    room for it, since its tests share a browser or a lab. Each part begins with what takes longest.
    """
    tests = defaultdict(list)
    for position, file in enumerate(files):
        tests[file].append(position)
    # As xdist divides them: what does not divide evenly is with the last ones.
    shares = [Share((len(files) + number) // workers) for number in range(workers)]
    for file in sorted(tests, key=lambda file: -seconds[file]):
        left, each = tests[file], seconds[file] / len(tests[file])
        while left:
            with_room = [share for share in shares if share.room >= len(left)]
            share = min(with_room or [share for share in shares if share.room], key=lambda share: share.seconds)
            share.take(left[: share.room], each)
            left = left[len(share.files[-1][1]) :]
    return [
        position
        for share in shares
        for _, positions in sorted(share.files, key=lambda taken: -taken[0])
        for position in positions
    ]


class Order:
    """Puts the tests of a worker in order, and keeps how long each file took."""

    def __init__(self, config: pytest.Config) -> None:
        worker: dict[str, Any] | None = getattr(config, "workerinput", None)
        self._is_worker = worker is not None
        self._marks = str(config.option.markexpr)
        self._known: dict[str, float] = _kept().get(self._marks, {}) if worker is None else worker.get(_TIMES, {})
        self._took: dict[str, float] = defaultdict(float)
        # Of a file of which only some tests were asked for nothing is learned.
        self._learns = worker is None and not config.option.keyword and all(map(os.path.isdir, config.args))

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput[_TIMES] = self._known

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        workers = int(os.environ.get(_WORKERS, "1"))
        if not self._is_worker or workers < 2:
            return
        files = [item.nodeid.partition("::")[0] for item in items]
        guessed: dict[str, float] = defaultdict(float)
        for item, file in zip(items, files, strict=True):
            guessed[file] += _guess(item, file)
        order = dealt(files, guessed | {file: self._known[file] for file in guessed.keys() & self._known}, workers)
        items[:] = [items[position] for position in order]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._took[report.nodeid.partition("::")[0]] += report.duration

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Keep the times of a run of whole folders that came to its end."""
        if self._learns and exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            took = {file: round(seconds, 3) for file, seconds in sorted(self._took.items())}
            _keep(_kept() | {self._marks: self._known | took})


def _guess(item: pytest.Item, file: str) -> float:
    folder = "/".join(file.split("/")[:2])
    if item.get_closest_marker("slow"):
        return _SLOW if folder in _GUESSES else 1.0
    if "vm" in getattr(item, "fixturenames", ()):
        return _EMULATED
    return _GUESSES.get(folder, _GUESS)


def _place() -> Path:
    return cache.root() / "test-seconds.json"


def _kept() -> dict[str, dict[str, float]]:
    """Return the times of files for each expression of marks; none if what was kept is damaged: it is but an order."""
    with suppress(OSError, ValueError, TypeError, AttributeError, RecursionError, XoffError):
        return {
            str(marks): {str(file): float(seconds) for file, seconds in times.items()}
            for marks, times in json.loads(_place().read_text()).items()
        }
    return {}


def _keep(times: Mapping[str, Mapping[str, float]]) -> None:
    with suppress(OSError, XoffError):
        draft = cache.folder() / f"test-seconds-{os.getpid()}.json"
        draft.write_text(json.dumps(times, indent=1) + "\n")
        draft.replace(_place())
