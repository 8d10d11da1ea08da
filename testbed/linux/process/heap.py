"""Memory that a process keeps in reserve, so that it asks the kernel for none while times are measured.

In virtual time a system call takes half a microsecond, and whether the next object of Python needs one depends on all
that was allocated before: on the number of imported modules, for one. A process that has enough memory when a network
begins allocates without system calls, so a network does the same at the same times, whatever was imported.
"""

from __future__ import annotations

import ctypes

_PART_BITS = 18
"""A quarter of an arena, in which Python's allocator for small objects gets memory from the kernel (obmalloc.c)."""
_SMALL = 448
"""The size in octets of objects for that allocator, which with their headers have less than the 512 octets from which
the C library has them."""
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3
"""Numbers of parameters of mallopt(3)."""
_LARGEST_THRESHOLD = 32 << 20
_reserve: list[bytes] = []


def reserve(megabytes: int = 32) -> None:
    """Reserve memory for small objects and as much for large ones; processes that are forked later have it, too."""
    objects = [bytes(_SMALL) for _ in range((megabytes << 20) // (_SMALL + 32))]
    parts: dict[int, bytes] = {}
    for one in objects:
        parts.setdefault(id(one) >> _PART_BITS, one)
    _reserve.extend(parts.values())  # an arena with one object in it is not given back
    del objects
    library = ctypes.CDLL(None)
    library.mallopt(_M_MMAP_THRESHOLD, _LARGEST_THRESHOLD)
    library.mallopt(_M_TRIM_THRESHOLD, 1 << 30)
    library.mallopt(_M_TOP_PAD, megabytes << 20)
    library.free.argtypes = [ctypes.c_void_p]
    library.malloc.restype = ctypes.c_void_p
    library.free(library.malloc(ctypes.c_size_t((megabytes << 20) // 2)))
