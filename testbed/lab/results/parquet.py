"""Tables as Parquet files, where the Python package pyarrow is installed."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable, Mapping
from typing import Any, BinaryIO


def is_available() -> bool:
    return importlib.util.find_spec("pyarrow") is not None


def write(out: BinaryIO, rows: Iterable[Mapping[str, Any]], names: Iterable[str]) -> None:
    """Write a table with a column for each name, whose type is that of its values: bool, int64, double or text."""
    import pyarrow
    from pyarrow import parquet

    columns: dict[str, list[Any]] = {name: [] for name in names}
    for row in rows:
        for name, values in columns.items():
            values.append(row.get(name))
    arrays = [_array(pyarrow, values) for values in columns.values()]
    parquet.write_table(pyarrow.table(arrays, [_text(name) for name in columns]), out)


def _array(pyarrow: Any, values: list[Any]) -> Any:
    types = {type(value) for value in values if value is not None}
    if types <= {int} and all(value is None or abs(value) < 2**63 for value in values):
        return pyarrow.array(values, pyarrow.int64())
    if types <= {bool}:
        return pyarrow.array(values, pyarrow.bool_())
    if types <= {int, float} and all(value is None or abs(value) <= sys.float_info.max for value in values):
        return pyarrow.array([None if value is None else float(value) for value in values], pyarrow.float64())
    return pyarrow.array([None if value is None else _text(value) for value in values], pyarrow.string())


def _text(value: Any) -> str:
    """Return a value as text without lone surrogates, which UTF-8 cannot have."""
    return str(value).encode(errors="backslashreplace").decode()
