"""Memory whose growth takes no system calls, and so no time of the lab.

On the engine `um` each system call takes lab time (`um/machine.py`). An allocator maps more memory when it has used up
what it has, and when that is depends on the length of all that a program holds, such as docstrings and line tables.
Without what follows, one more comment shifts events by 500 ns.
"""

from __future__ import annotations

import gc
from collections.abc import Callable

_HEAP = 1 << 30
"""More than a process of a job uses. What is not touched takes no memory."""
TUNABLES = ":".join(
    f"glibc.malloc.{name}={value:#x}"
    for name, value in (
        ("top_pad", _HEAP), ("trim_threshold", 2 * _HEAP - 1), ("mmap_threshold", 32 << 20), ("arena_max", 1)
    )
)  # fmt: skip
"""Of the C library of every program: one heap for all threads, of which nothing is given back."""
PYTHONMALLOC = "malloc"
"""Python's own allocator would map each megabyte by itself."""
_SLOTS = 1 << 17
"""Of the frame of `in_one_piece`: half of 2 MB. The other half is more than Python's recursion limit needs."""


def in_one_piece(body: Callable[[], None]) -> None:
    """Call `body`, with room for the frames of all that it calls, and with a garbage collector that begins anew.

    Python maps 16 KB for frames whenever calls nest beyond what it has, and unmaps them when they return. What it maps
    for one large frame has room for those that follow. When garbage is collected, and files and memory in it are
    released, depends on how many objects were made before.
    """
    gc.collect()
    gc.freeze()
    body()


in_one_piece.__code__ = in_one_piece.__code__.replace(co_stacksize=_SLOTS)
