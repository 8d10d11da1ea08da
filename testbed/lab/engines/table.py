"""The table of engines, by the words for `--engine`. A new engine is a class in a file of its own and a line here."""

from __future__ import annotations

from collections.abc import Sequence

from testbed.errors import UsageError, nearest
from testbed.lab.engines.engine import Engine, PreparedEngine
from testbed.lab.engines.host import Host
from testbed.lab.engines.realtime import Realtime
from testbed.lab.engines.um import Um
from testbed.lab.engines.vm import Vm
from testbed.lab.engines.words import DEFAULT
from testbed.lab.host import distribution
from testbed.lab.host.cache import Report

__all__ = ["DEFAULT", "ENGINES", "find", "prepare"]

ENGINES: dict[str, Engine] = {engine.name: engine for engine in (Um(), Vm(), Realtime(), Host())}


def find(name: str) -> Engine:
    """Return the engine of that name."""
    if name not in ENGINES:
        raise UsageError(f"there is no engine {name}; {nearest(name, ENGINES)}")
    return ENGINES[name]


def prepare(engine: Engine | str, report: Report = lambda _: None, packages: Sequence[str] = ()) -> PreparedEngine:
    """Make everything that an engine needs, with these Python packages in it; report what is being made."""
    kind = find(engine) if isinstance(engine, str) else engine
    if kind.runs_image:
        distribution.require_labs()
    return kind.prepare(report, packages)
