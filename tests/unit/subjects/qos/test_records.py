"""Path records under a policy: levels, limits, paths by the forwarding tables, and reasons why there is none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from testbed.frames.path_record import (
    Attribute,
    ClassPortInfo,
    Method,
    MultiPathMask,
    MultiPathRecord,
    PathMask,
    PathRecord,
    SaMad,
    Status,
)
from testbed.subjects.qos.fabric import GBIT, Fabric, FabricError, Partition, PortCapabilities, PortKey, parse
from testbed.subjects.qos.groups import members
from testbed.subjects.qos.matching import ISER_PORT, cma_service_id, iser_service_id, sdp_service_id
from testbed.subjects.qos.model import (
    MatchRule,
    NodeType,
    PartitionDefault,
    Policy,
    PortGroup,
    QosLevel,
    Sl2VlScope,
    Ulp,
    UlpKey,
    UlpRule,
)
from testbed.subjects.qos.numbers import Ranges
from testbed.subjects.qos.records import Found, NotFound, PathReason, PathRecordRequest, PathRecords, Selector, Wanted
from testbed.subjects.qos.subnet_administration import ServiceIdField, SubnetAdministration
from testbed.subjects.qos.syntax.check import load
from tests.unit.subjects.qos.policy_samples import EXAMPLE, EXAMPLE_FABRIC, small_fabric

SERVICE = Ranges(((22, 22),))


def policy_of(level: QosLevel, **more: object) -> Policy:
    """Return a policy that gives requests for service 22 the level, and all others SL 1."""
    return replace(
        Policy(
            levels=(QosLevel("other", 1), level),
            rules=(MatchRule(level.name, service_ids=SERVICE),),
            default_level="other",
        ),
        **more,  # type: ignore[arg-type]
    )


def asked(fabric: Fabric, source: str, destination: str, **more: object) -> PathRecordRequest:
    ends = (fabric.by_key[PortKey(name, 0 if name.startswith("s") else 1)].gid for name in (source, destination))
    return PathRecordRequest(*ends, **more)  # type: ignore[arg-type]


def found(answer: Found | NotFound) -> Found:
    assert isinstance(answer, Found), answer
    return answer


def missing(answer: Found | NotFound) -> NotFound:
    assert isinstance(answer, NotFound), answer
    return answer


# Levels


def test_the_level_of_the_first_matching_rule_gives_the_answer() -> None:
    fabric = small_fabric(lmc=1)
    level = QosLevel("l", 3, tclass=32, mtu_limit=1024, rate_limit=5 * GBIT, path_bits=1, packet_life=9)
    answer = found(PathRecords(policy_of(level), fabric).query(asked(fabric, "h1", "h3", service_id=22, tclass=4)))
    assert (answer.sl, answer.tclass, answer.mtu, answer.rate, answer.packet_life) == (3, 32, 1024, 5 * GBIT, 9)
    assert (answer.dlid, answer.level.name, answer.rule) == (answer.destination.lid + 1, "l", 0)


def test_without_a_matching_rule_the_default_of_the_partition_then_of_the_policy_applies() -> None:
    fabric = small_fabric()
    policy = policy_of(QosLevel("l", 3), partition_defaults=(PartitionDefault("part1", "l"),))
    records = PathRecords(policy, fabric)
    assert found(records.query(asked(fabric, "h1", "h2", pkey=0x8001))).level.name == "l"
    assert found(records.query(asked(fabric, "h1", "h2", pkey=0xFFFF))).level.name == "other"
    assert found(records.query(asked(fabric, "h1", "h2"))).sl == 1
    without = found(PathRecords(Policy(), fabric).query(asked(fabric, "h1", "h2")))
    assert (without.sl, without.level.name, without.rule) == (0, "DEFAULT", None)


def test_a_request_for_another_sl_than_the_levels_finds_nothing() -> None:
    fabric = small_fabric()
    records = PathRecords(policy_of(QosLevel("l", 3)), fabric)
    assert found(records.query(asked(fabric, "h1", "h2", service_id=22, sl=3))).sl == 3
    answer = missing(records.query(asked(fabric, "h1", "h2", service_id=22, sl=4)))
    assert answer == (PathReason.SL, "SL 4 is asked for, and level l has SL 3")


def test_the_tclass_asked_for_is_returned_where_the_level_sets_none() -> None:
    fabric = small_fabric()
    records = PathRecords(policy_of(QosLevel("l", 3)), fabric)
    assert found(records.query(asked(fabric, "h1", "h2", service_id=22, tclass=9))).tclass == 9
    assert found(records.query(asked(fabric, "h1", "h2", service_id=22))).tclass == 0


def test_groups_are_matched_by_gid_or_lid() -> None:
    fabric = small_fabric()
    policy = Policy(
        (PortGroup("g", port_names=("h1/HCA-1/P1",)),),
        levels=(QosLevel("l", 3),),
        rules=(MatchRule("l", sources=("G",)),),
    )
    records = PathRecords(policy, fabric)
    h1, h2 = (fabric.by_key[PortKey(name, 1)] for name in ("h1", "h2"))
    assert found(records.query(PathRecordRequest(slid=h1.lid, dlid=h2.lid))).sl == 3
    assert found(records.query(PathRecordRequest(sgid=h1.gid, dlid=h2.lid))).sl == 3
    assert found(records.query(PathRecordRequest(slid=h2.lid, dgid=h1.gid))).sl == 0


# Limits and paths


def test_mtu_and_rate_are_the_smaller_of_path_and_limit() -> None:
    fabric = small_fabric()
    large = PathRecords(policy_of(QosLevel("l", 3, mtu_limit=4096, rate_limit=100 * GBIT)), fabric)
    answer = found(large.query(asked(fabric, "h1", "h2", service_id=22)))
    assert (answer.mtu, answer.rate, answer.hops) == (4096, 10 * GBIT, 1)
    answer = found(large.query(asked(fabric, "h1", "h3", service_id=22)))
    assert (answer.mtu, answer.rate, answer.hops) == (2048, 40 * GBIT, 2)


@pytest.mark.parametrize(
    ("wanted", "answer"),
    [
        (Wanted(1024, Selector.GREATER), 2048), (Wanted(2048, Selector.GREATER), PathReason.MTU),
        (Wanted(1024, Selector.LESS), 512), (Wanted(4096, Selector.LESS), 2048),
        (Wanted(256, Selector.LESS), PathReason.MTU),
        (Wanted(1024, Selector.EXACTLY), 1024), (Wanted(4096, Selector.EXACTLY), PathReason.MTU),
        (Wanted(256, Selector.BEST), 2048),
    ],
)  # fmt: skip
def test_an_mtu_that_is_asked_for(wanted: Wanted, answer: int | PathReason) -> None:
    fabric = small_fabric()
    got = PathRecords(Policy(), fabric).query(asked(fabric, "h1", "h3", mtu=wanted))
    assert answer == (got.mtu if isinstance(got, Found) else got.reason)


@pytest.mark.parametrize(
    ("wanted", "answer"),
    [
        (Wanted(5 * GBIT, Selector.GREATER), 10 * GBIT), (Wanted(10 * GBIT, Selector.GREATER), PathReason.RATE),
        (Wanted(10 * GBIT, Selector.LESS), 5 * GBIT), (Wanted(40 * GBIT, Selector.LESS), 10 * GBIT),
        (Wanted(10 * GBIT, Selector.EXACTLY), 10 * GBIT), (Wanted(5 * GBIT, Selector.EXACTLY), PathReason.RATE),
    ],
)  # fmt: skip
def test_a_rate_that_is_asked_for_is_compared_as_a_speed(wanted: Wanted, answer: int | PathReason) -> None:
    fabric = small_fabric()
    got = PathRecords(Policy(), fabric).query(asked(fabric, "h1", "h2", rate=wanted))
    assert answer == (got.rate if isinstance(got, Found) else got.reason)


def test_path_bits_are_the_lowest_bits_of_the_lid_as_many_as_the_lmc() -> None:
    fabric = small_fabric(lmc=1)
    records = PathRecords(policy_of(QosLevel("l", 3, path_bits=7)), fabric)
    answer = found(records.query(asked(fabric, "h1", "h2", service_id=22)))
    assert answer.dlid == answer.destination.lid + 1
    other = missing(records.query(asked(fabric, "h1", "h2", service_id=22, dlid=answer.destination.lid)))
    assert other.reason is PathReason.PATH_BITS


def test_the_path_follows_the_forwarding_tables_of_the_lid_with_path_bits() -> None:
    fabric = small_fabric(lmc=1)
    lid = fabric.by_key[PortKey("h3", 1)].lid
    del fabric.forwarding["s2"][lid + 1]
    records = PathRecords(policy_of(QosLevel("l", 3, path_bits=1)), fabric)
    assert found(records.query(asked(fabric, "h1", "h3"))).dlid == lid
    answer = missing(records.query(asked(fabric, "h1", "h3", service_id=22)))
    assert answer == (PathReason.NO_PATH, f"switch s2 has no forwarding entry for LID {lid + 1}")


def test_broken_fabrics_give_reasons_and_no_endless_walk() -> None:
    fabric = small_fabric()
    lid = fabric.by_key[PortKey("h3", 1)].lid
    for table, reason in ((4, "in a circle"), (3, "port 3 of s2 has no cable"), (2, f"LID {lid} ends in r1")):
        fabric.forwarding["s2"][lid] = table
        assert reason in missing(PathRecords(Policy(), fabric).query(asked(fabric, "h1", "h3"))).message


def test_an_sl_that_is_mapped_to_vl15_anywhere_on_the_way_is_not_found() -> None:
    fabric = small_fabric()
    table = (*range(3), 15, *range(4, 15), 0)
    group = PortGroup("s2", node_types=(NodeType.SWITCH,))
    for scope in (
        Sl2VlScope(table, groups=("s2",), from_ports=Ranges(((4, 4),)), to_ports=Ranges(((1, 1),))),
        Sl2VlScope(table, across_to=("h3",)),
    ):
        groups = (group, PortGroup("h3", port_names=("h3/HCA-1/P1",)))
        records = PathRecords(policy_of(QosLevel("l", 3), sl2vl=(scope,), port_groups=groups), fabric)
        answer = missing(records.query(asked(fabric, "h1", "h3", service_id=22)))
        assert answer == (PathReason.SL_DROPPED, "SL 3 of level l is mapped to VL 15 at s2, from port 4 to port 1")
        assert found(records.query(asked(fabric, "h1", "h3"))).sl == 1  # another SL
        assert found(records.query(asked(fabric, "h1", "h2", service_id=22))).sl == 3  # another way


def test_unknown_ports_are_named() -> None:
    fabric = small_fabric()
    records = PathRecords(Policy(), fabric)
    h1 = fabric.by_key[PortKey("h1", 1)]
    assert (
        missing(records.query(PathRecordRequest(slid=h1.lid, dlid=999))).message
        == "no port has LID 999, the destination"
    )
    assert missing(records.query(PathRecordRequest(dlid=h1.lid))).message == "the request has no source, GID or LID"
    assert "GID 0x" in missing(records.query(PathRecordRequest(sgid=5, dlid=h1.lid))).message


# Partitions


def test_both_ports_have_to_share_the_partition() -> None:
    fabric = small_fabric()
    records = PathRecords(Policy(), fabric)
    assert found(records.query(asked(fabric, "h1", "h2", pkey=0x8001))).pkey == 0x8001
    for ends in (("h1", "r1"), ("h2", "h3")):  # r1 is not a member; h2 and h3 are both limited
        answer = missing(records.query(asked(fabric, *ends, pkey=0x8001)))
        assert answer == (PathReason.PKEY, "the ports do not share P_Key 0x8001")


def test_a_level_for_some_partitions_gives_only_these() -> None:
    fabric = small_fabric()
    records = PathRecords(policy_of(QosLevel("l", 3, pkeys=Ranges(((1, 1),)))), fabric)
    assert found(records.query(asked(fabric, "h1", "h2", service_id=22))).pkey == 0x8001
    assert found(records.query(asked(fabric, "h2", "h1", service_id=22))).pkey == 0x0001  # h2 is a limited member
    assert missing(records.query(asked(fabric, "h1", "h2", service_id=22, pkey=0xFFFF))).reason is PathReason.PKEY
    assert missing(records.query(asked(fabric, "h1", "r1", service_id=22))).reason is PathReason.PKEY


# Groups


@pytest.mark.parametrize(
    ("group", "names"),
    [
        (PortGroup("g", port_guids=Ranges(((1, 2),))), {"h1", "h2"}),
        (PortGroup("g", port_names=("h1/HCA-1/P1", "h2 HCA-1/P1", "h9/HCA-1/P1", "h3/HCA-1/P2")), {"h1", "h2"}),
        (PortGroup("g", partitions=("Part1",)), {"h1", "h2", "h3"}),
        (PortGroup("g", pkeys=Ranges(((1, 1),))), {"h1", "h2", "h3"}),
        (PortGroup("g", node_types=(NodeType.CA,)), {"h1", "h2", "h3"}),
        (PortGroup("g", node_types=(NodeType.ROUTER, NodeType.SELF)), {"r1", "h1"}),
        (PortGroup("g", node_types=(NodeType.SWITCH,)), {"s1", "s2"}),
        (PortGroup("g", node_types=(NodeType.ALL,)), {"h1", "h2", "h3", "r1", "s1", "s2"}),
        (PortGroup("g", port_guids=Ranges(((4, 4),)), node_types=(NodeType.SELF,)), {"r1", "h1"}),
    ],
)  # fmt: skip
def test_who_is_in_a_group(group: PortGroup, names: set[str]) -> None:
    assert {key.node for key in members(group, small_fabric())} == names


# Upper-layer protocols


@pytest.mark.parametrize(
    ("ulp", "request_of", "matches"),
    [
        (UlpRule(Ulp.SDP, 5), {"service_id": 0x1_1234}, True),
        (UlpRule(Ulp.SDP, 5), {"service_id": 0x2_0000}, False),
        (UlpRule(Ulp.SDP, 5, UlpKey.PORT_NUM, Ranges(((80, 81),))), {"service_id": sdp_service_id(81)}, True),
        (UlpRule(Ulp.SDP, 5, UlpKey.PORT_NUM, Ranges(((80, 81),))), {"service_id": sdp_service_id(82)}, False),
        (UlpRule(Ulp.RDS, 5), {"service_id": 0x1_06_48CA}, True),
        (UlpRule(Ulp.RDS, 5, UlpKey.PORT_NUM, Ranges(((7, 7),))), {"service_id": cma_service_id(7)}, True),
        (UlpRule(Ulp.ISER, 5), {"service_id": 0x0000000001060CBC}, True),
        (UlpRule(Ulp.ISER, 5), {"service_id": cma_service_id(ISER_PORT + 1)}, False),
        (UlpRule(Ulp.IPOIB, 5), {"pkey": 0xFFFF}, True),
        (UlpRule(Ulp.IPOIB, 5), {}, False),
        (UlpRule(Ulp.IPOIB, 5, UlpKey.PKEY, Ranges(((1, 1),))), {"pkey": 0x8001}, True),
        (UlpRule(Ulp.ANY, 5, UlpKey.PKEY, Ranges(((1, 1),))), {"pkey": 0xFFFF}, False),
        (UlpRule(Ulp.ANY, 5, UlpKey.SERVICE_ID, Ranges(((9, 9),))), {"service_id": 9}, True),
        (UlpRule(Ulp.SRP, 5, UlpKey.TARGET_PORT_GUID, Ranges(((2, 2),))), {}, True),
        (UlpRule(Ulp.ANY, 5, UlpKey.TARGET_PORT_GUID, Ranges(((1, 1),))), {}, False),
        (UlpRule(Ulp.ANY, 5, UlpKey.SOURCE_PORT_GUID, Ranges(((1, 1),))), {}, True),
        (UlpRule(Ulp.ANY, 5, UlpKey.SOURCE_TARGET_PORT_GUID, Ranges(((1, 1),))), {}, False),
        (UlpRule(Ulp.ANY, 5, UlpKey.SOURCE_TARGET_PORT_GUID, Ranges(((1, 2),))), {}, True),
        (UlpRule(Ulp.DEFAULT, 5), {}, True),
    ],
)  # fmt: skip
def test_the_short_form_matches_what_the_protocol_asks(ulp: UlpRule, request_of: dict[str, int], matches: bool) -> None:
    fabric = small_fabric()
    answer = found(PathRecords(Policy(ulps=(ulp,)), fabric).query(asked(fabric, "h1", "h2", **request_of)))
    assert answer.sl == (5 if matches else 0)


def test_rules_of_the_short_form_come_after_the_others_and_its_default_after_level_default() -> None:
    fabric = small_fabric()
    policy = policy_of(
        QosLevel("l", 3), ulps=(UlpRule(Ulp.ANY, 7, UlpKey.SERVICE_ID, Ranges(((22, 23),))), UlpRule(Ulp.DEFAULT, 9))
    )
    records = PathRecords(policy, fabric)
    assert [found(records.query(asked(fabric, "h1", "h2", service_id=n))).sl for n in (22, 23, 24)] == [3, 7, 1]


def test_service_ids_of_protocols() -> None:
    assert sdp_service_id(0xABCD) == 0x000000000001ABCD
    assert iser_service_id() == 0x0000000001060CBC


# The subnet administration, in octets


@pytest.fixture
def ask() -> Callable[..., tuple[SaMad, PathRecord | None]]:
    fabric = small_fabric()
    records = PathRecords(policy_of(QosLevel("l", 3, tclass=32)), fabric)
    h1, h2 = (fabric.by_key[PortKey(name, 1)].gid for name in ("h1", "h2"))

    def perform(
        mask: PathMask = PathMask(0), where: ServiceIdField = ServiceIdField.SPARE, sm_key: int = 0, **more: Any
    ) -> tuple[SaMad, PathRecord | None]:
        record = PathRecord(sgid=h1, dgid=h2, **more)
        mad = SaMad(Method.GET, Attribute.PATH_RECORD, 1, mask | PathMask.SGID | PathMask.DGID, record.pack(), sm_key)
        answer = SaMad.unpack(SubnetAdministration(records, where).answer(mad.pack()))
        return answer, PathRecord.unpack(answer.data) if answer.status == Status.OK else None

    return perform


Ask = Callable[..., tuple[SaMad, PathRecord | None]]


def sl_of(answer: tuple[SaMad, PathRecord | None]) -> int:
    assert answer[1] is not None
    return answer[1].sl


def test_the_first_mask_bit_alone_selects_the_service_id_of_a_path_record(ask: Ask) -> None:
    assert sl_of(ask(PathMask.SERVICE_ID, service_id=22)) == 3
    assert sl_of(ask(PathMask.SERVICE_ID | PathMask.SERVICE_ID_LOW, service_id=22)) == 3
    assert sl_of(ask(PathMask.SERVICE_ID_LOW, service_id=22)) == 1
    assert sl_of(ask(service_id=22)) == 1


def test_in_place_of_sm_key_the_service_id_needs_no_bit_and_zero_is_none(ask: Ask) -> None:
    assert sl_of(ask(where=ServiceIdField.SM_KEY, sm_key=22)) == 3
    assert sl_of(ask(where=ServiceIdField.SM_KEY, sm_key=0)) == 1
    assert sl_of(ask(PathMask.SERVICE_ID, ServiceIdField.SM_KEY, service_id=22)) == 1
    assert sl_of(ask(sm_key=22)) == 1


def test_the_answer_carries_sl_mtu_rate_and_tclass_and_a_client_without_qos_works(ask: Ask) -> None:
    record = ask(PathMask.SERVICE_ID, service_id=22)[1]
    assert record is not None
    assert (record.sl, record.tclass, record.mtu, record.rate, record.pkey) == (3, 32, 5, 3, 0xFFFF)
    assert (record.service_id, record.reversible, record.mtu_selector) == (22, True, 2)
    plain = ask()[1]
    assert plain is not None and (plain.sl, plain.service_id) == (1, 0)


def test_what_is_asked_for_counts_only_with_its_selector_and_its_mask_bits(ask: Ask) -> None:
    both = PathMask.MTU | PathMask.MTU_SELECTOR
    assert ask(both, mtu=5, mtu_selector=Selector.GREATER)[0].status == Status.NO_RECORDS
    assert ask(PathMask.MTU, mtu=5, mtu_selector=Selector.GREATER)[0].status == Status.OK
    assert ask(both, mtu=9)[0].status == Status.REQUEST_INVALID
    rate = PathMask.RATE | PathMask.RATE_SELECTOR
    assert ask(rate, rate=2, rate_selector=Selector.EXACTLY)[0].status == Status.NO_RECORDS
    life = PathMask.PACKET_LIFE | PathMask.PACKET_LIFE_SELECTOR
    record = ask(life, packet_life=5, packet_life_selector=Selector.EXACTLY)[1]
    assert record is not None and record.packet_life == 5


def test_a_multi_path_request_gets_a_record_for_each_pair_with_the_service_id_of_bit_0x10000() -> None:
    fabric = small_fabric()
    administration = SubnetAdministration(PathRecords(policy_of(QosLevel("l", 3)), fabric))
    h1, h2, h3 = (fabric.by_key[PortKey(name, 1)].gid for name in ("h1", "h2", "h3"))
    record = MultiPathRecord((h1, h2), (h3,), service_id=1 << 56 | 22, paths=1)

    def sls(mask: int, record: MultiPathRecord) -> list[int]:
        mad = SaMad(Method.GET_MULTI, Attribute.MULTI_PATH_RECORD, 1, mask, record.pack())
        answer = SaMad.unpack(administration.answer(mad.pack()))
        return [PathRecord.unpack(answer.data[n : n + 64]).sl for n in range(0, len(answer.data), 64)]

    assert sls(MultiPathMask.SERVICE_ID, record) == [1, 1]  # all 64 bits count
    record = replace(record, service_id=22)
    assert sls(MultiPathMask.SERVICE_ID, record) == [3, 3]
    assert sls(MultiPathMask.SERVICE_ID | MultiPathMask.SERVICE_ID_LOW, record) == [3, 3]
    assert sls(MultiPathMask.SERVICE_ID_LOW, record) == [1, 1]
    assert sls(MultiPathMask.PATHS, record) == [1]
    assert sls(0, replace(record, dgids=())) == []


def test_class_port_info_shows_that_the_sa_does_qos_and_other_requests_are_refused() -> None:
    administration = SubnetAdministration(PathRecords(Policy(), small_fabric()))
    answer = SaMad.unpack(administration.answer(SaMad(Method.GET, Attribute.CLASS_PORT_INFO, 1).pack()))
    assert ClassPortInfo.unpack(answer.data).has_qos
    answer = SaMad.unpack(administration.answer(SaMad(Method.GET_MULTI, Attribute.PATH_RECORD, 1).pack()))
    assert answer.status == Status.BAD_METHOD
    answer = SaMad.unpack(administration.answer(SaMad(Method.GET, Attribute.PATH_RECORD, 1).pack()))
    assert answer.status == Status.REQUEST_INVALID  # it has neither source nor destination


# The example


def test_the_corrected_sample_works_on_its_fabric() -> None:
    fabric = parse(EXAMPLE_FABRIC.read_bytes(), "fabric")
    records = PathRecords(load(EXAMPLE.read_bytes(), "policy"), fabric)
    vs1, storage = (fabric.by_key[PortKey(name, 1)] for name in ("vs1", "storage1"))
    answer = found(records.query(PathRecordRequest(vs1.gid, storage.gid, service_id=4719)))
    assert (answer.sl, answer.tclass, answer.mtu, answer.rate) == (0, 32, 256, 2_500_000_000)
    assert answer.dlid == storage.lid + 1
    assert found(records.query(PathRecordRequest(vs1.gid, storage.gid, tclass=8))).level.name == "2"
    assert found(records.query(PathRecordRequest(vs1.gid, storage.gid))).sl == 15
    assert found(records.query(PathRecordRequest(storage.gid, vs1.gid, service_id=22))).level.name == "1"
    assert records.tables.findings == []


# Fabrics


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = 1", "f: a: unknown key; there are node, link, partition, manager"),
        ("[[node]]\nguid = 1", "f: [[node]] number 1 name: is missing"),
        ("[[node]]\nname = 'a'\nguid = 1\nprots = 2", "f: [[node]] a prots: unknown key; did you mean ports?"),
        ("[[node]]\nname = 'a'\nguid = 1\nports = 'x'", "f: [[node]] a ports: 'x' is not a whole number"),
        ("[[node]]\nname = 'a'\nguid = 0", "f: [[node]] a guid: 0 is out of range; 1 to"),
        ("[[node]]\nname = 'a'\nguid = 1\nvls = 16", "f: [[node]] a vls: 16 is out of range; 1 to 15 is expected"),
        ("[[node]]\nname = 'a'\nguid = 1\ntype = 'HUB'", "f: [[node]] a type: 'HUB' is unknown; there are 'HCA', 'CA'"),
        ("[[node]]\nname = 'a'\nguid = 1\nrate = 'fast'", "f: [[node]] a rate: 'fast' is not a rate"),
        ("[[node]]\nname = 'a'\nguid = 1\nlid = 3\nlmc = 1", "f: [[node]] a: a port 1: LID 3 does not fit LMC 1"),
        ("[[node]]\nname = 'a'\nguid = 1\nlid = 3\nports = 2", "f: [[node]] a lid: it is that of one port"),
        ("[[link]]\nends = ['a/1']", "f: [[link]] number 1 ends: 1 ports; two are expected"),
        ("[[link]]\nends = ['a/1', 'b/1']", "f: [[link]] number 1: there is no port 1 of a"),
        ("[[link]]\nends = ['a', 'b/1']", "f: [[link]] number 1 ends: 'a' is not a port; a node and a number"),
        ("[[partition]]\nname = 'p'", "f: [[partition]] p pkey: is missing"),
        ("[[partition]]\nname = 'p'\npkey = 3\nfull = ['x/1']", "f: [[partition]] p: partition p: x has no end port 1"),
        ("manager = 'x'", "f: manager: there is no node 'x'"),
        ("=", "f is not TOML: "),
        ("a = " + "[" * 5000, "f is not TOML that can be read: its lists or tables are nested too deep"),
        ("a." * 60_000 + "b = 1", "f has a key of more than 16 parts"),
    ],
)  # fmt: skip
def test_mistakes_in_a_fabrics_file(text: str, message: str) -> None:
    with pytest.raises(FabricError) as raised:
        parse(text.encode(), "f")
    assert message in str(raised.value)


def test_fabrics_that_cannot_be_are_refused() -> None:
    fabric = small_fabric()
    with pytest.raises(FabricError, match="two nodes h1"):
        fabric.add("h1", NodeType.CA, 99, [PortCapabilities(1)])
    with pytest.raises(FabricError, match="have one GUID, 0x0000000000000001"):
        fabric.add("h9", NodeType.CA, 0, [PortCapabilities(1)])
    with pytest.raises(FabricError, match="LID 1 is that of s1"):
        fabric.add("h8", NodeType.CA, 99, [PortCapabilities(1)], lids=[1])
    with pytest.raises(FabricError, match="port 1 of h1 has two cables"):
        fabric.connect(PortKey("h1", 1), PortKey("s1", 3))
    with pytest.raises(FabricError, match="two partitions Part1"):
        fabric.partition(Partition("Part1", 7))


def test_lids_of_one_port_are_spread_over_paths_of_equal_length() -> None:
    fabric = Fabric()
    for number in range(4):
        fabric.add(f"s{number}", NodeType.SWITCH, 0x100 + number, [PortCapabilities(n) for n in range(1, 4)])
    for name, switch in (("a", "s0"), ("b", "s1")):
        fabric.add(name, NodeType.CA, 0x200 + (switch == "s1") * 16, [PortCapabilities(1)], lmc=1)
        fabric.connect(PortKey(name, 1), PortKey(switch, 1))
    for middle in (2, 3):
        for leaf in (0, 1):
            fabric.connect(PortKey(f"s{leaf}", middle), PortKey(f"s{middle}", leaf + 1))
    fabric.route()
    lid = fabric.by_key[PortKey("b", 1)].lid
    assert {fabric.forwarding["s0"][lid], fabric.forwarding["s0"][lid + 1]} == {2, 3}
