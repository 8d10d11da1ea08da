"""The badges of the README: small pictures of facts that are read from the source, and never from a service."""

from __future__ import annotations

import tomllib
from html import escape
from pathlib import Path

from testbed.experiment import definition
from testbed.lab.engines import table
from testbed.subjects.lessons.lesson import lessons

FOLDER = Path("docs/badges")
_LETTER, _PAD, _HEIGHT = 6.7, 7, 20


def facts(root: Path) -> dict[str, tuple[str, str]]:
    """Return the two halves of each badge, by the name of its file."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    versions = [one.rpartition(" ")[2] for one in project["classifiers"] if ":: Python :: 3." in one]
    cases = len(definition.conformance())
    return {
        "licence": ("licence", project["license"].partition(" AND ")[0]),
        "python": ("python", f"{versions[0]} to {versions[-1]}"),
        "engine": ("engine", f"{table.DEFAULT}, no root"),
        "experiments": ("experiments", str(len(definition.shipped()) - cases)),
        "conformance": ("conformance cases", str(cases)),
        "lessons": ("lessons", str(len(lessons()))),
    }


def svg(what: str, fact: str) -> str:
    """Return a badge; text keeps its width whatever font there is."""
    left, right = (round(len(text) * _LETTER + 2 * _PAD) for text in (what, fact))
    texts = "".join(
        f'<text x="{at + width / 2:g}" y="14" textLength="{width - 2 * _PAD}" lengthAdjust="spacingAndGlyphs">'
        f"{escape(text)}</text>"
        for text, at, width in ((what, 0, left), (fact, left, right))
    )
    whole = left + right
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{whole}" height="{_HEIGHT}" role="img" '
        f'aria-label="{escape(what)}: {escape(fact)}"><title>{escape(what)}: {escape(fact)}</title>'
        f'<clipPath id="r"><rect width="{whole}" height="{_HEIGHT}" rx="3"/></clipPath><g clip-path="url(#r)">'
        f'<rect width="{left}" height="{_HEIGHT}" fill="#444b55"/>'
        f'<rect x="{left}" width="{right}" height="{_HEIGHT}" fill="#1f56a8"/></g>'
        f'<g fill="#fff" text-anchor="middle" font-family="system-ui,sans-serif" font-size="12">{texts}</g></svg>\n'
    )


def write(root: Path) -> list[Path]:
    """Write all badges of a checkout; return those that have changed."""
    changed = []
    (root / FOLDER).mkdir(exist_ok=True)
    for name, fact in facts(root).items():
        path, text = root / FOLDER / f"{name}.svg", svg(*fact)
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            changed.append(FOLDER / path.name)
    return changed
