"""PathRecord, MultiPathRecord and the SA's MAD: where each field lies, and what is refused."""

from __future__ import annotations

import random
from dataclasses import fields, replace

import pytest

from testbed.frames.path_record import (
    MAD_LENGTH,
    PATH_RECORD_LENGTH,
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
)

SERVICE_ID = 0x0102030405060708
GID = 0xFE80 << 112 | 0x1122334455667788
RECORD = PathRecord(
    service_id=SERVICE_ID, dgid=GID, sgid=GID + 1, dlid=0x0A0B, slid=0x0C0D, raw_traffic=True, flow_label=0xABCDE,
    hop_limit=0x3F, tclass=0x55, reversible=True, paths=0x7F, pkey=0x8001, qos_class=0xABC, sl=0xD, mtu_selector=2,
    mtu=4, rate_selector=1, rate=18, packet_life_selector=3, packet_life=20, preference=9,
)  # fmt: skip
MULTI = MultiPathRecord(
    sgids=(GID, GID + 1), dgids=(GID + 2,), service_id=SERVICE_ID, flow_label=0xABCDE, hop_limit=1, tclass=0x55,
    reversible=True, paths=3, pkey=0x8001, qos_class=0xABC, sl=0xD, mtu_selector=2, mtu=4, rate_selector=1, rate=18,
    packet_life_selector=3, packet_life=20, independence=1,
)  # fmt: skip


def test_a_path_record_has_the_service_id_in_its_first_two_fields() -> None:
    octets = RECORD.pack()
    assert len(octets) == PATH_RECORD_LENGTH == 64
    assert octets[:4] == bytes((1, 2, 3, 4)) and octets[4:8] == bytes((5, 6, 7, 8))
    assert (PathMask.SERVICE_ID, PathMask.SERVICE_ID_LOW) == (0x1, 0x2)
    assert octets[8:24] == GID.to_bytes(16) and octets[24:40] == (GID + 1).to_bytes(16)
    assert octets[40:48].hex() == "0a0b0c0d8abcde3f"
    assert octets[48:58].hex() == "55ff8001abcd8452d409"
    assert octets[58:] == bytes(6)
    assert PathRecord.unpack(octets) == RECORD


def test_a_multi_path_record_has_it_after_the_packet_life_and_before_the_gids() -> None:
    octets = MULTI.pack()
    assert octets[12] == 3 << 6 | 20  # the packet life
    assert octets[13] == 0x01 and octets[17:24] == bytes((2, 3, 4, 5, 6, 7, 8))
    assert (MultiPathMask.SERVICE_ID, MultiPathMask.SERVICE_ID_LOW) == (0x10000, 0x200000)
    assert octets[14:17] == bytes((0x40, 2, 1))
    assert octets[24:40] == GID.to_bytes(16)
    assert MultiPathRecord.unpack(octets) == MULTI


def test_a_service_id_has_64_bits() -> None:
    assert PathRecord.unpack(replace(RECORD, service_id=(1 << 64) - 1).pack()).service_id == (1 << 64) - 1
    with pytest.raises(RecordError, match="service_id 18446744073709551616 does not fit 64 bits"):
        replace(RECORD, service_id=1 << 64)


@pytest.mark.parametrize("name", [field.name for field in fields(PathRecord)])
def test_values_that_do_not_fit_a_field_are_refused(name: str) -> None:
    if name in ("raw_traffic", "reversible"):
        return
    with pytest.raises(RecordError, match=f"^{name} "):
        replace(RECORD, **{name: 1 << 128})  # type: ignore[arg-type]


def test_every_field_of_random_octets_survives() -> None:
    rng = random.Random(1)
    for _ in range(200):
        octets = bytearray(rng.randbytes(58) + bytes(6))
        octets[44] &= 0x8F  # three reserved bits
        assert PathRecord.unpack(bytes(octets)).pack() == octets


def test_records_that_are_cut_short_are_refused() -> None:
    with pytest.raises(RecordError, match="a PathRecord has 64 octets, not 63"):
        PathRecord.unpack(RECORD.pack()[:63])
    with pytest.raises(RecordError, match="2 source and 1 destination GIDs do not fit 71 octets"):
        MultiPathRecord.unpack(MULTI.pack()[:71])
    with pytest.raises(RecordError, match="at least 24 octets, not 23"):
        MultiPathRecord.unpack(bytes(23))


def test_the_mad_has_sm_key_and_mask_at_their_places() -> None:
    mad = SaMad(Method.GET_TABLE, Attribute.PATH_RECORD, 0x77, PathMask.SGID | PathMask.DGID, RECORD.pack(), SERVICE_ID)
    octets = mad.pack()
    assert len(octets) == MAD_LENGTH
    assert octets[:4] == bytes((1, 3, 2, 0x12)) and octets[16:18] == bytes((0, 0x35))
    assert octets[36:44] == SERVICE_ID.to_bytes(8)
    assert octets[48:56] == (0xC).to_bytes(8)
    assert octets[56 : 56 + 64] == RECORD.pack()
    again = SaMad.unpack(octets)
    assert (again.method, again.sm_key, again.component_mask) == (mad.method, SERVICE_ID, 0xC)
    assert PathRecord.unpack(again.data) == RECORD


def test_an_answer_has_the_number_of_its_records() -> None:
    request = SaMad(Method.GET_TABLE, Attribute.PATH_RECORD, 5)
    answer = SaMad.unpack(request.answer(0, [RECORD.pack()] * 5).pack())
    assert (answer.method, answer.transaction, answer.attribute_length) == (Method.GET_TABLE_RESPONSE, 5, 64)
    assert answer.data == RECORD.pack() * 5


def test_mads_of_another_kind_are_refused() -> None:
    octets = bytearray(SaMad(Method.GET, Attribute.PATH_RECORD, 1).pack())
    with pytest.raises(RecordError, match="a MAD has 256 octets, not 255"):
        SaMad.unpack(bytes(octets[:255]))
    octets[1] = 4
    with pytest.raises(RecordError, match="class 0x4 version 2 of MAD version 1 is not subnet administration"):
        SaMad.unpack(bytes(octets))
    octets[1], octets[3] = 3, 0x02
    with pytest.raises(RecordError, match="method 0x2 of attribute 0x35 is not one for paths"):
        SaMad.unpack(bytes(octets))


def test_a_capability_bit_shows_that_the_sa_does_qos() -> None:
    assert ClassPortInfo.unpack(ClassPortInfo(capabilities2=QOS_SUPPORTED).pack()).has_qos
    assert not ClassPortInfo.unpack(ClassPortInfo().pack()).has_qos
    octets = ClassPortInfo(capabilities2=QOS_SUPPORTED, response_time=18).pack()
    assert len(octets) == 72 and octets[4:8] == (2 << 5 | 18).to_bytes(4)
