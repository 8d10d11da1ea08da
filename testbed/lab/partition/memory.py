"""The memory that the kernels of one partitioned network share; `lab/um/linux/xoff_cable.h` has its layout."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager

MOST_PARTS = 16
HEAD = 4096 + MOST_PARTS * 256
RING, BOX = 4096 + (1 << 20), 1 << 18
LOOKS = 100_000
"""The looks at its bell that a kernel takes before it sleeps, where it has a core of its own; 1 to 2 ms. A core
that sleeps takes some 50 us to wake, as long as a window's work. Kernels that share cores keep them from each other.
"""


def size(parts: int) -> int:
    """Return the octets of the memory; what is never touched takes none."""
    return HEAD + parts * parts * RING + 2 * parts * BOX


@contextmanager
def shared(parts: int, looks: int = 0) -> Iterator[int]:
    """Yield the descriptor of memory for so many kernels, which look so often before they sleep."""
    descriptor = os.memfd_create("xoff-parts", os.MFD_CLOEXEC)
    try:
        os.ftruncate(descriptor, size(parts))
        os.pwrite(descriptor, struct.pack("=II", parts, looks), 0)
        yield descriptor
    finally:
        os.close(descriptor)
