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


def folder(package: str) -> Path:
    """Return the folder with the files of a package."""
    spec = find_spec(package)
    assert spec is not None and spec.submodule_search_locations, f"{package} is not installed beside testbed"
    return Path(spec.submodule_search_locations[0])


def files(package: str) -> dict[str, Path]:
    """Return the files of a package's modules by name, without private ones."""
    return {path.stem: path for path in sorted(folder(package).glob("[!_]*.py"))}
