"""Mininet's classes that ours extend, and stand-ins for them on a machine without Mininet.

So a topology can name classes of nodes and links anywhere, and be looked at; only a network needs Mininet.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from testbed.errors import XoffError

__all__ = ["Host", "Intf", "Link", "Mininet", "Node", "Switch", "require_mininet"]

_missing: ImportError | None = None
"""The reason why Mininet could not be imported, or None if it could."""


class MininetMissingError(XoffError):
    """A network was to start on a machine without Mininet."""


def require_mininet() -> None:
    """Raise MininetMissingError if Mininet is not here."""
    if _missing is not None:
        raise MininetMissingError(
            f"a network needs Mininet, which is not on this machine ({_missing}); "
            "`xoff run FILE` runs an experiment in the lab"
        ) from _missing


def _import_pythons_distutils() -> None:
    """Import the comparison of versions that Mininet needs from Python, up to 3.11, and not from setuptools.

    setuptools takes the place of Python's package, and for this one module imports 140 others.
    """
    in_its_place = [finder for finder in sys.meta_path if type(finder).__module__ == "_distutils_hack"]
    for finder in in_its_place:
        sys.meta_path.remove(finder)
    with suppress(ImportError), warnings.catch_warnings():  # later ones have none, and this one says so
        warnings.simplefilter("ignore", DeprecationWarning)
        importlib.import_module("distutils.version")
    sys.meta_path[:0] = in_its_place


if TYPE_CHECKING:
    from mininet.link import Intf, Link
    from mininet.net import Mininet
    from mininet.node import Host, Node, Switch
else:
    if importlib.util.find_spec("mininet") is not None:
        _import_pythons_distutils()
    try:
        from mininet.link import Intf, Link
        from mininet.net import Mininet
        from mininet.node import Host, Node, Switch
    except ImportError as error:
        _missing = error

        class _StandIn:
            """A class of Mininet that is not here: it can be extended, and not be used."""

            def __init__(self, *_: Any, **__: Any) -> None:
                require_mininet()

        class Intf(_StandIn): ...

        class Link(_StandIn): ...

        class Mininet(_StandIn): ...

        class Node(_StandIn): ...

        class Host(Node): ...

        class Switch(Node): ...
