"""The table of what Xoff does and does not do: it is held to the code, and pages are what it makes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from testbed.experiment import definition
from tools import capabilities
from tools.capabilities import Capability

ROOT = Path(__file__).parents[2]
ROWS = capabilities.read(ROOT)
NAMES = {one.name for one in definition.shipped()} | {path.stem for path in (ROOT / "topologies").glob("*.py")}


@pytest.mark.parametrize("page", capabilities.PAGES, ids=str)
def test_a_page_has_what_the_table_makes(page: Path) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert capabilities.PAGES[page](text, ROWS) == text, "python tools/capabilities.py writes it"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.feature[:40])
def test_each_row_is_held_to_the_code(row: Capability) -> None:
    assert row.state in ("yes", "partly", "no")
    assert row.absent if row.state == "no" else row.shown, "nothing shows this row"
    assert (ROOT / "docs" / row.page.partition("#")[0]).is_file()
    for name in row.shown:
        assert name in NAMES or (ROOT / name).exists(), f"{name} shows it, and is not there"
    assert _found(row.absent) == [], "the row says that this is not there: change docs/capabilities.toml"


def test_what_is_absent_is_looked_for_in_files_that_are_there() -> None:
    for row in ROWS:
        for files, pattern in row.absent:
            assert list(ROOT.glob(files)), files
            re.compile(pattern)


def test_a_feature_that_comes_is_found() -> None:
    assert _found([("testbed/frames/roce.py", "DATAGRAM")]) != []


def _found(absent: tuple[tuple[str, str], ...] | list[tuple[str, str]]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for files, pattern in absent
        for path in ROOT.glob(files)
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.search(pattern, line)
    ]
