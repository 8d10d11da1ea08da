"""Experiments, topologies, rate controls and subjects of other packages, found by the entry points of these packages.

    [project.entry-points."xoff.experiments"]
    crossing = "their_package.experiments:crossing"

Nothing of a package is imported before something of it is listed or used by its name. What cannot be imported is left
out with a message, and takes nothing else with it. Code travels to the lab with the job that needs it
(`lab/job/job.py`), with a list of the entry points, because the lab has no metadata of packages.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from testbed.errors import UsageError, plain

EXPERIMENTS, TOPOLOGIES, RATE_CONTROLS = "xoff.experiments", "xoff.topologies", "xoff.rate_controls"
SUBJECTS = "xoff.subjects"
GROUPS = (EXPERIMENTS, TOPOLOGIES, RATE_CONTROLS, SUBJECTS)
_ANY_GROUP = "[xoff."
FOLDER = "plugins"
"""In the code of a job: packages of others."""
LIST = "plugins.json"
"""In that folder: the entry points."""
_LARGEST = 4 << 20


class PluginError(UsageError):
    """A package of others that cannot be used."""


@dataclass(frozen=True)
class Plugin:
    """One entry point."""

    group: str
    name: str
    value: str
    """MODULE or MODULE:OBJECT."""
    package: str
    """Name and version of what was installed."""

    @property
    def top(self) -> str:
        """The package of Python that it is in."""
        return self.value.partition(":")[0].partition(".")[0]

    def load(self) -> Any:
        """The module, or the object in it. PluginError if that does not work, for whatever reason."""
        module, _, attributes = self.value.partition(":")
        try:
            found: Any = importlib.import_module(module)
            for attribute in filter(None, attributes.split(".")):
                found = getattr(found, attribute)
        except Exception as error:  # code of others may raise anything
            raise self.error(f"{type(error).__name__}: {error}") from error
        return found

    def error(self, why: str) -> PluginError:
        first = plain(why).partition("\n")[0]
        return PluginError(f"{self.package}: {self.group} {self.name} = {self.value!r} cannot be used: {first}")


@cache
def found() -> tuple[Plugin, ...]:
    """All entry points for Xoff of installed packages, by name; in the lab those that came with the job."""
    shipped = Path(__file__).parents[1] / FOLDER / LIST
    if shipped.is_file():
        if str(shipped.parent) not in sys.path:
            sys.path.append(str(shipped.parent))
        return tuple(Plugin(**one) for one in json.loads(shipped.read_text(encoding="utf-8")))
    if (shipped.parents[2] / "job.json").is_file():
        return ()  # a job without packages of others
    from importlib import metadata

    seen: set[str] = set()
    plugins: list[Plugin] = []
    for package in metadata.distributions():
        # Most packages have none, and their metadata need not be parsed.
        if _ANY_GROUP not in (package.read_text("entry_points.txt") or "") or package.name in seen:
            continue
        seen.add(package.name)
        plugins += [
            Plugin(entry.group, entry.name, entry.value, f"{package.name} {package.version}")
            for entry in package.entry_points
            if entry.group in GROUPS
        ]
    return tuple(sorted(plugins, key=lambda one: (one.group, one.name, one.value)))


def summary(plugin: Plugin) -> str:
    """The first line of the docstring of what a plugin names. PluginError if it is not there or cannot be read.

    It is not imported: topologies take Mininet, which only the lab has.
    """
    module, _, name = plugin.value.partition(":")
    stem = f"{FOLDER}/{module.replace('.', '/')}"
    files = {place: path for path, place in _paths_of(plugin.top)}
    path = files.get(f"{stem}.py") or files.get(f"{stem}/__init__.py")
    if path is None:
        raise plugin.error(f"there is no module {module}")
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError) as error:
        raise plugin.error(f"{type(error).__name__}: {error}") from None
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
            return (ast.get_docstring(node) or ast.get_docstring(tree) or "").partition("\n")[0]
    raise plugin.error(f"{module} defines no {name or 'object: MODULE:OBJECT is expected'}")


def of_group(group: str) -> list[Plugin]:
    return [plugin for plugin in found() if plugin.group == group]


def named(group: str, name: str) -> Plugin | None:
    """The entry point of this name; of several the first."""
    return next((plugin for plugin in of_group(group) if plugin.name == name), None)


def usable(group: str, check: Callable[[Plugin, Any], Any], report: Callable[[str], None]) -> dict[str, Any]:
    """Return the objects of a group's entry points by name, as `check` makes them; it may raise PluginError.

    What cannot be used is reported, one line each, and left out.
    """
    usable = {}
    for plugin in of_group(group):
        try:
            usable[plugin.name] = check(plugin, plugin.load())
        except PluginError as error:
            report(str(error))
    return usable


def files() -> dict[str, bytes]:
    """The code of all of them and the list of entry points, by their paths in a job's code."""
    listed = json.dumps([asdict(plugin) for plugin in found()], sort_keys=True, indent=1)
    packed = {f"{FOLDER}/{LIST}": listed.encode()}
    for top in sorted({plugin.top for plugin in found()}):
        own = _files_of(top)
        if sum(map(len, own.values())) <= _LARGEST:
            packed |= own
    return packed


def place_of(source: Path) -> str | None:
    """Return the place of a file of such a package in a job's code, or None if it is in none."""
    for top in sorted({plugin.top for plugin in found()}):
        for path, place in _paths_of(top):
            if path == source:
                return place
    return None


def _files_of(top: str) -> dict[str, bytes]:
    try:
        return {place: path.read_bytes() for path, place in _paths_of(top)}
    except OSError:  # it will be missing in the lab, which has a message for that
        return {}


def _paths_of(top: str) -> list[tuple[Path, str]]:
    """The files of a package of Python with their places; none if it is not there."""
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return []
    if spec is None:
        return []
    if spec.submodule_search_locations is None:
        return [(Path(spec.origin).resolve(), f"{FOLDER}/{top}.py")] if spec.origin else []
    paths = []
    for location in spec.submodule_search_locations:
        folder = Path(location).resolve()
        for path in sorted(folder.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                paths.append((path, f"{FOLDER}/{top}/{path.relative_to(folder)}"))
    return paths
