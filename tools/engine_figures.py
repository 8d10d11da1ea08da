"""The comparison of one experiment on the two engines in virtual time: its claims, and each of its figures.

Figures are those that a run reported and the measured values of its claims; each element of lists and tables counts by
itself. Only runs within their fidelity bounds are compared: one that was short of CPU has other figures, and may have
other claims, for that alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.errors import UsageError
from testbed.experiment.fidelity import Verdict
from testbed.lab.engines.um import Um
from testbed.lab.engines.vm import Vm
from testbed.lab.results.foreign import ForeignError, ForeignFolder
from testbed.lab.results.result import RESULT, Result
from tools.tolerances import DEFAULT, FILE, Apart, Pair, Stated, Value

_QUANTITY = {"value", "unit"}


@dataclass(frozen=True)
class Agreement:
    """The outcome of the comparison of two results."""

    experiment: str
    degraded: tuple[str, ...]
    """The reasons why the run on `vm` is not compared; empty if it is."""
    figures: int = 0
    equal: int = 0
    widest: Pair | None = None
    """The widest pair within the default, if there is one that is not equal."""
    within: int = 0
    apart: tuple[tuple[Apart, tuple[Pair, ...]], ...] = ()
    """Each stated difference, with the pairs that need it."""
    faults: tuple[str, ...] = ()
    """Figures that are further apart than stated, and statements about no figure."""
    notes: tuple[str, ...] = ()
    """Statements that are wider than needed."""

    def __str__(self) -> str:
        if self.degraded:
            return f"figures not compared: on vm {'; '.join(self.degraded)}"
        parts = [f"{self.equal} of {self.figures} figures equal"]
        if self.widest:
            parts.append(f"{self.within} within {DEFAULT.text} (at most {self.widest.share:.2%})")
        if self.apart:
            parts.append(f"{sum(len(pairs) for _, pairs in self.apart)} within what is stated")
        if self.faults:
            parts.append(f"{len(self.faults)} not as stated")
        return ", ".join(parts)


def compare(um: Result, vm: Result, stated: Stated) -> Agreement:
    """Compare a result of `um` with one of `vm`."""
    _check_pair(um, vm)
    name = um.experiment
    faults = [f"on um the run is degraded: {reason}" for reason in um.fidelity.reasons if _is_degraded(um)]
    if _is_degraded(vm):
        if not stated.degraded:
            faults.append(f"on vm the run is degraded, and {FILE} has no reason: {'; '.join(vm.fidelity.reasons)}")
        return Agreement(name, vm.fidelity.reasons, faults=tuple(faults))
    if stated.degraded:
        faults.append(f"on vm the run is not degraded; take its reason out of {FILE}")
    faults += _claims_apart(um, vm)
    pairs = _pairs(um, vm)
    differing = [pair for pair in pairs if not pair.is_equal]
    within = [pair for pair in differing if DEFAULT.holds(pair)]
    needs: dict[int, list[Pair]] = {number: [] for number in range(len(stated.apart))}
    for pair in differing:
        if DEFAULT.holds(pair):
            continue
        named = [number for number, apart in enumerate(stated.apart) if apart.names(pair.name)]
        if held := [number for number in named if stated.apart[number].within.holds(pair)]:
            needs[held[0]].append(pair)
        else:
            limits = " and ".join(stated.apart[number].within.text for number in named) or DEFAULT.text
            faults.append(f"{pair}; {limits} allowed")
    names = [pair.name for pair in pairs]
    for apart in stated.apart:
        faults += apart.faults(names)
    notes = [note for number, apart in enumerate(stated.apart) for note in apart.notes(needs[number])]
    return Agreement(
        name, (), len(pairs), len(pairs) - len(differing), max(within, key=lambda pair: pair.share, default=None),
        len(within), tuple((apart, tuple(needs[number])) for number, apart in enumerate(stated.apart)), tuple(faults),
        tuple(notes),
    )  # fmt: skip


def stored(folder: Path) -> dict[str, Result]:
    """Return the result in a folder, or those of all folders in it, by experiment."""
    found = {}
    files = ForeignFolder(folder)
    inside = [] if files.has(RESULT) else [files.inside(name) for name in files.listing() if not files.is_file(name)]
    for where in [files] if files.has(RESULT) else [one for one in inside if one.has(RESULT)]:
        try:
            result = Result.read(where)
        except ForeignError:
            raise
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise UsageError(f"{where.path / RESULT} cannot be read: {error!r}; make the run again") from None
        if result.experiment in found:
            raise UsageError(f"{folder} has more than one result of {result.experiment}; keep one")
        found[result.experiment] = result
    if not found:
        raise UsageError(f"{folder} has no result; `xoff run --out` and `xoff verify --out` leave some")
    return found


def _check_pair(um: Result, vm: Result) -> None:
    for result, engine in ((um, Um.name), (vm, Vm.name)):
        if result.provenance.engine != engine:
            raise UsageError(
                f"{result.experiment}: a result of {engine} is needed, it is of {result.provenance.engine}"
            )
    for what, one, other in (
        ("experiments", um.experiment, vm.experiment),
        ("parameters", um.parameters, vm.parameters),
        ("seeds", um.seed, vm.seed),
    ):
        if one != other:
            raise UsageError(f"{um.experiment}: the {what} are not the same, {one} and {other}; run it again")


def _is_degraded(result: Result) -> bool:
    return result.fidelity.verdict is Verdict.DEGRADED


def _claims_apart(um: Result, vm: Result) -> Iterator[str]:
    """Yield the claims that are not the same, in their order, or do not hold."""
    if [claim.name for claim in um.claims] != [claim.name for claim in vm.claims]:
        yield "the claims have other names or another order"
    for result in (um, vm):
        if result.reason:
            yield f"on {result.provenance.engine}: {result.reason}"
        for claim in result.claims:
            if not claim.passed:
                yield f"on {result.provenance.engine} the claim does not hold: {claim.name}"


def _pairs(um: Result, vm: Result) -> list[Pair]:
    mine, theirs = values(um), values(vm)
    return [Pair(name, mine.get(name), theirs.get(name)) for name in dict.fromkeys([*mine, *theirs])]


def values(result: Result) -> dict[str, Value]:
    """Return all single values of a result's figures and claims, by name; a figure goes before a claim of the same
    name."""
    found: dict[str, Value] = {}
    for name, value, unit in (
        *((figure.name, figure.value, figure.unit) for figure in result.figures),
        *((claim.name, claim.measured, claim.unit) for claim in result.claims),
    ):
        for one in _leaves(name, value, unit):
            found.setdefault(one.name, one)
    return found


def _leaves(name: str, value: Any, unit: str) -> Iterator[Value]:
    if isinstance(value, dict) and value.keys() == _QUANTITY:
        yield Value(name, value["value"], value["unit"])
    elif isinstance(value, dict):
        for key, element in value.items():
            yield from _leaves(f"{name}[{key}]", element, unit)
    elif isinstance(value, list):
        for index, element in enumerate(value):
            yield from _leaves(f"{name}[{index}]", element, unit)
    else:
        yield Value(name, value, unit)


def as_json(agreement: Agreement) -> dict[str, Any]:
    """Return a comparison as JSON, for scripts and for the page."""
    return {
        "degraded": list(agreement.degraded),
        "figures": agreement.figures,
        "equal": agreement.equal,
        "within": agreement.within,
        "widest": _plain(agreement.widest),
        "apart": [
            {"figures": list(apart.figures), "count": len(pairs), "widest": _plain(_widest(apart, pairs))}
            for apart, pairs in agreement.apart
        ],
    }


def _widest(apart: Apart, pairs: tuple[Pair, ...]) -> Pair | None:
    """Return the pair that needs the most of a stated tolerance."""
    return max(pairs, key=lambda pair: apart.within.needed_by(pair) or 0, default=None)


def _plain(pair: Pair | None) -> list[str] | None:
    return None if pair is None else [pair.name, str(pair.um), str(pair.vm), f"{pair.share * 100:.2f} %"]
