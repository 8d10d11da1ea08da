"""The tree into which both syntaxes are read first: sections with entries, each with its place in the file."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Node:
    """A section, or an entry with its text. Names are those of `testbed.policy.grammar`."""

    name: str
    offset: int
    text: str = ""  # of an entry, without white space around it
    text_offset: int = 0
    children: list[Node] = field(default_factory=list)
