"""`xoff new`: a file of your own to begin with, which works as it is."""

from __future__ import annotations

import argparse
import keyword
import re
from pathlib import Path

from testbed import shipped_packages
from testbed.cli.arguments import one_of
from testbed.errors import UsageError
from testbed.experiment import definition
from testbed.lab.results.result import Exit

_TEMPLATES = {
    "experiment": {"experiment.py": "{name}.py"},
    "topology": {"topology.py": "{name}.py", "try_topology.py": "try_{name}.py"},
    "rate-control": {"rate_control.py": "{name}.py"},
    "marking-rule": {"marking_rule.py": "{name}.py"},
    "package": {
        "experiment.py": "{name}/{name}/experiments.py",
        "topology.py": "{name}/{name}/topologies.py",
        "rate_control.py": "{name}/{name}/rates.py",
    },
}
"""The templates of each kind, and the files that they become."""
_TAKEN = ("xoff", "testbed", "experiments", "topologies", "controllers", "mininet", "snappi", "snappi_xoff")
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")
_PROJECT = """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "{dashed}"
version = "0.1.0"
requires-python = ">=3.11"

[project.entry-points."xoff.experiments"]
{name} = "{name}.experiments:{name}"

[project.entry-points."xoff.topologies"]
{dashed} = "{name}.topologies:{camel}"

[project.entry-points."xoff.rate_controls"]
{dashed} = "{name}.rates:{camel}"

[tool.setuptools]
packages = ["{name}"]
"""


def options(parser: argparse.ArgumentParser) -> None:
    kinds = tuple(_TEMPLATES)
    parser.add_argument("kind", type=one_of("kind", kinds), metavar="KIND", help=", ".join(kinds))
    parser.add_argument("name", metavar="NAME", help="small letters, digits, dashes and underscores")
    parser.add_argument("--into", type=Path, default=Path(), metavar="DIR", help="where it goes (default: here)")


def new(options: argparse.Namespace) -> int:
    """Write a file of your own to begin with: an experiment, a topology, a rate control, or a package with one of each
    that Xoff finds when it is installed. What is there already is never changed."""
    name = _checked(options.name, options.kind)
    made = {options.into / place.format(name=name): text for place, text in _content(options.kind, name).items()}
    for path in made:
        if path.exists():
            raise UsageError(f"{path} is there already; choose another name, or another folder with --into DIR")
    if options.kind == "package" and (options.into / name).exists():
        raise UsageError(f"{options.into / name} is there already; choose another name, or another folder")
    for path, text in made.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}; --into DIR names another folder") from None
        print(path)
    if options.kind == "package":
        # pip takes a bare name for that of a package of the index, which is somebody else's.
        place = options.into / name
        print(f"next: pip install {place if place.is_absolute() else f'./{place}'}, then xoff run {name}")
    else:
        first = next(path for path in made if "@experiment" in made[path])
        print(f"next: xoff run {first}")
    return Exit.OK


def _checked(given: str, kind: str) -> str:
    """Return a name as Python has it."""
    if not _NAME.fullmatch(given):
        raise UsageError(
            f"{given!r} is no name for a file of this kind: small letters, digits, dashes and underscores are "
            "possible, a letter first, 40 in all"
        )
    name = given.replace("-", "_")
    if keyword.iskeyword(name) or name in _TAKEN:
        raise UsageError(f"{given} cannot be imported as a module of its own; choose another name")
    if kind in ("experiment", "package") and name in {experiment.name for experiment in definition.shipped()}:
        raise UsageError(f"Xoff has an experiment {name} itself; choose another name")
    return name


def _content(kind: str, name: str) -> dict[str, str]:
    folder = shipped_packages.folder(shipped_packages.EXPERIMENTS) / "templates"
    dashed, camel = name.replace("_", "-"), "".join(part.capitalize() for part in name.split("_"))
    made = {}
    for template, place in _TEMPLATES[kind].items():
        text = (folder / template).read_text(encoding="utf-8")
        for word, own in (("new_thing", name), ("new-thing", dashed), ("NewThing", camel)):
            text = text.replace(word, own)
        made[place] = text
    if kind == "package":
        made["{name}/{name}/__init__.py"] = f'"""{camel}: a package for Xoff."""\n'
        made["{name}/pyproject.toml"] = _PROJECT.format(name=name, dashed=dashed, camel=camel)
    return made
