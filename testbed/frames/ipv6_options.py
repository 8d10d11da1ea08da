"""Options in IPv6's hop-by-hop and destination headers (RFC 8200, section 4.2), and the one that names a slice.

    hop-by-hop header:  next header, length in 8 octets beyond the first 8, options
    option:             type, length of the data, data;  Pad1 is a single 0, PadN has type 1
    slice option:       type, 8, flags (8 bits), context type (8), reserved (16), id (32)

The slice option is the working group's NR option (formerly VTN, NRP; draft-ietf-6man-enhanced-vpn-vtn-id), used as
decision 0146 has. Context type 0 is an id that is unique in the network. The flag S, "strict", requests routers
without that slice to drop: here it is 0, since legacy routers have to pass back-pressure on. No type is assigned yet;
the default is 0x1E, which is for experiments (RFC 4727), and begins with the bits that make others skip the option and
promise that it does not change on the way.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from testbed.frames import FieldError
from testbed.frames.ipv6 import Header, PacketError, PacketReason, Problem, check_bits

PAD1 = 0
PADN = 1
SLICE = 0x1E
"""The default type of the slice option."""

_STRICT = 0x80
_NETWORK_WIDE = 0  # the context type
_SLICE = struct.Struct("!BBHI")


@dataclass(frozen=True)
class Option:
    """An option that is not padding."""

    type: int
    data: bytes
    at: int = 0  # where it starts in its packet

    def encode(self) -> bytes:
        check_bits("option type", self.type, 8)
        if self.type in (PAD1, PADN):
            raise FieldError(f"option type {self.type} is padding, which is added where it is needed")
        if len(self.data) > 255:
            raise FieldError(f"{len(self.data)} octets do not fit into an option, which has room for 255")
        return bytes((self.type, len(self.data))) + self.data


@dataclass(frozen=True)
class SliceOption:
    """The id of the slice (network resource partition) that a packet belongs to."""

    slice_id: int
    strict: bool = False

    def __post_init__(self) -> None:
        check_bits("slice id", self.slice_id, 32)

    def option(self, option_type: int = SLICE) -> Option:
        return Option(option_type, _SLICE.pack(_STRICT * self.strict, _NETWORK_WIDE, 0, self.slice_id))

    @classmethod
    def parse(cls, option: Option) -> SliceOption:
        """Read the option's data. Flags but S, and what is reserved, are ignored."""
        if len(option.data) != _SLICE.size:
            raise PacketError(
                PacketReason.BAD_SLICE_OPTION,
                f"a slice option has {_SLICE.size} octets of data, not {len(option.data)}",
            )
        flags, context, _, slice_id = _SLICE.unpack(option.data)
        if context != _NETWORK_WIDE:
            raise PacketError(
                PacketReason.BAD_SLICE_OPTION,
                f"context type {context} of a slice option is not known; 0 is",
            )
        return cls(slice_id, bool(flags & _STRICT))


def encode_header(next_header: int, options: Iterable[Option]) -> bytes:
    """Return a header of hop-by-hop or destination options. The first is at offset 2, as the slice option requires."""
    check_bits("next_header", next_header, 8)
    body = b"".join(option.encode() for option in options)
    missing = -(2 + len(body)) % 8
    if missing == 1:
        body += bytes([PAD1])
    elif missing:
        body += bytes([PADN, missing - 2]) + bytes(missing - 2)
    check_bits("header length in 8 octets", (2 + len(body)) // 8 - 1, 8)
    return bytes([next_header, (2 + len(body)) // 8 - 1]) + body


def parse_header(packet: bytes, header: Header) -> Iterator[Option]:
    """Yield the options of a header that `ipv6.headers` found, without padding."""
    at = header.start + 2
    while at < header.end:
        if packet[at] == PAD1:
            at += 1
            continue
        end = at + 2 + packet[at + 1] if at + 2 <= header.end else header.end + 1
        if end > header.end:
            raise PacketError(
                PacketReason.OPTION_TOO_LONG,
                f"the option of type {packet[at]:#04x} at octet {at} goes beyond its header's end at {header.end}",
            )
        if packet[at] != PADN:
            yield Option(packet[at], packet[at + 2 : end], at)
        at = end


def check_known(options: Iterable[Option], known: Collection[int]) -> None:
    """Raise PacketError for an unknown option whose first two bits require that it is known."""
    for option in options:
        action = option.type >> 6
        if action and option.type not in known:
            # 01: discard; 10 and 11: discard and answer (11 not for multicast, which no SID is).
            problem = None if action == 1 else Problem(2, option.at)
            raise PacketError(
                PacketReason.OPTION_NOT_KNOWN,
                f"the option of type {option.type:#04x} at octet {option.at} is not known, and must not be skipped",
                problem,
            )


def find_slice(options: Iterable[Option], option_type: int = SLICE) -> SliceOption | None:
    """Return the slice that the options name, or None; two slices are an error, even if they are the same."""
    found = [option for option in options if option.type == option_type]
    if len(found) > 1:
        raise PacketError(PacketReason.BAD_SLICE_OPTION, f"{len(found)} slice options in one packet; there may be one")
    return SliceOption.parse(found[0]) if found else None
