"""The benchmark for AI training fabrics: its tests, and the outcome of a run as `benchmark.json`.

Tests, KPIs and numbers of sections are those of draft-calabria-bmwg-ai-fabric-training-bench-00. Each test is a run of
its own (`experiments/_benchmark`), made by a sweep, so on this machine or on a cluster. What it reports as
"ROW: COLUMN" becomes a table of the test.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from testbed.errors import UsageError
from testbed.lab.results.foreign import ForeignFolder
from testbed.lab.results.result import Result
from testbed.units import written

DRAFT = "draft-calabria-bmwg-ai-fabric-training-bench-00"
FILE = "benchmark.json"
"""The file in the folder of the benchmark, beside the tables of the sweep."""
SCHEMA = 1


@dataclass(frozen=True)
class DraftTest:
    """A test of the draft."""

    name: str
    section: str
    title: str
    main: str
    """The column whose spread over seeds the statement of repeatability has."""


TESTS = (
    DraftTest("throughput", "5.1", "Baseline throughput", "of all lines"),
    DraftTest("latency", "5.2", "Latency", "mean"),
    DraftTest("burst", "5.3", "Back-to-back burst absorption", "octets until a loss"),
    DraftTest("retry", "6.5", "Retry by the link layer (LLR)", "retry on average"),
    DraftTest("trimming", "6.5", "Packet trimming", "sent again"),
    DraftTest("credits", "6.5", "Credits (CBFC) against PFC", "head-of-line blocking"),
    DraftTest("ecn", "7.1", "ECN marking accuracy and threshold", "marked"),
    DraftTest("incast", "7.2", "PFC behaviour under incast", "throughput"),
    DraftTest("dcqcn", "7.3", "DCQCN convergence time", "JFI at the end"),
    DraftTest("storm", "7.4", "PFC storm and deadlock resilience", "PAUSE frames"),
    DraftTest("ecmp", "8.1", "ECMP entropy and polarisation", "JFI"),
    DraftTest("flowlet", "8.2", "Dynamic load balancing by flowlets", "JFI"),
    DraftTest("spray", "8.3", "Packet spraying", "JFI"),
    DraftTest("all-reduce", "9.1", "All-reduce", "completion"),
    DraftTest("all-to-all", "9.2", "All-to-all", "completion"),
    DraftTest("all-gather", "9.3", "All-gather", "completion"),
    DraftTest("jct", "10.1", "Synthetic job completion time", "JCT ratio"),
    DraftTest("training", "10.2", "Training jobs, in place of MLPerf's", "JCT"),
    DraftTest("tenants", "10.3", "Interference of jobs", "interference factor"),
    DraftTest("scale", "11.1", "Fabric scale", "JCT ratio"),
    DraftTest("failure", "11.2", "Link failure, and failover without impact (11.3)", "overhead factor"),
    DraftTest("soak", "12.1", "Sustained load, and leaks (12.2)", "mean"),
)
"""The tests that are run, by the order of the draft."""


LARGER_IS_BETTER = frozenset(
    {
        "goodput", "throughput", "of all lines", "of the line", "bus bandwidth", "JFI", "JFI at the end",
        "emptiest of the fullest", "frames until a pause", "octets until a pause", "frames until a loss",
        "octets until a loss", "of its rate during the storm", "afterwards", "others' goodput",
        "others' goodput of what they sent",
    }
)  # fmt: skip
SMALLER_IS_BETTER = frozenset(
    {
        "completion", "completion with the failure", "JCT", "JCT alone", "JCT of both", "JCT ratio",
        "JCT ratio with headers", "least", "mean", "most", "P50", "P95", "P99", "times the unloaded mean", "MMR",
        "PAUSE frames", "PAUSE frames per second", "longest pause of a port", "times a switch paused", "deepest queue",
        "sent again", "out of order", "frames dropped", "within 10 percent after", "JFI of 0.95 after",
        "interference factor", "overhead factor", "longest wait", "deviation", "last over first", "deadlocks found",
        "cells left in buffers at most", "retry at least", "retry on average", "retry at most", "packets sent again",
        "frames of the load lost", "first rest after", "first request after", "octets on the wire",
        "head-of-line blocking",
        "hops of the stop", "ports that stood still", "others' longest delay",
    }
)  # fmt: skip
"""The columns that are better the larger, or the smaller, they are. The others, such as marks, are neither."""


def arrow(column: str) -> str:
    """Return the sign of a column that is better the larger, or the smaller, it is; empty for the others."""
    return " ↑" if column in LARGER_IS_BETTER else " ↓" if column in SMALLER_IS_BETTER else ""


COMPARABILITY = {
    "hosts": "number of accelerators, one a host in their order, and their line rate",
    "leaf oversubscription": "leaf oversubscription",
    "equal ways": "load balancing strategy",
}
"""The settings that two results share which are compared directly: the set of the draft's version 06, 3.2.3. The
transport, which is in it too, is RoCEv2 in all of them."""


@dataclass(frozen=True)
class NotMeasured:
    """A test or an indicator of the draft that the lab cannot have."""

    section: str
    title: str
    reason: str


_NO_UET = "the lab has no transport of Ultra Ethernet"
NOT_MEASURED = (
    NotMeasured("4.3", "processor and memory of switches", "the lab has no software of a product"),
    NotMeasured("4.3", "convergence of routes", "routes are static; `xoff run bgp_fabric` measures FRR and BIRD"),
    NotMeasured("4.3", "flaps of links, CRC errors", "cables of the lab have none, unless a run makes them"),
    NotMeasured("4.3", "power", "there is no hardware"),
    NotMeasured("6.1", "throughput by transport service (ROD, RUD, RUDI, UUD)", f"{_NO_UET}; 5.1 has RoCEv2's"),
    NotMeasured("6.2", "latency, and that of the first packet", f"{_NO_UET}; 5.2 has RoCEv2's"),
    NotMeasured("6.3", "spraying under RUD and ROD", f"{_NO_UET}; 8.3 has RoCEv2's, to NICs that reorder and not"),
    NotMeasured("6.4", "congestion control at both ends, receiver credits", f"{_NO_UET}; 7.2 and 7.3 have DCQCN's"),
    NotMeasured("6.6", "collectives over RUD and ROD", f"{_NO_UET}; 9 has RoCEv2's"),
    NotMeasured("6.7", "rate and number of delivery contexts", _NO_UET),
)
"""The measurements that the draft asks for and the lab cannot make, in its order. Those of a test are rows of it."""


@dataclass(frozen=True)
class Value:
    """A value of a table: the mean over the seeds of a number, or a text."""

    value: Any
    unit: str
    variation: float | None = None
    """Standard deviation over mean, with several seeds."""

    def __str__(self) -> str:
        """Return the value for people, with four digits."""
        if isinstance(self.value, bool) or not isinstance(self.value, int | float):
            return str(self.value)
        near = float(f"{self.value:.4g}")
        value = int(near) if near.is_integer() else near
        return f"{value:g} %" if self.unit == "%" else written(value, self.unit)


@dataclass(frozen=True)
class Failed:
    """A claim that did not hold, or a run that did not end."""

    what: str
    seed: int


@dataclass(frozen=True)
class OutcomeOfTest:
    """The findings of one test."""

    test: str
    rows: Mapping[str, Mapping[str, Value]]
    failed: tuple[Failed, ...]
    claims: int
    """The number of claims, of all seeds."""
    folders: tuple[str, ...]
    digests: tuple[str, ...]

    @classmethod
    def of(cls, test: str, results: Sequence[Result], folder: Path, missing: Iterable[Failed] = ()) -> OutcomeOfTest:
        """Return the outcome of a test from the results of its seeds."""
        values: dict[str, dict[str, list[tuple[Any, str]]]] = {}
        failed, claims = list(missing), 0
        for result in results:
            for figure in result.figures:
                row, colon, column = str(figure.name).partition(": ")
                if colon:
                    values.setdefault(row, {}).setdefault(column, []).append((figure.value, figure.unit))
            for claim in result.claims:
                claims += 1
                if not claim.passed:
                    measured = written(claim.measured, claim.unit)
                    failed.append(Failed(f"{claim.name}: {measured}", result.seed))
        rows = {row: {name: _value(all_) for name, all_ in columns.items()} for row, columns in values.items()}
        folders = tuple(str(one.folder.relative_to(folder)) for one in results if one.folder is not None)
        return cls(test, rows, tuple(failed), claims, folders, tuple(one.digest for one in results))

    @property
    def variation(self) -> float | None:
        """The largest coefficient of variation of the test's main column; None with one seed."""
        main = next(one.main for one in TESTS if one.name == self.test)
        found = [row[main].variation for row in self.rows.values() if main in row]
        known = [one for one in found if one is not None]
        return max(known, default=None)


def _value(found: Sequence[tuple[Any, str]]) -> Value:
    values, unit = [value for value, _ in found], found[0][1]
    if any(isinstance(one, bool) or not isinstance(one, int | float) for one in values):
        texts = dict.fromkeys(map(str, values))
        return Value(values[0] if len(values) == 1 else "; ".join(texts), unit)
    mean = statistics.fmean(values) if len(values) > 1 else values[0]
    if len(values) == 1:
        return Value(mean, unit)
    return Value(mean, unit, round(statistics.stdev(values) / mean, 6) if mean else 0.0)


@dataclass(frozen=True)
class Benchmark:
    """The outcome of all tests on one fabric."""

    fabric: str
    settings: tuple[tuple[str, str], ...]
    """What the fabric is made of, in words."""
    quick: bool
    seeds: int
    command: str
    made_with: tuple[tuple[str, str], ...]
    outcomes: tuple[OutcomeOfTest, ...]

    @property
    def passed(self) -> bool:
        return not any(one.failed for one in self.outcomes)

    def outcome(self, test: str) -> OutcomeOfTest | None:
        return next((one for one in self.outcomes if one.test == test), None)

    def as_json(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "draft": DRAFT,
            "fabric": self.fabric,
            "settings": dict(self.settings),
            "quick": self.quick,
            "seeds": self.seeds,
            "command": self.command,
            "made_with": dict(self.made_with),
            "passed": self.passed,
            "tests": [asdict(one) for one in self.outcomes],
            "not_measured": [asdict(one) for one in NOT_MEASURED],
        }

    @classmethod
    def read(cls, folder: Path) -> Benchmark:
        """Read the benchmark of a folder."""
        with ForeignFolder(folder).reading(FILE, "`xoff benchmark`", UsageError) as content:
            return cls(
                str(content["fabric"]),
                tuple((str(name), str(value)) for name, value in content["settings"].items()),
                bool(content["quick"]),
                int(content["seeds"]),
                str(content["command"]),
                tuple((str(name), str(value)) for name, value in content["made_with"].items()),
                tuple(map(_outcome, content["tests"])),
            )


def unlike(first: Benchmark, second: Benchmark) -> list[str]:
    """Return in what of the comparability set two benchmarks differ; empty if their KPIs are compared directly."""
    sets = []
    for one in (first, second):
        own = {name: value for name, value in one.settings if name in COMPARABILITY}
        sets.append(own | {"message sizes": "those of --quick" if one.quick else "all"})
    return [
        f"{name} ({COMPARABILITY.get(name, 'collective type, message size')}): "
        f"{' and '.join(one.get(name, 'not stated') for one in sets)}"
        for name in dict.fromkeys([*sets[0], *sets[1]])
        if sets[0].get(name) != sets[1].get(name)
    ]


def _outcome(content: Mapping[str, Any]) -> OutcomeOfTest:
    if content["test"] not in [one.name for one in TESTS]:
        raise ValueError(f"there is no test {str(content['test'])[:40]!r}")
    rows = {
        str(row): {str(name): Value(one["value"], str(one["unit"]), one["variation"]) for name, one in columns.items()}
        for row, columns in content["rows"].items()
    }
    failed = tuple(Failed(str(one["what"]), int(one["seed"])) for one in content["failed"])
    folders, digests = (tuple(map(str, content[name])) for name in ("folders", "digests"))
    return OutcomeOfTest(content["test"], rows, failed, int(content["claims"]), folders, digests)


def is_benchmark(folder: Path) -> bool:
    return ForeignFolder(folder).has(FILE)
