"""The lab's side of a run on the host engine: a process that runs the supervisor on this machine.

The virtual machine has `guest_main.py` in its place; everything below is the same.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from testbed.experiment.demand import Board
from testbed.experiment.output import Record
from testbed.lab.host.prerequisites import DEBIAN_PYTHON
from testbed.lab.job import job_stack
from testbed.lab.job.job import Job
from testbed.lab.job.supervisor import Supervisor


class StandardInput:
    """The commands from standard input."""

    def fileno(self) -> int:
        return 0

    def read(self) -> bytes | None:
        return os.read(0, 65536) or None


def _terminated(*_: Any) -> None:
    raise SystemExit(143)


def main(folder: Path) -> None:
    if DEBIAN_PYTHON not in sys.path:
        sys.path.append(DEBIAN_PYTHON)
    signal.signal(signal.SIGTERM, _terminated)
    job_stack.prepare()
    job = Job.decode((folder / "job.json").read_text())
    out = os.open(folder / "out", os.O_WRONLY | os.O_APPEND)

    def send(*records: Record) -> None:
        data = memoryview(b"".join(record.encode() for record in records))
        while data:
            data = data[os.write(out, data) :]

    supervisor = Supervisor(job, folder / "code", folder / "work", time.monotonic_ns(), send, board=Board())
    try:
        supervisor.run(StandardInput())
    finally:
        supervisor.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
