"""The experiments and topologies that come with Xoff, as `xoff list` and completion show them, without importing them.

Reading them takes importing them all, which takes a second; an index is kept in the cache, under the state of all
source files that it could depend on. Where the cache cannot be used it is made each time. A run of an experiment as it
is takes its description from there, too, and leaves the import to the lab.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from testbed import shipped_packages
from testbed.errors import XoffError
from testbed.lab.host import cache

if TYPE_CHECKING:
    from testbed.experiment.definition import Experiment
    from testbed.lab.host.sources import Stamp

_FILE = "index.json"
_KEPT = 8
"""The number of indexes that are kept: one for each checkout, and some of before."""
_KEPT_DESCRIPTIONS = 64


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
        place = cache.root() / f"index-{_stamp().name}"
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


def described(name: str) -> Experiment | None:
    """Return a shipped experiment by its description in the cache, for a run of it as it is.

    The module is not imported, which takes as long as all else of a short run. None if there is no description yet, or
    the sources have changed: then `keep` has to follow. Ranges of parameters are not in it.
    """
    from testbed.experiment.described import experiment_of

    with suppress(OSError, ValueError, TypeError, KeyError, XoffError):
        kept = json.loads((_place_of_description(name, _stamp()) / _FILE).read_text(encoding="utf-8"))
        return replace(experiment_of(kept["description"], Path(kept["source"]), name), origin=None)
    return None


def keep(experiment: Experiment) -> None:
    """Keep the description of a shipped experiment for further runs."""
    from testbed.experiment import described as description

    with suppress(OSError, XoffError):  # a cache that cannot be used
        now = _stamp()
        if not now.is_settled:
            return
        content = {"source": str(experiment.source), "description": description.described(experiment)}
        with cache.owned("described") as work:
            (work / _FILE).write_text(json.dumps(content), encoding="utf-8")
            cache.publish(work, _place_of_description(experiment.name, now))
        cache.keep_newest("described-*", _KEPT_DESCRIPTIONS)


def _place_of_description(name: str, now: Stamp) -> Path:
    return cache.root() / f"described-{name}-{now.name}"


def _stamp() -> Stamp:
    """Return the state of the sources on which the index and the descriptions depend."""
    from testbed.lab.host import sources  # the help does without it

    packages = map(shipped_packages.folder, (shipped_packages.EXPERIMENTS, shipped_packages.TOPOLOGIES))
    return sources.stamp((Path(__file__).parents[1], *packages))
