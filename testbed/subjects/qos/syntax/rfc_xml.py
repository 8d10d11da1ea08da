"""The parser of the RFC's XML syntax: sections and entries (`grammar.Node`), with as many errors as one pass can find.

It is a strict subset of XML: elements without attributes, text, comments, the five predefined entities and character
references; no document type, so no entities of the file's own, no CDATA, no processing instruction. The parser is our
own because XML parsers stop at the first error, and because the grammar shows what an unclosed element is: an element
that cannot contain itself and is opened again was to be closed. Size, depth and number of elements are limited.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches

from testbed.strict.problems import shown
from testbed.subjects.qos.syntax.grammar import POLICY, ROOT, XML, Element, Occurs, SyntaxNode
from testbed.subjects.qos.syntax.source import Problems, Source

MOST_ELEMENTS = 500_000
LONGEST_NAME = 64
"""The characters of an element's name that are looked at; the grammar has none as long."""
_DEEPEST = 32  # the grammar needs 5

_TAG = re.compile(r"<(/?)([A-Za-z_][A-Za-z0-9_.-]*)[ \t\n]*>")
_LOOSE_TAG = re.compile(r"<(/?)([A-Za-z_][A-Za-z0-9_.-]*+)([^<>]*?)(/?)>")  # possessive: a long name takes linear time
_DECLARATION = re.compile(r"""<\?xml[ \t\n]+version=("1\.0"|'1\.0')([^<>?]*)\?>""")
_REFERENCE = re.compile(r"&(?:#([0-9]{1,7})|#x([0-9A-Fa-f]{1,6})|([A-Za-z][A-Za-z0-9]*))?;?")
_PREDEFINED = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}
_CANONICAL = {written.replace("_", "-"): name for name, written in XML.spelled.items()}


@dataclass(slots=True)
class _Open:
    """An element without its end yet; `element` is None where the grammar has no such element here."""

    name: str  # as it was written
    node: SyntaxNode
    element: Element | None
    there: set[str] = field(default_factory=set)  # names of the elements in it
    pieces: list[str] = field(default_factory=list)  # of its text, between which there were comments


def parse(source: Source, problems: Problems) -> SyntaxNode:
    """Return the root. If the file cannot be read at all it has no children, and `problems` has the reason."""
    return _Parser(source, problems).parse()


class _Parser:
    def __init__(self, source: Source, problems: Problems) -> None:
        self._source, self._text, self._problems = source, source.text, problems
        self._root: SyntaxNode | None = None
        self._stack: list[_Open] = []
        self._elements = 0
        self._absent: set[str] = set()  # ends that do not come any more; looking for them again would be quadratic

    def parse(self) -> SyntaxNode:
        text, offset = self._text, self._declaration()
        while (begins := text.find("<", offset)) >= 0 and not self._problems.exhausted:
            if begins > offset:
                self._characters(offset, begins)
            if tag := _TAG.match(text, begins):
                offset = tag.end()
                if tag[1]:
                    self._close(tag[2][:LONGEST_NAME], begins)
                elif not self._begin(tag[2][:LONGEST_NAME], begins):
                    return self._root or SyntaxNode(ROOT, 0)
            else:
                offset = self._markup(begins)
        if self._problems.exhausted:
            return self._root or SyntaxNode(ROOT, 0)
        self._characters(offset, len(text))
        while self._stack:
            self._unclosed(self._pop(), "the end of the file", len(text))
        if self._root is None:
            self._error(0, "there is no policy in the file", f"<{ROOT}>")
        return self._root or SyntaxNode(ROOT, 0)

    def _error(self, offset: int, message: str, expected: str = "") -> None:
        self._problems.error(self._source.position(offset), message, expected)

    def _declaration(self) -> int:
        text = self._text
        if declaration := _DECLARATION.match(text):
            return declaration.end()
        if not text.startswith("<?xml"):
            return 0
        self._error(0, "the XML declaration cannot be read", """<?xml version="1.0" encoding="ISO-8859-1"?>""")
        end = text.find(">")
        return len(text) if end < 0 else end + 1

    # Elements

    def _begin(self, written: str, offset: int, empty: bool = False) -> bool:
        """Read an opening tag. Return False if the file is not to be read on."""
        self._elements += 1
        if self._elements > MOST_ELEMENTS:
            self._error(offset, f"more than {MOST_ELEMENTS} elements", "a smaller policy")
            return False
        if len(self._stack) >= _DEEPEST:
            self._error(offset, f"elements are nested more than {_DEEPEST} deep", "at most 5")
            return False
        name = _canonical(written)
        above = self._stack[-1] if self._stack else None
        if above is not None and above.element is not None and _canonical(above.name) == name:
            # No element of the grammar contains itself: this was to be the closing tag.
            self._error(offset, f"<{written}> is opened again and was not closed", f"</{above.name}>")
            if above.node.children or above.pieces:
                self._finish()
                return True
            self._stack.pop()
            above = self._stack[-1] if self._stack else None
        node = SyntaxNode(name, offset, "", offset)
        element = self._place(written, name, node, above)
        if not empty:
            self._stack.append(_Open(written, node, element))
        elif element is not None:
            self._check_complete(_Open(written, node, element))
        return True

    def _place(self, written: str, name: str, node: SyntaxNode, above: _Open | None) -> Element | None:
        """Put a node below the open one, and return its element in the grammar."""
        if above is None:
            if self._root is not None:
                self._error(node.offset, f"<{written}> after the end of the policy", "nothing")
                return None
            if name != ROOT:
                self._error(node.offset, f"the file starts with <{written}>", f"<{ROOT}>")
            self._root = node
            return POLICY if name == ROOT else None
        if above.element is None:
            return None  # an error was given for what is around it
        members = above.element.members
        if name not in members:
            if not members:
                self._error(node.offset, f"<{written}> inside <{above.name}>", f"text and </{above.name}>")
            else:
                self._error(node.offset, f"<{written}> is no element of <{above.name}>", one_of(written, members))
            return None
        if written.replace("_", "-") != XML.spell(name).replace("_", "-"):
            self._error(node.offset, f"<{written}> is spelled <{XML.spell(name)}> here", f"<{XML.spell(name)}>")
        occurs, element = members[name]
        if occurs is not Occurs.REPEATED and name in above.there:
            self._error(node.offset, f"a second <{written}> in <{above.name}>", f"one <{written}>")
            return element  # its content is checked, and left out
        above.there.add(name)
        above.node.children.append(node)
        return element

    def _close(self, written: str, offset: int) -> None:
        name = _canonical(written)
        if not self._stack:
            self._error(offset, f"</{written}> closes nothing", "an element, or the end of the file")
            return
        if _canonical(self._stack[-1].name) == name:
            self._finish()
            return
        depth = next((n for n, o in enumerate(reversed(self._stack)) if _canonical(o.name) == name), None)
        if depth is not None:
            for _ in range(depth):
                self._unclosed(self._stack[-1], f"</{written}>", offset)
                self._finish()
            self._finish()
            return
        above = self._stack[-1]
        if above.element is None or not above.element.is_section:
            # An entry holds only text, so any closing tag was to be its own.
            self._error(offset, f"</{written}> closes <{above.name}>", f"</{above.name}>")
            self._finish()
        else:
            self._error(offset, f"</{written}> closes nothing", f"</{above.name}>")

    def _unclosed(self, left: _Open, end: str, offset: int) -> None:
        where = self._source.position(left.node.offset)
        self._error(offset, f"<{left.name}> of line {where.line} is not closed before {end}", f"</{left.name}>")

    def _finish(self) -> None:
        self._check_complete(self._pop())

    def _pop(self) -> _Open:
        done = self._stack.pop()
        done.node.text = " ".join(done.pieces)
        return done

    def _check_complete(self, done: _Open) -> None:
        if done.element is None:
            return
        for name, (occurs, _) in done.element.members.items():
            if occurs is Occurs.ONCE and name not in done.there:
                self._error(done.node.offset, f"<{done.name}> has no <{XML.spell(name)}>", f"<{XML.spell(name)}>")

    # Text and the rest

    def _characters(self, begins: int, ends: int) -> None:
        raw = self._text[begins:ends]
        text = raw.strip(" \t\n")
        if not text:
            return
        offset = begins + raw.index(text)
        if "&" in text:
            text = _REFERENCE.sub(lambda match: self._reference(match, offset), text)
        if not self._stack:
            self._error(offset, f"text {shown(text)} outside of <{ROOT}>", "nothing")
            return
        above = self._stack[-1]
        if above.element is None:
            return
        if above.element.is_section:
            self._error(offset, f"text {shown(text)} in <{above.name}>", one_of("", above.element.members))
            return
        if not above.pieces:
            above.node.text_offset = offset
        above.pieces.append(text)

    def _reference(self, match: re.Match[str], base: int) -> str:
        decimal, hexadecimal, name = match.groups()
        if match[0].endswith(";") and (decimal or hexadecimal):
            number = int(decimal) if decimal else int(hexadecimal, 16)
            if number in (9, 10) or 32 <= number < 0xD800 or 0xE000 <= number < 0x110000:
                return chr(number)
        if match[0].endswith(";") and name in _PREDEFINED:
            return _PREDEFINED[name]
        if self._problems.exhausted:
            return "?"
        self._error(base + match.start(), f"{shown(match[0])} is not a reference that is read here",
                    "&lt; &gt; &amp; &quot; &apos; or the number of a character")  # fmt: skip
        return "?"

    def _markup(self, offset: int) -> int:
        """Read markup that is no plain tag, and return the offset behind it."""
        text = self._text
        if text.startswith("<!--", offset):
            end = text.find("-->", offset + 4)
            if end < 0:
                self._error(offset, "a comment is not closed", "-->")
                return len(text)
            return end + 3
        if text.startswith("<!DOCTYPE", offset):
            self._error(offset, "a document type declaration is not read", "no entities but the predefined ones")
            return self._beyond_doctype(offset)
        if text.startswith("<![CDATA[", offset):
            self._error(offset, "a CDATA section is not read", "&lt; and &amp; in text")
            return self._beyond("]]>", offset)
        if text.startswith("<!", offset):
            dash = text[offset + 2 : offset + 4]
            why = "a typographic dash" if dash[:1] in "\u2012\u2013\u2014\u2015" and dash else "this"
            self._error(offset, f"a comment cannot open with <!{dash}: {why} is not --", "<!--")
            return self._beyond("-->", offset)
        if text.startswith("<?", offset):
            self._error(offset, "a processing instruction is not read", "nothing")
            return self._beyond("?>", offset)
        if loose := _LOOSE_TAG.match(text, offset):
            closing, name, rest, empty = loose.groups()
            name = name[:LONGEST_NAME]
            if rest.strip():
                self._error(loose.start(3), f"<{closing}{name}> has {shown(rest.strip())}", "no attributes")
            if closing:
                self._close(name, offset)
            elif not self._begin(name, offset, bool(empty)):
                return len(text)
            return loose.end()
        self._error(offset, f"{shown(text[offset : offset + 12])} is not a tag", "an element, or &lt; in text")
        return offset + 1

    def _beyond(self, end: str, offset: int) -> int:
        found = -1 if end in self._absent else self._text.find(end, offset)
        if found < 0:
            self._absent.add(end)
            line_end = self._text.find("\n", offset)
            return len(self._text) if line_end < 0 else line_end
        return found + len(end)

    def _beyond_doctype(self, offset: int) -> int:
        depth = 0
        for match in re.compile(r"[\[\]>]").finditer(self._text, offset):
            depth += {"[": 1, "]": -1}.get(match[0], 0)
            if match[0] == ">" and depth <= 0:
                return match.end()
        return len(self._text)


def _canonical(written: str) -> str:
    """Return the form of a name in which hyphen and underscore are equal (decision 0122)."""
    name = written.replace("_", "-")
    return _CANONICAL.get(name, name)


def one_of(given: str, names: Iterable[str]) -> str:
    """Return, for a message, the element that was meant, or all that could stand here."""
    spelled = [XML.spell(name) for name in names]
    near = get_close_matches(given, spelled, 1, 0.75) if given else []
    return f"<{near[0]}>" if near else "one of " + ", ".join(f"<{name}>" for name in spelled)
