"""What `docs/architecture.md` and `docs/pfc.md` say is in the code, is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"`((?:[a-z0-9_]+/)+[a-z0-9_.]*)(?::([A-Za-z_.]+))?`")


@pytest.mark.parametrize("page", ["architecture.md", "pfc.md", "events.md"])
def test_files_and_names_that_a_page_gives_are_in_the_code(page: str) -> None:
    found = list(NAMED.finditer((ROOT / "docs" / page).read_text()))
    assert found
    missing = []
    for match in found:
        path, name = match.groups()
        place = next((each for each in (ROOT / path, ROOT / "testbed" / path) if each.exists()), None)
        if place is None:
            missing.append(match[0])
        elif name:
            text = place.read_text()
            for part in name.split("."):
                if not re.search(rf"\b(?:def|class|int|bool) {part}\b|\b{part}\(", text):
                    missing.append(match[0])
    assert missing == []
