"""Write what Xoff does and does not do into pages of the documentation, from docs/capabilities.toml.

    python tools/capabilities.py

The rows become the table of docs/about/limits.md, and the cells of Xoff's column in docs/about/comparison.md. A unit
test compares the pages with what this would write, and each row with the code.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from testbed.linux.port_program import NODES, SLOTS  # noqa: E402

TABLE = Path("docs/capabilities.toml")
LIMITS = Path("docs/about/limits.md")
COMPARISON = Path("docs/about/comparison.md")
_NUMBERS = {"NODES": NODES, "SLOTS": SLOTS}
_BLOCK = re.compile(r"(<!-- capabilities -->\n\n).*?(\n<!-- end of capabilities -->)", re.DOTALL)


@dataclass(frozen=True)
class Capability:
    """A row of the table."""

    subject: str
    feature: str
    state: str
    """`yes`, `partly` or `no`."""
    says: str
    page: str
    """The page that says more, below docs/."""
    shown: tuple[str, ...]
    """Files, experiments and topologies that must be there."""
    absent: tuple[tuple[str, str], ...]
    """Pairs of a pattern of files and a regular expression that none of their lines matches."""
    compared: Mapping[str, str] | None
    """The row of the comparison, and the cell of Xoff's column in it."""


def read(root: Path = ROOT) -> list[Capability]:
    """Return the rows, with numbers of the code in them."""
    rows = tomllib.loads((root / TABLE).read_text(encoding="utf-8"))["capability"]
    return [_row({name: _numbered(value) for name, value in row.items()}) for row in rows]


def limits(page: str, rows: Sequence[Capability]) -> str:
    """Return the page of limits with the table that the rows make."""
    lines = ["| subject | | state | |", "|---|---|---|---|"]
    for row in rows:
        more = f"[{Path(row.page.partition('#')[0]).stem}](../{row.page})".replace("../about/", "")
        lines.append(f"| {row.subject} | {row.feature} | {row.state} | {f'{row.says}. ' if row.says else ''}{more} |")
    table = "\n".join(lines)
    return _BLOCK.sub(lambda match: f"{match[1]}{table}\n{match[2]}", page)


def comparison(page: str, rows: Sequence[Capability]) -> str:
    """Return the page of the comparison with Xoff's cells of the rows; a row that the page lacks is an error."""
    for row in rows:
        if row.compared is not None:
            name, cell = row.compared["row"], row.compared["cell"]
            row_of_it = re.compile(rf"^(\| {re.escape(name)} \| )[^|]*( \|)", re.MULTILINE)
            page, count = row_of_it.subn(rf"\g<1>{cell}\g<2>", page)
            if not count:
                raise ValueError(f"{COMPARISON} has no row {name}")
    return page


PAGES = {LIMITS: limits, COMPARISON: comparison}


def _row(row: Mapping[str, Any]) -> Capability:
    return Capability(
        subject=row["subject"], feature=row["feature"], state=row["state"], says=row["says"], page=row["page"],
        shown=tuple(row.get("shown", ())),
        absent=tuple((files, pattern) for files, pattern in row.get("absent", ())),
        compared=row.get("compared"),
    )  # fmt: skip


def _numbered(value: Any) -> Any:
    if isinstance(value, str):
        for name, number in _NUMBERS.items():
            value = value.replace(f"{{{name}}}", str(number))
    elif isinstance(value, dict):
        value = {name: _numbered(one) for name, one in value.items()}
    return value


def main() -> None:
    rows = read()
    for page, made in PAGES.items():
        (ROOT / page).write_text(made((ROOT / page).read_text(encoding="utf-8"), rows), encoding="utf-8")


if __name__ == "__main__":
    main()
