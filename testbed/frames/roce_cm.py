"""Connection management of RoCE: messages of the InfiniBand communication manager (CM), chapter 12.

Each is a management datagram (MAD) of 256 octets, which a UD packet carries to queue pair 1:

    octets  0-23   MAD header: class 7 (communication management), method Send, transaction ID, attribute ID
           24-    REQ, REP, RTU or REJ, to the end of the MAD; for datagrams SIDR REQ or SIDR REP

Of their fields these are used: communication IDs, service ID, queue pair numbers, first PSNs, path MTU, retry counts,
resources for reads, the addresses, and private data. The others have the values that Linux's connection manager gives
them on RoCE, or 0. The private data of REQ and SIDR REQ begin with the IP addressing of the RDMA IP CM service (A11).

Not here: alternate paths, other messages of the CM, and the state of a connection (`testbed.roce.connecting`).
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

from testbed.errors import XoffError
from testbed.frames import FieldError
from testbed.frames.roce import DEFAULT_P_KEY, Deth, Opcode, Packet, Service

CM_QP = 1
Q_KEY = 0x80010000
MOST_RETRIES = 7
"""The most retries that a request has room for."""
MAD_OCTETS = 256
SERVICE_PREFIX = 0x0000_0000_0106_0000
"""The service IDs of the RDMA IP CM service for its TCP port space; the last 16 bits are the port."""
DATAGRAM_PREFIX = 0x0000_0000_0111_0000
"""Those for its UDP port space, of services that take datagrams."""
DATAGRAM_KEY = 0x01234567
"""The Q_Key of the queue pairs of such services."""
PRIVATE_OCTETS = 56
"""The octets of private data that a REQ has room for beside the addressing."""

_MAD = struct.Struct("!BBBBHHQHHI")
_CLASS, _CLASS_VERSION, _SEND = 7, 2, 3
_PATH_MTU = {256: 1, 512: 2, 1024: 3, 2048: 4, 4096: 5}
_REQ = struct.Struct("!I4xQQ4xIIIIIHBBHH16s16sIBBBB44x92s")
_REP = struct.Struct("!IIIIIIBBBBQ196s")
_RTU = struct.Struct("!II224x")
_REJ = struct.Struct("!IIBBH72x148x")
_SIDR_REQ = struct.Struct("!IHxxQ216s")
_SIDR_REP = struct.Struct("!IBBxxIQI72x136s")
_IP_CM = struct.Struct("!BBH16s16s")
_DATAGRAM_PRIVATE = 180
"""The octets of private data that a SIDR REQ has room for beside the addressing."""
_FULL_RATE = 3  # 10 Gb/s, the value that InfiniBand requires in a field that RoCE does not use
_NO_LID = 0xFFFF


class Attribute(enum.IntEnum):
    """The messages that a MAD can have."""

    REQ = 0x10
    REJ = 0x12
    REP = 0x13
    RTU = 0x14
    SIDR_REQ = 0x17
    SIDR_REP = 0x18


class RejectReason(enum.IntEnum):
    """The reason why a connection is refused (InfiniBand, table 106)."""

    INVALID_SERVICE_ID = 8
    CONSUMER_REJECT = 28


class CmReason(enum.StrEnum):
    """The reason why octets are no CM message for us; the values are names of counters."""

    NOT_A_MAD = "not_a_mad"
    NOT_CM = "not_cm"
    ATTRIBUTE_NOT_KNOWN = "attribute_not_known"
    BAD_FIELD = "bad_field"


class CmError(XoffError):
    """Octets that are not a message of the connection manager."""

    def __init__(self, reason: CmReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True)
class Request:
    """REQ: the active side requests a connection to a service."""

    communication_id: int
    service_id: int
    qp: int
    psn: int
    """The PSN with which the other end shall begin."""
    mtu: int
    source: IPv4Address | IPv6Address
    destination: IPv4Address | IPv6Address
    source_port: int = 0
    private: bytes = b""
    p_key: int = DEFAULT_P_KEY
    traffic_class: int = 0
    service_level: int = 0
    ca_guid: int = 0
    responder_resources: int = 1
    initiator_depth: int = 1
    retries: int = 7
    ack_timeout: int = 20
    """The code of the time after which a packet without an acknowledgement is sent again."""
    rnr_retries: int = 7
    service: Service = Service.RC

    attribute = Attribute.REQ

    def encode(self) -> bytes:
        if self.mtu not in _PATH_MTU:
            raise FieldError(f"mtu is {self.mtu!r}; InfiniBand has 256, 512, 1024, 2048 and 4096")
        if len(self.private) > PRIVATE_OCTETS:
            raise FieldError(f"{len(self.private)} octets of private data; a request has room for {PRIVATE_OCTETS}")
        gids = [_gid(address) for address in (self.source, self.destination)]
        return _pack(
            _REQ,
            self.communication_id,
            self.service_id,
            self.ca_guid,
            0,
            self.qp << 8 | self.responder_resources,
            self.initiator_depth,
            _TIMEOUT << 3 | _SERVICES.index(self.service) << 1,
            self.psn << 8 | _TIMEOUT << 3 | self.retries,
            self.p_key,
            _PATH_MTU[self.mtu] << 4 | self.rnr_retries,
            15 << 4,
            _NO_LID,
            _NO_LID,
            *gids,
            _FULL_RATE,
            self.traffic_class,
            64,
            self.service_level << 4,
            self.ack_timeout << 3,
            _addressing(self) + self.private,
        )

    @classmethod
    def parse(cls, body: bytes) -> Request:
        (
            communication_id, service_id, guid, _, qp, depth, kind, psn, p_key, mtu, _, _, _, _, _, _, traffic_class, _,
            level, ack_timeout, private,
        ) = _REQ.unpack(body)  # fmt: skip
        sizes = {code: size for size, code in _PATH_MTU.items()}
        if mtu >> 4 not in sizes:
            raise CmError(CmReason.BAD_FIELD, f"path MTU {mtu >> 4} is none of {sorted(sizes)}")
        if kind >> 1 & 3 >= len(_SERVICES):
            raise CmError(CmReason.BAD_FIELD, f"transport service {kind >> 1 & 3} is neither RC nor UC")
        source, destination, port = _addresses(private)
        return cls(
            communication_id,
            service_id,
            qp >> 8,
            psn >> 8,
            sizes[mtu >> 4],
            source,
            destination,
            port,
            private[_IP_CM.size :],
            p_key,
            traffic_class,
            level >> 4,
            guid,
            qp & 0xFF,
            depth & 0xFF,
            psn & 7,
            ack_timeout >> 3,
            mtu & 7,
            _SERVICES[kind >> 1 & 3],
        )


_SERVICES = (Service.RC, Service.UC)
"""The transport services by their numbers in a request."""
_TIMEOUT = 20
"""The time that Linux gives for the answers of a connection manager: 4.096 us x 2^20, some 4 s."""


@dataclass(frozen=True)
class Reply:
    """REP: the passive side takes the connection."""

    communication_id: int
    remote_communication_id: int
    qp: int
    psn: int
    """The PSN with which the other end shall begin."""
    private: bytes = b""
    ca_guid: int = 0
    responder_resources: int = 1
    initiator_depth: int = 1

    attribute = Attribute.REP

    def encode(self) -> bytes:
        return _pack(
            _REP,
            self.communication_id,
            self.remote_communication_id,
            0,
            self.qp << 8,
            0,
            self.psn << 8,
            self.responder_resources,
            self.initiator_depth,
            0,
            7 << 5,
            self.ca_guid,
            self.private,
        )

    @classmethod
    def parse(cls, body: bytes) -> Reply:
        own, remote, _, qp, _, psn, resources, depth, _, _, guid, private = _REP.unpack(body)
        return cls(own, remote, qp >> 8, psn >> 8, private, guid, resources, depth)

    @property
    def addressee(self) -> int:
        """The communication ID of who is to have the message."""
        return self.remote_communication_id


@dataclass(frozen=True)
class Ready:
    """RTU: the active side has the reply and begins."""

    communication_id: int
    remote_communication_id: int

    attribute = Attribute.RTU

    def encode(self) -> bytes:
        return _pack(_RTU, self.communication_id, self.remote_communication_id)

    @classmethod
    def parse(cls, body: bytes) -> Ready:
        return cls(*_RTU.unpack(body))

    @property
    def addressee(self) -> int:
        return self.remote_communication_id


@dataclass(frozen=True)
class Reject:
    """REJ: there will be no connection."""

    communication_id: int
    remote_communication_id: int
    reason: int

    attribute = Attribute.REJ

    def encode(self) -> bytes:
        return _pack(_REJ, self.communication_id, self.remote_communication_id, 0, 0, self.reason)

    @classmethod
    def parse(cls, body: bytes) -> Reject:
        own, remote, _, _, reason = _REJ.unpack(body)
        return cls(own, remote, reason)

    @property
    def addressee(self) -> int:
        return self.remote_communication_id


@dataclass(frozen=True)
class DatagramRequest:
    """SIDR REQ: the queue pair of a service that takes datagrams is asked for."""

    communication_id: int
    service_id: int
    source: IPv4Address | IPv6Address
    destination: IPv4Address | IPv6Address
    source_port: int = 0
    private: bytes = b""
    p_key: int = DEFAULT_P_KEY

    attribute = Attribute.SIDR_REQ

    def encode(self) -> bytes:
        if len(self.private) > _DATAGRAM_PRIVATE:
            raise FieldError(f"{len(self.private)} octets of private data; SIDR REQ has room for {_DATAGRAM_PRIVATE}")
        return _pack(_SIDR_REQ, self.communication_id, self.p_key, self.service_id, _addressing(self) + self.private)

    @classmethod
    def parse(cls, body: bytes) -> DatagramRequest:
        communication_id, p_key, service_id, private = _SIDR_REQ.unpack(body)
        source, destination, port = _addresses(private)
        return cls(communication_id, service_id, source, destination, port, private[_IP_CM.size :], p_key)


@dataclass(frozen=True)
class DatagramReply:
    """SIDR REP: the queue pair that takes datagrams of a service, with its Q_Key; or the status of a refusal."""

    communication_id: int
    qp: int
    service_id: int
    q_key: int
    private: bytes = b""
    status: int = 0

    attribute = Attribute.SIDR_REP

    def encode(self) -> bytes:
        return _pack(
            _SIDR_REP, self.communication_id, self.status, 0, self.qp << 8, self.service_id, self.q_key, self.private
        )

    @classmethod
    def parse(cls, body: bytes) -> DatagramReply:
        communication_id, status, _, qp, service_id, q_key, private = _SIDR_REP.unpack(body)
        return cls(communication_id, qp >> 8, service_id, q_key, private, status)

    @property
    def addressee(self) -> int:
        return self.communication_id


Message = Request | Reply | Ready | Reject | DatagramRequest | DatagramReply
_MESSAGES: dict[int, type[Message]] = {
    kind.attribute: kind for kind in (Request, Reply, Ready, Reject, DatagramRequest, DatagramReply)
}


def packet(message: Message, transaction: int, psn: int) -> Packet:
    """Return the UD packet of a message."""
    header = _MAD.pack(1, _CLASS, _CLASS_VERSION, _SEND, 0, 0, transaction, message.attribute, 0, 0)
    return Packet(Opcode.DATAGRAM, CM_QP, psn, header + message.encode(), deth=Deth(Q_KEY, CM_QP))


def parse(mad: bytes) -> tuple[Message, int]:
    """Return the message in the payload of a UD packet, and its transaction ID."""
    if len(mad) != MAD_OCTETS:
        raise CmError(CmReason.NOT_A_MAD, f"{len(mad)} octets; a management datagram has {MAD_OCTETS}")
    base, kind, version, method, _, _, transaction, attribute, _, _ = _MAD.unpack_from(mad)
    if (base, kind, version, method) != (1, _CLASS, _CLASS_VERSION, _SEND):
        raise CmError(
            CmReason.NOT_CM, f"class {kind} version {version} method {method} is not the connection manager's"
        )
    if attribute not in _MESSAGES:
        raise CmError(CmReason.ATTRIBUTE_NOT_KNOWN, f"attribute {attribute:#06x} is none of {[*map(str, Attribute)]}")
    return _MESSAGES[attribute].parse(mad[_MAD.size :]), transaction


def service_id(port: int, service: Service = Service.RC) -> int:
    """Return the service that listens on a port of the RDMA IP CM service."""
    return (DATAGRAM_PREFIX if service is Service.UD else SERVICE_PREFIX) | port


def _pack(layout: struct.Struct, *values: int | bytes) -> bytes:
    try:
        return layout.pack(*values)
    except struct.error as error:
        raise FieldError(f"a value does not fit into a message of the connection manager: {error}") from None


def _addressing(request: Request | DatagramRequest) -> bytes:
    """Return the addresses with which the private data of a request begin."""
    pair = request.source.packed, request.destination.packed
    return _IP_CM.pack(0, request.source.version << 4, request.source_port, *map(_plain, pair))


def _addresses(private: bytes) -> tuple[IPv4Address | IPv6Address, IPv4Address | IPv6Address, int]:
    _, version, port, source, destination = _IP_CM.unpack_from(private)
    if version >> 4 not in (4, 6):
        raise CmError(CmReason.BAD_FIELD, f"the private data name IP version {version >> 4}")
    kind = _v4 if version >> 4 == 4 else IPv6Address
    return kind(source), kind(destination), port


def _plain(packed: bytes) -> bytes:
    """Return an address in 16 octets, IPv4 in the last four of them."""
    return packed.rjust(16, b"\0")


def _gid(address: IPv4Address | IPv6Address) -> bytes:
    """Return a RoCEv2 GID: the IPv6 address, or ::ffff:a.b.c.d."""
    return address.packed if address.version == 6 else b"\xff\xff".rjust(12, b"\0") + address.packed


def _v4(octets: bytes) -> IPv4Address:
    return IPv4Address(octets[12:])
