"""Frames as people copy them: hexadecimal digits in text.

`read` takes plain digits, octets with spaces, colons, dashes or commas between them, `0x01` words, and lines of a dump
as tcpdump, Wireshark, xxd and hexdump print it: an offset first, the characters again at the end. An empty line, or the
offset 0, begins the next frame. LLDP TLVs without a frame around them, as a document quotes them, are put into one.
"""

from __future__ import annotations

import re

from testbed.errors import UsageError
from testbed.frames import lldp
from testbed.frames.lldp_tlvs import pack

LARGEST = 1 << 20
"""The most characters that are read."""
_OFFSET = re.compile(r"^(?:0x)?([0-9a-fA-F]{4,8})(?::\s+|\s{2,})")
_WORDS = re.compile(r"[\s,:\-.]+")
_HEX = re.compile(r"(?:0x)?((?:[0-9a-fA-F]{2})+)")
_HEADER = 14
"""The octets of an Ethernet header."""
_END, _ORGANISATIONAL = 0, 127
_AROUND = lldp.Lldpdu(lldp.ChassisId.local("pasted"), lldp.PortId.interface("pasted"), 120)


class HexError(UsageError):
    """Text that is not the octets of frames."""


def read(text: str) -> list[bytes]:
    """Return the frames of a text; HexError names the word that is no octet."""
    if len(text) > LARGEST:
        raise HexError(f"the text has {len(text)} characters; {LARGEST} are read at most: use a capture file")
    frames: list[bytearray] = []
    begins = True
    for line in text.splitlines():
        if not line.strip():
            begins = True
            continue
        dumped = _OFFSET.match(line.strip())
        octets = _of_dump(line.strip()[dumped.end() :]) if dumped else _of_words(line)
        if begins or not frames or (dumped and not int(dumped[1], 16)):
            frames.append(bytearray())
        begins = False
        frames[-1] += octets
    if not frames:
        raise HexError("there are no octets; write them as in '01 80 c2 00 00 01'")
    return [_whole(bytes(frame)) for frame in frames]


def _of_words(line: str) -> bytes:
    found = bytearray()
    for word in filter(None, _WORDS.split(line)):
        octets = _HEX.fullmatch(word)
        if octets is None:
            why = "has half an octet" if re.fullmatch("(?:0x)?[0-9a-fA-F]+", word) else "is not hexadecimal"
            raise HexError(f"{word[:20]!r} {why}; write octets as in '01 80 c2 00 00 01'")
        found += bytes.fromhex(octets[1])
    return bytes(found)


def _of_dump(rest: str) -> bytes:
    """Return the octets of a line of a dump, whose characters begin after two spaces or a bar."""
    return _of_words(re.split(r"\s{2,}\S*[^0-9a-fA-F\s]|\s*\|", rest, maxsplit=1)[0])


def _whole(octets: bytes) -> bytes:
    """Return a frame, which is put around organisational TLVs that have none."""
    if not _is_tlvs(octets):
        return octets
    end = len(pack(_END, b""))
    header = lldp.NEAREST_BRIDGE.octets + bytes(6) + lldp.ETHERTYPE.to_bytes(2)
    return header + _AROUND.encode()[:-end] + octets + pack(_END, b"")


def _is_tlvs(octets: bytes) -> bool:
    """Return True if the octets are organisational TLVs from the first to the last, or too few for a frame's header."""
    at = 0
    while at + 2 <= len(octets) and octets[at] >> 1 == _ORGANISATIONAL:
        at += 2 + (int.from_bytes(octets[at : at + 2]) & 0x1FF)
    return bool(at) and (at == len(octets) or len(octets) < _HEADER)
