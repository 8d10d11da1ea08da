"""The result of a run: typed for Python, and as `result.json`.

The digest covers what must be the same on every machine: figures, claims, what the job printed and left,
the fidelity it was measured with, and when in virtual time it ended. Wall time and the names of
programs and commits are in the result but not in the digest.
"""

from __future__ import annotations

import enum
import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from testbed.errors import UsageError, XoffError
from testbed.experiment.fidelity import Fidelity, Thresholds, Verdict
from testbed.lab.results import series, tables
from testbed.lab.results.foreign import ForeignFolder
from testbed.lab.results.result_file import BOUNDS, RESULT, Claim, Figure, ResultFile, distinct, expectation
from testbed.units import written

__all__ = [
    "BOUNDS", "RESULT", "SCHEMA", "Again", "Claim", "Exit", "Figure", "Provenance", "Result", "ResultFile", "RunFailed",
    "Status", "Times", "distinct", "expectation",
]  # fmt: skip

SCHEMA = 2


class Status(enum.StrEnum):
    """The way in which a job ended."""

    OK = "ok"
    ERROR = "error"  # it raised, or ended with an exit code
    TIMEOUT = "timeout"  # its limit of virtual time
    WALL_TIMEOUT = "wall-timeout"
    MEMORY = "memory"
    PROCESSES = "processes"
    INTERRUPTED = "interrupted"  # Ctrl-C or SIGTERM
    DISK_FULL = "disk-full"
    LOST = "lost"  # the lab itself broke down


class Exit(enum.IntEnum):
    """The exit codes of `xoff`."""

    OK = 0
    FAILED = 1  # a claim or a test did not hold
    USAGE = 2
    MACHINE = 3  # this machine: something is missing, no room, the lab broke down
    ERROR = 4  # the experiment raised
    LIMIT = 5  # time, memory or processes
    DEGRADED = 6  # the run is fine but the lab did not keep its fidelity bounds
    DEFECT = 7  # an exception outside Xoff's error family
    INTERRUPTED = 130


_EXITS = {
    Status.ERROR: Exit.ERROR,
    Status.TIMEOUT: Exit.LIMIT,
    Status.WALL_TIMEOUT: Exit.LIMIT,
    Status.MEMORY: Exit.LIMIT,
    Status.PROCESSES: Exit.LIMIT,
    Status.INTERRUPTED: Exit.INTERRUPTED,
    Status.DISK_FULL: Exit.MACHINE,
    Status.LOST: Exit.MACHINE,
}


class RunFailed(XoffError):
    """A run did not come out as it must; `Result.check` raises it."""


@dataclass(frozen=True)
class Provenance:
    """The engine, kernel, image and code that a result was made with."""

    engine: str
    accelerator: str
    image: str
    kernel: str
    kernel_digest: str
    """The digest of a kernel that Xoff built; empty for a stock one, which is part of the image."""
    qemu: str
    xoff: str
    commit: str
    code: str
    packages: dict[str, str] = field(default_factory=dict)
    """The versions of the Python packages that it had beside those of the image."""
    debian: dict[str, str] = field(default_factory=dict)
    """The versions of such Debian packages."""
    rate_controls: dict[str, str] = field(default_factory=dict)
    """The way in which each rate control ran that the lab's kernel does not have: as code in it, or in Python."""
    switch_rules: dict[str, str] = field(default_factory=dict)
    """The way in which each rule of the user's for switches ran, such as one that marks."""


@dataclass(frozen=True)
class Again:
    """The command that makes the run again, and the user's files that it takes."""

    command: tuple[str, ...]
    """The words after `xoff`."""
    files: Mapping[str, str]
    """The SHA-256 of each of these files, by the path that was given."""


@dataclass(frozen=True)
class Times:
    """The time that a run took, in the lab and outside."""

    virtual_ns: int
    wall_s: float
    first_line_s: float | None  # wall time from starting the machine to the job's first output
    cpu_s: float | None = None
    """The CPU time of all processes of the lab on this machine; None if it is not known."""

    @property
    def ratio(self) -> float:
        """The virtual seconds per wall second."""
        return self.virtual_ns / 1e9 / self.wall_s if self.wall_s else 0.0


@dataclass(frozen=True)
class Result:
    """A finished run."""

    experiment: str
    status: Status
    reason: str
    parameters: dict[str, Any]
    seed: int
    figures: tuple[Figure, ...]
    claims: tuple[Claim, ...]
    fidelity: Fidelity
    provenance: Provenance
    times: Times
    files: dict[str, str] = field(repr=False)
    """The SHA-256 of each file that the run left, by name; `output.log` has what it printed."""
    folder: Path | None = None
    again: Again | None = None
    """The command that makes the run again; None in a result of a version that did not write it."""
    partitions: int = 1
    """The number of kernels that had each network together."""

    @classmethod
    def read(cls, folder: str | PathLike[str] | ForeignFolder) -> Result:
        """Return the result in a folder. ValueError (ForeignError where it is no JSON), KeyError, TypeError or
        AttributeError if `result.json` is not as `write` leaves it.
        """
        files = folder if isinstance(folder, ForeignFolder) else ForeignFolder(Path(folder))
        content = ResultFile.read(files).content
        fidelity, times = dict(content["fidelity"]), dict(content["times"])
        fidelity["thresholds"] = Thresholds(**fidelity["thresholds"])
        fidelity |= {"verdict": Verdict(fidelity["verdict"]), "reasons": tuple(fidelity["reasons"])}
        del times["ratio"]
        again = content.get("again")
        return cls(
            experiment=content["experiment"],
            status=Status(content["status"]),
            reason=content["reason"],
            parameters=content["parameters"],
            seed=content["seed"],
            figures=tuple(map(Figure.of, content["figures"])),
            claims=tuple(map(Claim.of, content["claims"])),
            fidelity=Fidelity(**fidelity),
            provenance=Provenance(**content["provenance"]),
            times=Times(**times),
            files=content["files"],
            folder=files.path,
            again=again and Again(tuple(again["command"]), dict(again["files"])),
            partitions=content.get("partitions", 1),
        )

    @property
    def passed(self) -> bool:
        """True if the job ended well and every claim held."""
        return self.status is Status.OK and all(claim.passed for claim in self.claims)

    @property
    def digest(self) -> str:
        """The digest of the result; two results with equal digests are the same to the byte."""
        content = self._reproducible()
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def figure(self, name: str) -> Any:
        """Return the value of one figure. Where a run reported several of a name, `lost (2)` is the second `lost`."""
        for own, candidate in zip(distinct(figure.name for figure in self.figures), self.figures, strict=True):
            if own == name:
                return candidate.value
        raise KeyError(f"{self.experiment} reported no figure {name!r}; it has {[f.name for f in self.figures]}")

    def series(self, name: str) -> Any:
        """Return a time series that the run recorded, such as "buffer", as a DataFrame of pandas or polars."""
        if self.folder is None:
            raise UsageError(f"{self.experiment} has no folder, and so no series")
        return series.read(self.folder, name)

    @property
    def flows(self) -> Any:
        """The flows that ended, as a DataFrame with a row for each and the columns of docs/plots.md."""
        return self._table("flows")

    @property
    def events(self) -> Any:
        """The event log as a DataFrame, with a row for each event and a column for each field of any."""
        return self._table("events")

    @property
    def counters(self) -> Any:
        """Pauses, time paused and drops by network, port and priority, as a DataFrame."""
        return self._table("counters")

    @property
    def soft_roce(self) -> Any:
        """The counters of Soft-RoCE devices at the end of their networks, as a DataFrame with a row for each device."""
        return self._table("soft_roce")

    def _table(self, name: str) -> Any:
        if self.folder is None:
            raise UsageError(f"{self.experiment} has no folder, and so no {name}")
        return tables.of_folder(self.folder, name)

    def exit_code(self, allow_degraded: bool = False) -> Exit:
        if self.status is not Status.OK:
            return _EXITS[self.status]
        if not self.passed:
            return Exit.FAILED
        if self.fidelity.verdict is Verdict.DEGRADED and not allow_degraded:
            return Exit.DEGRADED
        return Exit.OK

    def check(self) -> Result:
        """Return this result, or raise RunFailed with what did not come out."""
        if self.status is not Status.OK:
            raise RunFailed(f"{self.experiment}: {self.reason}")
        for claim in self.claims:
            if not claim.passed:
                raise RunFailed(
                    f"{self.experiment}: {claim.name}: measured {written(claim.measured, claim.unit)}, "
                    f"expected {expectation(claim)}"
                )
        return self

    def as_json(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            **self._reproducible(),
            "passed": self.passed,
            "reason": self.reason,
            "digest": self.digest,
            "provenance": asdict(self.provenance),
            "times": asdict(self.times) | {"ratio": self.times.ratio},
            "again": self.again and {"command": list(self.again.command), "files": dict(self.again.files)},
        }

    def write(self, folder: Path) -> None:
        """Write `result.json`, whole or not at all."""
        text = json.dumps(self.as_json(), indent=1, ensure_ascii=False) + "\n"
        with ForeignFolder(folder).create(RESULT) as out:
            # UTF-8 has no lone surrogates, as in the name of a file that is no text; \udce9 is JSON for one.
            out.write(text.encode(errors="backslashreplace"))

    def _reproducible(self) -> dict[str, Any]:
        return {
            "experiment": self.experiment,
            "status": self.status,
            "parameters": self.parameters,
            "seed": self.seed,
            "figures": [asdict(figure) for figure in self.figures],
            "claims": [asdict(claim) for claim in self.claims],
            "fidelity": self.fidelity.as_json(),
            "virtual_ns": self.times.virtual_ns,
            "files": self.files,
            **({"partitions": self.partitions} if self.partitions > 1 else {}),
        }
