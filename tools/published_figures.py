"""Figures of experiments that the documentation quotes.

`docs/figures.toml` has a text for each place that quotes figures, by experiment, with names of figures and claims in
braces. `xoff verify --update` puts what the experiments gave into `experiments/figures.json`, and the filled texts into
the pages, between `<!-- figures: NAME -->` and `<!-- end of figures -->`. Tests compare pages with the file, and the
file with what experiments give.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from testbed.errors import UsageError, nearest
from testbed.lab.job import job
from testbed.lab.results.result import Result

FILE = Path(job.FIGURES)
TEXTS = Path("docs/figures.toml")
Figures = dict[str, dict[str, Any]]
"""Values by experiment, and by the name of the figure or claim; quantities are numbers in the units of result.json."""

_PLACE = re.compile(r"\{([^{}]+)\}")
_NAME = re.compile(r"(?P<name>.+?)(?P<index>(?:\[\w+\])*)(?: as (?P<unit>\S+))?")
_BLOCK = re.compile(r"(<!-- figures: (\w+) -->\n\n).*?(\n<!-- end of figures -->)", re.DOTALL)
_UNITS = {
    "us": (1000, 2),
    "ms": (10**6, 2),
    "s": (10**9, 1),
    "Mb/s": (10**6, 2),
    "Gb/s": (10**9, 2),
    "kB": (1000, 1),
    "MB": (10**6, 2),
    "percent": (0.01, 0),
}
"""The divisor and the decimals of each unit; values are in nanoseconds, bits per second, octets and parts of one."""


def texts(root: Path) -> dict[str, str]:
    """Return the text of each block, by name; a name is that of an experiment, which `_` and more may follow."""
    return {name: str(block["text"]) for name, block in tomllib.loads((root / TEXTS).read_text()).items()}


def experiment_of(block: str, experiments: Iterable[str]) -> str | None:
    """Return the experiment whose figures a block quotes: the longest of these names that the block's name begins
    with."""
    return max((name for name in experiments if block == name or block.startswith(f"{name}_")), key=len, default=None)


def quoted(result: Result) -> dict[str, Any]:
    """Return the values of a result by name; a figure goes before a claim of the same name."""
    claimed = {claim.name: claim.measured for claim in result.claims}
    return claimed | {figure.name: figure.value for figure in result.figures}


def read(root: Path) -> Figures:
    try:
        found: Figures = json.loads((root / FILE).read_text())
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise UsageError(f"{root / FILE} is damaged ({error}); restore it with git") from None
    return found


def update(root: Path, results: Sequence[Result]) -> None:
    """Put the results of quoted experiments into the file, and the file's figures into the pages."""
    if not (root / TEXTS).exists():
        return  # Xoff is installed, and its documentation is elsewhere
    blocks = texts(root)
    passed = {result.experiment: quoted(result) for result in results if result.passed}
    known = read(root)
    experiments = {experiment_of(block, known | passed) for block in blocks}
    figures = known | {name: values for name, values in passed.items() if name in experiments}
    (root / FILE).write_text(json.dumps(dict(sorted(figures.items())), indent=1) + "\n")
    for page in [*(root / "docs").glob("*.md"), *(root / "docs/concepts").glob("*.md")]:
        before = page.read_text()
        after = filled(before, blocks, figures)
        if after != before:
            page.write_text(after)


def filled(page: str, blocks: Mapping[str, str], figures: Figures) -> str:
    """Return a page with the text of each of its blocks; a block whose experiment has not run yet stays as it is."""

    def block(match: re.Match[str]) -> str:
        name = match[2]
        if name not in blocks:
            raise UsageError(f"there are no figures {name} in {TEXTS}; {nearest(name, blocks)}")
        experiment = experiment_of(name, figures)
        if experiment is None:
            return match[0]
        text = _PLACE.sub(lambda place: _value(place[1], figures[experiment]), blocks[name])
        return f"{match[1]}{text.strip()}\n{match[3]}"

    return _BLOCK.sub(block, page)


def _value(place: str, figures: Mapping[str, Any]) -> str:
    match = _NAME.fullmatch(place)
    assert match is not None
    name, unit = match["name"], match["unit"]
    if name not in figures:
        raise UsageError(f"{TEXTS}: there is no figure {name}; {nearest(name, figures)}")
    value = figures[name]
    for index in re.findall(r"\w+", match["index"]):
        try:
            value = value[index] if isinstance(value, Mapping) else value[int(index)]
        except (LookupError, TypeError, ValueError):
            raise UsageError(f"{TEXTS}: {name} is {value}, which has no [{index}]") from None
    if unit is None:
        return str(value)
    divisor, decimals = _UNITS[unit]
    return f"{value / divisor:.{decimals}f} {'%' if unit == 'percent' else unit}"
