"""The frames of a flow: its headers and payload, frame by frame, with lengths, types and checksums that fit.

A frame is without its FCS, as the kernel has it; sizes of the model count those four octets.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import lcm
from typing import Protocol

from testbed.subjects.snappi import patterns
from testbed.subjects.snappi.headers import HEADERS, Choice, Field, Header
from testbed.subjects.snappi.patterns import Values
from testbed.subjects.snappi.reading import Item

FCS = 4
SIGNATURE = struct.Struct("!HI")
"""The last octets of a frame whose flow is counted: the flow's tag, and the frame's number."""
STAMPED = struct.Struct("!HIq")
"""The same with the time at which the frame was sent."""
_KEPT = 4096
_PSEUDO = {4: slice(12, 20), 6: slice(8, 40)}
_GOOD, _BAD = -1, -2
"""The words, in place of a checksum, for a right one and a wrong one."""


class Ends(Protocol):
    """The addresses at a flow's ends: a value for every pair of devices."""

    def values(self, what: str, version: int) -> Values | None:
        """Return the value for `station`, `destination`, `source` or `target`, or None if there is none."""


@dataclass(frozen=True)
class Part:
    """A header of a flow's frames, or octets that are given."""

    header: Header | None
    fields: tuple[tuple[Field, Values | None], ...] = ()
    """The values by field; None where the generator finds the value."""
    given: bytes = b""

    @property
    def octets(self) -> int:
        return self.header.octets if self.header else len(self.given)

    def constant(self, name: str) -> int | None:
        """Return the value that a field has in all frames."""
        found = next((values for field, values in self.fields if field.name == name), None)
        return found[0] if found and len(set(found)) == 1 else None


@dataclass(frozen=True)
class Payload:
    """The payload behind the headers."""

    pattern: bytes = b"\0"
    repeat: bool = True

    def fill(self, octets: int) -> bytes:
        if not self.repeat:
            return self.pattern[:octets].ljust(octets, b"\0")
        return (self.pattern * (octets // len(self.pattern) + 1))[:octets]


def read_parts(flow: Item) -> list[Part]:
    """Return the headers of `packet`; a flow without one has an Ethernet header."""
    parts = []
    for item in flow.items("packet"):
        kind = item.choice("ethernet", "custom", *HEADERS)
        if kind == "custom":
            with item.item(kind) as custom:
                parts.append(Part(None, given=_octets(custom, "bytes")))
        elif kind:
            with item.item(kind) as content:
                if kind == "ethernet":
                    content.ignore("pfc_queue")  # read with the flow: it is not in the frame
                parts.append(_part(content, HEADERS[kind]))
    return parts or [_empty(HEADERS["ethernet"])]


def _octets(item: Item, name: str) -> bytes:
    text = item.text(name).removeprefix("0x").removeprefix("0X").replace(" ", "").replace(":", "")
    try:
        return bytes.fromhex(text.zfill(len(text) + len(text) % 2))
    except ValueError:
        item.error(name, f"it is {text[:20]!r}; hexadecimal digits are expected")
        return b""


def _empty(header: Header) -> Part:
    return Part(header, tuple((field, None if field.auto else (field.default,)) for field in header.usual()))


def _part(item: Item, header: Header) -> Part:
    chosen: list[tuple[Field, Values | None]] = []
    for entry in header.fields:
        if not isinstance(entry, Choice):
            chosen.append((entry, _values(item, entry, entry.name)))
        elif entry.name:
            with item.item(entry.name) as inner:
                chosen += _form(inner, entry)
        else:
            chosen += _form(item, entry)
    return Part(header, tuple(chosen))


def _form(item: Item, choice: Choice) -> list[tuple[Field, Values | None]]:
    chosen = item.choice(choice.default, *choice.forms) or choice.default
    fields = choice.forms[chosen]
    if fields[0].name == chosen:  # the pattern itself
        return [(one, _values(item, one, one.name)) for one in fields]
    with item.item(chosen) as inner:
        return [(one, _values(inner, one, one.name.removeprefix(f"{chosen}."))) for one in fields]


def _values(item: Item, field: Field, name: str) -> Values | None:
    if not name or not item.has(name):
        return None if field.auto else (field.default,)
    with item.item(name) as pattern:
        if field.auto != "checksum":
            is_auto = field.has_auto and bool(field.auto)
            return patterns.read(pattern, field.kind, field.bits, field.default, has_auto=is_auto)
        if pattern.choice("generated", "generated", "custom") == "custom":
            return (pattern.integer("custom", 0, 0, 0xFFFF),)
        return None if pattern.one_of("generated", ("good", "bad"), "good") == "good" else (_BAD,)


def read_payload(flow: Item) -> Payload:
    with flow.item("payload") as item:
        chosen = item.choice("fixed", "fixed", "increment_byte", "decrement_byte", "increment_word", "decrement_word")
        if chosen == "fixed":
            with item.item("fixed") as fixed:
                pattern = _octets(fixed, "pattern") if fixed.has("pattern") else b"\0"
                return Payload(pattern or b"\0", fixed.flag("repeat", True))
    size = 2 if chosen.endswith("word") else 1
    numbers: Sequence[int] = range(256**size)
    if chosen.startswith("decrement"):
        numbers = numbers[::-1]
    return Payload(b"".join(number.to_bytes(size) for number in numbers))


@dataclass(frozen=True)
class _Checksum:
    at: int
    start: int
    end: int | None
    """The end of the covered octets, or None if all that follows is covered."""
    ip: int
    """The offset of the IP header whose addresses it covers too, or -1."""
    protocol: int
    is_bad: bool


@dataclass
class Packet:
    """Makes the frames of one flow."""

    parts: Sequence[Part]
    payload: Payload
    ends: Ends | None = None
    tag: int = 0
    """The tag in the frame's signature, or 0 if it has none."""
    is_stamped: bool = False
    _period: int = field(default=1, init=False)
    _slots: list[list[tuple[int, Values]]] = field(default_factory=list, init=False)
    _templates: dict[tuple[int, int], bytes] = field(default_factory=dict, init=False)
    _checksums: list[_Checksum] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        offset, ip = 0, -1
        for place, part in enumerate(self.parts):
            if part.header is not None:
                ip = offset if part.header.family == "ip" else ip
                self._slots.append(self._fields(place, part, part.header))
                self._note_checksum(part, part.header, offset, ip)
            else:
                self._slots.append([])
            offset += part.octets
        self.octets = offset
        self._period = lcm(*(len(values) for slots in self._slots for _, values in slots))
        self._checksums.reverse()  # what is inside is in the sum of what is outside

    @property
    def least(self) -> int:
        """The smallest size of a frame, with FCS."""
        return self.octets + self.signature_octets + FCS

    @property
    def signature_octets(self) -> int:
        return 0 if not self.tag else STAMPED.size if self.is_stamped else SIGNATURE.size

    def frame(self, number: int, size: int, now_ns: int = 0) -> bytes:
        """Return the frame with this number and size (with FCS), as it is sent now."""
        key = (number % self._period, size)
        template = self._templates.get(key)
        if template is None:
            if len(self._templates) >= _KEPT:
                self._templates.clear()
            template = self._template(*key)
            if not self.tag:
                template = self._summed(bytearray(template))
            self._templates[key] = template
        if not self.tag:
            return template
        frame = bytearray(template)
        if self.is_stamped:
            STAMPED.pack_into(frame, len(frame) - STAMPED.size, self.tag, number & 0xFFFFFFFF, now_ns)
        else:
            SIGNATURE.pack_into(frame, len(frame) - SIGNATURE.size, self.tag, number & 0xFFFFFFFF)
        return self._summed(frame)

    def _template(self, number: int, size: int) -> bytes:
        """Return a frame without checksums and signature."""
        left, headers = size - FCS, []
        for part, slots in zip(self.parts, self._slots, strict=True):
            content = 0
            for bits, values in slots:
                value = values[number % len(values)]
                if value == _LENGTH:
                    value = left - (part.octets if part.header and part.header.name == "ipv6" else 0)
                content = content << bits | value
            headers.append(content.to_bytes(part.octets) if part.header else part.given)
            left -= part.octets
        return b"".join(headers) + self.payload.fill(left)

    def _summed(self, frame: bytearray) -> bytes:
        for one in self._checksums:
            covered = frame[one.start : one.end]
            if len(covered) % 2:
                covered += b"\0"
            total = int.from_bytes(covered)
            if one.ip >= 0:
                addresses = frame[one.ip :][_PSEUDO[frame[one.ip] >> 4]]
                total += int.from_bytes(addresses) + len(frame) - one.start + one.protocol
            checksum = (0xFFFF - total % 0xFFFF) % 0xFFFF
            if not checksum and one.protocol == _UDP:
                checksum = 0xFFFF
            struct.pack_into("!H", frame, one.at, checksum ^ 1 if one.is_bad else checksum)
        return bytes(frame)

    def _fields(self, place: int, part: Part, header: Header) -> list[tuple[int, Values]]:
        version = 6 if header.name == "ipv6" else 4
        return [
            (one.bits, self._found(place, header, one, version) if values is None else _plain(values))
            for one, values in part.fields
        ]

    def _found(self, place: int, header: Header, one: Field, version: int) -> Values:
        """Return the values of a field that the configuration leaves to the generator."""
        if one.auto == "next":
            return (self._next(place, header),)
        if one.auto == "length":
            return (_LENGTH,)
        if one.auto == "words":
            return (header.octets // 4,)
        if self.ends is not None and one.auto in ("station", "destination", "source", "target"):
            if one.auto in ("station", "destination"):
                version = self.version
            if place <= 2 and (values := self.ends.values(one.auto, version)) is not None:
                return values
        return (one.default,)

    @property
    def forged_station(self) -> int | None:
        """Return the first source of the Ethernet header that no station can have: zeros, or a group; else None."""
        first = self.parts[0].header
        if first is None or first.name != "ethernet":
            return None
        source = next(one for one, _ in self.parts[0].fields if one.name == "src")
        values = self._slots[0][[one for one, _ in self.parts[0].fields].index(source)][1]
        return next((one for one in values if not one or one >> 40 & 1), None)

    @property
    def version(self) -> int:
        """The version of the IP addresses that devices give it."""
        return 6 if any(part.header and part.header.name == "ipv6" for part in self.parts) else 4

    def _next(self, place: int, header: Header) -> int:
        following = self.parts[place + 1].header if place + 1 < len(self.parts) else None
        return dict(following.types).get(header.family, header.none) if following else header.none

    def _note_checksum(self, part: Part, header: Header, offset: int, ip: int) -> None:
        bits = 0
        for one, values in part.fields:
            if one.auto == "checksum" and (values is None or values[0] == _BAD):
                end = offset + header.octets if header.covers_payload == "header" else None
                with_addresses = ip if header.covers_payload == "pseudo" else -1
                protocol = dict(header.types).get("ip", 0)
                if header.covers_payload != "pseudo" or ip >= 0:
                    self._checksums.append(
                        _Checksum(offset + bits // 8, offset, end, with_addresses, protocol, values is not None)
                    )
            bits += one.bits


_LENGTH = -3
_UDP = 17


def _plain(values: Values) -> Values:
    return tuple(0 if value in (_GOOD, _BAD) else value for value in values)
