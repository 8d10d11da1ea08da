"""Reports of the gallery's cards: HTML pages in `build/reports`, from where the site takes those that are up to date.

A report belongs to its card if its result has the digest of the card's picture. Its file also names a digest of the
code that wrote it, so a change of the report's pages makes it old. `xoff docs --reports` runs what is missing, and
whatever makes pictures (`xoff docs --figures`, `xoff verify --update`) keeps the reports of the same runs. None of them
is in the repository; the four sample reports, which are made of results that it has, are always there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path

from testbed.experiment.definition import Experiment
from testbed.lab.results.result import Result
from testbed.report.pages.page import report
from tools import gallery

FOLDER = Path("build/reports")
LARGEST = 4 << 20
"""The most octets of a report on the site; a larger one is made by its command."""


def available(root: Path) -> dict[str, Path]:
    """Return the reports that are those of their cards, by card."""
    kept = gallery.data(root)
    files = {name: root / FOLDER / _file(name, one["digest"]) for name, one in kept.items()}
    return {name: path for name, path in files.items() if path.is_file()}


def missing(root: Path) -> dict[str, str]:
    """Return the cards without a report, with the reason."""
    there = {*available(root), *gallery.SAMPLES}
    names = {path.name.rpartition(".")[0].rsplit("-", 2)[0] for path in (root / FOLDER).glob("*.html")}
    return {name: "it is old" if name in names else "there is none" for name in gallery.data(root) if name not in there}


def keep(root: Path, made: Mapping[str, Result]) -> dict[str, int]:
    """Write the reports of results, by card, and return their octets. A report that is too large is not kept."""
    (root / FOLDER).mkdir(parents=True, exist_ok=True)
    found = {}
    for name, result in made.items():
        if result.folder is None:
            continue
        text = report([result.folder]).encode()
        for old in (root / FOLDER).glob(f"{name}-*.html"):
            if old.name.rpartition(".")[0].rsplit("-", 2)[0] == name:
                old.unlink()
        found[name] = len(text)
        if len(text) <= LARGEST:
            (root / FOLDER / _file(name, result.digest)).write_bytes(text)
    return found


def make(root: Path, wanted: Iterable[str], run: Callable[[str, Experiment, str], Result]) -> list[str]:
    """Run the experiments of these cards and keep their reports; return what has to be said of some."""
    digests, said = gallery.data(root), []
    for name, result in gallery.results(wanted, run):
        octets = keep(root, {name: result})[name]
        if octets > LARGEST:
            said.append(f"{name}: its report has {octets >> 20} MB, and the site takes {LARGEST >> 20} MB at most")
        elif result.digest != digests[name]["digest"]:
            said.append(
                f"{name}: its result is not that of its picture, so the site lacks its report; xoff docs --figures"
            )
    return said


def _file(name: str, digest: str) -> str:
    return f"{name}-{digest[:16]}-{_code()}.html"


@cache
def _code() -> str:
    """Return a digest of the code that writes reports."""
    whole = hashlib.sha256()
    for path in sorted((gallery.SOURCES / "testbed/report").rglob("*")):
        if path.suffix in (".py", ".js", ".css"):
            whole.update(path.read_bytes())
    return whole.hexdigest()[:8]
