"""What the two formats have in common: subtypes, the reasons why a TLV is wrong, and the parts that look alike."""

from __future__ import annotations

import enum
from collections.abc import Mapping

from testbed.frames import FieldError
from testbed.frames.dcbx.values import AppEntry, Selector, Table, assignment_problem, bandwidth_problem
from testbed.frames.lldp_tlvs import Flaw, Organisational

OUI = bytes.fromhex("0080c2")
"""IEEE 802.1."""

ETS_CONFIGURATION, ETS_RECOMMENDATION, PFC, APPLICATION_PRIORITY = 9, 10, 11, 12
"""Subtypes of both formats. 8 and 13 mean different things in them."""

HEADROOM_CAPABLE = 0xA1
"""Our private octet at the end of the PFC TLV (decision 0113). Only this value announces headroom measurement: DefOn
of a peer that speaks the other format, or what a later standard puts here, must not be taken for it."""

Shape = tuple[int, int]
"""A subtype, and how many octets follow it."""


class DcbxReason(enum.StrEnum):
    """What can be wrong in a DCBX TLV; the values are names of counters."""

    BAD_LENGTH = "bad_length"  # left out
    REPEATED = "repeated"  # left out: the first counts
    OTHER_VERSION = "other_version"  # left out: only the other format has it, and this peer uses this one
    BANDWIDTH_SUM = "bandwidth_sum"  # a recommendation is left out; a configuration is for display only (0103)
    UNDEFINED = "undefined"  # a value that means nothing: likewise, but of a PFC capability only itself
    RESERVED_SELECTOR = "reserved_selector"  # that entry is left out
    UNKNOWN_CAPABILITY = "unknown_capability"  # an octet that is not HEADROOM_CAPABLE is not read


def organisational(subtype: int, *octets: int, table: bytes = b"") -> Organisational:
    return Organisational(OUI, subtype, bytes(octets) + table)


def flaw(tlv: str, reason: DcbxReason, message: str) -> Flaw:
    return Flaw(tlv, reason, f"{tlv.replace('_', ' ')}: {message}")


def bad_length(tlv: str, info: bytes, wanted: str) -> Flaw:
    """Lengths are those of the formats' tables, with OUI and subtype."""
    return flaw(tlv, DcbxReason.BAD_LENGTH, f"its length is {len(info) + 4}, and has to be {wanted}")


def table_flaws(tlv: str, assignment: Table, bandwidth: Table, tsa: Table | None) -> list[Flaw]:
    """What is wrong in ETS tables that could be read."""
    undefined, total = assignment_problem(assignment, tsa), bandwidth_problem(bandwidth, tsa)
    flaws = [] if undefined is None else [flaw(tlv, DcbxReason.UNDEFINED, undefined)]
    return flaws if total is None else [*flaws, flaw(tlv, DcbxReason.BANDWIDTH_SUM, total)]


def is_capable(octets: bytes, flaws: list[Flaw]) -> bool:
    """Read what follows the fields of a PFC TLV: nothing, the private octet, or something that is ignored."""
    if octets and octets[0] != HEADROOM_CAPABLE:
        message = f"octet {octets[0]:#04x} after its fields is not the headroom capability, {HEADROOM_CAPABLE:#04x}"
        flaws.append(flaw("pfc", DcbxReason.UNKNOWN_CAPABILITY, message))
    return octets[:1] == bytes([HEADROOM_CAPABLE])


def pack_halves(table: Table) -> bytes:
    """Eight entries of four bits, priority 0 in the high half of the first octet."""
    return bytes(table[n] << 4 | table[n + 1] for n in range(0, 8, 2))


def unpack_halves(octets: bytes) -> Table:
    a, b, c, d = octets
    return a >> 4, a & 15, b >> 4, b & 15, c >> 4, c & 15, d >> 4, d & 15


def pack_entries(entries: tuple[AppEntry, ...], selectors: Mapping[int, Selector], version: str) -> bytes:
    """The application table: priority in 3 bits, 2 reserved, selector in 3, protocol ID in 16."""
    numbers = {selector: number for number, selector in selectors.items()}
    octets = bytearray()
    for entry in entries:
        if entry.selector not in numbers:
            raise FieldError(f"the {version} format has no selector for {entry.selector.value}")
        octets.append(entry.priority << 5 | numbers[entry.selector])
        octets += entry.protocol.to_bytes(2, "big")
    return bytes(octets)


def unpack_entries(info: bytes, selectors: Mapping[int, Selector], flaws: list[Flaw]) -> tuple[AppEntry, ...] | None:
    """The table after its first octet; None if its length cannot be."""
    if len(info) % 3 != 1:
        flaws.append(bad_length("application_priority", info, "5 and a multiple of 3"))
        return None
    entries = []
    for at in range(1, len(info), 3):
        selector = selectors.get(info[at] & 7)
        if selector is None:
            message = f"entry {at // 3} has selector {info[at] & 7}, which is reserved; the other entries count"
            flaws.append(flaw("application_priority", DcbxReason.RESERVED_SELECTOR, message))
        else:
            entries.append(AppEntry(info[at] >> 5, selector, info[at + 1] << 8 | info[at + 2]))
    return tuple(entries)
