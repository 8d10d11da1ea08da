"""Packages beside `testbed` that come with Xoff. They use its layers, so none of these imports them."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

EXPERIMENTS = "experiments"
CONFORMANCE = "experiments.conformance"
"""Experiments, too: the cases of `xoff switch conformance`."""
PUBLISHED = "experiments.published"
"""Experiments, too: those that reproduce what others have published."""
TOPOLOGIES = "topologies"
_NO_ROOMS = ("conformance", "published", "templates")
"""Folders beside the rooms of experiments: two are packages of their own kind, and one is copied by `xoff new`."""


def folder(package: str) -> Path:
    """Return the folder with the files of a package."""
    spec = find_spec(package)
    assert spec is not None and spec.submodule_search_locations, f"{package} is not installed beside testbed"
    return Path(spec.submodule_search_locations[0])


def files(package: str) -> dict[str, Path]:
    """Return the files of a package's modules by name, without private ones; of experiments also those in its rooms."""
    rooms = [folder(package)]
    if package == EXPERIMENTS:
        rooms += [one for one in rooms[0].glob("[!_]*/") if one.name not in _NO_ROOMS]
    return {path.stem: path for room in sorted(rooms) for path in sorted(room.glob("[!_]*.py"))}


def module(package: str, path: Path) -> str:
    """Return the full name of the module in a file that `files` returned."""
    return ".".join((package, *path.relative_to(folder(package)).with_suffix("").parts))
