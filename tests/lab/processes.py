"""Python programs beside a test: `xoff` itself, and the scheduler and workers of a Dask cluster."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest


class Process:
    """A program in a session of its own, whose standard error is in a file."""

    def __init__(self, log: Path, *command: str | Path, paths: str = "") -> None:
        self._log = log
        with log.open("wb") as out:
            self.popen = subprocess.Popen(
                [sys.executable, *command], stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
                cwd=log.parent, env={**os.environ, "PYTHONPATH": paths},
            )  # fmt: skip

    @property
    def said(self) -> str:
        return self._log.read_text(errors="replace")

    def await_(self, what: str, within_s: float = 120) -> None:
        """Wait until it has printed something."""
        end = time.monotonic() + within_s
        while not re.search(what, self.said):
            assert self.popen.poll() is None and time.monotonic() < end, f"no {what!r}:\n{self.said}"
            time.sleep(0.02)

    def end(self, number: int = signal.SIGKILL) -> int:
        self.popen.send_signal(number)
        return self.popen.wait(60)


Start = Callable[..., Process]
"""Starts a Python module with arguments: the fixture `start` of conftest.py."""


class Dask:
    """A scheduler, and workers with a thread each, or with more."""

    def __init__(self, start: Start, folder: Path) -> None:
        pytest.importorskip("distributed")
        self._start = start
        self._file = folder / "scheduler.json"
        options = ("--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(self._file))
        self.scheduler = start("distributed.cli.dask_scheduler", *options)
        self.scheduler.await_("Scheduler at:")
        for _ in range(100):  # the line may come before the file is whole
            with suppress(OSError, ValueError):
                self.address = str(json.loads(self._file.read_text())["address"])
                return
            time.sleep(0.1)
        raise AssertionError(f"the scheduler has not written {self._file}")

    def worker(self, threads: int = 1) -> Process:
        options = ("--nthreads", str(threads), "--no-nanny", "--no-dashboard", "--host", "127.0.0.1")
        process = self._start("distributed.cli.dask_worker", self.address, *options)
        process.await_("Registered to:")
        return process


def descendants(pid: int) -> list[int]:
    """The processes below one."""
    found = [int(child) for task in Path(f"/proc/{pid}/task").glob("*/children") for child in task.read_text().split()]
    return found + [one for child in found for one in descendants(child)]


def ended(pids: list[int], within_s: float = 20) -> bool:
    """Return True if these processes end in a while."""
    end = time.monotonic() + within_s
    while any(Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_bytes() for pid in pids):
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True
