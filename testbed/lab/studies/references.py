"""The digests of all experiments as the repository has them, and how those of this machine compare.

Digests in virtual time depend on the engine, on the image, and on the kernel or QEMU that runs it; those of `vm` on
each line of Xoff's code as well. The file has what its digests were made with, so that a comparison with something else
is not taken for a comparison of machines. With other code on `vm` an experiment's claims are what is compared.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from testbed.errors import UsageError
from testbed.experiment.fidelity import Verdict
from testbed.lab.engines import table
from testbed.lab.job.job import DIGESTS, code_digest
from testbed.lab.results.result import Provenance, Result, Status

FILE = Path(DIGESTS)


@dataclass(frozen=True)
class Reference:
    """The digests of one engine, and what they were made with."""

    image: str
    kernel: str
    """The digest of a kernel that Xoff built; a stock kernel is part of the image."""
    digests: Mapping[str, str] = field(default_factory=dict)
    code: str = ""
    """The digest of Xoff's code, for an engine in which its instructions take time."""

    def differences(self, here: Provenance) -> list[str]:
        """Return what is not the same in this machine's lab and in the one that the digests are of."""
        differing = []
        if here.image != self.image:
            differing.append(f"the image here is {here.image[:16]}, the repository's digests are of {self.image[:16]}")
        if here.kernel_digest != self.kernel:
            differing.append(
                f"the kernel here is {here.kernel_digest[:16]}, the repository's digests are of {self.kernel[:16]}"
            )
        if self.is_of_other_code:
            differing.append(
                f"Xoff's code here is {_code()[:16]}, the repository's digests are of {self.code[:16]}, and on vm "
                "each instruction takes time: claims are compared instead"
            )
        return differing

    @property
    def is_of_other_code(self) -> bool:
        """True if the digests depend on Xoff's code, and are of another one than that which runs here."""
        return bool(self.code) and _code() != self.code


@cache
def _code() -> str:
    return code_digest()


class Outcome(enum.StrEnum):
    SAME = "same"
    CLAIMED = "as claimed"
    """The claims hold, and the repository's digests are of other code."""
    NOT_JUDGED = "degraded"
    """The same, for a run that was short of CPU, whose claims may fail for that alone."""
    DIFFERENT = "different"
    UNKNOWN = "not in the repository"
    FAILED = "failed"


@dataclass(frozen=True)
class Comparison:
    """One experiment's result beside the repository's digest."""

    experiment: str
    outcome: Outcome
    digest: str
    expected: str
    reason: str = ""


def edition(provenance: Provenance) -> str:
    """Return the name of an engine with the version of what its digests depend on."""
    return table.find(provenance.engine).edition(provenance)


def compare(result: Result, reference: Reference | None) -> Comparison:
    """Compare a result with the repository's digest of its experiment."""
    expected = reference.digests.get(result.experiment, "") if reference else ""
    if not counts(result):
        failed = ", ".join(claim.name for claim in result.claims if not claim.passed)
        reason = result.reason or f"not as claimed: {failed}"
        return Comparison(result.experiment, Outcome.FAILED, result.digest, expected, reason)
    if result.digest == expected:
        outcome = Outcome.SAME
    elif reference and reference.is_of_other_code:
        outcome = Outcome.CLAIMED if result.passed else Outcome.NOT_JUDGED
    else:
        outcome = Outcome.DIFFERENT if expected else Outcome.UNKNOWN
    return Comparison(result.experiment, outcome, result.digest, expected)


def read(root: Path) -> dict[str, Reference]:
    """Read the repository's digests, by engine."""
    try:
        content = json.loads((root / FILE).read_text())
        return {name: _reference(entry) for name, entry in content.items()}
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise UsageError(f"{root / FILE} is damaged ({error}); restore it with git") from None


def counts(result: Result) -> bool:
    """Return True if a result is one to compare. Claims of a degraded run may fail, and it is the same everywhere."""
    degraded = result.fidelity.verdict is Verdict.DEGRADED
    return result.status is Status.OK and (result.passed or degraded)


def _reference(entry: Any) -> Reference:
    digests = {str(name): str(digest) for name, digest in entry["digests"].items()}
    return Reference(str(entry["image"]), str(entry["kernel"]), digests, str(entry.get("code", "")))
