"""The line at which a job was when its time was over, from the stacks of its threads, which it writes as it ends.

The handler is C code of Python's `faulthandler`, so it also runs in an endless loop and within a call that does not
return, and then lets the signal end the process. It is set before the job is there, because on `um` each system call
takes the job's time.
"""

from __future__ import annotations

import faulthandler
import re
import signal
from pathlib import Path

from testbed.lab.job.job import USER_CODE

SIGNAL = signal.SIGVTALRM
"""The signal that ends a job. Programs use it with setitimer(2) only, and it ends a process that has no handler."""
LARGEST = 1 << 16
_CURRENT = re.compile(r"^Current thread [^\n]*\n(.*?)(?:\n\n|\Z)", re.MULTILINE | re.DOTALL)
_FRAME = re.compile(r'^  File "(.*)", line (\d+) in (.*)$', re.MULTILINE)
_LONGEST = 100


def prepare() -> None:
    """Have this process, and those that it forks, write their stacks to standard error when `SIGNAL` ends them."""
    faulthandler.register(SIGNAL, file=2, all_threads=True, chain=True)


def place(written: str, code: Path, source: str) -> str:
    """Return the innermost line of the job's own file in the stacks, or of another file of the user's, or any.

    `source` is the job's file, relative to the folder `code`. Empty if nothing of it can be read.
    """
    thread = _CURRENT.search(written)
    if thread is None:
        return ""
    frames = [(Path(file), line, function) for file, line, function in _FRAME.findall(thread[1])]
    for one in (
        lambda file: file == code / source,
        lambda file: file.is_relative_to(code / USER_CODE),
        lambda file: True,
    ):
        for file, line, function in frames:
            if one(file):
                near = file.relative_to(code) if file.is_relative_to(code) else file
                name = str(near).removeprefix(f"{USER_CODE}/")
                return f"in {function[:_LONGEST]}, at line {line} of {name[-_LONGEST:]}"
    return ""
