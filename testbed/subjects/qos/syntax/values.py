"""Values of a policy's entries: numbers, ranges, tables, names, limits. A wrong value gives an error at its place, and
None.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from testbed.strict.problems import shown
from testbed.subjects.qos.model import NodeType, VlWeight
from testbed.subjects.qos.numbers import LANE_SPEED, MTU_CODES, RATE_CODES, Ranges
from testbed.subjects.qos.syntax.grammar import Syntax, SyntaxNode
from testbed.subjects.qos.syntax.source import Problems, Source
from testbed.units import Rate, Size, UnitError

_NUMBER = re.compile(r"0[xX][0-9A-Fa-f]{1,32}|[0-9]{1,32}", re.ASCII)
_NODE_TYPES = {name.value: name for name in NodeType} | {"HCA": NodeType.CA}
_LONGEST_NAME = 255

GUID_MOST = SERVICE_ID_MOST = (1 << 64) - 1
TCLASS_MOST, QOS_CLASS_MOST, PATH_BITS_MOST, PACKET_LIFE_MOST = 255, 4095, 127, 63
_PKEY_MEMBERSHIP, _LAST_PORT = 0x8000, 254


class Reader:
    """Reads the values of one file."""

    def __init__(self, source: Source, syntax: Syntax, problems: Problems) -> None:
        self._source, self._syntax, self._problems = source, syntax, problems

    def error(self, node: SyntaxNode, message: str, expected: str = "", at: int | None = None) -> None:
        offset = at if at is not None else node.text_offset or node.offset
        self._problems.error(self._source.position(offset), f"{self._syntax.spell(node.name)}: {message}", expected)

    def number(self, node: SyntaxNode, most: int) -> int | None:
        return self._number(node, node.text, node.text_offset, most)

    def ranges(self, node: SyntaxNode, most: int) -> Ranges:
        """Return a list of values and ranges."""
        pairs = []
        for item, offset in self._items(node):
            low_text, dash, high_text = item.partition("-")
            low = self._number(node, low_text.strip(), offset, most)
            high = self._number(node, high_text.strip(), offset + len(low_text) + 1, most) if dash else low
            if low is None or high is None:
                continue
            if low > high:
                self.error(node, f"the range {shown(item)} ends below its begin", f"{high_text}-{low_text}", offset)
            else:
                pairs.append((low, high))
        return Ranges.of(pairs)

    def pkeys(self, node: SyntaxNode) -> Ranges:
        """Return P_Keys without the bit for full or limited membership."""
        pairs = []
        for low, high in self.ranges(node, 0xFFFF):
            if low < _PKEY_MEMBERSHIP <= high:
                self.error(node, f"the range 0x{low:x}-0x{high:x} goes over the membership bit", "one side of 0x8000")
                continue
            pairs.append((low & ~_PKEY_MEMBERSHIP, high & ~_PKEY_MEMBERSHIP))
        if any(low == 0 for low, _ in pairs):
            self.error(node, "0x0000 is not a P_Key", "0x0001 to 0x7fff")
        return Ranges.of(pairs)

    def ports(self, node: SyntaxNode) -> Ranges | None:
        """Return port numbers; None is every port."""
        return None if node.text == "*" else self.ranges(node, _LAST_PORT)

    def names(self, node: SyntaxNode) -> list[str]:
        return [name for item, offset in self._items(node) if (name := self._name(node, item, offset))]

    def name(self, node: SyntaxNode) -> str | None:
        """Return one name, which no list may tear apart."""
        if "," in node.text:
            self.error(node, f"{shown(node.text)} has a comma", "a name without commas")
            return None
        return self._name(node, node.text, node.text_offset)

    def node_types(self, node: SyntaxNode) -> list[NodeType]:
        found = []
        for item, offset in self._items(node):
            kind = _NODE_TYPES.get(item.upper())
            if kind is None:
                self.error(node, f"{shown(item)} is not a node type", f"one of {', '.join(_NODE_TYPES)}", offset)
            else:
                found.append(kind)
        return found

    def port_names(self, node: SyntaxNode) -> list[str]:
        found = []
        for item, offset in self._items(node):
            if re.fullmatch(r".+/[Pp][0-9]{1,3}", item):
                found.append(item)
            else:
                self.error(
                    node, f"{shown(item)} is not a port name", "node description/P and a number: vs1/HCA-1/P1", offset
                )
        return found

    def sl2vl_table(self, node: SyntaxNode) -> tuple[int, ...] | None:
        values = [self._number(node, item, offset, 15) for item, offset in self._items(node)]
        if len(values) != 16:
            self.error(node, f"the table has {len(values)} entries", "16, the VL of each SL from 0 to 15")
            return None
        known = tuple(value for value in values if value is not None)
        return known if len(known) == 16 else None

    def vlarb_table(self, node: SyntaxNode) -> tuple[VlWeight, ...] | None:
        entries = []
        wrong = False
        for item, offset in self._items(node):
            vl_text, colon, weight_text = item.partition(":")
            if not colon:
                self.error(node, f"{shown(item)} is not an entry", "VL:weight, such as 0:255", offset)
                wrong = True
                continue
            vl = self._number(node, vl_text.strip(), offset, 15)
            weight = self._number(node, weight_text.strip(), offset + len(vl_text) + 1, 255)
            if vl is None or weight is None:
                wrong = True
            elif vl == 15:
                self.error(node, "VL 15 is never arbitrated", "a VL from 0 to 14", offset)
                wrong = True
            else:
                entries.append(VlWeight(vl, weight))
        return None if wrong else tuple(entries)

    def mtu(self, node: SyntaxNode) -> int | None:
        """Return an MTU in bytes. A plain number up to 5 is an MTU code; from 256 on, in XML, bytes (decision 0125)."""
        expected = "a code from 1 (256 bytes) to 5 (4096 bytes)"
        if not self._syntax.codes:
            expected += ", bytes from 256 up, or a value with its unit such as 1500B"
            if not _NUMBER.fullmatch(node.text):
                try:
                    size = Size(node.text).bytes
                except UnitError:
                    self.error(node, f"{shown(node.text)} is not an MTU", expected)
                    return None
                if size < 256:
                    self.error(node, f"{shown(node.text)} is too small for a path", expected)
                    return None
                return size
        value = self._number(node, node.text, node.text_offset, (1 << 20) if not self._syntax.codes else 255)
        if value is None:
            return None
        if value in MTU_CODES:
            return MTU_CODES[value]
        if value >= 256 and not self._syntax.codes:
            return value
        self.error(node, f"{value} is neither an MTU code nor an MTU" if not self._syntax.codes else
                   f"{value} is not an MTU code", expected)  # fmt: skip
        return None

    def rate(self, node: SyntaxNode) -> int | None:
        """Return a rate in bit/s. A plain number is lanes of 2.5 Gb/s in XML, a rate code in block text (decision
        0125).
        """
        if self._syntax.codes:
            code = self._number(node, node.text, node.text_offset, 255)
            if code is not None and code not in RATE_CODES:
                self.error(node, f"{code} is not a rate code", "a code from 2 (2.5 Gb/s) to 24 (1200 Gb/s)")
            return RATE_CODES.get(code) if code is not None else None
        expected = "width x speed in units of 2.5 Gb/s, or a rate with its unit such as 25Gb/s"
        if _NUMBER.fullmatch(node.text):
            lanes = self._number(node, node.text, node.text_offset, 100_000)
            if lanes == 0:
                self.error(node, "0 lets nothing through", expected)
            return lanes * LANE_SPEED if lanes else None
        try:
            bps = Rate(node.text).bps
        except UnitError:
            self.error(node, f"{shown(node.text)} is not a rate", expected)
            return None
        if bps == 0:
            self.error(node, "0 lets nothing through", expected)
        return bps or None

    def _number(self, node: SyntaxNode, text: str, offset: int, most: int) -> int | None:
        if not _NUMBER.fullmatch(text):
            self.error(node, f"{shown(text)} is not a number", f"0 to {_form(most)}, decimal or 0x", offset)
            return None
        value = int(text, 16) if text[:2] in ("0x", "0X") else int(text)
        if value > most:
            self.error(node, f"{text} is too large", f"0 to {_form(most)}", offset)
            return None
        return value

    def _name(self, node: SyntaxNode, text: str, offset: int) -> str | None:
        if not text or len(text) > _LONGEST_NAME:
            why = "it is empty" if not text else f"a name of {len(text)} characters"
            self.error(node, why, f"a name of 1 to {_LONGEST_NAME} characters", offset)
            return None
        if any(character in text for character in '"#\n'):
            self.error(node, f'{shown(text)} has one of " # or a line end', "a name without these", offset)
            return None
        return text

    def _items(self, node: SyntaxNode) -> Iterator[tuple[str, int]]:
        """Return the parts of a list, without white space around them, and where each stands."""
        if not node.text:
            self.error(node, "it is empty", "a value")
            return
        offset = node.text_offset
        for part in node.text.split(","):
            if self._problems.exhausted:
                return
            yield part.strip(), offset + len(part) - len(part.lstrip())
            offset += len(part) + 1


def _form(value: int) -> str:
    return str(value) if value <= 255 else f"0x{value:x}"
