"""Messages of commits, and fragments of the changelog, have the form that CONTRIBUTING.md asks for."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tools.commits import Commit, faults

ROOT = Path(__file__).parents[2]
SIGNED = "\n\nSigned-off-by: A Name <a@example.org>\n"


@pytest.mark.parametrize(
    ("message", "lines", "told"),
    [
        ("A port begins" + SIGNED, 300, []),
        ("A port begins\n\nIt did not." + SIGNED, 301, []),
        ("A port begins" + SIGNED, 301, ["it changes 301 lines, and no body says why"]),
        ("A" * 73 + SIGNED, 1, ["its subject has 73 characters; 72 are the most"]),
        ("A port begins\n\nSigned-off-by: nobody\n", 1, ["it is not signed off; `git commit -s` does that"]),
    ],
)
def test_a_message_is_told_what_it_lacks(message: str, lines: int, told: list[str]) -> None:
    assert [line.partition("): ")[2] for line in faults(Commit("1234567", message, lines))] == told


def test_fragments_of_the_changelog_are_those_that_a_release_collects() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["towncrier"]
    kinds = {one["directory"] for one in settings["type"]}
    fragments = [one for one in (ROOT / settings["directory"]).iterdir() if one.name != "README.md"]
    assert [one.name for one in fragments if one.name.split(".")[1:] not in ([kind, "md"] for kind in kinds)] == []
    assert [one.name for one in fragments if not one.read_text().strip()] == []
