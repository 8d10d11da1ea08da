"""The six DCBX TLVs in both formats: the octets of the tables, by hand, and what is read from other octets.

Each known TLV is written here field by field from the draft's slides and from 802.1Q annex D, as type and length, OUI,
subtype, then what the table lists; nothing of the codec is used to check it.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.frames import FieldError, Mac
from testbed.frames.dcbx.values import AppEntry, DcbxVersion, Ets, EtsRecommendation, Selector, mask, priorities
from testbed.frames.lldp import ChassisId, Lldpdu, LldpFrame, PortId, parse
from testbed.frames.lldp_tlvs import Organisational, Text, TextKind
from testbed.subjects.dcbx import features
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
from tests.unit.subjects.dcbx.dcbx_strategies import drafts, publisheds

DRAFT, PUBLISHED = DcbxVersion.DRAFT, DcbxVersion.PUBLISHED
SOURCE = Mac.parse("02:00:00:00:0a:01")
MANDATORY = bytes.fromhex("0207 04 020000000a00  0405 05 65746830  0602 0079")

GROUPS = Ets((0, 1, 2, 3, 7, 13, 14, 15), (10, 20, 30, 40, 0, 0, 0, 0))
CLASSES = Ets((0, 1, 2, 3, 4, 5, 6, 7), (10, 20, 30, 40, 0, 0, 0, 0), (2, 2, 2, 2, 0, 1, 255, 0))
TWO_HALVES = Ets((0, 0, 0, 1, 0, 0, 0, 0), (50, 50, 0, 0, 0, 0, 0, 0), (2, 2, 0, 0, 0, 0, 0, 0))
APPLICATIONS = (
    AppEntry(3, Selector.ETHERTYPE, 0x8906),
    AppEntry(4, Selector.TCP, 3260),
    AppEntry(7, Selector.UDP, 4791),
    AppEntry(0, Selector.ANY_PORT, 2049),
)

KNOWN: dict[str, tuple[DcbxVersion, DcbxTlvs, str]] = {
    # Draft: Traffic Classes Supported, 5 reserved bits and 3 bits of count
    "draft, 3 classes": (DRAFT, DcbxTlvs(traffic_classes=3), "fe05 0080c2 08 03"),
    "draft, 8 classes": (DRAFT, DcbxTlvs(traffic_classes=8), "fe05 0080c2 08 00"),
    # Draft: ETS Configuration, W in the lowest bit, 8 x 4 bits, 8 octets
    "draft, ETS configuration": (
        DRAFT,
        DcbxTlvs(ets=EtsConfiguration(GROUPS)),
        "fe11 0080c2 09 00 01 23 7d ef 0a 14 1e 28 00 00 00 00",
    ),
    "draft, ETS configuration, willing": (
        DRAFT,
        DcbxTlvs(ets=EtsConfiguration(GROUPS, willing=True)),
        "fe11 0080c2 09 01 01 23 7d ef 0a 14 1e 28 00 00 00 00",
    ),
    # Draft: ETS Recommendation, RV in the lowest bit, 8 octets
    "draft, ETS recommendation": (
        DRAFT,
        DcbxTlvs(recommendation=EtsRecommendation((10, 20, 30, 40, 0, 0, 0, 0))),
        "fe0d 0080c2 0a 01 0a 14 1e 28 00 00 00 00",
    ),
    "draft, no recommendation yet": (
        DRAFT,
        DcbxTlvs(recommendation=EtsRecommendation(valid=False)),
        "fe0d 0080c2 0a 00 00 00 00 00 00 00 00 00",
    ),
    # Draft: PFC, W 4 reserved 3 cap, enable, DefOn
    "draft, PFC of 6 octets": (DRAFT, DcbxTlvs(pfc=Pfc(0x18, willing=True, cap=2)), "fe06 0080c2 0b 82 18"),
    "draft, PFC of 7 octets": (
        DRAFT,
        DcbxTlvs(pfc=Pfc(0x18, cap=7, defended=0x08)),
        "fe07 0080c2 0b 07 18 08",
    ),
    "draft, PFC on 8 classes": (DRAFT, DcbxTlvs(pfc=Pfc(0xFF, cap=8, defended=0)), "fe07 0080c2 0b 00 ff 00"),
    "draft, PFC with headroom": (
        DRAFT,
        DcbxTlvs(pfc=Pfc(0x01, True, 1, defended=0x01, headroom=True)),
        "fe08 0080c2 0b 81 01 01 a1",
    ),
    # Draft: Application Priority, W 7 reserved, entries of 3 priority 2 reserved 3 selector 16 protocol
    "draft, no applications": (DRAFT, DcbxTlvs(applications=ApplicationPriority(())), "fe05 0080c2 0c 00"),
    "draft, applications": (
        DRAFT,
        DcbxTlvs(applications=ApplicationPriority((*APPLICATIONS, AppEntry(1, Selector.OTHER_PORT, 6)), willing=True)),
        #               3/0      4/1      7/2      0/3      1/4
        "fe14 0080c2 0c 80 60 8906  81 0cbc  e2 12b7  03 0801  24 0006",
    ),
    # Draft: Congestion Notification, W 7 reserved, CN mask, DefOn mask
    "draft, CN": (DRAFT, DcbxTlvs(cn=CongestionNotification(0x30, 0x10)), "fe07 0080c2 0d 00 30 10"),
    "draft, CN, willing": (
        DRAFT,
        DcbxTlvs(cn=CongestionNotification(0x80, 0x80, willing=True)),
        "fe07 0080c2 0d 80 80 80",
    ),
    # Published: ETS Configuration, W CBS 3 reserved 3 classes, 8 x 4 bits, 8 octets, 8 octets
    "published, ETS configuration": (
        PUBLISHED,
        DcbxTlvs(8, EtsConfiguration(CLASSES)),
        "fe19 0080c2 09 00 01 23 45 67 0a 14 1e 28 00 00 00 00 02 02 02 02 00 01 ff 00",
    ),
    "published, ETS configuration, willing, CBS, 3 classes": (
        PUBLISHED,
        DcbxTlvs(3, EtsConfiguration(TWO_HALVES, willing=True, cbs=True)),
        "fe19 0080c2 09 c3 00 01 00 00 32 32 00 00 00 00 00 00 02 02 00 00 00 00 00 00",
    ),
    # Published: ETS Recommendation, 8 reserved, then as above
    "published, ETS recommendation": (
        PUBLISHED,
        DcbxTlvs(recommendation=EtsRecommendation(CLASSES.bandwidth, CLASSES.assignment, CLASSES.tsa)),
        "fe19 0080c2 0a 00 01 23 45 67 0a 14 1e 28 00 00 00 00 02 02 02 02 00 01 ff 00",
    ),
    # Published: PFC, W MBC 2 reserved 4 cap, enable
    "published, PFC": (PUBLISHED, DcbxTlvs(pfc=Pfc(0x08, cap=8)), "fe06 0080c2 0b 08 08"),
    "published, PFC, willing, MBC": (
        PUBLISHED,
        DcbxTlvs(pfc=Pfc(0xC0, willing=True, cap=0, mbc=True)),
        "fe06 0080c2 0b c0 c0",
    ),
    "published, PFC with headroom": (
        PUBLISHED,
        DcbxTlvs(pfc=Pfc(0x08, cap=4, headroom=True)),
        "fe07 0080c2 0b 04 08 a1",
    ),
    # Published: Application Priority, 8 reserved, entries as in the draft with other selectors
    "published, no applications": (PUBLISHED, DcbxTlvs(applications=ApplicationPriority(())), "fe05 0080c2 0c 00"),
    "published, applications": (
        PUBLISHED,
        DcbxTlvs(applications=ApplicationPriority((*APPLICATIONS, AppEntry(6, Selector.DSCP, 46)))),
        #               3/1      4/2      7/3      0/4      6/5
        "fe14 0080c2 0c 00 61 8906  82 0cbc  e3 12b7  04 0801  c5 002e",
    ),
    # Published: Congestion Notification, CNPV, Ready: Ready where defenses are off
    "published, CN": (PUBLISHED, DcbxTlvs(cn=CongestionNotification(0x30, 0x10)), "fe06 0080c2 08 30 20"),
}


def tlv(octets: str) -> Organisational:
    """Return one TLV, found by the LLDP codec."""
    (found,) = parse(bytes.fromhex("0180c200000e 020000000a01 88cc") + MANDATORY + bytes.fromhex(octets)).pdu.tlvs
    assert isinstance(found, Organisational)
    return found


def frame(version: DcbxVersion, tlvs: DcbxTlvs) -> bytes:
    pdu = Lldpdu(ChassisId(4, b"\x02\0\0\0\x0a\0"), PortId.interface("eth0"), 121, tuple(encode(version, tlvs)))
    return LldpFrame(SOURCE, pdu).encode()


def flaws(version: DcbxVersion, *octets: str) -> tuple[DcbxTlvs, list[tuple[str, str]]]:
    reading = read(version, [tlv(text) for text in octets])
    assert not reading.mismatch
    return reading.tlvs, [(flaw.counter, flaw.message) for flaw in reading.flaws]


# On the wire


@pytest.mark.parametrize(("version", "tlvs", "octets"), KNOWN.values(), ids=KNOWN)
def test_each_tlv_has_the_octets_of_its_table(version: DcbxVersion, tlvs: DcbxTlvs, octets: str) -> None:
    assert frame(version, tlvs)[14 + len(MANDATORY) :].rstrip(b"\0").hex() == bytes.fromhex(octets).rstrip(b"\0").hex()
    assert read(version, [tlv(octets)]) == Reading(tlvs)


@pytest.mark.parametrize("version", DcbxVersion)
def test_all_six_of_a_format_fit_into_one_frame(version: DcbxVersion) -> None:
    together: dict[str, Any] = {}
    for made, tlvs, _ in KNOWN.values():
        if made is version:
            names = [feature.name for feature in features.every()]
            together |= {name: tlvs.get(name) for name in names if tlvs.get(name) is not None}
    everything = DcbxTlvs(**together)
    assert None not in together.values()
    assert len(together) == 6
    assert read(version, parse(frame(version, everything)).pdu.tlvs) == Reading(everything)


@given(drafts())
def test_the_draft_is_read_as_it_was_built(tlvs: DcbxTlvs) -> None:
    assert read(DRAFT, encode(DRAFT, tlvs)) == Reading(tlvs)


@given(publisheds())
def test_the_published_format_is_read_as_it_was_built(tlvs: DcbxTlvs) -> None:
    assert read(PUBLISHED, encode(PUBLISHED, tlvs)) == Reading(tlvs)


# What a receiver bears with


@pytest.mark.parametrize(
    ("version", "octets", "clean"),
    [
        (DRAFT, "fe05 0080c2 08 fb", "fe05 0080c2 08 03"),
        (
            DRAFT,
            "fe11 0080c2 09 ff 01 23 7d ef 0a 14 1e 28 00 00 00 00",
            "fe11 0080c2 09 01 01 23 7d ef 0a 14 1e 28 00 00 00 00",
        ),
        (DRAFT, "fe0d 0080c2 0a ff 0a 14 1e 28 00 00 00 00", "fe0d 0080c2 0a 01 0a 14 1e 28 00 00 00 00"),
        (DRAFT, "fe06 0080c2 0b fa 18", "fe06 0080c2 0b 82 18"),
        (DRAFT, "fe08 0080c2 0c ff 78 8906", "fe08 0080c2 0c 80 60 8906"),
        (DRAFT, "fe07 0080c2 0d ff 30 10", "fe07 0080c2 0d 80 30 10"),
        (PUBLISHED, "fe06 0080c2 0b f8 08", "fe06 0080c2 0b c8 08"),
        (PUBLISHED, "fe08 0080c2 0c ff 79 8906", "fe08 0080c2 0c 00 61 8906"),
        (
            PUBLISHED,
            "fe19 0080c2 09 fb 00 01 00 00 32 32 00 00 00 00 00 00 02 02 00 00 00 00 00 00",
            "fe19 0080c2 09 c3 00 01 00 00 32 32 00 00 00 00 00 00 02 02 00 00 00 00 00 00",
        ),
        (
            PUBLISHED,
            "fe19 0080c2 0a ff 00 01 00 00 32 32 00 00 00 00 00 00 02 02 00 00 00 00 00 00",
            "fe19 0080c2 0a 00 00 01 00 00 32 32 00 00 00 00 00 00 02 02 00 00 00 00 00 00",
        ),
    ],
)
def test_reserved_bits_are_not_read(version: DcbxVersion, octets: str, clean: str) -> None:
    assert flaws(version, octets) == flaws(version, clean)
    assert flaws(version, octets)[1] == []


@given(st.binary(min_size=8, max_size=8))
def test_with_rv_0_the_draft_table_is_not_read(table: bytes) -> None:
    found = read(DRAFT, [Organisational(b"\x00\x80\xc2", 10, b"\x00" + table)])
    assert found == Reading(DcbxTlvs(recommendation=EtsRecommendation(valid=False)))


@pytest.mark.parametrize(
    ("octets", "tlvs"),
    [
        ("fe07 0080c2 0b 07 18 ff", DcbxTlvs(pfc=Pfc(0x18, cap=7, defended=0x18))),
        ("fe07 0080c2 0d 00 30 ff", DcbxTlvs(cn=CongestionNotification(0x30, 0x30))),
    ],
)
def test_defon_of_a_priority_that_is_not_enabled_is_not_read(octets: str, tlvs: DcbxTlvs) -> None:
    assert flaws(DRAFT, octets) == (tlvs, [])


def test_defon_of_a_priority_that_is_not_enabled_is_sent_as_0() -> None:
    (sent,) = encode(DRAFT, DcbxTlvs(pfc=Pfc(0x18, cap=1, defended=0xF0)))
    assert sent.info.hex(" ") == "01 18 10"


def test_ready_of_a_priority_without_cn_is_not_read() -> None:
    assert flaws(PUBLISHED, "fe06 0080c2 08 30 ef") == (DcbxTlvs(cn=CongestionNotification(0x30, 0x10)), [])


def test_other_organisations_and_other_subtypes_are_ignored() -> None:
    others = [
        tlv("fe06 00120f 0b 05ee"),  # IEEE 802.3
        tlv("fe06 0080c2 01 0064"),  # port VLAN
        tlv("fe0d 0080c2 0d 0000000000000000 00"),  # EVB
    ]
    for version in DcbxVersion:
        reading = read(version, [*others, Text(TextKind.SYSTEM_NAME, b"s1"), tlv("fe06 0080c2 0b 01 08")])
        wrong = [] if version is PUBLISHED else ["congestion_notification.bad_length"]
        assert [flaw.counter for flaw in reading.flaws] == wrong
        assert reading.tlvs == DcbxTlvs(pfc=Pfc(8, cap=1))


@pytest.mark.parametrize(
    ("version", "octets", "tlvs"),
    [
        (PUBLISHED, "fe07 0080c2 0b 04 08 00", DcbxTlvs(pfc=Pfc(0x08, cap=4))),
        (PUBLISHED, "fe07 0080c2 0b 04 08 08", DcbxTlvs(pfc=Pfc(0x08, cap=4))),
        (PUBLISHED, "fe09 0080c2 0b 04 08 a0 a1 a1", DcbxTlvs(pfc=Pfc(0x08, cap=4))),
        (PUBLISHED, "fe09 0080c2 0b 04 08 a1 00 00", DcbxTlvs(pfc=Pfc(0x08, cap=4, headroom=True))),
        (DRAFT, "fe08 0080c2 0b 04 08 00 01", DcbxTlvs(pfc=Pfc(0x08, cap=4, defended=0))),
        (DRAFT, "fe09 0080c2 0b 04 08 08 a1 01", DcbxTlvs(pfc=Pfc(0x08, cap=4, defended=8, headroom=True))),
    ],
)
def test_octets_after_pfc_are_our_capability_or_nothing(version: DcbxVersion, octets: str, tlvs: DcbxTlvs) -> None:
    found, wrong = flaws(version, octets)
    assert found == tlvs
    assert [counter for counter, _ in wrong] == ["pfc.unknown_capability"] * (not (tlvs.pfc and tlvs.pfc.headroom))


# What is wrong


def ets(version: DcbxVersion, sums_to: int = 100, assignment: str = "00 00 00 00", tsa: str = "02") -> str:
    """Return an ETS Configuration with one class that has all."""
    if version is DRAFT:
        return f"fe11 0080c2 09 00 {assignment} {sums_to:02x} 00 00 00 00 00 00 00"
    return f"fe19 0080c2 09 00 {assignment} {sums_to:02x} 00 00 00 00 00 00 00 {tsa} 00 00 00 00 00 00 00"


def advice(version: DcbxVersion, sums_to: int = 100, assignment: str = "00 00 00 00", tsa: str = "02") -> str:
    if version is DRAFT:
        return f"fe0d 0080c2 0a 01 {sums_to:02x} 00 00 00 00 00 00 00"
    return f"fe19 0080c2 0a 00 {assignment} {sums_to:02x} 00 00 00 00 00 00 00 {tsa} 00 00 00 00 00 00 00"


WRONG_LENGTHS = {
    DRAFT: {
        "traffic_classes": (8, [0, 3, 4, 20], "5"),
        "ets_configuration": (9, [0, 1, 12, 14, 22], "17"),
        "ets_recommendation": (10, [0, 1, 8, 10, 22], "13"),
        "pfc": (11, [0, 1], "6 at least"),
        "application_priority": (12, [0, 2, 3, 5, 6, 506], "5 and a multiple of 3"),
        "congestion_notification": (13, [0, 1, 2, 4, 9], "7"),
    },
    PUBLISHED: {
        "congestion_notification": (8, [0, 3, 4, 20], "6"),
        "ets_configuration": (9, [0, 1, 12, 20, 22], "25"),
        "ets_recommendation": (10, [0, 1, 8, 20, 22], "25"),
        "pfc": (11, [0, 1], "6 at least"),
        "application_priority": (12, [0, 2, 3, 5, 6, 506], "5 and a multiple of 3"),
    },
}


@pytest.mark.parametrize(
    ("version", "name", "subtype", "length", "wanted"),
    [
        (version, name, subtype, length, wanted)
        for version, all_names in WRONG_LENGTHS.items()
        for name, (subtype, lengths, wanted) in all_names.items()
        for length in lengths
    ],
)
def test_a_tlv_of_another_length_is_left_out(
    version: DcbxVersion, name: str, subtype: int, length: int, wanted: str
) -> None:
    # A TLV that only this format has goes first, lest the wrong one be taken for the other format's.
    first = Organisational(b"\x00\x80\xc2", *((13, b"\0\x30\0") if version is DRAFT else (8, b"\x30\x30")))
    if first.subtype == subtype:
        first = tlv(ets(version).replace(" ", ""))
    reading = read(version, [first, Organisational(b"\x00\x80\xc2", subtype, bytes(length))])
    assert reading.tlvs == read(version, [first]).tlvs
    assert [(flaw.counter, flaw.message) for flaw in reading.flaws] == [
        (f"{name}.bad_length", f"{name.replace('_', ' ')}: its length is {length + 4}, and has to be {wanted}")
    ]


@pytest.mark.parametrize(("version", "tlvs", "octets"), KNOWN.values(), ids=KNOWN)
def test_of_a_repeated_tlv_the_first_counts(version: DcbxVersion, tlvs: DcbxTlvs, octets: str) -> None:
    first = tlv(octets)
    again = Organisational(first.oui, first.subtype, b"\x01" + first.info[1:])
    reading = read(version, [first, again, again])
    assert reading.tlvs == tlvs
    names = {8: "traffic_classes" if version is DRAFT else "congestion_notification", 9: "ets_configuration"}
    names |= {10: "ets_recommendation", 11: "pfc", 12: "application_priority", 13: "congestion_notification"}
    assert [flaw.counter for flaw in reading.flaws] == [f"{names[first.subtype]}.repeated"] * 2


def test_a_first_one_that_is_wrong_counts_as_first_too() -> None:
    found, wrong = flaws(PUBLISHED, "fe05 0080c2 0b 01", "fe06 0080c2 0b 01 08")
    assert (found, [counter for counter, _ in wrong]) == (DcbxTlvs(), ["pfc.bad_length", "pfc.repeated"])


@pytest.mark.parametrize("version", DcbxVersion)
@pytest.mark.parametrize("total", [0, 1, 99, 101, 255])
def test_bandwidths_that_do_not_sum_to_100_are_shown_in_a_configuration_and_ignored_in_a_recommendation(
    version: DcbxVersion, total: int
) -> None:
    found, wrong = flaws(version, ets(version, total), advice(version, total))
    assert found.ets is not None
    assert found.ets.ets.bandwidth == (total, 0, 0, 0, 0, 0, 0, 0)
    assert found.ets.ets.problem() == f"its bandwidths sum to {total}, not 100"
    assert found.recommendation is None
    assert wrong == [
        ("ets_configuration.bandwidth_sum", f"ets configuration: its bandwidths sum to {total}, not 100"),
        ("ets_recommendation.bandwidth_sum", f"ets recommendation: its bandwidths sum to {total}, not 100"),
    ]


def test_without_any_ets_class_the_published_bandwidths_may_be_zeros() -> None:
    found, wrong = flaws(PUBLISHED, ets(PUBLISHED, 0, tsa="00"), advice(PUBLISHED, 0, tsa="00"))
    assert wrong == []
    assert found.recommendation is not None
    assert found.ets is not None
    assert found.ets.ets.problem() is None


@pytest.mark.parametrize("entry", [8, 9, 10, 11, 12])
def test_undefined_assignments_of_the_draft_are_shown_and_reported(entry: int) -> None:
    found, wrong = flaws(DRAFT, ets(DRAFT, assignment=f"0{entry:x} 00 00 00"))
    assert found.ets is not None
    assert found.ets.ets.assignment == (0, entry, 0, 0, 0, 0, 0, 0)
    message = f"ets configuration: priority 1 is assigned to {entry}, which is not defined"
    assert wrong == [("ets_configuration.undefined", message)]


@pytest.mark.parametrize("entry", range(8, 16))
def test_a_published_assignment_is_a_traffic_class(entry: int) -> None:
    found, wrong = flaws(PUBLISHED, *(make(PUBLISHED, assignment=f"00 00 00 {entry:x}0") for make in (ets, advice)))
    assert found.recommendation is None
    assert found.ets is not None
    assert [message for _, message in wrong] == [
        f"ets {name}: priority 6 is assigned to {entry}, which is not defined"
        for name in ("configuration", "recommendation")
    ]


@pytest.mark.parametrize("number", [3, 4, 128, 254])
def test_undefined_transmission_selection_is_shown_and_reported(number: int) -> None:
    found, wrong = flaws(PUBLISHED, *(make(PUBLISHED, tsa=f"{number:02x}") for make in (ets, advice)))
    assert found.recommendation is None
    assert [(counter, message) for counter, message in wrong] == [
        (
            f"ets_{name}.undefined",
            f"ets {name}: class 0 has transmission selection {number}, which is not defined",
        )
        for name in ("configuration", "recommendation")
    ]


@pytest.mark.parametrize("cap", range(9, 16))
def test_an_undefined_published_pfc_capability_is_shown_and_reported(cap: int) -> None:
    found, wrong = flaws(PUBLISHED, f"fe06 0080c2 0b {cap:02x} 08")
    assert found == DcbxTlvs(pfc=Pfc(8, cap=cap))
    assert wrong == [("pfc.undefined", f"pfc: its capability is {cap}, and there are 8 classes at most")]


@pytest.mark.parametrize(
    ("version", "reserved"), [(DRAFT, number) for number in (5, 6, 7)] + [(PUBLISHED, number) for number in (0, 6, 7)]
)
def test_an_entry_with_a_reserved_selector_is_left_out_and_the_others_count(
    version: DcbxVersion, reserved: int
) -> None:
    ethertype = 0 if version is DRAFT else 1
    found, wrong = flaws(version, f"fe0e 0080c2 0c 00 6{ethertype} 8906 {0x40 | reserved:02x} 0001 8{ethertype} 8914")
    assert found.applications == ApplicationPriority(
        (AppEntry(3, Selector.ETHERTYPE, 0x8906), AppEntry(4, Selector.ETHERTYPE, 0x8914))
    )
    message = f"application priority: entry 1 has selector {reserved}, which is reserved; the other entries count"
    assert wrong == [("application_priority.reserved_selector", message)]


# One frame, one format

TELLING = [name for name in KNOWN if not any(word in name for word in ("PFC", "applications"))]
"""The names of TLVs whose shape only one format has."""


@pytest.mark.parametrize("name", TELLING)
def test_a_peer_of_the_other_format_is_noticed_and_nothing_of_its_frame_is_read(name: str) -> None:
    version, tlvs, octets = KNOWN[name]
    with_pfc = [tlv("fe06 0080c2 0b 04 08"), tlv(octets), tlv("fe05 0080c2 0c 00")]
    assert read(version.other, with_pfc) == Reading(DcbxTlvs(), (), mismatch=True)
    assert read(version, with_pfc).tlvs.pfc is not None
    assert not read(version, with_pfc).mismatch
    assert tlvs


@pytest.mark.parametrize("name", [name for name in KNOWN if name not in TELLING])
def test_pfc_and_applications_look_alike_and_tell_no_format(name: str) -> None:
    version, _, octets = KNOWN[name]
    assert not read(version.other, [tlv(octets)]).mismatch


@pytest.mark.parametrize(
    ("version", "own", "foreign", "counter"),
    [
        (PUBLISHED, "published, CN", "draft, ETS configuration", "ets_configuration.other_version"),
        (PUBLISHED, "published, ETS configuration", "draft, CN", "congestion_notification.other_version"),
        (PUBLISHED, "published, ETS configuration", "draft, 3 classes", "congestion_notification.other_version"),
        (DRAFT, "draft, 3 classes", "published, ETS recommendation", "ets_recommendation.other_version"),
        (DRAFT, "draft, ETS configuration", "published, CN", "traffic_classes.other_version"),
    ],
)
def test_a_tlv_of_the_other_format_among_ours_is_left_out(
    version: DcbxVersion, own: str, foreign: str, counter: str
) -> None:
    reading = read(version, [tlv(KNOWN[foreign][2]), tlv(KNOWN[own][2])])
    assert (reading.tlvs, [flaw.counter for flaw in reading.flaws]) == (KNOWN[own][1], [counter])
    assert reading.flaws[0].message.endswith(f"this is the {version.other} format's, among TLVs of the {version} one")


def test_a_tlv_of_the_other_format_that_comes_first_counts_as_first_too() -> None:
    foreign, own = KNOWN["draft, ETS configuration"][2], KNOWN["published, ETS configuration"][2]
    reading = read(PUBLISHED, [tlv(foreign), tlv(own)])
    counters = ["ets_configuration.other_version", "ets_configuration.repeated"]
    assert (reading.tlvs, [flaw.counter for flaw in reading.flaws]) == (DcbxTlvs(), counters)


def test_no_dcbx_at_all_is_not_a_mismatch() -> None:
    assert read(PUBLISHED, []) == Reading(DcbxTlvs())
    assert not DcbxTlvs()
    assert DcbxTlvs(traffic_classes=1)


@given(st.sampled_from(DcbxVersion), st.lists(st.tuples(st.integers(8, 13), st.binary(max_size=30)), max_size=8))
def test_any_octets_are_read_and_what_was_read_can_be_sent_again(
    version: DcbxVersion, octets: list[tuple[int, bytes]]
) -> None:
    reading = read(version, [Organisational(b"\x00\x80\xc2", subtype, info) for subtype, info in octets])
    again = read(version, encode(version, reading.tlvs))
    assert again.tlvs == reading.tlvs


# Building


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: encode(PUBLISHED, DcbxTlvs(ets=EtsConfiguration(CLASSES))),
            "a published ETS Configuration has a number of traffic classes: give 1 to 8",
        ),
        (
            lambda: encode(PUBLISHED, DcbxTlvs(8, EtsConfiguration(GROUPS))),
            "the published format needs priority assignment and transmission selection; give both",
        ),
        (
            lambda: encode(PUBLISHED, DcbxTlvs(recommendation=EtsRecommendation(CLASSES.bandwidth))),
            "the published format needs priority assignment and transmission selection; give both",
        ),
        (
            lambda: encode(PUBLISHED, DcbxTlvs(recommendation=EtsRecommendation(valid=False))),
            "the published format has no RV bit; leave the TLV out until there is a recommendation",
        ),
        (
            lambda: encode(PUBLISHED, DcbxTlvs(pfc=Pfc(8, defended=8))),
            "the published format has no DefOn in its PFC TLV; leave `defended` at None",
        ),
        (
            lambda: encode(PUBLISHED, DcbxTlvs(applications=ApplicationPriority((), True))),
            "the published format has no W in Application Priority; leave `willing` at False",
        ),
        (
            lambda: encode(PUBLISHED, DcbxTlvs(cn=CongestionNotification(8, willing=True))),
            "the published format has no W in Congestion Notification; leave `willing` at False",
        ),
        (
            lambda: encode(
                PUBLISHED, DcbxTlvs(applications=ApplicationPriority((AppEntry(1, Selector.OTHER_PORT, 6),)))
            ),
            "the published format has no selector for port of neither TCP nor UDP",
        ),
        (
            lambda: encode(DRAFT, DcbxTlvs(applications=ApplicationPriority((AppEntry(1, Selector.DSCP, 46),)))),
            "the draft's format has no selector for DSCP",
        ),
        (
            lambda: encode(DRAFT, DcbxTlvs(ets=EtsConfiguration(CLASSES))),
            "the draft has no transmission selection; leave `tsa` at None and `cbs` at False",
        ),
        (
            lambda: encode(
                DRAFT, DcbxTlvs(recommendation=EtsRecommendation(CLASSES.bandwidth, CLASSES.assignment, CLASSES.tsa))
            ),
            "the draft recommends bandwidth only; leave `assignment` and `tsa` at None",
        ),
        (
            lambda: encode(DRAFT, DcbxTlvs(pfc=Pfc(8, cap=0))),
            "the draft's PFC TLV cannot carry a capability of 0, but 1 to 8; without any, send no PFC TLV",
        ),
        (
            lambda: encode(DRAFT, DcbxTlvs(pfc=Pfc(8, mbc=True))),
            "the draft's PFC TLV has no MBC bit; leave `mbc` at False",
        ),
        (
            lambda: encode(DRAFT, DcbxTlvs(pfc=Pfc(8, headroom=True))),
            "in the draft's PFC TLV the headroom capability comes after DefOn; set `defended`, 0 for none",
        ),
        (lambda: DcbxTlvs(traffic_classes=9), "9 traffic classes are invalid: there are 1 to 8"),
        (lambda: DcbxTlvs(traffic_classes=0), "0 traffic classes are invalid: there are 1 to 8"),
        (lambda: Pfc(0x100), "PFC enable 0x100 is not a set of priorities: it has more than 8 bits"),
        (lambda: Pfc(0, cap=16), "PFC capability 16 does not fit into 4 bits"),
        (lambda: mask([3, 8]), "8 is not a priority: there are 0 to 7"),
        (lambda: AppEntry(8, Selector.TCP, 1), "8 is not a priority: there are 0 to 7"),
        (lambda: AppEntry(1, Selector.TCP, 65536), "protocol ID 65536 does not fit into 16 bits"),
        (
            lambda: ApplicationPriority((APPLICATIONS[0],) * 169),
            "169 application priorities do not fit into a TLV, 168 do",
        ),
        (
            lambda: CongestionNotification(0x30, 0x08),
            "CN DefOn 0x08 has priorities that are not enabled, 0x30: such bits are reserved",
        ),
        (lambda: Ets((0,) * 7, (100,) + (0,) * 7), "a priority assignment table has 8 entries, not 7"),
        (
            lambda: Ets((16,) + (0,) * 7, (100,) + (0,) * 7),
            "a priority assignment table holds 0 to 15, and here is (16, 0, 0, 0, 0, 0, 0, 0)",
        ),
        (
            lambda: EtsRecommendation((256,) + (0,) * 7),
            "a recommended bandwidth table holds 0 to 255, and here is (256, 0, 0, 0, 0, 0, 0, 0)",
        ),
        (
            lambda: EtsRecommendation((100,) + (0,) * 7, assignment=(0,) * 8),
            "a recommendation has both a priority assignment and transmission selection, or neither",
        ),
        (
            lambda: EtsRecommendation((100,) + (0,) * 7, valid=False),
            "a recommendation with RV 0 is empty: its table is reserved, all zeros",
        ),
    ],
)
def test_what_a_format_cannot_express_is_refused(build: object, message: str) -> None:
    assert callable(build)
    with pytest.raises(FieldError) as caught:
        build()
    assert str(caught.value) == message


@given(st.sets(st.integers(0, 7)))
def test_masks_have_bit_n_for_priority_n(wanted: set[int]) -> None:
    assert mask(wanted) == sum(2**priority for priority in wanted)
    assert list(priorities(mask(wanted))) == sorted(wanted)


# Others


def test_what_lldpd_sends_is_understood() -> None:
    """Captured from lldpd 1.0.16 with two custom TLVs; it repeats nothing, and adds TLVs of IEEE 802.3."""
    frame = parse(
        bytes.fromhex(
            "0180c200000e 02000000000a 88cc 0207 04 02000000000a 0407 03 02000000000a 0602 0078 0a02 766d"
            "0c0b 746573742073797374656d 0e04 009c0080 1018 11 02 fe80000000000000000000fffe00000b 02 00000002 00"
            "0802 7661 fe09 00120f 03 0100000000 fe09 00120f 01 0080000036 fe06 0080c2 0b 0808"
            "fe19 0080c2 09 80 00010000 3232000000000000 0202000000000000 0000"
        )
    )
    assert (str(frame.pdu.chassis_id), str(frame.pdu.port_id)) == ("02:00:00:00:00:0a",) * 2
    assert (frame.pdu.ttl, frame.pdu.flaws) == (120, ())
    assert [str(tlv) for tlv in frame.pdu.tlvs if isinstance(tlv, Text)] == ["vm", "test system", "va"]
    table = Ets((0, 0, 0, 1, 0, 0, 0, 0), (50, 50, 0, 0, 0, 0, 0, 0), (2, 2, 0, 0, 0, 0, 0, 0))
    assert read(PUBLISHED, frame.pdu.tlvs) == Reading(
        DcbxTlvs(8, EtsConfiguration(table, willing=True), pfc=Pfc(0x08, cap=8))
    )
