"""The published format: IEEE 802.1Qaz, now 802.1Q annex D. Lengths count OUI and subtype.

    subtype    length  fields
     8  CN         6   enabled (CNPV) 8 bits, ready 8: enabled and not defended
     9  ETS conf  25   W 1, CBS 1, reserved 3, traffic classes 3 (0 is 8); assignment 8 x 4; bandwidth 8 x 8;
                       transmission selection 8 x 8
    10  ETS rec   25   reserved 8; assignment, bandwidth and transmission selection as above
    11  PFC        6   W 1, MBC 1, reserved 2, cap 4; enabled 8. An octet more may be the private headroom capability.
    12  APP   5 + 3n   reserved 8; entries of priority 3, reserved 2, selector 3, protocol 16

8 and 12 have no W, 10 has no RV. Subtype 13 belongs to another protocol (EVB).
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
    Table,
)
from testbed.frames.lldp_tlvs import Flaw, Organisational

CN = 8
OWN_SHAPES = frozenset({(CN, 2), (ETS_CONFIGURATION, 21), (ETS_RECOMMENDATION, 21)})
"""A sender of any of these uses this format: the draft has none of them."""

SELECTORS = {1: Selector.ETHERTYPE, 2: Selector.TCP, 3: Selector.UDP, 4: Selector.ANY_PORT, 5: Selector.DSCP}


def encode(tlvs: DcbxTlvs) -> list[Organisational]:
    made = []
    if tlvs.ets is not None:
        if tlvs.traffic_classes is None:
            raise FieldError("a published ETS Configuration has a number of traffic classes: give 1 to 8")
        ets = tlvs.ets.ets
        first = tlvs.ets.willing << 7 | tlvs.ets.cbs << 6 | tlvs.traffic_classes & 7
        table = _pack_table(ets.assignment, ets.bandwidth, ets.tsa)
        made.append(organisational(ETS_CONFIGURATION, first, table=table))
    if tlvs.recommendation is not None:
        advice = tlvs.recommendation
        if not advice.valid:
            raise FieldError("the published format has no RV bit; leave the TLV out until there is a recommendation")
        table = _pack_table(advice.assignment, advice.bandwidth, advice.tsa)
        made.append(organisational(ETS_RECOMMENDATION, 0, table=table))
    if tlvs.pfc is not None:
        pfc = tlvs.pfc
        if pfc.defended is not None:
            raise FieldError("the published format has no DefOn in its PFC TLV; leave `defended` at None")
        capable = [HEADROOM_CAPABLE] if pfc.headroom else []
        made.append(organisational(PFC, pfc.willing << 7 | pfc.mbc << 6 | pfc.cap, pfc.enabled, *capable))
    if tlvs.applications is not None:
        if tlvs.applications.willing:
            raise FieldError("the published format has no W in Application Priority; leave `willing` at False")
        table = pack_entries(tlvs.applications.entries, SELECTORS, "published")
        made.append(organisational(APPLICATION_PRIORITY, 0, table=table))
    if tlvs.cn is not None:
        if tlvs.cn.willing:
            raise FieldError("the published format has no W in Congestion Notification; leave `willing` at False")
        made.append(organisational(CN, tlvs.cn.enabled, tlvs.cn.enabled & ~tlvs.cn.defended))
    return made


def read_traffic_classes(info: bytes) -> int:
    """From an ETS Configuration that `read` took."""
    return info[0] & 7 or 8


def _ets_configuration(info: bytes, flaws: list[Flaw]) -> EtsConfiguration | None:
    if len(info) != 21:
        flaws.append(bad_length("ets_configuration", info, "25"))
        return None
    ets = Ets(*_unpack_table(info))
    flaws += table_flaws("ets_configuration", ets.assignment, ets.bandwidth, ets.tsa)
    return EtsConfiguration(ets, bool(info[0] & 0x80), bool(info[0] & 0x40))


def _ets_recommendation(info: bytes, flaws: list[Flaw]) -> EtsRecommendation | None:
    if len(info) != 21:
        flaws.append(bad_length("ets_recommendation", info, "25"))
        return None
    assignment, bandwidth, tsa = _unpack_table(info)
    wrong = table_flaws("ets_recommendation", assignment, bandwidth, tsa)
    flaws += wrong
    return None if wrong else EtsRecommendation(bandwidth, assignment, tsa)


def _pfc(info: bytes, flaws: list[Flaw]) -> Pfc | None:
    if len(info) < 2:
        flaws.append(bad_length("pfc", info, "6 at least"))
        return None
    cap = info[0] & 0x0F
    if cap > 8:
        flaws.append(flaw("pfc", DcbxReason.UNDEFINED, f"its capability is {cap}, and there are 8 classes at most"))
    return Pfc(info[1], bool(info[0] & 0x80), cap, bool(info[0] & 0x40), headroom=is_capable(info[2:], flaws))


def _applications(info: bytes, flaws: list[Flaw]) -> ApplicationPriority | None:
    entries = unpack_entries(info, SELECTORS, flaws)
    return None if entries is None else ApplicationPriority(entries)


def _cn(info: bytes, flaws: list[Flaw]) -> CongestionNotification | None:
    if len(info) != 2:
        flaws.append(bad_length("congestion_notification", info, "6"))
        return None
    enabled, ready = info
    return CongestionNotification(enabled, enabled & ~ready)


READERS = {
    ETS_CONFIGURATION: ("ets", "ets_configuration", _ets_configuration),
    ETS_RECOMMENDATION: ("recommendation", "ets_recommendation", _ets_recommendation),
    PFC: ("pfc", "pfc", _pfc),
    APPLICATION_PRIORITY: ("applications", "application_priority", _applications),
    CN: ("cn", "congestion_notification", _cn),
}
"""Subtype: field of DcbxTlvs, name of the counter, reader."""


def _pack_table(assignment: Table | None, bandwidth: Table, tsa: Table | None) -> bytes:
    if assignment is None or tsa is None:
        raise FieldError("the published format needs priority assignment and transmission selection; give both")
    return pack_halves(assignment) + bytes(bandwidth) + bytes(tsa)


def _unpack_table(info: bytes) -> tuple[Table, Table, Table]:
    return unpack_halves(info[1:5]), tuple(info[5:13]), tuple(info[13:21])
