"""The draft's format: DCBX framework, April 2009, "TLV Summary". Lengths count OUI and subtype.

    subtype    length  fields
     8  TC         5   reserved 5 bits, traffic classes 3 (0 is 8, decision 0103)
     9  ETS conf  17   reserved 7, W 1; assignment 8 x 4; bandwidth 8 x 8
    10  ETS rec   13   reserved 7, RV 1; bandwidth 8 x 8, reserved while RV is 0
    11  PFC     6, 7   W 1, reserved 4, cap 3 (0 is 8); enabled 8; in 7 octets DefOn 8 (decision 0101). After DefOn an
                       octet more may be the private headroom capability.
    12  APP   5 + 3n   W 1, reserved 7; entries of priority 3, reserved 2, selector 3, protocol 16
    13  CN         7   W 1, reserved 7; enabled 8; DefOn 8

A DefOn bit is reserved where the priority is not enabled: sent as 0 and not read.
"""

from __future__ import annotations

from testbed.frames import FieldError
from testbed.frames.dcbx.shared import (
    APPLICATION_PRIORITY,
    ETS_CONFIGURATION,
    ETS_RECOMMENDATION,
    HEADROOM_CAPABLE,
    PFC,
    DcbxReason,
    bad_length,
    flaw,
    is_capable,
    organisational,
    pack_entries,
    pack_halves,
    table_flaws,
    unpack_entries,
    unpack_halves,
)
from testbed.frames.dcbx.values import (
    ApplicationPriority,
    CongestionNotification,
    DcbxTlvs,
    Ets,
    EtsConfiguration,
    EtsRecommendation,
    Pfc,
    Selector,
    bandwidth_problem,
)
from testbed.frames.lldp_tlvs import Flaw, Organisational

TRAFFIC_CLASSES, CN = 8, 13
OWN_SHAPES = frozenset({(TRAFFIC_CLASSES, 1), (ETS_CONFIGURATION, 13), (ETS_RECOMMENDATION, 9), (CN, 3)})
"""A sender of any of these uses this format: the published one has none of them."""

SELECTORS = {0: Selector.ETHERTYPE, 1: Selector.TCP, 2: Selector.UDP, 3: Selector.ANY_PORT, 4: Selector.OTHER_PORT}


def encode(tlvs: DcbxTlvs) -> list[Organisational]:
    made = []
    if tlvs.traffic_classes is not None:
        made.append(organisational(TRAFFIC_CLASSES, tlvs.traffic_classes & 7))
    if tlvs.ets is not None:
        ets = tlvs.ets.ets
        if ets.tsa is not None or tlvs.ets.cbs:
            raise FieldError("the draft has no transmission selection; leave `tsa` at None and `cbs` at False")
        table = pack_halves(ets.assignment) + bytes(ets.bandwidth)
        made.append(organisational(ETS_CONFIGURATION, tlvs.ets.willing, table=table))
    if tlvs.recommendation is not None:
        advice = tlvs.recommendation
        if advice.assignment is not None:
            raise FieldError("the draft recommends bandwidth only; leave `assignment` and `tsa` at None")
        made.append(organisational(ETS_RECOMMENDATION, advice.valid, table=bytes(advice.bandwidth)))
    if tlvs.pfc is not None:
        made.append(_encode_pfc(tlvs.pfc))
    if tlvs.applications is not None:
        table = pack_entries(tlvs.applications.entries, SELECTORS, "draft's")
        made.append(organisational(APPLICATION_PRIORITY, tlvs.applications.willing << 7, table=table))
    if tlvs.cn is not None:
        made.append(organisational(CN, tlvs.cn.willing << 7, tlvs.cn.enabled, tlvs.cn.defended))
    return made


def _encode_pfc(pfc: Pfc) -> Organisational:
    if not 1 <= pfc.cap <= 8:
        raise FieldError(
            f"the draft's PFC TLV cannot carry a capability of {pfc.cap}, but 1 to 8; without any, send no PFC TLV"
        )
    if pfc.mbc:
        raise FieldError("the draft's PFC TLV has no MBC bit; leave `mbc` at False")
    octets = [pfc.willing << 7 | pfc.cap & 7, pfc.enabled]
    if pfc.defended is not None:
        octets.append(pfc.defended & pfc.enabled)
    elif pfc.headroom:
        raise FieldError("in the draft's PFC TLV the headroom capability comes after DefOn; set `defended`, 0 for none")
    if pfc.headroom:
        octets.append(HEADROOM_CAPABLE)
    return organisational(PFC, *octets)


def _traffic_classes(info: bytes, flaws: list[Flaw]) -> int | None:
    if len(info) != 1:
        flaws.append(bad_length("traffic_classes", info, "5"))
        return None
    return info[0] & 7 or 8


def _ets_configuration(info: bytes, flaws: list[Flaw]) -> EtsConfiguration | None:
    if len(info) != 13:
        flaws.append(bad_length("ets_configuration", info, "17"))
        return None
    ets = Ets(unpack_halves(info[1:5]), tuple(info[5:13]))
    flaws += table_flaws("ets_configuration", ets.assignment, ets.bandwidth, None)
    return EtsConfiguration(ets, bool(info[0] & 1))


def _ets_recommendation(info: bytes, flaws: list[Flaw]) -> EtsRecommendation | None:
    if len(info) != 9:
        flaws.append(bad_length("ets_recommendation", info, "13"))
        return None
    if not info[0] & 1:
        return EtsRecommendation(valid=False)
    wrong = bandwidth_problem(tuple(info[1:]), None)
    if wrong:
        flaws.append(flaw("ets_recommendation", DcbxReason.BANDWIDTH_SUM, wrong))
        return None
    return EtsRecommendation(tuple(info[1:]))


def _pfc(info: bytes, flaws: list[Flaw]) -> Pfc | None:
    if len(info) < 2:
        flaws.append(bad_length("pfc", info, "6 at least"))
        return None
    willing, cap, enabled = bool(info[0] & 0x80), info[0] & 7 or 8, info[1]
    defended = info[2] & enabled if len(info) > 2 else None
    return Pfc(enabled, willing, cap, defended=defended, headroom=is_capable(info[3:], flaws))


def _applications(info: bytes, flaws: list[Flaw]) -> ApplicationPriority | None:
    entries = unpack_entries(info, SELECTORS, flaws)
    return None if entries is None else ApplicationPriority(entries, bool(info[0] & 0x80))


def _cn(info: bytes, flaws: list[Flaw]) -> CongestionNotification | None:
    if len(info) != 3:
        flaws.append(bad_length("congestion_notification", info, "7"))
        return None
    return CongestionNotification(info[1], info[1] & info[2], bool(info[0] & 0x80))


READERS = {
    TRAFFIC_CLASSES: ("traffic_classes", "traffic_classes", _traffic_classes),
    ETS_CONFIGURATION: ("ets", "ets_configuration", _ets_configuration),
    ETS_RECOMMENDATION: ("recommendation", "ets_recommendation", _ets_recommendation),
    PFC: ("pfc", "pfc", _pfc),
    APPLICATION_PRIORITY: ("applications", "application_priority", _applications),
    CN: ("cn", "congestion_notification", _cn),
}
"""Subtype: field of DcbxTlvs, name of the counter, reader."""
