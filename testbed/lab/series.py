"""Time series of a result folder, read with pandas or polars, whichever is installed."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from testbed.errors import UsageError, listed

_READERS = ("pandas", "polars")


def read(folder: Path, name: str) -> Any:
    """The table of a series, as a DataFrame; UsageError if the run has no such series, or there is no reader."""
    file = folder / f"series-{name}.csv"
    if not file.is_file():
        there = sorted(one.stem.removeprefix("series-") for one in folder.glob("series-*.csv"))
        raise UsageError(f"{folder} has no series {name!r}; it has {listed(there)}")
    for reader in _READERS:
        try:
            return importlib.import_module(reader).read_csv(file)
        except ModuleNotFoundError as error:
            if error.name != reader:
                raise
    raise UsageError(f"neither pandas nor polars is installed; one of them reads {file}")
