"""Topologies and rate controls of a user's files, which travel into the lab under their names without folders."""

from __future__ import annotations

import inspect
import runpy
from collections.abc import Sequence
from pathlib import Path

from testbed.errors import UsageError, nearest
from testbed.experiment.module_level import importing_from_folder_of
from testbed.net.shell import topologies
from testbed.roce import rates
from testbed.roce.rates import Maker, RateControl


def files_of(*wanted: str) -> list[Path]:
    """Return the files that topologies and rate controls name, each once; UsageError if one is not there."""
    found = dict.fromkeys(file for one in wanted if (file := topologies.file_of(one)[0]) is not None)
    for file in found:
        if not file.is_file():
            raise UsageError(f"{file}: there is no such file")
    return list(found)


def in_files(wanted: str, files: Sequence[Path]) -> str:
    """Return a name as it was typed, with the path of its file here."""
    file, rest = topologies.file_of(wanted)
    here = next((path for path in files if file is not None and path.name == file.name), None)
    return wanted if here is None else f"{here}{rest}"


def rate_control(wanted: str, files: Sequence[Path] = ()) -> str | Maker:
    """Return a rate control: a name of the registry, or the maker that a file has, as in `mine.py:Mine`."""
    file, rest = topologies.file_of(in_files(wanted, files))
    if file is None:
        rates.maker_of(wanted)
        return wanted
    with importing_from_folder_of(file):
        content = runpy.run_path(str(file))
    own = {name: one for name, one in content.items() if _is_own(one, content["__name__"])}
    name = rest.removeprefix(":")
    if not name and len(own) == 1:
        (name,) = own
    if not name:
        raise UsageError(f"{file.name}: name its rate control, as in {file.name}:{next(iter(own), 'Mine')}")
    if not callable(content.get(name)):
        raise UsageError(f"{file.name} has no rate control {name}; {nearest(name, own or content)}")
    made: Maker = content[name]
    return made


def _is_own(one: object, module: str) -> bool:
    return inspect.isclass(one) and issubclass(one, RateControl) and one.__module__ == module


def shown(control: str | Maker) -> str:
    """Return a rate control's name."""
    return control if isinstance(control, str) else str(getattr(control, "__name__", type(control).__name__))
