"""The file `result.json` as it is read: figures and claims, each checked, and names under which they are distinct."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from testbed.lab.results.foreign import ForeignError, ForeignFolder, decoded, lines_of
from testbed.units import written

RESULT = "result.json"
BOUNDS = {"equals": "{}", "at_least": "at least {}", "at_most": "at most {}"}
"""The words for what a claim can expect."""


REMEDY = "remedy for "
"""The begin of the name of a figure that says what to change."""


@dataclass(frozen=True)
class Figure:
    """A figure that the run reported."""

    name: str
    value: Any
    unit: str

    @property
    def is_remedy(self) -> bool:
        """True if it says what to change, which is shown before anything else."""
        return self.name.startswith(REMEDY)

    @classmethod
    def of(cls, content: Any) -> Figure:
        """Return the figure that an object of JSON describes; ValueError if it describes none."""
        match content:
            case {"name": str(name), "value": value} if _is_finite(value) and isinstance(content.get("unit", ""), str):
                return cls(name, value, content.get("unit", ""))
        raise ValueError(f"{str(content)[:60]!r} is no figure")


@dataclass(frozen=True)
class Claim:
    """A claim of an experiment: what must come out, and what was measured."""

    name: str
    expected: dict[str, Any]
    measured: Any
    passed: bool
    unit: str = ""
    """The unit of what was measured and of what is expected."""

    @classmethod
    def of(cls, content: Any) -> Claim:
        """Return the claim that an object of JSON describes; ValueError if it describes none."""
        match content:
            case {"name": str(name), "expected": dict(expected), "passed": bool(passed)} if _is_finite(
                content
            ) and isinstance(content.get("unit", ""), str):
                known = {bound: value for bound, value in expected.items() if bound in BOUNDS}
                return cls(name, known, content.get("measured"), passed, content.get("unit", ""))
        raise ValueError(f"{str(content)[:60]!r} is no claim")


Reported = TypeVar("Reported", Figure, Claim)
_KEYS = {
    "experiment": str,
    "status": str,
    "parameters": dict,
    "seed": int,
    "figures": list,
    "claims": list,
    "fidelity": dict,
    "provenance": dict,
    "times": dict,
    "files": dict,
    "passed": bool,
    "digest": str,
}
"""The keys that every `result.json` has, and the type of each."""


@dataclass(frozen=True)
class ResultFile:
    """`result.json` as it is in a folder that may be from elsewhere, or of another version: its keys are there and have
    the right types, and what is below them is as it was read."""

    content: dict[str, Any]
    text: str

    @classmethod
    def read(cls, folder: ForeignFolder) -> ResultFile:
        """Read the file of a folder; ForeignError names what is missing or wrong."""
        path = folder.path
        if not ForeignFolder(folder.root).is_there():
            raise ForeignError(f"there is no result folder {path}; xoff run makes one, in results/")
        try:
            text = folder.text(RESULT)
        except FileNotFoundError:
            raise ForeignError(f"{path} has no {RESULT}: it is no result folder, or its run did not end") from None
        content = decoded(text, path / RESULT)
        for key, kind in _KEYS.items():
            if not isinstance(content, dict) or not isinstance(content.get(key), kind):
                raise ForeignError(f"{path / RESULT} is not a result of xoff: {key} is missing, or no {kind.__name__}")
        return cls(content, text)

    def figures(self, damaged: Callable[[int, str], None]) -> list[Figure]:
        """Return the figures that can be read; the others are reported by line and reason."""
        return list(self._readable("figures", Figure.of, damaged))

    def claims(self, damaged: Callable[[int, str], None]) -> list[Claim]:
        """Return the claims that can be read; the others are reported by line and reason."""
        return list(self._readable("claims", Claim.of, damaged))

    def _readable(
        self, key: str, read: Callable[[Any], Reported], damaged: Callable[[int, str], None]
    ) -> Iterator[Reported]:
        lines: list[int] = []
        for place, one in enumerate(self.content[key]):
            try:
                yield read(one)
            except ValueError:
                lines = lines or lines_of(self.text, key)
                damaged(lines[place], f"is no {key.removesuffix('s')}")


def distinct(names: Iterable[str]) -> list[str]:
    """Return names of which no two are equal: the second `lost` is `lost (2)`, in the order of the reports."""
    used: dict[str, None] = {}
    numbers: dict[str, int] = {}
    for name in names:
        own, number = name, numbers.get(name, 1)
        while own in used:
            number += 1
            own = f"{name} ({number})"
        used[own], numbers[name] = None, number
    return list(used)


def _is_finite(value: Any) -> bool:
    """Return True if all numbers in a value are finite: Python's JSON can have Infinity, and 1e999 is that too."""
    if isinstance(value, dict):
        return all(map(_is_finite, value.values()))
    if isinstance(value, list):
        return all(map(_is_finite, value))
    return not isinstance(value, float) or math.isfinite(value)


def expectation(claim: Claim) -> str:
    """Return what a claim expects, in words."""
    return ", ".join(BOUNDS[bound].format(written(value, claim.unit)) for bound, value in claim.expected.items())
