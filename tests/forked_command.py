"""Calls of `xoff` in processes that are forked from one that has imported it: to start Python takes 0.4 s of CPU time.

Each call has a process of its own, with a limit of memory and of time.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


class ForkedCommand:
    """The process that has imported the commands, and waits for what to call."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(
        self, *arguments: str, memory: int, seconds: int, replaced: Sequence[tuple[str, str, Path]] = ()
    ) -> subprocess.CompletedProcess[str]:
        """Call `xoff` with arguments, in our environment of this moment.

        `memory` is RLIMIT_DATA in octets. A call that takes longer than `seconds` ends by SIGALRM. `replaced` are
        attributes of modules that have another value in that process: (module, name, path).
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        call = {
            "arguments": arguments, "memory": memory, "seconds": seconds, "environment": dict(os.environ),
            "replaced": [(module, name, str(path)) for module, name, path in replaced],
        }  # fmt: skip
        self._process.stdin.write(json.dumps(call) + "\n")
        self._process.stdin.flush()
        code, out, err = json.loads(self._process.stdout.readline())
        return subprocess.CompletedProcess(["xoff", *arguments], code, out, err)


@contextmanager
def forked_command(*modules: str) -> Iterator[ForkedCommand]:
    """Yield calls of `xoff` that have imported these modules already, which are those that they would import."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.forked_command", *modules], cwd=ROOT, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        yield ForkedCommand(process)


def _answer(call: dict[str, Any]) -> tuple[int, str, str]:
    """Return the exit code of a call, or the negative number of the signal that ended it, and what it wrote."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if child == 0:
            _call(call, out.fileno(), err.fileno())
        _, status = os.waitpid(child, 0)
        out.seek(0)
        err.seek(0)
        return os.waitstatus_to_exitcode(status), out.read().decode(), err.read().decode()


def _call(call: dict[str, Any], out: int, err: int) -> None:
    """Be the forked process."""
    from testbed.cli import main

    code: object = 1
    try:
        signal.alarm(call["seconds"])
        for descriptor, target in ((os.open(os.devnull, os.O_RDONLY), 0), (out, 1), (err, 2)):
            os.dup2(descriptor, target)
        os.environ.clear()
        os.environ.update(call["environment"])
        for module, name, path in call["replaced"]:
            setattr(importlib.import_module(module), name, Path(path))
        resource.setrlimit(resource.RLIMIT_DATA, (call["memory"], call["memory"]))
        try:
            code = main(call["arguments"])
        except SystemExit as ended:
            code = ended.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)


if __name__ == "__main__":
    for name in ("testbed.cli", *sys.argv[1:]):
        importlib.import_module(name)
    for line in sys.stdin:
        print(json.dumps(_answer(json.loads(line))), flush=True)
