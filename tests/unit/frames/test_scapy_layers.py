"""Scapy's DCBX layers against our codec: each reads what the other wrote, in both formats."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings

from tests.unit.subjects.dcbx.dcbx_strategies import drafts, publisheds

pytest.importorskip(
    "scapy", reason="Scapy is not installed, so its layers are not tested; it is in requirements/test.lock"
)

from scapy.config import conf
from scapy.contrib.lldp import LLDPDUGenericOrganisationSpecific
from scapy.layers.l2 import Ether
from scapy.packet import Packet

from testbed import scapy_layers as layers
from testbed.frames import Mac
from testbed.frames.dcbx.values import AppEntry, DcbxVersion, Ets, EtsRecommendation, Selector, Table
from testbed.frames.lldp import ChassisId, Lldpdu, LldpFrame, PortId, parse
from testbed.subjects.dcbx.tlvs import (
    ApplicationPriority,
    CongestionNotification,
    DcbxTlvs,
    EtsConfiguration,
    Pfc,
    Reading,
    encode,
    read,
)

DRAFT, PUBLISHED = DcbxVersion.DRAFT, DcbxVersion.PUBLISHED
SOURCE = Mac.parse("02:00:00:00:0a:01")
PUBLISHED_SELECTORS = dict(
    zip([Selector.ETHERTYPE, Selector.TCP, Selector.UDP, Selector.ANY_PORT, Selector.DSCP], range(1, 6), strict=True)
)
DRAFT_SELECTORS = dict(
    zip([Selector.ETHERTYPE, Selector.TCP, Selector.UDP, Selector.ANY_PORT, Selector.OTHER_PORT], range(5), strict=True)
)


@pytest.fixture(autouse=True)
def _version() -> Iterator[None]:
    yield
    conf.contribs["DCBX"]["version"] = "published"


def ours(version: DcbxVersion, tlvs: DcbxTlvs) -> bytes:
    identity = ChassisId.of_mac(SOURCE), PortId.interface("eth0")
    return LldpFrame(SOURCE, Lldpdu(*identity, 121, tuple(encode(version, tlvs)))).encode()


def scapys(tlvs: list[Packet]) -> bytes:
    packet = Ether(src=str(SOURCE), dst="01:80:c2:00:00:0e")
    packet /= layers.LLDPDUChassisID(subtype=4, id=str(SOURCE)) / layers.LLDPDUPortID(subtype=5, id=b"eth0")
    packet /= layers.LLDPDUTimeToLive(ttl=121)
    for tlv in tlvs:
        packet /= tlv
    return bytes(packet / layers.LLDPDUEndOfLLDPDU())


def columns(name: str, table: Table | None) -> dict[str, int]:
    return {f"{name}_{number}": value for number, value in enumerate(table or ())}


def tables(value: Ets | EtsRecommendation) -> dict[str, int]:
    return columns("priority", value.assignment) | columns("bandwidth", value.bandwidth) | columns("tsa", value.tsa)


def as_published(tlvs: DcbxTlvs) -> list[Packet]:
    """Return the same TLVs as Scapy's layers."""
    made = []
    if tlvs.ets and tlvs.traffic_classes:
        first = {"willing": tlvs.ets.willing, "cbs": tlvs.ets.cbs, "traffic_classes": tlvs.traffic_classes % 8}
        made.append(layers.DcbxEtsConfiguration(**first, **tables(tlvs.ets.ets)))
    if tlvs.recommendation:
        made.append(layers.DcbxEtsRecommendation(**tables(tlvs.recommendation)))
    if tlvs.pfc:
        extra = b"\xa1" if tlvs.pfc.headroom else b""
        pfc = {"willing": tlvs.pfc.willing, "mbc": tlvs.pfc.mbc, "cap": tlvs.pfc.cap, "enabled": tlvs.pfc.enabled}
        made.append(layers.DcbxPfc(**pfc, extra=extra))
    if tlvs.applications:
        entries = [
            layers.DcbxApplicationEntry(
                priority=entry.priority, selector=PUBLISHED_SELECTORS[entry.selector], protocol=entry.protocol
            )
            for entry in tlvs.applications.entries
        ]
        made.append(layers.DcbxApplicationPriority(entries=entries))
    if tlvs.cn:
        ready = tlvs.cn.enabled - tlvs.cn.defended
        made.append(layers.DcbxCongestionNotification(cnpv=tlvs.cn.enabled, ready=ready))
    return made


def as_draft(tlvs: DcbxTlvs) -> list[Packet]:
    made = []
    if tlvs.traffic_classes:
        made.append(layers.DraftTrafficClasses(traffic_classes=tlvs.traffic_classes % 8))
    if tlvs.ets:
        made.append(layers.DraftEtsConfiguration(willing=tlvs.ets.willing, **tables(tlvs.ets.ets)))
    if tlvs.recommendation:
        made.append(layers.DraftEtsRecommendation(rv=tlvs.recommendation.valid, **tables(tlvs.recommendation)))
    if tlvs.pfc:
        extra = b"" if tlvs.pfc.defended is None else bytes([tlvs.pfc.defended])
        extra += b"\xa1" if tlvs.pfc.headroom else b""
        pfc = {"willing": tlvs.pfc.willing, "cap": tlvs.pfc.cap % 8, "enabled": tlvs.pfc.enabled}
        made.append(layers.DraftPfc(**pfc, extra=extra))
    if tlvs.applications:
        entries = [
            layers.DraftApplicationEntry(
                priority=entry.priority, selector=DRAFT_SELECTORS[entry.selector], protocol=entry.protocol
            )
            for entry in tlvs.applications.entries
        ]
        made.append(layers.DraftApplicationPriority(willing=tlvs.applications.willing, entries=entries))
    if tlvs.cn:
        cn = {"willing": tlvs.cn.willing, "enabled": tlvs.cn.enabled, "defended": tlvs.cn.defended}
        made.append(layers.DraftCongestionNotification(**cn))
    return made


def table(tlv: Any, name: str) -> Table:
    return tuple(getattr(tlv, f"{name}_{number}") for number in range(8))


def entries(tlv: Any, selectors: dict[Selector, int]) -> tuple[AppEntry, ...]:
    selector_of = {number: selector for selector, number in selectors.items()}
    return tuple(AppEntry(entry.priority, selector_of[entry.selector], entry.protocol) for entry in tlv.entries)


def from_published(packet: Packet) -> DcbxTlvs:
    """Return what Scapy read as our values."""
    classes, ets, advice, pfc, applications, cn = (None,) * 6
    if tlv := packet.getlayer(layers.DcbxEtsConfiguration):
        classes = tlv.traffic_classes or 8
        read_table = Ets(table(tlv, "priority"), table(tlv, "bandwidth"), table(tlv, "tsa"))
        ets = EtsConfiguration(read_table, bool(tlv.willing), bool(tlv.cbs))
    if tlv := packet.getlayer(layers.DcbxEtsRecommendation):
        advice = EtsRecommendation(table(tlv, "bandwidth"), table(tlv, "priority"), table(tlv, "tsa"))
    if tlv := packet.getlayer(layers.DcbxPfc):
        pfc = Pfc(int(tlv.enabled), bool(tlv.willing), tlv.cap, bool(tlv.mbc), headroom=tlv.extra == b"\xa1")
    if tlv := packet.getlayer(layers.DcbxApplicationPriority):
        applications = ApplicationPriority(entries(tlv, PUBLISHED_SELECTORS))
    if tlv := packet.getlayer(layers.DcbxCongestionNotification):
        cn = CongestionNotification(int(tlv.cnpv), int(tlv.cnpv) & ~int(tlv.ready))
    return DcbxTlvs(classes, ets, advice, pfc, applications, cn)


def from_draft(packet: Packet) -> DcbxTlvs:
    classes, ets, advice, pfc, applications, cn = (None,) * 6
    if tlv := packet.getlayer(layers.DraftTrafficClasses):
        classes = tlv.traffic_classes or 8
    if tlv := packet.getlayer(layers.DraftEtsConfiguration):
        ets = EtsConfiguration(Ets(table(tlv, "priority"), table(tlv, "bandwidth")), bool(tlv.willing))
    if tlv := packet.getlayer(layers.DraftEtsRecommendation):
        advice = EtsRecommendation(table(tlv, "bandwidth"), valid=bool(tlv.rv))
    if tlv := packet.getlayer(layers.DraftPfc):
        defended = tlv.extra[0] if tlv.extra else None
        headroom = tlv.extra[1:] == b"\xa1"
        pfc = Pfc(int(tlv.enabled), bool(tlv.willing), tlv.cap or 8, defended=defended, headroom=headroom)
    if tlv := packet.getlayer(layers.DraftApplicationPriority):
        applications = ApplicationPriority(entries(tlv, DRAFT_SELECTORS), bool(tlv.willing))
    if tlv := packet.getlayer(layers.DraftCongestionNotification):
        cn = CongestionNotification(int(tlv.enabled), int(tlv.defended), bool(tlv.willing))
    return DcbxTlvs(classes, ets, advice, pfc, applications, cn)


@pytest.mark.slow
@settings(max_examples=50)
@given(publisheds())
def test_the_published_format_is_the_same_octets_in_both(tlvs: DcbxTlvs) -> None:
    made = scapys(as_published(tlvs))
    assert made == ours(PUBLISHED, tlvs)
    assert read(PUBLISHED, parse(made).pdu.tlvs) == Reading(tlvs)
    assert from_published(Ether(made)) == tlvs


@pytest.mark.slow
@settings(max_examples=50)
@given(drafts())
def test_the_draft_is_the_same_octets_in_both(tlvs: DcbxTlvs) -> None:
    conf.contribs["DCBX"]["version"] = "draft"
    made = scapys(as_draft(tlvs))
    assert made == ours(DRAFT, tlvs)
    assert read(DRAFT, parse(made).pdu.tlvs) == Reading(tlvs)
    assert from_draft(Ether(made)) == tlvs


def test_pfc_and_applications_are_shown_in_the_format_that_is_set() -> None:
    octets = ours(DRAFT, DcbxTlvs(pfc=Pfc(0x18, defended=0x08), applications=ApplicationPriority(())))
    for version, shown in (("published", "Dcbx"), ("draft", "Draft")):
        conf.contribs["DCBX"]["version"] = version
        packet = Ether(octets)
        for name in ("Pfc", "ApplicationPriority"):
            assert packet.haslayer(getattr(layers, shown + name))


def test_a_tlv_of_another_length_or_organisation_stays_generic() -> None:
    wrong = LLDPDUGenericOrganisationSpecific(org_code=0x0080C2, subtype=9, data=bytes(20))
    other = LLDPDUGenericOrganisationSpecific(org_code=0x00120F, subtype=11, data=bytes(2))
    packet = Ether(scapys([wrong, other]))
    assert not any(packet.haslayer(getattr(layers, name)) for name in layers.__all__ if name.startswith(("Dc", "Dr")))
    assert [layer.subtype for layer in packet.iterpayloads() if type(layer) is LLDPDUGenericOrganisationSpecific] == [
        9,
        11,
    ]


def test_what_is_wrong_can_be_built_to_try_it_on_a_receiver() -> None:
    too_much = layers.DcbxEtsRecommendation(bandwidth_0=99, tsa_0=2)
    reading = read(PUBLISHED, parse(scapys([too_much])).pdu.tlvs)
    assert [flaw.counter for flaw in reading.flaws] == ["ets_recommendation.bandwidth_sum"]
