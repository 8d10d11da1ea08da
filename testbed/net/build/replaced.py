"""Methods of Mininet's classes, replaced for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def replaced(kind: type, **methods: Any) -> Iterator[None]:
    """Give a class these methods as long as the block lasts."""
    own = {name: vars(kind)[name] for name in methods if name in vars(kind)}
    for name, method in methods.items():
        setattr(kind, name, method)
    try:
        yield
    finally:
        for name in methods:
            if name in own:
                setattr(kind, name, own[name])
            else:
                delattr(kind, name)
