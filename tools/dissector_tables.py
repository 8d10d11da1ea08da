"""Write the tables of the dissector for Wireshark, `testbed/frames/xoff.lua`, from those of our codecs.

`python3 -m tools.dissector_tables` writes them; a test compares.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from testbed.frames import headroom, ipv6, roce, telemetry
from testbed.frames.dcbx.layouts import ENTRY, LAYOUTS, OUI, Fields
from testbed.frames.dcbx.values import DcbxVersion
from testbed.frames.link import credits
from testbed.net.traffic.udp_sockets import FIRST_PORT
from testbed.subjects.dcbx.features.pfc import HEADROOM_CAPABLE
from testbed.subjects.link.esun import header as esun
from testbed.subjects.link.llr import ordered_set, record
from testbed.switch.trimming.settings import DEFAULT_DSCP

SCRIPT = Path(headroom.__file__).parent / "xoff.lua"
BLOCK = re.compile(r"-- Tables by tools/dissector_tables\.py\n.*?-- End of tables\n", re.DOTALL)
_SHOWN = {"traffic_classes": "classes", "rv": "valid"}
_EIGHT_IF_ZERO = ("traffic_classes", "cap")
_STAMP = {"time_ns": "time", "queue_octets": "queue", "sent_octets": "sent", "kbps": "rate"}
"""The names in display filters of a stamp's fields."""


def tables() -> str:
    """Return the tables, in Lua."""
    lines = [
        "-- Tables by tools/dissector_tables.py",
        f"local OPCODE, EXTENSION = 0x{headroom.EXTENSION_OPCODE:04X}, 0x{int.from_bytes(headroom.EXTENSION):06X}",
        f"local VERSION, LENGTH, TAGGED = {headroom.VERSION}, {headroom.LENGTH}, {headroom.TAGGED}",
        f'local KINDS = {{ [{headroom.REQUEST}] = "request", [{headroom.RESPONSE}] = "response" }}',
        "-- The fields of a measurement frame, from its opcode on, and of a stamp: name, first octet, octets.",
        f"local MEASUREMENT = {{\n\t{_octets(headroom.FIELDS.format, headroom.FIELD_NAMES, 2)} }}",
        f"local STAMP = {{\n\t{_octets(telemetry.STAMP.format, [_STAMP[name] for name in telemetry.Stamp._fields])} }}",
        f"local HEAD_OCTETS, STAMP_OCTETS = {telemetry.HEAD_OCTETS}, {telemetry.STAMP_OCTETS}",
        f'local INT_KINDS = {{ [{telemetry.COLLECTS}] = "collects", [{telemetry.RETURNED}] = "returned" }}',
        f"local ROCE_PORT, BTH_OCTETS, ICRC_OCTETS = {roce.PORT}, {roce.BTH_OCTETS}, {roce.ICRC_OCTETS}",
        f"local SELECTIVE = 0x{roce.Opcode.SELECTIVE_ACKNOWLEDGE:02X}",
        f"local REST_DSCP, DATA = {DEFAULT_DSCP}, {{ {', '.join(f'[{one}] = true' for one in sorted(roce.DATA))} }}",
        f"local ESUN_TYPE, ESUN_OCTETS = 0x{esun.ETHERTYPE:04X}, {esun.OCTETS}",
        f"local ESUN = {{\n\t{_bits(esun.WIDTHS)} }}",
        f"local LLR_TYPE, LLR_OCTETS, LLR_REPLAY, LLR_PLAIN = 0x{record.ETHERTYPE:04X}, {record.HEADER - 14}, "
        f"{record.REPLAY}, {record.INELIGIBLE}",
        f"local LLR = {{ {', '.join(_place(*field) for field in record.LAYOUT)} }}",
        f"local LLR_KINDS = {_named(record.KINDS)}",
        f"local LLR_FATES = {_named({fate.value: fate.name.lower() for fate in record.Fate})}",
        f"local LLR_SETS = {_named({kind.value: kind.label for kind in ordered_set.Kind})}",
        f"local CREDITS, CARRIED = 0x{credits.COMPANY.hex().upper()}, 0x{credits.CARRIER.hex().upper()}",
        f"local COUNTERS, FREED_BITS, USED_BITS = {credits.COUNTERS}, {credits.FREED_BITS}, {credits.USED_BITS}",
        f'local FLOW_PORTS = "{FIRST_PORT}-{FIRST_PORT + 999}"',
        f"local CAPABLE, SLICE, SLICE_OCTETS = 0x{HEADROOM_CAPABLE:02X}, 0x{ipv6.SLICE:02X}, {ipv6.SLICE_OCTETS}",
        f"local OUI = 0x{int.from_bytes(OUI):06X}",
        "-- A field is its name, its first bit, its bits, and what 0 means.",
        f"local ENTRY = {{ octets = {ENTRY.octets}, {_fields(ENTRY)} }}",
        "local DRAFT = {",
    ]
    for subtype, layout in LAYOUTS[DcbxVersion.DRAFT].items():
        flags = ", entries = true" if layout.has_entries else "" if layout.extra is None else ', extra = "defended"'
        head = f'\t[{subtype}] = {{ name = "{layout.name}", octets = {layout.octets}{flags},'
        lines += [head, f"\t\t{_fields(layout)} }},"]
    return "\n".join([*lines, "}", "-- End of tables\n"])


def _place(name: str, first: int, octets: int) -> str:
    """Return a field behind an Ethernet header."""
    return f'{{ "{name}", {first - 14}, {octets} }}'


def _named(values: Mapping[int, str]) -> str:
    """Return names by their numbers."""
    return f"{{ {', '.join(f'[{number}] = {chr(34)}{name}{chr(34)}' for number, name in values.items())} }}"


def _bits(widths: Mapping[str, int]) -> str:
    """Return the places of fields of some bits each, one behind the other."""
    found, at = [], 0
    for name, bits in widths.items():
        found.append(f'{{ "{name}", {at}, {bits} }}')
        at += bits
    return ",\n\t".join(", ".join(found[start : start + 4]) for start in range(0, len(found), 4))


def _octets(layout: str, names: Sequence[str], begin: int = 0) -> str:
    """Return the places of the fields of a `struct`; padding is a field too."""
    found = [
        f'{{ "{name}", {at}, {octets} }}' for name, (at, octets) in zip(names, _places(layout, begin), strict=True)
    ]
    return ",\n\t".join(", ".join(found[start : start + 4]) for start in range(0, len(found), 4))


def _places(layout: str, at: int) -> Iterator[tuple[int, int]]:
    for count, kind in re.findall(r"(\d*)([a-zA-Z])", layout):
        whole = struct.calcsize(f"!{count}{kind}")
        parts = 1 if kind == "s" else int(count or 1)
        for _ in range(parts):
            yield at, whole // parts
            at += whole // parts


def _fields(fields: Fields) -> str:
    found, at = [], 0
    for field in fields.fields:
        name = "assignment" if field.name == "priority" and field.count > 1 else _SHOWN.get(field.name, field.name)
        zero = ", 8" if field.name in _EIGHT_IF_ZERO else ""
        for _ in range(field.count):
            if field.name != "reserved":
                found.append(f'{{ "{name}", {at}, {field.bits}{zero} }}')
            at += field.bits
    rows = [", ".join(found[start : start + 4]) for start in range(0, len(found), 4)]
    return ",\n\t\t".join(rows)


if __name__ == "__main__":
    SCRIPT.write_text(BLOCK.sub(lambda _: tables(), SCRIPT.read_text()))
