"""Looks at something again and again, beside other work."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def looking(look: Callable[[], object], every_s: float) -> Iterator[None]:
    """Call `look` in a thread of its own, each so many seconds, until the block ends."""
    over = threading.Event()

    def follow() -> None:
        while not over.wait(every_s):
            look()

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
