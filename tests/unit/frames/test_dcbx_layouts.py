"""The table of DCBX's TLVs: what is packed by it is read by it, and the dissector for Wireshark has the same."""

from __future__ import annotations

import pytest

from testbed.frames.dcbx.layouts import ENTRY, LAYOUTS, Layout
from testbed.frames.dcbx.values import DcbxVersion
from tools.dissector_tables import BLOCK, SCRIPT, tables

EVERY = [layout for version in DcbxVersion for layout in LAYOUTS[version].values()]


@pytest.mark.parametrize("layout", EVERY, ids=lambda layout: layout.name)
def test_each_field_has_bits_of_its_own(layout: Layout) -> None:
    octets = bytes(range(0x81, 0x81 + layout.octets))
    assert layout.pack(layout.unpack(octets)) == octets
    assert sum(field.bits * field.count for field in layout.fields) == 8 * layout.octets


def test_a_length_fits_with_whole_entries_or_with_octets_that_may_follow() -> None:
    published = LAYOUTS[DcbxVersion.PUBLISHED]
    assert [published[12].fits(octets) for octets in (0, 1, 3, 1 + 2 * ENTRY.octets)] == [False, True, False, True]
    assert [published[11].fits(octets) for octets in (1, 2, 9)] == [False, True, True]
    assert [published[9].fits(octets) for octets in (20, 21, 22)] == [False, True, False]
    assert [published[number].length for number in (12, 11, 9)] == ["5 and a multiple of 3", "6 at least", "25"]


def test_the_dissectors_tables_are_those_of_the_codecs() -> None:
    assert BLOCK.findall(SCRIPT.read_text()) == [tables()]
