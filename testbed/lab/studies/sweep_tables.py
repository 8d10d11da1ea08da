"""The tables of a sweep: a row for each run, and means over seeds with their 95 % intervals.

`table.csv` and `summary.csv` are always written, `table.parquet` where pyarrow is installed, and `failed.csv` if a run
did not end by itself. A figure that is a number is a column `figure: NAME [unit]`, and so is what a claim measured;
a figure that is not a number stays in result.json.
"""

from __future__ import annotations

import csv
import functools
import io
import math
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.errors import XoffError
from testbed.lab.results import parquet
from testbed.lab.results.csv_cells import neutral
from testbed.lab.results.foreign import ForeignFolder
from testbed.lab.results.result import RESULT, ResultFile, distinct
from testbed.units import written

TABLE, SUMMARY, FAILED, PARQUET = "table.csv", "summary.csv", "failed.csv", "table.parquet"

_FIGURE = "figure: "
_LARGEST = 1e150
"""The largest value that has a variance as a float."""
_RUN_COLUMNS = ("seed", "status", "reason", "passed", "digest", "inputs", "folder")
_MEAN_COLUMNS = ("figure", "runs", "mean", "half width of 95 %", "least", "most")
OWN_COLUMNS = frozenset({*_RUN_COLUMNS, *_MEAN_COLUMNS})
"""The names of columns, which a parameter in a grid cannot have."""


class TableError(XoffError):
    """Raised if a result of a sweep cannot be read."""

    exit_code = 3


@dataclass(frozen=True)
class Row:
    """The row of one run."""

    parameters: Mapping[str, str]
    """The parameters of the grid, as they were given."""
    seed: int
    status: str
    reason: str
    passed: bool
    digest: str
    inputs: str
    folder: str
    figures: Mapping[str, float]
    """The figures that are numbers, by name and unit."""

    @classmethod
    def read(cls, sweep: Path, folder: str, inputs: str, parameters: Mapping[str, Any]) -> Row:
        """Read the row of the result in a folder of the sweep."""
        path = sweep / folder / RESULT
        try:
            content = ResultFile.read(ForeignFolder(sweep).inside(folder)).content
            return cls(
                {name: str(value) for name, value in parameters.items()}, int(content["seed"]), str(content["status"]),
                str(content["reason"]), bool(content["passed"]), str(content["digest"]), inputs, folder,
                figures_of(content),
            )  # fmt: skip
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise TableError(f"{path} cannot be read ({error}); remove its folder, and the run is made again") from None

    def columns(self) -> dict[str, Any]:
        """Return the row as it is written."""
        named = {"seed": self.seed, "status": self.status, "reason": self.reason, "passed": self.passed}
        figures = {f"{_FIGURE}{name}": value for name, value in self.figures.items()}
        last = {"digest": self.digest, "inputs": self.inputs, "folder": self.folder}
        return {**self.parameters, **named, **figures, **last}


@dataclass(frozen=True)
class Failure:
    """A run that did not end by itself, or has not been made."""

    parameters: Mapping[str, str]
    seed: int
    status: str
    reason: str

    def columns(self) -> dict[str, Any]:
        return {**self.parameters, "seed": self.seed, "status": self.status, "reason": self.reason}


def figures_of(result: Mapping[str, Any]) -> dict[str, float]:
    """Return the figures of a result.json that are numbers, by name and unit, and the measured values of its claims.

    Several with one name get distinct names (`distinct`). A claim about a figure of its name that measured something
    else is NAME (claim).
    """
    numbers: dict[str, float] = {}
    for kind, value_of in (("figures", "value"), ("claims", "measured")):
        names = distinct(one["name"] for one in result[kind])
        for name, one in zip(names, result[kind], strict=True):
            value, unit = one[value_of], one["unit"]
            if not isinstance(value, int | float) or isinstance(value, bool) or abs(value) >= _LARGEST:
                continue
            key = _column(name, unit)
            if numbers.get(key, value) != value:
                key = _column(f"{name} (claim)", unit)
            numbers[key] = value
    return numbers


def _column(name: str, unit: str) -> str:
    return f"{name} [{unit}]" if unit else name


@dataclass(frozen=True)
class Mean:
    """The mean of a figure over the seeds of one combination of parameters."""

    parameters: Mapping[str, str]
    figure: str
    runs: int
    mean: float
    half_width: float
    """The half width of the 95 % interval, by Student's t; NaN with one run."""
    least: float
    most: float

    def __str__(self) -> str:
        """Return the mean and its interval as people write them, with the unit that the figure's name ends with."""
        return spread(self.mean, self.half_width, self.runs, self.figure)


_WITH_UNIT = re.compile(r".* \[(b/s|ns|B|m)\]", re.DOTALL)


def spread(mean: float, half_width: float, runs: int, figure: str = "", digits: int = 6) -> str:
    """Return a mean over seeds in words; the figure's name has the unit in brackets at its end."""
    match = _WITH_UNIT.fullmatch(figure)
    unit = match[1] if match else ""
    text = _rounded(mean, unit, digits)
    if runs < 2:
        return f"{text} (1 run)"
    if not half_width:
        return f"{text} (the same with {runs} seeds)"
    return f"{text} +- {_rounded(half_width, unit, 4)} ({runs} runs)"


def _rounded(value: float, unit: str, digits: int) -> str:
    """Return a number with so many digits and its unit; a number without a unit has all digits before the point."""
    near = float(f"{value:.{digits}g}")
    if unit and (not near or abs(near) >= 1):
        return written(near, unit)
    if near and not 1e-4 <= abs(near) < 1e15:
        return f"{near:g} {unit}".strip()
    places = max(0, digits - 1 - math.floor(math.log10(abs(near)))) if near else 0
    text = f"{value:.{places}f}"
    return f"{text.rstrip('0').rstrip('.') if places else text} {unit}".strip()


def mean_of(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean of some values and the half width of its 95 % interval."""
    mean = statistics.fmean(values)
    if len(values) < 2:
        return mean, math.nan
    return mean, student_t(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))


@functools.cache
def student_t(degrees: int, within: float = 0.95) -> float:
    """Return the value that Student's t exceeds, in magnitude, with a probability of 1 - `within`, by bisection."""
    low, high = 0.0, 1e6
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if _probability_within(middle, degrees) < within else (low, middle)
    return high


def _probability_within(t: float, degrees: int) -> float:
    """Return the probability of a value from -t to t, by Abramowitz and Stegun, 26.7.3 and 26.7.4."""
    angle = math.atan(t / math.sqrt(degrees))
    is_odd = degrees % 2
    term = total = math.cos(angle) if is_odd else 1.0
    for k in range(2 + is_odd, degrees - 1, 2):
        term *= math.cos(angle) ** 2 * (k - 1) / k
        total += term
    if not is_odd:
        return math.sin(angle) * total
    return 2 / math.pi * (angle + (math.sin(angle) * total if degrees > 1 else 0.0))


def summary(rows: Iterable[Row]) -> list[Mean]:
    """Return the means over seeds, in the order of the rows."""
    values: dict[tuple[tuple[str, str], ...], dict[str, list[float]]] = {}
    for row in rows:
        figures = values.setdefault(tuple(row.parameters.items()), {})
        for name, value in row.figures.items():
            figures.setdefault(name, []).append(value)
    return [
        Mean(dict(point), name, len(found), *mean_of(found), min(found), max(found))
        for point, figures in values.items()
        for name, found in figures.items()
    ]


def varying(means: Sequence[Mean]) -> list[Mean]:
    """Return the means of the figures that are not the same in all runs."""
    seen: dict[str, set[float]] = {}
    for mean in means:
        seen.setdefault(mean.figure, set()).update((mean.least, mean.most))
    return [mean for mean in means if len(seen[mean.figure]) > 1]


def write(folder: Path, rows: Sequence[Row], failed: Sequence[Failure]) -> list[Path]:
    """Write all tables of a sweep, and return those that were written."""
    content = [row.columns() for row in rows]
    files = ForeignFolder(folder)
    _write_csv(files, TABLE, content)
    means = [
        {**mean.parameters, "figure": mean.figure, "runs": mean.runs, "mean": mean.mean,
         "half width of 95 %": mean.half_width, "least": mean.least, "most": mean.most}
        for mean in summary(rows)
    ]  # fmt: skip
    _write_csv(files, SUMMARY, means)
    written = [folder / TABLE, folder / SUMMARY]
    (folder / FAILED).unlink(missing_ok=True)
    if failed:
        _write_csv(files, FAILED, [failure.columns() for failure in failed])
        written.append(folder / FAILED)
    if rows and parquet.is_available():
        with files.create(PARQUET) as out:
            parquet.write(out, content, _names(content))
        written.append(folder / PARQUET)
    return written


def _names(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def _write_csv(files: ForeignFolder, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
    columns = _names(rows)
    with files.create(name) as out:
        text = io.TextIOWrapper(out, encoding="utf-8", newline="")
        table = csv.writer(text)
        table.writerow(map(neutral, columns))
        table.writerows([neutral(row.get(column, "")) for column in columns] for row in rows)
        text.detach()
