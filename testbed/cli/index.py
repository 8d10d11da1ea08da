"""The experiments and topologies that come with Xoff, as `xoff list` and completion show them, without importing them.

Reading them takes importing them all, which takes a second; an index is kept in the cache, under a digest of the names,
sizes and times of all source files that it could depend on. Where the cache cannot be used it is made each time.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from testbed import shipped_packages
from testbed.errors import XoffError
from testbed.lab.host import cache

if TYPE_CHECKING:
    from testbed.experiment.definition import Experiment

_FILE = "index.json"
_KEPT = 8
"""The number of indexes that are kept: one for each checkout, and some of before."""


@dataclass(frozen=True)
class Listed:
    """An experiment in the list."""

    name: str
    summary: str
    kind: str
    """`conformance`, `published`, or empty."""
    timeout: str
    parameters: dict[str, str]
    """The default of each, empty if it has none."""
    ranges: dict[str, str]
    """The values for which the claims hold, of those parameters that say so."""
    shown: str
    """The parameters as `xoff list` prints them."""


@dataclass(frozen=True)
class Index:
    """All that comes with Xoff and has a name."""

    experiments: tuple[Listed, ...]
    """By name."""
    topologies: dict[str, str]
    """The first line about each topology, by name."""


def shipped() -> Index:
    """Return the index of what comes with Xoff, from the cache or made now."""
    try:
        place = cache.root() / f"index-{_digest()}"
        with suppress(OSError, ValueError, TypeError, KeyError):
            kept = json.loads((place / _FILE).read_text(encoding="utf-8"))
            return Index(tuple(Listed(**one) for one in kept["experiments"]), kept["topologies"])
        made = _made()
        with cache.owned("index") as work:
            (work / _FILE).write_text(json.dumps(asdict(made)), encoding="utf-8")
            cache.publish(work, place)
        cache.keep_newest("index-*", _KEPT)
    except (OSError, XoffError):
        return _made()
    return made


def experiments() -> list[str]:
    """Return the names of the experiments that come with Xoff, for completion."""
    return [one.name for one in shipped().experiments]


def _made() -> Index:
    """Import all shipped experiments, and return what is to be said of them and of topologies."""
    from testbed.experiment import definition
    from testbed.net.shell import topologies

    kinds = {one.name: "conformance" for one in definition.conformance()}
    kinds |= {one.name: "published" for one in definition.published()}
    return Index(
        tuple(listed(one, kinds.get(one.name, "")) for one in definition.shipped()),
        {name: topologies.summary(name) for name in topologies.own_names()},
    )


def listed(one: Experiment, kind: str = "") -> Listed:
    """Return an experiment as it is in the list."""
    return Listed(
        one.name, one.summary, kind, str(one.timeout),
        {each.name: "" if each.default is None else str(each.default) for each in one.parameters},
        {each.name: str(each.limits) for each in one.parameters if each.limits},
        " ".join(map(str, one.parameters)),
    )  # fmt: skip


def _digest() -> str:
    """Return a digest of the sources: their names, sizes and times of change."""
    own = Path(__file__).parents[1]
    found = hashlib.sha256()
    others = map(shipped_packages.folder, (shipped_packages.EXPERIMENTS, shipped_packages.TOPOLOGIES))
    for folder in (own, *others):
        for path, size, changed_ns in sorted(_sources(str(folder))):
            found.update(f"{path}\0{size}\0{changed_ns}\n".encode(errors="surrogateescape"))
    return found.hexdigest()[:16]


def _sources(folder: str) -> Iterator[tuple[str, int, int]]:
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            yield from _sources(entry.path)
        elif entry.name.endswith(".py"):
            status = entry.stat()
            yield entry.path, status.st_size, status.st_mtime_ns
