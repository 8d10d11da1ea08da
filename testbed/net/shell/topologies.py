"""Topologies by the names that users type: those that come with Xoff, those of installed packages, and files."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import runpy
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from testbed import plugins, shipped_packages
from testbed.errors import UsageError, nearest
from testbed.experiment.module_level import importing_from_folder_of

_FILE = re.compile(r"(.*?\.py)(?=[:,]|$)", re.DOTALL)


def build(wanted: str, **defaults: Any) -> Any:
    """Build a topology from its name and arguments, written as for Mininet's own `mn --topo`.

    `defaults` are options that the words may change.
    """
    name, *arguments = wanted.split(",")
    values, named = [], {}
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if equals:
            named[key] = _value(value)
        else:
            values.append(_value(argument))
    kind = find(name)
    try:
        _check_arguments(shown(name), kind, values, named)
        return kind(*values, **defaults | named)
    except (TypeError, UsageError) as error:
        raise UsageError(f"topology {shown(wanted)}: {error}") from None


def _check_arguments(name: str, kind: Any, values: list[Any], named: dict[str, Any]) -> None:
    """Refuse arguments that a topology's `build` does not have; its class may name more in `OPTIONS`."""
    if build := getattr(kind, "build", None):
        taken = list(inspect.signature(build).parameters.values())[1:]
    else:  # for Mininet any function that returns a topology will do
        taken = list(inspect.signature(kind).parameters.values())
    if any(one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD) for one in taken):
        return
    own = [one.name for one in taken]
    if len(values) > len(own):
        listed = f" ({', '.join(own)})" if own else ""
        raise UsageError(f"{name} takes at most {len(own)} values{listed}, and not {len(values)}")
    known = [*own, *getattr(kind, "OPTIONS", ())]
    for key in named:
        if key not in known:
            near = get_close_matches(key, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"it takes {', '.join(known)}"
            raise UsageError(f"{name} has no {key}; {hint}")
        if key in own[: len(values)]:
            raise UsageError(f"{key} is given twice")


def names() -> list[str]:
    """Return the names of all topologies: those that come with Xoff, and those of installed packages."""
    return sorted({*own_names(), *(plugin.name for plugin in plugins.of_group(plugins.TOPOLOGIES))})


def own_names() -> list[str]:
    """Return the names of the topologies that come with Xoff."""
    return sorted(name.replace("_", "-") for name in shipped_packages.files(shipped_packages.TOPOLOGIES))


def summary(name: str) -> str:
    """Return the first line of a topology's file, without importing it; PluginError for a broken plugin."""
    if name not in own_names() and (plugin := plugins.named(plugins.TOPOLOGIES, name)) is not None:
        return plugins.summary(plugin)
    path = shipped_packages.folder(shipped_packages.TOPOLOGIES) / f"{_module(name)}.py"
    return (ast.get_docstring(ast.parse(path.read_text())) or "").partition("\n")[0]


def check(wanted: str) -> None:
    """Refuse a topology that does not exist. Its arguments are checked when it is built."""
    name = wanted.partition(",")[0]
    if name not in names():
        near = get_close_matches(name, names(), 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names())}"
        raise UsageError(f"there is no topology {name}; {hint}")


def file_of(wanted: str) -> tuple[Path | None, str]:
    """Return the user's file that has a topology, if any, and the rest: `my/file.py:ring,4` or `my/file.py,4`."""
    match = _FILE.match(wanted)
    return (Path(match[1]), wanted[match.end() :]) if match else (None, wanted)


def find(name: str) -> Any:
    """Return the class or function that makes the topology of this name."""
    file, chosen = file_of(name)
    if file is not None:
        return _of_file(file, chosen.removeprefix(":"))
    check(name)
    if name not in own_names() and (plugin := plugins.named(plugins.TOPOLOGIES, name)) is not None:
        return plugin.load()
    return importlib.import_module(f"topologies.{_module(name)}").topos[name]


def _of_file(file: Path, name: str) -> Any:
    """Execute a user's file, and return from its `topos` the topology `name`, or the only one."""
    with importing_from_folder_of(file):
        topos = runpy.run_path(str(file)).get("topos")
    if not isinstance(topos, dict) or not topos:
        raise UsageError(f"{file.name}: topos is {topos!r}, and not a dict of topologies, as in {{'mine': MyTopo}}")
    if not name and len(topos) > 1:
        raise UsageError(f"{file.name} has several topologies; name one, as in {file.name}:{next(iter(topos))}")
    if name and name not in topos:
        raise UsageError(f"{file.name} has no topology {name}; {nearest(name, topos)}")
    return topos[name] if name else next(iter(topos.values()))


def shown(wanted: str) -> str:
    """Return the name of a topology without the folder of its file."""
    file, rest = file_of(wanted)
    return wanted if file is None else f"{file.name}{rest}"


def _module(name: str) -> str:
    """Return the module of a topology, whose name has underscores where users type dashes."""
    return name.replace("-", "_")


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
