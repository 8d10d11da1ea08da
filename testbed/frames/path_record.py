"""PathRecord and MultiPathRecord with the Service-ID, the part of an SA MAD around them, and the SA's ClassPortInfo.

The layouts are those of IBA volume 1, chapter 15; the RFC puts the 64-bit Service-ID into fields that were reserved:

    PathRecord        octets 0-7, two fields of 32 bits whose mask bits are 0x1 and 0x2
    MultiPathRecord   octet 13, after the packet life (0x10000), and octets 17-23, before the GIDs (0x200000)
    or                the SM_Key of the MAD, where zero means that there is none (decision 0121)

Which of the two is in use is for `testbed.subjects.qos.subnet_administration`; here both are only fields.
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass, replace
from typing import Any

from testbed.errors import XoffError

SLS = range(16)
"""The service levels (SL) of InfiniBand."""


class RecordError(XoffError):
    """Octets that are not a record, or values that do not fit into one."""


class PathMask(enum.IntFlag):
    """The component mask bits of PathRecord."""

    SERVICE_ID = 0x1
    SERVICE_ID_LOW = 0x2  # the second field's own bit
    DGID = 0x4
    SGID = 0x8
    DLID = 0x10
    SLID = 0x20
    RAW_TRAFFIC = 0x40
    FLOW_LABEL = 0x100
    HOP_LIMIT = 0x200
    TCLASS = 0x400
    REVERSIBLE = 0x800
    PATHS = 0x1000
    PKEY = 0x2000
    QOS_CLASS = 0x4000
    SL = 0x8000
    MTU_SELECTOR = 0x10000
    MTU = 0x20000
    RATE_SELECTOR = 0x40000
    RATE = 0x80000
    PACKET_LIFE_SELECTOR = 0x100000
    PACKET_LIFE = 0x200000
    PREFERENCE = 0x400000


class MultiPathMask(enum.IntFlag):
    """The component mask bits of MultiPathRecord."""

    RAW_TRAFFIC = 0x1
    FLOW_LABEL = 0x4
    HOP_LIMIT = 0x8
    TCLASS = 0x10
    REVERSIBLE = 0x20
    PATHS = 0x40
    PKEY = 0x80
    QOS_CLASS = 0x100
    SL = 0x200
    MTU_SELECTOR = 0x400
    MTU = 0x800
    RATE_SELECTOR = 0x1000
    RATE = 0x2000
    PACKET_LIFE_SELECTOR = 0x4000
    PACKET_LIFE = 0x8000
    SERVICE_ID = 0x10000
    INDEPENDENCE = 0x20000
    SGID_COUNT = 0x80000
    DGID_COUNT = 0x100000
    SERVICE_ID_LOW = 0x200000


_PATH = struct.Struct("!Q16s16sHHIBBHHBBBB6x")
PATH_RECORD_LENGTH = _PATH.size
_MULTI = struct.Struct("!IBBHHBBBBBBB7s")
MULTI_PATH_FIXED_LENGTH = _MULTI.size
_GID_LENGTH = 16


def _fits(record: object, **bits: int) -> None:
    for name, width in bits.items():
        value = getattr(record, name)
        if not 0 <= value < 1 << width:
            raise RecordError(f"{name} {value} does not fit {width} bits")


@dataclass(frozen=True, kw_only=True)
class _Attributes:
    """The fields that both records have in a row, from the raw traffic bit to the packet life."""

    raw_traffic: bool = False
    flow_label: int = 0
    hop_limit: int = 0
    tclass: int = 0
    reversible: bool = False
    paths: int = 0
    pkey: int = 0
    qos_class: int = 0
    sl: int = 0
    mtu_selector: int = 0
    mtu: int = 0
    rate_selector: int = 0
    rate: int = 0
    packet_life_selector: int = 0
    packet_life: int = 0

    def __post_init__(self) -> None:
        _fits(self, flow_label=20, hop_limit=8, tclass=8, paths=7, pkey=16, qos_class=12, sl=4)
        _fits(self, mtu_selector=2, mtu=6, rate_selector=2, rate=6, packet_life_selector=2, packet_life=6)

    def _words(self) -> tuple[int, ...]:
        return (
            self.raw_traffic << 31 | self.flow_label << 8 | self.hop_limit,
            self.tclass,
            self.reversible << 7 | self.paths,
            self.pkey,
            self.qos_class << 4 | self.sl,
            self.mtu_selector << 6 | self.mtu,
            self.rate_selector << 6 | self.rate,
            self.packet_life_selector << 6 | self.packet_life,
        )

    @staticmethod
    def _of_words(hops: int, tclass: int, paths: int, pkey: int, qos: int, *limits: int) -> dict[str, Any]:
        mtu, rate, life = limits
        return {
            "raw_traffic": bool(hops >> 31), "flow_label": hops >> 8 & 0xFFFFF, "hop_limit": hops & 0xFF,
            "tclass": tclass, "reversible": bool(paths >> 7), "paths": paths & 0x7F, "pkey": pkey,
            "qos_class": qos >> 4, "sl": qos & 0xF, "mtu_selector": mtu >> 6, "mtu": mtu & 0x3F,
            "rate_selector": rate >> 6, "rate": rate & 0x3F, "packet_life_selector": life >> 6,
            "packet_life": life & 0x3F,
        }  # fmt: skip


@dataclass(frozen=True)
class PathRecord(_Attributes):
    """A path, or in a request what is wanted of it. MTU, rate and packet life are codes."""

    service_id: int = 0
    dgid: int = 0
    sgid: int = 0
    dlid: int = 0
    slid: int = 0
    preference: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        _fits(self, service_id=64, dgid=128, sgid=128, dlid=16, slid=16, preference=8)

    def pack(self) -> bytes:
        return _PATH.pack(
            self.service_id,
            self.dgid.to_bytes(_GID_LENGTH),
            self.sgid.to_bytes(_GID_LENGTH),
            self.dlid,
            self.slid,
            *self._words(),
            self.preference,
        )

    @classmethod
    def unpack(cls, octets: bytes) -> PathRecord:
        if len(octets) < PATH_RECORD_LENGTH:
            raise RecordError(f"a PathRecord has {PATH_RECORD_LENGTH} octets, not {len(octets)}")
        service_id, dgid, sgid, dlid, slid, *words, preference = _PATH.unpack_from(octets)
        ends = {"dgid": int.from_bytes(dgid), "sgid": int.from_bytes(sgid), "dlid": dlid, "slid": slid}
        return cls(service_id=service_id, **ends, **cls._of_words(*words), preference=preference)


@dataclass(frozen=True)
class MultiPathRecord(_Attributes):
    """A request for paths between several ports; the answer is PathRecords."""

    sgids: tuple[int, ...] = ()
    dgids: tuple[int, ...] = ()
    service_id: int = 0
    independence: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        _fits(self, service_id=64, independence=2)
        if len(self.sgids) > 255 or len(self.dgids) > 255:
            raise RecordError("a MultiPathRecord has at most 255 GIDs of each kind")
        for gid in (*self.sgids, *self.dgids):
            if not 0 <= gid < 1 << 128:
                raise RecordError(f"GID {gid} does not fit 128 bits")

    def pack(self) -> bytes:
        fixed = _MULTI.pack(
            *self._words(),
            self.service_id >> 56,
            self.independence << 6,
            len(self.sgids),
            len(self.dgids),
            (self.service_id & (1 << 56) - 1).to_bytes(7),
        )
        return fixed + b"".join(gid.to_bytes(_GID_LENGTH) for gid in (*self.sgids, *self.dgids))

    @classmethod
    def unpack(cls, octets: bytes) -> MultiPathRecord:
        if len(octets) < MULTI_PATH_FIXED_LENGTH:
            raise RecordError(f"a MultiPathRecord has at least {MULTI_PATH_FIXED_LENGTH} octets, not {len(octets)}")
        *words, high, independence, sources, destinations, low = _MULTI.unpack_from(octets)
        ends = MULTI_PATH_FIXED_LENGTH + (sources + destinations) * _GID_LENGTH
        if len(octets) < ends:
            raise RecordError(f"{sources} source and {destinations} destination GIDs do not fit {len(octets)} octets")
        places = range(MULTI_PATH_FIXED_LENGTH, ends, _GID_LENGTH)
        gids = tuple(int.from_bytes(octets[place : place + _GID_LENGTH]) for place in places)
        service_id = high << 56 | int.from_bytes(low)
        return cls(gids[:sources], gids[sources:], service_id, **cls._of_words(*words), independence=independence >> 6)


class Method(enum.IntEnum):
    """The methods of subnet administration that concern paths."""

    GET = 0x01
    GET_TABLE = 0x12
    GET_MULTI = 0x14
    GET_RESPONSE = 0x81
    GET_TABLE_RESPONSE = 0x92
    GET_MULTI_RESPONSE = 0x94


class Attribute(enum.IntEnum):
    CLASS_PORT_INFO = 0x0001
    PATH_RECORD = 0x0035
    MULTI_PATH_RECORD = 0x003A


class Status(enum.IntEnum):
    """SA status codes, which are the upper octet of the MAD's."""

    OK = 0x0000
    BAD_METHOD = 0x000C  # method and attribute do not go together
    REQUEST_INVALID = 0x0200
    NO_RECORDS = 0x0300


CLASS = 0x03
"""The management class of subnet administration."""
_CLASS_VERSION, _BASE_VERSION = 2, 1
_MAD = struct.Struct("!BBBBHHQHHI12sQHHQ")
_DATA_OFFSET = _MAD.size
MAD_LENGTH = 256
_LAST_SEGMENT = bytes((1, 1, 0x07, 0, 0, 0, 0, 1, 0, 0, 0, 0))
"""The RMPP header of a single segment: version 1, DATA, active, first and last segment, number 1."""


@dataclass(frozen=True)
class SaMad:
    """An SA query or its answer. Longer answers than one MAD holds are whole here; segments are the transport's."""

    method: Method
    attribute: Attribute
    transaction: int
    component_mask: int = 0
    data: bytes = b""
    sm_key: int = 0
    attribute_length: int = 0  # octets of one record of an answer, a multiple of 8
    status: int = 0

    def pack(self) -> bytes:
        _fits(self, transaction=64, component_mask=64, sm_key=64, status=16)
        header = _MAD.pack(
            _BASE_VERSION, CLASS, _CLASS_VERSION, self.method, self.status, 0, self.transaction, self.attribute, 0, 0,
            _rmpp(self), self.sm_key, self.attribute_length // 8, 0, self.component_mask,
        )  # fmt: skip
        return (header + self.data).ljust(MAD_LENGTH, b"\0")

    @classmethod
    def unpack(cls, octets: bytes) -> SaMad:
        if len(octets) < MAD_LENGTH:
            raise RecordError(f"a MAD has {MAD_LENGTH} octets, not {len(octets)}")
        base, kind, version, method, status, _, transaction, attribute, _, _, rmpp, sm_key, length, _, mask = (
            _MAD.unpack_from(octets)
        )
        if (base, kind, version) != (_BASE_VERSION, CLASS, _CLASS_VERSION):
            raise RecordError(f"class {kind:#x} version {version} of MAD version {base} is not subnet administration")
        try:
            known = Method(method), Attribute(attribute)
        except ValueError:
            raise RecordError(f"method {method:#x} of attribute {attribute:#x} is not one for paths") from None
        data = octets[_DATA_OFFSET:]
        if rmpp[2] & 1:  # active: the payload's length counts the SA header, 20 octets
            data = data[: max(int.from_bytes(rmpp[8:12]) - 20, 0)]
        return cls(*known, transaction, mask, data, sm_key, length * 8, status)

    def answer(self, status: int, records: list[bytes]) -> SaMad:
        """Return the response to this request."""
        length = len(records[0]) if records else 0
        return replace(
            self,
            method=Method(self.method | 0x80),
            data=b"".join(records),
            attribute_length=-(-length // 8) * 8,
            status=status,
        )


def _rmpp(mad: SaMad) -> bytes:
    if mad.method in (Method.GET_TABLE_RESPONSE, Method.GET_MULTI_RESPONSE):
        return _LAST_SEGMENT[:8] + (20 + len(mad.data)).to_bytes(4)
    return bytes(12)


_CLASS_PORT_INFO = struct.Struct("!BBHI64x")
_RESPONSE_TIME_BITS = 5
MULTI_PATH_SUPPORTED = 1 << 12
"""The bit of CapabilityMask by which the SA says that it answers MultiPathRecord requests."""
QOS_SUPPORTED = 1 << 1
"""The bit of CapabilityMask2 by which the SA says that it heeds Service-ID and QoS class (RFC section 2; OpenSM's
bit)."""


@dataclass(frozen=True)
class ClassPortInfo:
    """The version and capabilities of the SA; the addresses for redirection and traps are zero."""

    capabilities: int = MULTI_PATH_SUPPORTED
    capabilities2: int = 0
    response_time: int = 18

    @property
    def has_qos(self) -> bool:
        return bool(self.capabilities2 & QOS_SUPPORTED)

    def pack(self) -> bytes:
        _fits(self, capabilities=16, capabilities2=27, response_time=5)
        second = self.capabilities2 << _RESPONSE_TIME_BITS | self.response_time
        return _CLASS_PORT_INFO.pack(_BASE_VERSION, _CLASS_VERSION, self.capabilities, second)

    @classmethod
    def unpack(cls, octets: bytes) -> ClassPortInfo:
        if len(octets) < _CLASS_PORT_INFO.size:
            raise RecordError(f"a ClassPortInfo has {_CLASS_PORT_INFO.size} octets, not {len(octets)}")
        _, _, capabilities, second = _CLASS_PORT_INFO.unpack_from(octets)
        return cls(capabilities, second >> _RESPONSE_TIME_BITS, second & (1 << _RESPONSE_TIME_BITS) - 1)


def dscp_of(sl: int) -> int:
    """Return the DSCP that carries an SL on Ethernet (decision 0181): its class selector, and 4 more from SL 8 on."""
    return (sl & 7) << 3 | (sl >> 3) << 2


def sl_of(dscp: int) -> int:
    """Return the SL that a DSCP carries; its lower two bits mean nothing."""
    return dscp >> 3 | (dscp >> 2 & 1) << 3
