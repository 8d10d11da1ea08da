"""The log of `xoff dcbx agent --log`: a JSON object a line, with the time of day beside the agent's own clock.

Logging never ends or blocks the agent: lines that cannot be written are counted, and the next line that can be written
is preceded by their number.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

_EVERYBODY_READS = 0o644


class LogFile:
    """The log as a file; OSError if it cannot be opened at all. `tell` is called when lines begin to be lost, and
    when writing succeeds again.
    """

    def __init__(self, path: Path, tell: Callable[[str], None]) -> None:
        self._path, self._tell = path, tell
        # A pipe without a reader must not block the agent.
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC
        self._file = os.open(path, flags, _EVERYBODY_READS)
        self._is_torn = False
        self._lost_now = 0
        self.lost = 0
        """The number of lines that were not written."""

    def write(self, record: dict[str, Any]) -> None:
        time = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        lines = [{**record, "time": time}]
        if self._lost_now:
            about: dict[str, Any] = {name: record[name] for name in ("port", "t_ns") if name in record}
            lines.insert(0, {**about, "what": "lines_lost", "lines": self._lost_now, "time": time})
        octets = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        try:
            written = os.write(self._file, b"\n" + octets if self._is_torn else octets)
        except OSError as error:
            self._lose(error.strerror or str(error))
            return
        if written < len(octets):
            self._is_torn = True
            self._lose("it is full")
            return
        self._is_torn = False
        if self._lost_now:
            self._tell(f"the log {self._path} is written again; {self._lost_now} lines were lost")
            self._lost_now = 0

    def close(self) -> None:
        os.close(self._file)

    def _lose(self, why: str) -> None:
        self.lost += 1
        self._lost_now += 1
        if self._lost_now == 1:
            self._tell(f"the log {self._path} cannot be written: {why}; lost lines are counted")
