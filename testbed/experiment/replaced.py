"""Methods of classes and functions of modules that are not ours, replaced for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any


@contextmanager
def replaced(kind: type | ModuleType, **methods: Any) -> Iterator[None]:
    """Give a class these methods, or a module these functions, as long as the block lasts."""
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
