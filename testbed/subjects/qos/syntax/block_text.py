"""The parser of OpenSM's block text: sections and entries (`grammar.Node`), with as many errors as one pass can find.

One section's name, `end-` and its name, or one entry `key: value` a line; `#` begins a comment, quotes keep a value
together. A line of `qos-ulps` such as `sdp, port-num 10000-20000 : 2` becomes a section of its own in the tree, so that
everything after this is the same for both syntaxes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches

from testbed.strict.problems import shown
from testbed.subjects.qos.model import Ulp, UlpKey
from testbed.subjects.qos.syntax.grammar import BLOCK, POLICY, ROOT, XML, Element, Occurs, SyntaxNode
from testbed.subjects.qos.syntax.rfc_xml import LONGEST_NAME, MOST_ELEMENTS
from testbed.subjects.qos.syntax.source import Problems, Source

_LINE = re.compile(r"[^\n]*")
_BEFORE_COMMENT = re.compile(r'(?:[^"#]++|"[^"]*+"|"(?=[^"]*+$))*+')
# Possessive, as in what follows nothing of what was taken can be needed: a long line takes linear time.
_ENTRY = re.compile(r"([A-Za-z][A-Za-z0-9_-]*+)[ \t]*+:[ \t]*+(.*+)")
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_ULP = re.compile(r"([A-Za-z]++)[ \t]*+(?:,[ \t]*+([a-z-]++)[ \t]*+([^:]*+))?+:[ \t]*+(.*+)")
_ULPS, _ULP_RULE = "qos-ulps", "qos-ulp"
_NEVER_EMPTY = frozenset({_ULPS, "port-groups"})
"""The sections that OpenSM refuses if they are empty (decision 0179). One without levels has no DEFAULT either."""


@dataclass(slots=True)
class _Open:
    node: SyntaxNode
    element: Element | None  # None: the grammar has no such section here
    there: set[str] = field(default_factory=set)
    before: int = 0  # children of the node when this section of it began


def parse(source: Source, problems: Problems) -> SyntaxNode:
    """Return the root. Entries that cannot be read are left out, and `problems` has the reasons."""
    return _Parser(source, problems).parse()


class _Parser:
    def __init__(self, source: Source, problems: Problems) -> None:
        self._source, self._problems = source, problems
        self._stack = [_Open(SyntaxNode(ROOT, 0), POLICY)]
        self._entries = 0

    def parse(self) -> SyntaxNode:
        for match in _LINE.finditer(self._source.text):
            raw = match[0]
            kept = _BEFORE_COMMENT.match(raw)
            line = (kept[0] if kept and "#" in raw else raw).strip(" \t")
            if not line:
                continue
            self._entries += 1
            if self._entries > MOST_ELEMENTS:
                self._error(match.start(), f"more than {MOST_ELEMENTS} lines", "a smaller policy")
                break
            self._line(line, match.start() + raw.index(line))
            if self._problems.exhausted:
                break
        for left in reversed(self._stack[1:]):
            self._unclosed(left, "the end of the file", len(self._source.text))
            self._check_complete(left)
        return self._stack[0].node

    def _error(self, offset: int, message: str, expected: str = "") -> None:
        self._problems.error(self._source.position(offset), message, expected)

    def _line(self, line: str, offset: int) -> None:
        if _WORD.fullmatch(line):
            name = line[:LONGEST_NAME]
            if name.startswith("end-"):
                self._end(name.removeprefix("end-"), offset)
            else:
                self._begin(name, offset)
        elif self._stack[-1].node.name == _ULPS and self._stack[-1].element is not None:
            self._ulp(line, offset)
        elif entry := _ENTRY.fullmatch(line):
            self._entry(entry, offset)
        else:
            self._error(offset, f"{shown(line)} is not a line of a policy", self._expected())

    # Sections

    def _begin(self, name: str, offset: int) -> None:
        above = self._stack[-1]
        if above.element is None:
            self._stack.append(_Open(SyntaxNode(name, offset), None))
            if len(self._stack) > 32:  # of unknown sections: the innermost are enough
                del self._stack[-2]
            return
        member = above.element.members.get(name)
        if member is not None and not member[1].is_section:
            self._error(offset, f"{name} has no value", f"{name}: and its value")
            return
        if member is None or not BLOCK.has(above.node.name, name):
            depth = next(
                (n for n, o in enumerate(reversed(self._stack)) if o.element and name in o.element.members), None
            )
            if depth and member is None:
                for _ in range(depth):
                    self._unclosed(self._stack[-1], name, offset)
                    self._check_complete(self._stack.pop())
                self._begin(name, offset)
                return
            self._error(offset, f"{name} is not a section of {above.node.name}", self._expected(name))
            self._stack.append(_Open(SyntaxNode(name, offset), None))
            return
        occurs, element = member
        node = next((n for n in above.node.children if n.name == name), None) if occurs is Occurs.OPTIONAL else None
        if node is None:  # else the section goes on, which OpenSM allows
            node = SyntaxNode(name, offset)
            above.node.children.append(node)
        self._stack.append(_Open(node, element, before=len(node.children)))

    def _end(self, name: str, offset: int) -> None:
        depth = next((n for n, o in enumerate(reversed(self._stack[1:])) if o.node.name == name), None)
        if depth is None:
            self._error(offset, f"end-{name} ends nothing", self._expected())
            return
        for _ in range(depth):
            self._unclosed(self._stack[-1], f"end-{name}", offset)
            self._check_complete(self._stack.pop())
        self._check_complete(self._stack.pop())

    def _unclosed(self, left: _Open, end: str, offset: int) -> None:
        line = self._source.position(left.node.offset).line
        self._error(offset, f"{left.node.name} of line {line} is not ended before {end}", f"end-{left.node.name}")

    def _check_complete(self, done: _Open) -> None:
        if done.node.name in _NEVER_EMPTY and done.element is not None and len(done.node.children) == done.before:
            position = self._source.position(done.node.offset)
            self._problems.warning(position, f"{done.node.name} is empty, and OpenSM refuses such a policy")
        if done.element is None or all(element.is_section for _, element in done.element.members.values()):
            return
        for name, (occurs, _) in done.element.members.items():
            if occurs is Occurs.ONCE and name not in done.there:
                self._error(done.node.offset, f"{done.node.name} has no {name}", f"{name}: and its value")
        if done.node.name == "qos-level" and "name" not in done.there:
            self._error(done.node.offset, "qos-level has no name", "name: and its value")

    # Entries

    def _entry(self, entry: re.Match[str], offset: int) -> None:
        name, text = entry[1][:LONGEST_NAME], entry[2]
        above = self._stack[-1]
        if above.element is None:
            return
        member = above.element.members.get(name)
        if member is None or not BLOCK.has(above.node.name, name):
            where = f" of {above.node.name}" if len(self._stack) > 1 else ""
            self._error(
                offset, f"{name} is not an entry{where}{_of_other_syntax(above.element, name)}", self._expected(name)
            )
            return
        occurs, element = member
        if element.is_section:
            self._error(offset, f"{name} is a section and takes no value", f"{name} alone on its line")
            return
        if occurs is not Occurs.REPEATED and name in above.there:
            self._error(offset, f"a second {name} in {above.node.name}", f"one {name}")
            return
        above.there.add(name)
        above.node.children.append(self._value(name, text, offset, offset + entry.start(2)))

    def _value(self, name: str, text: str, offset: int, text_offset: int) -> SyntaxNode:
        if '"' in text:
            if text.count('"') % 2:
                self._error(text_offset + text.rindex('"'), "a quote is not closed", '"')
            text = text.replace('"', "").strip(" \t")
        return SyntaxNode(name, offset, text, text_offset)

    def _ulp(self, line: str, offset: int) -> None:
        match = _ULP.fullmatch(line)
        if match is None:
            self._error(offset, f"{shown(line)} is not a line of {_ULPS}",
                        "a protocol, what selects if anything, and an SL: sdp, port-num 5000 : 1")  # fmt: skip
            return
        rule = SyntaxNode(_ULP_RULE, offset)
        rule.children.append(SyntaxNode("ulp", offset, match[1].lower(), offset))
        if (key := match[2]) is not None:
            if key not in set(UlpKey):
                self._error(offset + match.start(2), f"{shown(key)} selects nothing", _near(key, UlpKey))
                return
            rule.children.append(
                SyntaxNode(key, offset + match.start(2), match[3].strip(" \t"), offset + match.start(3))
            )
        rule.children.append(SyntaxNode("sl", offset + match.start(4), match[4], offset + match.start(4)))
        self._stack[-1].node.children.append(rule)

    def _expected(self, given: str = "") -> str:
        above = self._stack[-1]
        if above.element is None or above.node.name == _ULPS:
            rules = f"a protocol ({', '.join(Ulp)}) or end-{_ULPS}"
            return rules if above.element is not None else f"end-{above.node.name}"
        names = [name for name in above.element.members if BLOCK.has(above.node.name, name)]
        return _near(given, names + ([f"end-{above.node.name}"] if len(self._stack) > 1 else []))


def _of_other_syntax(element: Element, name: str) -> str:
    known = {XML.spell(member): member for member in element.members}
    if name in element.members:
        return ", and OpenSM's syntax has none"
    if name in known:
        return " (that is how XML spells it)"
    return ""


def _near(given: str, names: Iterable[str]) -> str:
    choices = [str(name) for name in names]
    near = get_close_matches(given, choices, 1, 0.75) if given else []
    return near[0] if near else "one of " + ", ".join(choices)
