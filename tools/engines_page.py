"""The tables of `docs/engines.md`, with the distance of the engines in virtual time on each experiment.

`tools/compare_engines.py UM VM --update` puts what it found into `experiments/engines.json`, and the tables that follow
from it and from the stated tolerances into the page, between `<!-- engines: NAME -->` and `<!-- end of engines -->`. A
test compares the page with both files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from testbed.errors import UsageError
from testbed.lab.job import job
from tools.engine_figures import Agreement, as_json
from tools.tolerances import DEFAULT, Stated

FILE = Path(job.ENGINES)
PAGE = Path("docs/engines.md")
Kept = dict[str, dict[str, Any]]
"""The comparisons, by experiment."""

_BLOCK = re.compile(r"(<!-- engines: (\w+) -->\n).*?(\n<!-- end of engines -->)", re.DOTALL)


def read(root: Path) -> Kept:
    try:
        found: Kept = json.loads((root / FILE).read_text())
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise UsageError(f"{root / FILE} is damaged ({error}); restore it with git") from None
    return found


def update(root: Path, agreements: Sequence[Agreement], stated: Mapping[str, Stated]) -> None:
    """Put these comparisons into the file, and the tables into the page."""
    kept = read(root) | {agreement.experiment: as_json(agreement) for agreement in agreements}
    (root / FILE).write_text(written(kept))
    if (page := root / PAGE).exists():  # not where Xoff is installed
        page.write_text(filled(page.read_text(), kept, stated))


def written(kept: Kept) -> str:
    return json.dumps(dict(sorted(kept.items())), indent=1) + "\n"


def filled(page: str, kept: Kept, stated: Mapping[str, Stated]) -> str:
    """Return the page with its tables filled."""
    made = {"figures": _figures(kept), "apart": _apart(kept, stated), "degraded": _degraded(kept, stated)}

    def block(match: re.Match[str]) -> str:
        if match[2] not in made:
            raise UsageError(f"{PAGE}: there is no table {match[2]}; there are {', '.join(made)}")
        return f"{match[1]}\n{made[match[2]]}\n{match[3]}"

    return _BLOCK.sub(block, page)


def _figures(kept: Kept) -> str:
    heads = ("experiment", "figures", "equal", f"within {DEFAULT.text}", "of these at most", "stated below")
    rows: list[tuple[Any, ...]] = []
    for name, found in sorted(kept.items()):
        if found["degraded"]:
            continue
        widest = found["widest"][3] if found["widest"] else "-"
        apart = sum(one["count"] for one in found["apart"])
        rows.append((f"`{name}`", found["figures"], found["equal"], found["within"], widest, apart))
    figures, equal, within, apart = (sum(row[column] for row in rows) for column in (1, 2, 3, 5))
    return _table(heads, [*rows, ("all", figures, equal, within, "", apart)])


def _apart(kept: Kept, stated: Mapping[str, Stated]) -> str:
    rows = []
    for name, found in sorted(kept.items()):
        for one in found["apart"]:
            match = [apart for apart in stated[name].apart if list(apart.figures) == one["figures"]]
            if not match or one["widest"] is None:
                continue
            figure, um, vm, _ = one["widest"]
            rows.append((f"`{name}`", one["count"], figure, um, vm, match[0].within.text, match[0].reason))
    heads = ("experiment", "figures", "the one furthest apart", "`um`", "`vm`", "allowed", "why")
    return _table(heads, rows)


def _degraded(kept: Kept, stated: Mapping[str, Stated]) -> str:
    degraded = [name for name, found in sorted(kept.items()) if found["degraded"] and name in stated]
    return _table(("experiment", "why"), [(f"`{name}`", stated[name].degraded) for name in degraded])


def _table(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in line)} |" for line in lines)


def _cell(content: Any) -> str:
    return str(content).replace("|", "\\|").replace("\n", " ")
