"""The memory that the kernels of one partitioned network share; `lab/um/linux/xoff_cable.h` has its layout."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager

MOST_PARTS = 16
HEAD = 4096 + MOST_PARTS * 256
RING, BOX = 4096 + (1 << 20), 1 << 18
_PATIENCE = 0
"""The looks at its bell that a kernel takes before it sleeps. With 2000 of them kernels took a half more CPU time."""


def size(parts: int) -> int:
    """Return the octets of the memory; what is never touched takes none."""
    return HEAD + parts * parts * RING + 2 * parts * BOX


@contextmanager
def shared(parts: int) -> Iterator[int]:
    """Yield the descriptor of memory for so many kernels."""
    descriptor = os.memfd_create("xoff-parts", os.MFD_CLOEXEC)
    try:
        os.ftruncate(descriptor, size(parts))
        os.pwrite(descriptor, struct.pack("=II", parts, _PATIENCE), 0)
        yield descriptor
    finally:
        os.close(descriptor)
