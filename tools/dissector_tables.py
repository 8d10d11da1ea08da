"""Write the tables of the dissector for Wireshark, `testbed/frames/xoff.lua`, from those of our codecs.

`python3 -m tools.dissector_tables` writes them; a test compares.
"""

from __future__ import annotations

import re
from pathlib import Path

from testbed.frames import headroom, ipv6
from testbed.frames.dcbx.layouts import ENTRY, LAYOUTS, OUI, Fields
from testbed.frames.dcbx.values import DcbxVersion
from testbed.subjects.dcbx.features.pfc import HEADROOM_CAPABLE

SCRIPT = Path(headroom.__file__).parent / "xoff.lua"
BLOCK = re.compile(r"-- Tables by tools/dissector_tables\.py\n.*?-- End of tables\n", re.DOTALL)
_SHOWN = {"traffic_classes": "classes", "rv": "valid"}
_EIGHT_IF_ZERO = ("traffic_classes", "cap")


def tables() -> str:
    """Return the tables, in Lua."""
    lines = [
        "-- Tables by tools/dissector_tables.py",
        f"local OPCODE, EXTENSION = 0x{headroom.EXTENSION_OPCODE:04X}, 0x{int.from_bytes(headroom.EXTENSION):06X}",
        f"local VERSION, LENGTH, TAGGED = {headroom.VERSION}, {headroom.LENGTH}, {headroom.TAGGED}",
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
