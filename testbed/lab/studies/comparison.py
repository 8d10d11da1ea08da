"""Differences between two results, two sweeps or two benchmarks, for a user who has changed something."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.errors import UsageError
from testbed.lab.results.foreign import ForeignError, ForeignFolder
from testbed.lab.results.result import RESULT, ResultFile, distinct
from testbed.lab.studies.benchmark import Benchmark, is_benchmark, unlike
from testbed.lab.studies.sweep_tables import OWN_COLUMNS, SUMMARY, spread

_ABSENT = "absent"


@dataclass(frozen=True)
class Difference:
    """Something that is not the same in both."""

    what: str
    first: Any
    second: Any


@dataclass(frozen=True)
class SweepMean:
    """The mean of a figure over the seeds of a sweep."""

    mean: float
    half_width: float | None
    """The half width of its 95 % interval, or None with one run."""
    runs: int

    def __str__(self) -> str:
        return spread(self.mean, math.nan if self.half_width is None else self.half_width, self.runs, digits=12)


def compare_folders(first: Path, second: Path) -> list[Difference]:
    """Return the differences between two result folders, or between two folders of sweeps or of benchmarks."""
    one, other = ForeignFolder(first), ForeignFolder(second)
    if is_benchmark(first) and is_benchmark(second):
        return list(_differences(*(_of_benchmark(Benchmark.read(folder)) for folder in (first, second))))
    for folder in (one, other):
        if not folder.has(RESULT) and not folder.has(SUMMARY):
            raise UsageError(f"{folder.path} has neither {RESULT} nor {SUMMARY}; name a result folder, or a sweep's")
    if one.has(RESULT) != other.has(RESULT):
        raise UsageError(f"one of {first} and {second} is a result and the other a sweep; name two of a kind")
    if one.has(RESULT):
        return list(_differences(_of_result(one), _of_result(other)))
    return list(_differences(_of_sweep(one), _of_sweep(other)))


def not_comparable(first: Path, second: Path) -> list[str]:
    """Return why the KPIs of two benchmarks are not compared directly; empty for anything else."""
    if not (is_benchmark(first) and is_benchmark(second)):
        return []
    return unlike(Benchmark.read(first), Benchmark.read(second))


def _differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[Difference]:
    for what in dict.fromkeys([*first, *second]):
        one, other = first.get(what, _ABSENT), second.get(what, _ABSENT)
        if one != other:
            yield Difference(what, one, other)


def _of_result(folder: ForeignFolder) -> dict[str, Any]:
    """Return the contents of a result, by a name for each of them."""
    content = ResultFile.read(folder).content
    try:
        contents = {name: content[name] for name in ("experiment", "status", "reason", "seed", "virtual_ns")}
        contents |= {f"parameter {name}": value for name, value in content["parameters"].items()}
        figures, claims = content["figures"], content["claims"]
        for name, one in zip(distinct(one["name"] for one in figures), figures, strict=True):
            contents[f"figure {name}"] = _with_unit(one["value"], one["unit"])
        for name, claim in zip(distinct(one["name"] for one in claims), claims, strict=True):
            contents[f"claim {name}"] = _with_unit(claim["measured"], claim["unit"])
            contents[f"claim {name}: passed"] = claim["passed"]
        contents |= {f"fidelity {name}": value for name, value in content["fidelity"].items()}
        contents |= {f"file {name}": digest for name, digest in content["files"].items()}
        contents |= {f"made with {name}": value for name, value in content["provenance"].items()}
    except (KeyError, TypeError, AttributeError) as error:
        lacks = f"{folder.path / RESULT} is not as Xoff writes it ({error}); was it written by another version of Xoff?"
        raise UsageError(lacks) from None
    return contents


def _with_unit(value: Any, unit: str) -> Any:
    return f"{value}{unit}" if unit else value


def _of_benchmark(found: Benchmark) -> dict[str, Any]:
    """Return the contents of a benchmark, by a name for each of them; it may be of another fabric than the other."""
    values: dict[str, Any] = {"fabric": found.fabric, "quick": found.quick, "seeds": found.seeds}
    values |= {f"setting {name}": value for name, value in found.settings}
    for outcome in found.outcomes:
        for row, columns in outcome.rows.items():
            values |= {f"{outcome.test}, {row}: {name}": str(value) for name, value in columns.items()}
        values |= {f"{outcome.test}: failed, seed {one.seed}, {one.what}": True for one in outcome.failed}
    return values


def _of_sweep(folder: ForeignFolder) -> dict[str, Any]:
    """Return the means of a sweep, by parameters and figure."""
    found: dict[str, Any] = {}
    rows = csv.DictReader(line for _, line in folder.lines(SUMMARY))
    try:
        for row in rows:
            point = " ".join(f"{name}={value}" for name, value in row.items() if name not in OWN_COLUMNS)
            runs = int(row["runs"])
            half_width = float(row["half width of 95 %"]) if runs > 1 else None
            found[f"{point} {row['figure']}".strip()] = SweepMean(float(row["mean"]), half_width, runs)
    except ForeignError:
        raise
    except (ValueError, KeyError, TypeError, csv.Error) as error:
        place = f"{folder.path / SUMMARY}: line {rows.line_num}"
        raise UsageError(f"{place} cannot be read: {error}; sweep again, and it is written anew") from None
    return found
