"""The SA in octets: a request MAD in, the answer out, for PathRecord, MultiPathRecord and ClassPortInfo.

The Service-ID is either in the records' spare fields, selected by the first one's mask bit, or in place of SM_Key,
where zero means that none is given (decision 0121). The other spare field's own bit is accepted and means nothing.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

from testbed.frames.path_record import (
    QOS_SUPPORTED,
    Attribute,
    ClassPortInfo,
    Method,
    MultiPathMask,
    MultiPathRecord,
    PathMask,
    PathRecord,
    RecordError,
    SaMad,
    Status,
)
from testbed.subjects.qos.numbers import MTU_CODES, RATE_CODES, mtu_code, rate_code
from testbed.subjects.qos.records import Found, PathRecordRequest, PathRecords, Selector, Wanted

_MOST_PAIRS = 1024
"""The most pairs of source and destination in one MultiPathRecord request."""


class ServiceIdField(enum.StrEnum):
    """The place of the Service-ID in a record."""

    SPARE = "spare"
    SM_KEY = "sm-key"


class SubnetAdministration:
    """Answers MADs from path records. These can be replaced at any time."""

    def __init__(self, records: PathRecords, service_id_field: ServiceIdField = ServiceIdField.SPARE) -> None:
        self.records = records
        self.service_id_field = service_id_field

    def answer(self, octets: bytes) -> bytes:
        """Return the response to a request. RecordError for octets that are no MAD of subnet administration."""
        request = SaMad.unpack(octets)
        try:
            status, records = self._answer(request)
        except RecordError:  # a record that is cut short, or a code that means nothing
            status, records = Status.REQUEST_INVALID, []
        return request.answer(status, records).pack()

    def _answer(self, request: SaMad) -> tuple[Status, list[bytes]]:
        key = request.method, request.attribute
        if key == (Method.GET, Attribute.CLASS_PORT_INFO):
            return Status.OK, [ClassPortInfo(capabilities2=QOS_SUPPORTED).pack()]
        if key in ((Method.GET, Attribute.PATH_RECORD), (Method.GET_TABLE, Attribute.PATH_RECORD)):
            wanted = [self._path_request(request)]
        elif key == (Method.GET_MULTI, Attribute.MULTI_PATH_RECORD):
            wanted = self._multi_path_requests(request)
        else:
            return Status.BAD_METHOD, []
        if not wanted or any(not _has_both_ends(one) for one in wanted):
            return Status.REQUEST_INVALID, []
        found = [result for one in wanted if isinstance(result := self.records.query(one), Found)]
        is_spare = self.service_id_field is ServiceIdField.SPARE
        service_id = _service_id(request, self) if is_spare else None  # SM_Key is in the answer as it came
        packed = [path_record(one, service_id).pack() for one in found[: self._path_limit(request)]]
        return (Status.OK, packed) if packed else (Status.NO_RECORDS, [])

    def _path_request(self, mad: SaMad) -> PathRecordRequest:
        record, mask = PathRecord.unpack(mad.data), mad.component_mask
        return PathRecordRequest(
            sgid=record.sgid if mask & PathMask.SGID else None,
            dgid=record.dgid if mask & PathMask.DGID else None,
            slid=record.slid if mask & PathMask.SLID else None,
            dlid=record.dlid if mask & PathMask.DLID else None,
            service_id=_service_id(mad, self),
            tclass=record.tclass if mask & PathMask.TCLASS else None,
            qos_class=record.qos_class if mask & PathMask.QOS_CLASS else None,
            pkey=record.pkey if mask & PathMask.PKEY else None,
            sl=record.sl if mask & PathMask.SL else None,
            mtu=_mtu(record, bool(mask & PathMask.MTU and mask & PathMask.MTU_SELECTOR)),
            rate=_rate(record, bool(mask & PathMask.RATE and mask & PathMask.RATE_SELECTOR)),
            packet_life=_life(record, bool(mask & PathMask.PACKET_LIFE and mask & PathMask.PACKET_LIFE_SELECTOR)),
        )

    def _multi_path_requests(self, mad: SaMad) -> list[PathRecordRequest]:
        """Return one request for each pair, or none if the request is invalid."""
        record, mask, names = MultiPathRecord.unpack(mad.data), mad.component_mask, MultiPathMask
        if len(record.sgids) * len(record.dgids) > _MOST_PAIRS:
            return []
        one = PathRecordRequest(
            service_id=_service_id(mad, self),
            tclass=record.tclass if mask & names.TCLASS else None,
            qos_class=record.qos_class if mask & names.QOS_CLASS else None,
            pkey=record.pkey if mask & names.PKEY else None,
            sl=record.sl if mask & names.SL else None,
            mtu=_mtu(record, bool(mask & names.MTU and mask & names.MTU_SELECTOR)),
            rate=_rate(record, bool(mask & names.RATE and mask & names.RATE_SELECTOR)),
            packet_life=_life(record, bool(mask & names.PACKET_LIFE and mask & names.PACKET_LIFE_SELECTOR)),
        )
        return [one._replace(sgid=sgid, dgid=dgid) for sgid in record.sgids for dgid in record.dgids]

    def _path_limit(self, mad: SaMad) -> int | None:
        """Return the largest number of paths that is asked for."""
        if mad.attribute is Attribute.PATH_RECORD:
            return PathRecord.unpack(mad.data).paths or None if mad.component_mask & PathMask.PATHS else None
        return MultiPathRecord.unpack(mad.data).paths or None if mad.component_mask & MultiPathMask.PATHS else None


def _service_id(mad: SaMad, administration: SubnetAdministration) -> int | None:
    if administration.service_id_field is ServiceIdField.SM_KEY:
        return mad.sm_key or None
    if mad.attribute is Attribute.PATH_RECORD:
        return PathRecord.unpack(mad.data).service_id if mad.component_mask & PathMask.SERVICE_ID else None
    return MultiPathRecord.unpack(mad.data).service_id if mad.component_mask & MultiPathMask.SERVICE_ID else None


def _has_both_ends(request: PathRecordRequest) -> bool:
    sources, destinations = (request.sgid, request.slid), (request.dgid, request.dlid)
    return any(end is not None for end in sources) and any(end is not None for end in destinations)


def _mtu(record: PathRecord | MultiPathRecord, is_given: bool) -> Wanted | None:
    return _wanted("MTU", record.mtu, record.mtu_selector, MTU_CODES) if is_given else None


def _rate(record: PathRecord | MultiPathRecord, is_given: bool) -> Wanted | None:
    return _wanted("rate", record.rate, record.rate_selector, RATE_CODES) if is_given else None


def _wanted(what: str, code: int, selector: int, codes: Mapping[int, int]) -> Wanted:
    if code not in codes:
        raise RecordError(f"{code} is no {what} code")
    return Wanted(codes[code], Selector(selector))


def _life(record: PathRecord | MultiPathRecord, is_given: bool) -> Wanted | None:
    return Wanted(record.packet_life, Selector(record.packet_life_selector)) if is_given else None


def path_record(found: Found, service_id: int | None = None) -> PathRecord:
    """Return the record of a path. MTU and rate are rounded down to what has a code."""
    return PathRecord(
        service_id=service_id or 0,
        dgid=found.destination.gid,
        sgid=found.source.gid,
        dlid=found.dlid,
        slid=found.slid,
        tclass=found.tclass,
        reversible=True,
        paths=1,
        pkey=found.pkey,
        sl=found.sl,
        mtu_selector=Selector.EXACTLY,
        mtu=mtu_code(found.mtu),
        rate_selector=Selector.EXACTLY,
        rate=rate_code(found.rate),
        packet_life_selector=Selector.EXACTLY,
        packet_life=found.packet_life,
    )
