"""Time series of a result folder: CSV as the run wrote them, and Parquet beside it where pyarrow is installed. They are
read with pandas or polars, whichever is installed.
"""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import Any

from testbed.errors import UsageError, listed
from testbed.lab.results.foreign import ForeignFolder

_READERS = ("pandas", "polars")
_PREFIX, _ENDING = "series-", ".csv"


def write_parquet(folder: Path) -> list[Path]:
    """Write `series-NAME.parquet` of each series of a folder, if there is pyarrow. UsageError if a file is no table."""
    files = ForeignFolder(folder)
    found = names(files)
    if not found or importlib.util.find_spec("pyarrow") is None:
        return []
    from pyarrow import ArrowException, csv, parquet

    written = []
    for name in found:
        target = f"series-{name}.parquet"
        try:
            with files.open(file_of(name)) as source:
                table = csv.read_csv(source)
            with files.create(target) as out:
                parquet.write_table(table, out)
        except (ArrowException, UnicodeError) as error:
            reason = " ".join(str(error).split())
            raise UsageError(
                f"{folder / file_of(name)} is not a table, so there is no Parquet of it: {reason}"
            ) from None
        written.append(folder / target)
    return written


def read(folder: Path, name: str) -> Any:
    """Return a series as a DataFrame; UsageError if the run has no such series, or there is no reader."""
    files = ForeignFolder(folder)
    if name not in (there := names(files)):
        raise UsageError(f"{folder} has no series {name!r}; it has {listed(there)}")
    for reader in _READERS:
        try:
            read_csv = importlib.import_module(reader).read_csv
        except ModuleNotFoundError as error:
            if error.name != reader:
                raise
            continue
        with files.open(file_of(name)) as file:
            return read_csv(file)
    raise UsageError(f"neither pandas nor polars is installed; one of them reads {folder / file_of(name)}")


def names(files: ForeignFolder) -> list[str]:
    """Return the names of all series in a folder."""
    found = [name for name in files.listing() if name.startswith(_PREFIX) and name.endswith(_ENDING)]
    return [name[len(_PREFIX) : -len(_ENDING)] for name in found]


def file_of(name: str) -> str:
    """Return the name of a series' file."""
    return f"{_PREFIX}{name}{_ENDING}"
