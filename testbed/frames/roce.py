"""RoCEv2 packets: what UDP carries to port 4791 (InfiniBand Architecture 1.4, chapter 9; annexes A16 and A17).

    octets 0-11  base transport header (BTH): opcode, flags, P_Key, destination QP, AckReq, PSN
                 area of telemetry, if the bit behind AckReq is set (`testbed.frames.telemetry`)
                 extended headers, which the opcode names, in this order:
                   RETH 16  virtual address, R_Key, length         first packet of a write, read request
                   AtomicETH 28  virtual address, R_Key, swap or add data, compare data      atomic operations
                   DETH  8  Q_Key, source QP                       unreliable datagrams, also of connection management
                   AETH  4  syndrome, message sequence number      acknowledgement, read response but for middle ones
                   AtomicAckETH 8  what was there before           acknowledgement of an atomic operation
                   ImmDt 4  immediate data
                   IETH  4  R_Key                                  send that invalidates memory
                 payload, padded to a multiple of 4 octets
    last 4       invariant CRC (ICRC)

A congestion notification packet (CNP) has opcode 0x81, BECN set and 16 octets of zeros for a payload.

A selective acknowledgement is a form of ours, for which InfiniBand has no opcode: 0xD1, among those for manufacturers.
Its PSN is that of the missing packet, its AETH a NAK of a sequence error, and its payload, if anything has arrived
behind it, a number of 32 bits and a bitmap: the most significant bit of its first octet is the packet so many behind
the next one. It ends with the last word that has a bit, and has 16 words at most.

The ICRC covers the IP and UDP headers as well, apart from the fields that a network changes, so it belongs to a
`Path`: two addresses and a source port. Over IPv4 it covers the identification and the fragmentation flags. Linux sets
identification 0 and Don't Fragment on an unconnected UDP socket with path MTU discovery; a `Path` takes these values
for granted in both directions, because a UDP socket does not show what came. A packet of a sender that counts
identifications fails the check here.

Many packets of one message together are `testbed.frames.roce_run`.

Not here: Ethernet and IP headers, which the kernel makes; RD and XRC; what a packet means for a connection
(`testbed.roce`).
"""

from __future__ import annotations

import enum
import struct
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address
from typing import NamedTuple
from zlib import crc32

from testbed.errors import XoffError
from testbed.frames import FieldError, telemetry
from testbed.frames.telemetry import Telemetry

PORT = 4791
DEFAULT_P_KEY = 0xFFFF
ICRC_OCTETS = 4
CNP_PAYLOAD = bytes(16)
MAXIMUM_MESSAGE = 1 << 31
"""The most octets of one message (InfiniBand, 9.7.6.1)."""

_BTH = struct.Struct("!BBHII")
_BTH_HEAD = struct.Struct("!BBHI")
BTH_OCTETS = _BTH.size
_RETH = struct.Struct("!QII")
RETH_OCTETS = _RETH.size
_ATOMIC = struct.Struct("!QIQQ")
_ORIGINAL = struct.Struct("!Q")
_DETH = struct.Struct("!II")
_WORD = struct.Struct("!I")
_ICRC = struct.Struct("<I")
_UDP = struct.Struct("!HHHH")
_UDP_OCTETS = 8
_MASK_24 = 0xFFFFFF
_FECN, _BECN = 1 << 31, 1 << 30
ACK_REQUEST = 1 << 31
_HAS_TELEMETRY = 1 << 30
_VARIANT_MASK = b"\xff"  # the octet with FECN and BECN
_MOST_LENGTHS = 512
"""The most packet lengths for which a path caches the CRC prefix."""


class Service(enum.StrEnum):
    """The transport service of a queue pair, which the first three bits of opcodes name."""

    RC = "RC"  # reliable connection
    UC = "UC"  # unreliable connection
    UD = "UD"  # unreliable datagrams

    @property
    def opcodes(self) -> int:
        """The first of its opcodes; the operation is added to it."""
        return _FIRST_OPCODES[self]


_FIRST_OPCODES = {Service.RC: 0x00, Service.UC: 0x20, Service.UD: 0x60}
_OPERATION = 0x1F
"""The bits of an opcode that name the operation."""


class Opcode(enum.IntEnum):
    """The opcode of a packet: transport (3 bits) and operation (5 bits)."""

    SEND_FIRST = 0x00
    SEND_MIDDLE = 0x01
    SEND_LAST = 0x02
    SEND_LAST_IMMEDIATE = 0x03
    SEND_ONLY = 0x04
    SEND_ONLY_IMMEDIATE = 0x05
    WRITE_FIRST = 0x06
    WRITE_MIDDLE = 0x07
    WRITE_LAST = 0x08
    WRITE_LAST_IMMEDIATE = 0x09
    WRITE_ONLY = 0x0A
    WRITE_ONLY_IMMEDIATE = 0x0B
    READ_REQUEST = 0x0C
    READ_RESPONSE_FIRST = 0x0D
    READ_RESPONSE_MIDDLE = 0x0E
    READ_RESPONSE_LAST = 0x0F
    READ_RESPONSE_ONLY = 0x10
    ACKNOWLEDGE = 0x11
    ATOMIC_ACKNOWLEDGE = 0x12
    COMPARE_SWAP = 0x13
    FETCH_ADD = 0x14
    SEND_LAST_INVALIDATE = 0x16
    SEND_ONLY_INVALIDATE = 0x17
    UC_SEND_FIRST = 0x20
    UC_SEND_MIDDLE = 0x21
    UC_SEND_LAST = 0x22
    UC_SEND_LAST_IMMEDIATE = 0x23
    UC_SEND_ONLY = 0x24
    UC_SEND_ONLY_IMMEDIATE = 0x25
    UC_WRITE_FIRST = 0x26
    UC_WRITE_MIDDLE = 0x27
    UC_WRITE_LAST = 0x28
    UC_WRITE_LAST_IMMEDIATE = 0x29
    UC_WRITE_ONLY = 0x2A
    UC_WRITE_ONLY_IMMEDIATE = 0x2B
    DATAGRAM = 0x64  # UD SEND only
    DATAGRAM_IMMEDIATE = 0x65
    CNP = 0x81
    SELECTIVE_ACKNOWLEDGE = 0xD1


_O = Opcode
_INVALIDATES = frozenset({_O.SEND_LAST_INVALIDATE, _O.SEND_ONLY_INVALIDATE})
SENDS = frozenset(range(_O.SEND_FIRST, _O.SEND_ONLY_IMMEDIATE + 1)) | _INVALIDATES
WRITES = frozenset(range(_O.WRITE_FIRST, _O.WRITE_ONLY_IMMEDIATE + 1))
ATOMICS = frozenset({_O.COMPARE_SWAP, _O.FETCH_ADD})
ASKING = ATOMICS | {_O.READ_REQUEST}
"""Opcodes of requests that a response of their own completes."""
REQUESTS = SENDS | WRITES | ASKING
READ_RESPONSES = frozenset(range(_O.READ_RESPONSE_FIRST, _O.READ_RESPONSE_ONLY + 1))
RESPONSES = READ_RESPONSES | {_O.ATOMIC_ACKNOWLEDGE}
DATAGRAMS = frozenset({_O.DATAGRAM, _O.DATAGRAM_IMMEDIATE})
_UNRELIABLE = DATAGRAMS | set(range(_O.UC_SEND_FIRST, _O.UC_WRITE_ONLY_IMMEDIATE + 1))
DATA = REQUESTS | RESPONSES | _UNRELIABLE
FIRSTS = frozenset({_O.SEND_FIRST, _O.SEND_ONLY, _O.SEND_ONLY_IMMEDIATE, _O.WRITE_FIRST, _O.WRITE_ONLY})
FIRSTS |= {_O.WRITE_ONLY_IMMEDIATE, _O.SEND_ONLY_INVALIDATE}
"""Opcodes of the first packet of a message that brings data."""
LASTS = frozenset({_O.SEND_LAST, _O.SEND_LAST_IMMEDIATE, _O.SEND_ONLY, _O.SEND_ONLY_IMMEDIATE})
LASTS |= {_O.WRITE_LAST, _O.WRITE_LAST_IMMEDIATE, _O.WRITE_ONLY, _O.WRITE_ONLY_IMMEDIATE} | _INVALIDATES
_WITH_RETH = frozenset({_O.WRITE_FIRST, _O.WRITE_ONLY, _O.WRITE_ONLY_IMMEDIATE, _O.READ_REQUEST})
_WITH_AETH = frozenset({_O.READ_RESPONSE_FIRST, _O.READ_RESPONSE_LAST, _O.READ_RESPONSE_ONLY, _O.ACKNOWLEDGE})
_WITH_AETH |= {_O.SELECTIVE_ACKNOWLEDGE, _O.ATOMIC_ACKNOWLEDGE}
_WITH_IMMEDIATE = frozenset({_O.SEND_LAST_IMMEDIATE, _O.SEND_ONLY_IMMEDIATE})
_WITH_IMMEDIATE |= {_O.WRITE_LAST_IMMEDIATE, _O.WRITE_ONLY_IMMEDIATE}
_WITH_RETH |= {_O.UC_WRITE_FIRST, _O.UC_WRITE_ONLY, _O.UC_WRITE_ONLY_IMMEDIATE}
_WITH_IMMEDIATE |= {_O.UC_SEND_LAST_IMMEDIATE, _O.UC_SEND_ONLY_IMMEDIATE, _O.DATAGRAM_IMMEDIATE}
_WITH_IMMEDIATE |= {_O.UC_WRITE_LAST_IMMEDIATE, _O.UC_WRITE_ONLY_IMMEDIATE}
_ACKNOWLEDGE, _ATOMIC_ACKNOWLEDGE = int(_O.ACKNOWLEDGE), int(_O.ATOMIC_ACKNOWLEDGE)
_OPCODES = {int(opcode): opcode for opcode in Opcode}
_NEEDED = {
    opcode: (
        opcode in _WITH_RETH, opcode in DATAGRAMS, opcode in _WITH_AETH, opcode in _WITH_IMMEDIATE,
        opcode in ATOMICS, opcode == _O.ATOMIC_ACKNOWLEDGE, opcode in _INVALIDATES,
    )
    for opcode in Opcode
}  # fmt: skip
_NAMES = "RETH", "DETH", "AETH", "immediate data", "AtomicETH", "AtomicAckETH", "IETH"
"""The extended headers, in the order of `_NEEDED`."""


class RoceReason(enum.StrEnum):
    """The reason why octets are not a RoCEv2 packet for us; the values are names of counters."""

    TOO_SHORT = "too_short"
    WRONG_VERSION = "wrong_version"
    OPCODE_NOT_KNOWN = "opcode_not_known"
    BAD_PADDING = "bad_padding"
    BAD_SYNDROME = "bad_syndrome"
    BAD_ICRC = "bad_icrc"
    BAD_TELEMETRY = "bad_telemetry"
    TRIMMED = "trimmed"
    OTHER_SERVICE = "other_service"


class RocePacketError(XoffError):
    """Octets that are not a RoCEv2 packet."""

    def __init__(self, reason: RoceReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Nak(enum.IntEnum):
    """The codes of a negative acknowledgement (InfiniBand, table 58)."""

    SEQUENCE_ERROR = 0
    INVALID_REQUEST = 1
    REMOTE_ACCESS_ERROR = 2
    REMOTE_OPERATIONAL_ERROR = 3


class Reth(NamedTuple):
    """The RDMA extended header: a place in the responder's memory, and a length."""

    address: int
    r_key: int
    length: int


class AtomicEth(NamedTuple):
    """The extended header of an atomic operation on the 64 bits at a place in the responder's memory."""

    address: int
    r_key: int
    data: int
    """The number to add, or the one to put there if the memory equals `compare`."""
    compare: int = 0


class Deth(NamedTuple):
    """The datagram extended header: the key of the queue pair, and the sender's queue pair."""

    q_key: int
    source_qp: int


class Aeth(NamedTuple):
    """An acknowledgement, positive if `nak` and `rnr` are None. Credits are not used: the field has 31, "no limit"."""

    msn: int
    nak: Nak | None = None
    rnr: int | None = None
    """The code of the time that a sender waits for, because the receiver is not ready (RNR NAK)."""

    @property
    def syndrome(self) -> int:
        if self.rnr is not None:
            return 0x20 | self.rnr
        return 0x1F if self.nak is None else 0x60 | self.nak


class Packet(NamedTuple):
    """A packet without its ICRC. It is a tuple because a flow makes ten thousand of them in a second of the lab."""

    opcode: Opcode
    destination_qp: int
    psn: int
    payload: bytes = b""
    reth: Reth | None = None
    aeth: Aeth | None = None
    deth: Deth | None = None
    immediate: int | None = None
    ack_request: bool = False
    solicited: bool = False
    becn: bool = False
    fecn: bool = False
    p_key: int = DEFAULT_P_KEY
    telemetry: Telemetry | None = None
    atomic: AtomicEth | None = None
    original: int | None = None
    """The number before an atomic operation, in its acknowledgement."""
    invalidate: int | None = None
    """The key of memory that a send makes invalid."""

    @classmethod
    def cnp(cls, destination_qp: int) -> Packet:
        """Return a congestion notification for the sender whose queue pair this is."""
        return cls(Opcode.CNP, destination_qp, 0, CNP_PAYLOAD, becn=True)


def is_of(opcode: int, service: Service) -> bool:
    """Return True if queue pairs of a service take packets with this opcode; all take notifications."""
    if opcode >= _O.CNP:
        return opcode == _O.CNP or service is Service.RC
    return opcode & ~_OPERATION == service.opcodes


def plain(packet: Packet) -> Packet:
    """Return a packet of an unreliable service with the opcode that reliable connections have for the same."""
    return packet._replace(opcode=_OPCODES[packet.opcode & _OPERATION])


def encode(packet: Packet) -> bytes:
    """Return the packet without ICRC; FieldError if a value does not fit, or a header is missing."""
    padding = -len(packet.payload) % 4
    try:
        octets = _BTH.pack(
            packet.opcode,
            packet.solicited << 7 | 1 << 6 | padding << 4,  # MigReq 1: migrated, the state without an alternate path
            packet.p_key,
            packet.fecn << 31 | packet.becn << 30 | _24_bits("destination_qp", packet.destination_qp),
            packet.ack_request << 31 | (packet.telemetry is not None) << 30 | _24_bits("psn", packet.psn),
        )
        if packet.telemetry is not None:
            octets += telemetry.encode(packet.telemetry)
        return octets + _extended(packet) + packet.payload + bytes(padding)
    except struct.error as error:
        raise FieldError(f"{packet.opcode.name} has a value that does not fit into its field: {error}") from None


def head_of(opcode: Opcode, destination_qp: int) -> bytes:
    """Return the first eight octets of the BTH of a packet without padding or flags; AckReq and PSN follow."""
    return _BTH_HEAD.pack(opcode, 1 << 6, DEFAULT_P_KEY, destination_qp)


def _extended(packet: Packet) -> bytes:
    _, _, _, _, reth, aeth, deth, immediate, _, _, _, _, _, _, atomic, original, invalidate = packet
    there = (
        reth is not None, deth is not None, aeth is not None, immediate is not None,
        atomic is not None, original is not None, invalidate is not None,
    )  # fmt: skip
    if there != _NEEDED[packet.opcode]:
        for is_needed, is_there, name in zip(_NEEDED[packet.opcode], there, _NAMES, strict=True):
            if is_needed is not is_there:
                raise FieldError(f"{packet.opcode.name} {'needs' if is_needed else 'has no room for'} {name}")
    octets = b""
    if reth is not None:
        octets += _RETH.pack(*reth)
    if atomic is not None:
        octets += _ATOMIC.pack(*atomic)
    if deth is not None:
        octets += _DETH.pack(deth.q_key, _24_bits("source_qp", deth.source_qp))
    if aeth is not None:
        octets += _WORD.pack(aeth.syndrome << 24 | _24_bits("msn", aeth.msn))
    if original is not None:
        octets += _ORIGINAL.pack(original)
    if immediate is not None:
        octets += _WORD.pack(immediate)
    if invalidate is not None:
        octets += _WORD.pack(invalidate)
    return octets


def parse(data: bytes) -> Packet:
    """Read a packet that still has its ICRC, which `Path.intact` checks. What is reserved is ignored."""
    end = len(data) - ICRC_OCTETS
    if end < _BTH.size:
        raise RocePacketError(
            RoceReason.TOO_SHORT, f"{len(data)} octets are too few for a base transport header and an ICRC"
        )
    number, flags, p_key, word, acknowledged = _BTH.unpack_from(data)
    opcode = _OPCODES.get(number)
    if opcode is None:
        raise RocePacketError(RoceReason.OPCODE_NOT_KNOWN, f"opcode {number:#04x} is not supported by this endpoint")
    if flags & 0xF:
        raise RocePacketError(RoceReason.WRONG_VERSION, f"transport header version {flags & 0xF} is not 0")
    reth, aeth, deth, immediate, area, start = None, None, None, None, None, _BTH.size
    atomic, original, invalidate = None, None, None
    if acknowledged & _HAS_TELEMETRY:
        try:
            area = telemetry.parse(data, start)
        except telemetry.TelemetryError as error:
            raise RocePacketError(RoceReason.BAD_TELEMETRY, str(error)) from None
        start += area.octets
    try:
        if opcode in _WITH_RETH:
            reth, start = Reth(*_RETH.unpack_from(data, start)), start + _RETH.size
        if number > _ACKNOWLEDGE:
            if opcode in DATAGRAMS:
                q_key, source = _DETH.unpack_from(data, start)
                deth, start = Deth(q_key, source & _MASK_24), start + _DETH.size
            elif opcode in ATOMICS:
                atomic, start = AtomicEth(*_ATOMIC.unpack_from(data, start)), start + _ATOMIC.size
            elif opcode in _INVALIDATES:
                (invalidate,) = _WORD.unpack_from(data, start)
                start += _WORD.size
        if opcode in _WITH_AETH:
            (found,) = _WORD.unpack_from(data, start)
            aeth, start = Aeth(found & _MASK_24, *_nak(found >> 24)), start + _WORD.size
            if number == _ATOMIC_ACKNOWLEDGE:
                (original,) = _ORIGINAL.unpack_from(data, start)
                start += _ORIGINAL.size
        if opcode in _WITH_IMMEDIATE:
            (immediate,) = _WORD.unpack_from(data, start)
            start += _WORD.size
    except struct.error:
        start = end + 1
    if start > end:
        raise RocePacketError(RoceReason.TOO_SHORT, f"{len(data)} octets are too few for the headers of {opcode.name}")
    padding = flags >> 4 & 3
    if end - start < padding or (end - start) % 4:
        raise RocePacketError(
            RoceReason.BAD_PADDING,
            f"{end - start} octets of payload and padding, of which {padding} are said to be padding",
        )
    return Packet(
        opcode,
        word & _MASK_24,
        acknowledged & _MASK_24,
        data[start : end - padding],
        reth,
        aeth,
        deth,
        immediate,
        bool(acknowledged & ACK_REQUEST),
        bool(flags & 0x80),
        bool(word & _BECN),
        bool(word & _FECN),
        p_key,
        area,
        atomic,
        original,
        invalidate,
    )


def _nak(syndrome: int) -> tuple[Nak | None, int | None]:
    kind, value = syndrome >> 5, syndrome & 0x1F
    if kind == 0:
        return None, None
    if kind == 1:
        return None, value
    if kind == 3 and value in list(Nak):
        return Nak(value), None
    raise RocePacketError(RoceReason.BAD_SYNDROME, f"syndrome {syndrome:#04x} is neither an ACK nor a supported NAK")


def _24_bits(name: str, value: int) -> int:
    if not 0 <= value <= _MASK_24:
        raise FieldError(f"{name} is {value!r}; it is a whole number from 0 to {_MASK_24}")
    return value


@lru_cache(4096)
def _packed(address: str, is_ipv4: bool) -> bytes:
    return (IPv4Address if is_ipv4 else IPv6Address)(address).packed


class Path:
    """The IP addresses and the source port of packets, with which the computation of their ICRC begins."""

    def __init__(self, source: str, destination: str, source_port: int) -> None:
        self._is_ipv4 = ":" not in source
        try:
            self._addresses = _packed(source, self._is_ipv4) + _packed(destination, self._is_ipv4)
        except ValueError as error:
            raise FieldError(f"a path from {source} to {destination}: {error}") from None
        self.source, self.source_port = source, source_port
        self._prefixes: dict[int, int] = {}
        self._zeros: dict[tuple[bytes, int], int] = {}

    def seal(self, transport: bytes) -> bytes:
        """Return a packet with its ICRC, as UDP carries it."""
        return transport + _ICRC.pack(self._icrc(transport))

    def intact(self, datagram: bytes) -> bool:
        """Return True if the ICRC of a datagram matches its octets and this path."""
        return datagram[-ICRC_OCTETS:] == _ICRC.pack(self._icrc(datagram[:-ICRC_OCTETS]))

    def crc_of_zeros(self, head: bytes, length: int) -> int:
        """Return what a packet's first eight octets, and what the ICRC covers before them, add to the CRC for this
        length.
        """
        crc = self._zeros.get((head, length))
        if crc is None:
            before = crc32(head[5:], crc32(_VARIANT_MASK, crc32(head[:4], self._prefix(length))))
            rest = bytes(length - len(head))
            if len(self._zeros) >= _MOST_LENGTHS:
                self._zeros.clear()
            crc = self._zeros[head, length] = crc32(rest, before) ^ crc32(rest)
        return crc

    def _prefix(self, length: int) -> int:
        prefix = self._prefixes.get(length)
        if prefix is None:
            if len(self._prefixes) >= _MOST_LENGTHS:
                self._prefixes.clear()
            prefix = self._prefixes[length] = crc32(self._headers(length + ICRC_OCTETS))
        return prefix

    def _icrc(self, transport: bytes) -> int:
        # FECN, BECN and the six bits after them count as ones, and so does what ports write.
        if len(transport) > BTH_OCTETS + 1 and transport[8] & _HAS_TELEMETRY >> 24:
            area = telemetry.masked(transport, BTH_OCTETS)
            transport = transport[:BTH_OCTETS] + area + transport[BTH_OCTETS + len(area) :]
        return crc32(transport[5:], crc32(_VARIANT_MASK, crc32(transport[:4], self._prefix(len(transport)))))

    def _headers(self, length: int) -> bytes:
        """Return the headers before the BTH, with ones for what a network changes, and eight octets of ones before
        all.
        """
        udp = _UDP_OCTETS + length
        if self._is_ipv4:
            fixed = struct.pack("!BBHHHBBH", 0x45, 0xFF, 20 + udp, 0, 0x4000, 0xFF, 17, 0xFFFF)
        else:
            fixed = struct.pack("!IHBB", 0x6FFFFFFF, udp, 17, 0xFF)
        return b"\xff" * 8 + fixed + self._addresses + _UDP.pack(self.source_port, PORT, udp, 0xFFFF)
