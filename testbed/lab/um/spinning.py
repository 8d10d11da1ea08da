"""Programs that compute on and on while the lab's clock stands still, seen from the user's machine.

On `um` work of the CPU takes no lab time, so a program that waits for another one by looking at memory waits for ever.
The lab cannot say so, for the program has its CPU. Here it is seen by what the host shows: the kernel's process sleeps
and takes no CPU time, and the same one of its user processes runs. What that was started as is at the top of its stack,
as Linux lays it out: its arguments, and its environment, in which programs of hosts with `rdma=True` have the name of
their host. Nothing of the lab is disturbed. A program of another node, and its number in the lab, are not known here;
the kernel would have to tell them.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from testbed.errors import one_line
from testbed.linux.rdma_devices import HOST_VARIABLE

_MEMORY = "uml-memory"
_PAGE = 4096
_PAGES = 4
"""The pages at the top of the stack that are read: arguments and environment."""
_END = bytes(8)
_VARIABLE = re.compile(r"[A-Za-z_]\w*=")
_PLATFORM = "x86_64"
_HOST = f"{HOST_VARIABLE}="
_LONGEST = 80
_AT_WORK_NS = 20_000_000
"""The least CPU time of a kernel with something to do between two looks; one that waits takes some 0.1 ms a second."""


class Look(NamedTuple):
    """The state of a lab's processes at one moment, as the host shows it."""

    kernel_ns: int
    """The CPU time of the kernel's process."""
    running: int
    """The one user process that runs."""

    def goes_on(self, before: Look) -> bool:
        """Return True if the same process runs as in an earlier look, and the kernel has had nothing to do since."""
        return self.running == before.running and self.kernel_ns - before.kernel_ns < _AT_WORK_NS


def look(kernel: int) -> Look | None:
    """Return what is seen now, or None if the kernel is at work, or no user process is."""
    try:
        taken = int(Path(f"/proc/{kernel}/schedstat").read_text().split()[0])
        if _state(kernel) != "S":
            return None
        children = Path(f"/proc/{kernel}/task/{kernel}/children").read_text().split()
        running = [int(child) for child in children if _state(int(child)) == "R"]
    except (OSError, ValueError, IndexError):
        return None
    return Look(taken, running[0]) if len(running) == 1 else None


def command(process: int) -> str:
    """Return the command line of a user process of the lab, with its host if that is known: "`yes` of h1".

    Nothing is returned if the host does not show it.
    """
    with suppress(OSError, ValueError):
        maps = Path(f"/proc/{process}/maps").read_text().splitlines()
        ends = {int(begin, 16): int(end, 16) for begin, end in _writable(maps)}
        with Path(f"/proc/{process}/mem").open("rb", buffering=0) as memory:
            for top in sorted(ends.values(), reverse=True):
                memory.seek(top - _PAGE)
                content = memory.read(_PAGE)
                if _is_top_of_stack(content):
                    pages = [content]
                    for below in range(top - 2 * _PAGE, top - _PAGES * _PAGE, -_PAGE):
                        if not any(begin <= below < end for begin, end in ends.items()):
                            break
                        memory.seek(below)
                        pages.insert(0, memory.read(_PAGE))
                    return _shown(b"".join(pages))
    return ""


def _state(process: int) -> str:
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]


def _writable(maps: list[str]) -> list[tuple[str, str]]:
    """Return the ranges of the lab's memory that a process may write to, in hexadecimal."""
    found = []
    for line in maps:
        words = line.split()
        if len(words) > 5 and "w" in words[1] and _MEMORY in words[5]:
            begin, _, end = words[0].partition("-")
            found.append((begin, end))
    return found


def _is_top_of_stack(page: bytes) -> bool:
    """Return True if a page ends as Linux ends a stack: the name of the program, and eight zero octets."""
    if not page.endswith(_END):
        return False
    name = page[: -len(_END)].rstrip(b"\0").rpartition(b"\0")[2]
    padding = len(page) - len(page.rstrip(b"\0"))
    return bool(re.fullmatch(rb"[\x20-\x7e]*/[\x20-\x7e]*", name)) and padding <= len(_END) + 1


def _shown(stack: bytes) -> str:
    """Return the arguments at the top of a stack: behind the platform's name, before the environment."""
    words = [word.decode(errors="replace") for word in stack.rstrip(b"\0").split(b"\0") if word]
    first = next((place for place, word in enumerate(words) if word.endswith(_PLATFORM)), -1) + 1
    arguments = []
    for word in words[first:-1]:
        if _VARIABLE.match(word):
            break
        arguments.append(word)
    line = one_line(" ".join(arguments or words[-1:]))
    hosts = [one_line(word.removeprefix(_HOST))[:_LONGEST] for word in words[first:] if word.startswith(_HOST)]
    shown = line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."
    return f"`{shown}`" + "".join(f" of {host}" for host in hosts)
