"""A lab without a machine for tests of the live view: the test has its lines, and the commands to it are kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from testbed.experiment.output import Record, RecordKind
from testbed.serve.live_lab import LiveLab
from testbed.serve.running import RunningLab
from tests.report_folders import network


class ScriptedSession:
    """`testbed.lab.engines.engine.RunningJob`."""

    def __init__(self, folder: Path) -> None:
        self.stream = folder / "out"
        self.stream.touch()
        self.commands: list[dict[str, Any]] = []
        self.continued = 0

    def lost(self) -> str | None:
        return None

    def send(self, record: Record) -> None:
        if record.kind is RecordKind.INPUT:
            self.commands.append(json.loads(record.payload))
        self.continued += record.kind is RecordKind.CONTINUE

    def cpu_s(self) -> None: ...
    def used_cpu_s(self) -> None: ...

    def spins(self) -> None: ...

    def close(self) -> None: ...

    def write(self, *lines: dict[str, Any] | str) -> None:
        """Write lines as the lab does."""
        with self.stream.open("ab") as out:
            for line in lines:
                text = line if isinstance(line, str) else json.dumps(line)
                out.write(Record(RecordKind.OUT, text.encode() + b"\n").encode())

    def record(self, record: Record) -> None:
        with self.stream.open("ab") as out:
            out.write(record.encode())


def described(**changes: Any) -> dict[str, Any]:
    return {"live": "network", **network(0, ""), "hosts": ["h1", "h2"], **changes}


def window(t_ns: int, **rows: Any) -> dict[str, Any]:
    return {"live": "window", "t_ns": t_ns, "events": [], "buffers": [], "loads": [], "flows": [], "marks": []} | rows


def scripted(folder: Path, **changes: Any) -> tuple[ScriptedSession, LiveLab]:
    """Return a lab whose network runs."""
    session = ScriptedSession(folder)
    session.write(described(**changes))
    lab = RunningLab("incast,2", session, session.stream.open("rb"), 1.0, True)
    (line,) = lab.lines(0.0)
    return session, LiveLab(lab, line)
