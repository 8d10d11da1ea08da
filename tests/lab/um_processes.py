"""The processes of the host that a lab on `um` is made of."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

GUARD = "xoff-guard"


class NoLabError(Exception):
    """Raised if a front end has no lab, or one that has no stub yet or has just ended."""


class UmProcesses:
    """The processes of the lab below a front end; NoLabError if it has none at this moment."""

    def __init__(self, front_end: int) -> None:
        kernels = [pid for pid in descendants(front_end) if b"time-travel=inf-cpu" in _command(pid)]
        try:
            names = {pid: Path(f"/proc/{pid}/comm").read_text().strip() for pid in kernels}
            self.guard = next((pid for pid in kernels if names[pid] == GUARD), None)
            self.kernel = next(pid for pid in kernels if pid != self.guard)
            self.maker, *self.stubs = children(self.kernel)
        except (StopIteration, ValueError, OSError) as error:
            raise NoLabError from error
        if not self.stubs:
            raise NoLabError

    @property
    def all(self) -> list[int]:
        guard = [] if self.guard is None else [self.guard]
        return [*guard, self.kernel, self.maker, *self.stubs]

    def waiting(self) -> Iterator[int]:
        """Yield the stubs that wait for the kernel."""
        for pid in self.stubs:
            if Path(f"/proc/{pid}/wchan").read_text().startswith("futex"):
                yield pid


def children(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*"):
        with suppress(OSError):
            found += map(int, (task / "children").read_text().split())
    return found


def descendants(pid: int) -> list[int]:
    return [each for child in children(pid) for each in (child, *descendants(child))]


def status(pid: int) -> dict[str, str]:
    """The lines of a process's status by their names."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _command(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""
