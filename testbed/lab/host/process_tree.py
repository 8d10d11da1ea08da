"""Programs that take all processes that they started with them when they end, or when their parent does.

Builders like mmdebstrap start processes of their own, in namespaces, which a signal to the first of them does not
reach. So a process of ours is in between (`main` below), a child subreaper: orphans become its children. It ends all of
them when the program ends, when it gets a signal, and when its parent dies, however that happens.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_ENDS = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
_PATIENCE_S = 10.0
"""The time in s for processes that were killed and that the kernel does not let go yet."""


def run(
    argv: Sequence[str], environment: Mapping[str, str], meanwhile: Callable[[], object] = lambda: None
) -> tuple[int, str]:
    """Run a program to its end, and return its exit code and all that it wrote. An exception ends all of it at once.

    `meanwhile` is called while the program runs. If it raises an exception, that ends the program.
    """
    with tempfile.TemporaryFile() as output:  # a pipe would have to be read meanwhile
        # A session of its own, so that Ctrl-C reaches us and we end the program, not both at once.
        with subprocess.Popen(
            [sys.executable, "-I", "-S", "-B", __file__, str(os.getpid()), *argv],
            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env={**os.environ, **environment},
            start_new_session=True,
        ) as process:  # fmt: skip
            try:
                meanwhile()
                process.wait()
            except BaseException:
                process.terminate()
                process.wait()
                raise
        output.seek(0)
        return process.returncode, output.read().decode(errors="replace")


def cpu_s(pid: int) -> float | None:
    """Return the CPU time in s of a process and all that descend from it so far; None if the host does not show it.

    Those that have ended count where their parent has waited for them.
    """
    ticks = 0
    for one in (pid, *descendants(pid)):
        with suppress(OSError, IndexError, ValueError):  # it has just ended
            ticks += sum(map(int, Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK") if ticks else None


def main(parent: int, argv: Sequence[str]) -> int:
    """Run the program, as the process in between."""
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    signal.pthread_sigmask(signal.SIG_BLOCK, {*_ENDS, signal.SIGCHLD})
    if os.getppid() != parent:
        return 128 + signal.SIGTERM
    try:
        program = os.posix_spawnp(argv[0], list(argv), os.environ, setsigmask=())
    except OSError as error:
        print(f"{argv[0]} cannot be started: {error.strerror}")
        return 127
    code = None
    while code is None:
        came = signal.sigwait({*_ENDS, signal.SIGCHLD})
        code = 128 + came if came in _ENDS else _reap().get(program)
    _end_all()
    return code


def _reap() -> dict[int, int]:
    """Return the exit codes of children that have ended."""
    codes: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return codes
        if not pid:
            return codes
        code = os.waitstatus_to_exitcode(status)
        codes[pid] = code if code >= 0 else 128 - code


def _end_all() -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while (left := descendants(os.getpid())) and time.monotonic() < deadline:
        for pid in left:
            with suppress(OSError):  # it has ended meanwhile, or it belongs to root, as newuidmap does for a moment
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
        _reap()


def descendants(ancestor: int) -> list[int]:
    """Return all processes below `ancestor`, those in other namespaces included."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(entry.parent.name))
    found, ahead = [], [ancestor]
    while ahead:
        new = children.get(ahead.pop(), [])
        found += new
        ahead += new
    return found


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
