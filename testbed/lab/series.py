"""Time series of a result folder: CSV as the run wrote them, and Parquet beside it where pyarrow is installed. They are
read with pandas or polars, whichever is installed.
"""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import Any

from testbed.errors import UsageError, listed

_READERS = ("pandas", "polars")
_FILES = "series-*.csv"


def write_parquet(folder: Path) -> list[Path]:
    """`series-NAME.parquet` of each series of a folder; none without pyarrow. UsageError if a file is no table."""
    files = sorted(folder.glob(_FILES))
    if not files or importlib.util.find_spec("pyarrow") is None:
        return []
    from pyarrow import ArrowException, csv, parquet

    written = []
    for file in files:
        try:
            table = csv.read_csv(file)
        except ArrowException as error:
            raise UsageError(f"{file} is not a table, so there is no Parquet of it: {error}") from None
        written.append(file.with_suffix(".parquet"))
        parquet.write_table(table, written[-1])
    return written


def read(folder: Path, name: str) -> Any:
    """The table of a series, as a DataFrame; UsageError if the run has no such series, or there is no reader."""
    file = folder / f"series-{name}.csv"
    if not file.is_file():
        there = sorted(one.stem.removeprefix("series-") for one in folder.glob(_FILES))
        raise UsageError(f"{folder} has no series {name!r}; it has {listed(there)}")
    for reader in _READERS:
        try:
            return importlib.import_module(reader).read_csv(file)
        except ModuleNotFoundError as error:
            if error.name != reader:
                raise
    raise UsageError(f"neither pandas nor polars is installed; one of them reads {file}")
