"""LLDP frames: the octets of IEEE 802.1AB, and what becomes of octets that are not quite those.

The known frames are written out here field by field, so that nothing of the codec is used to check it.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.frames import FieldError, Mac
from testbed.frames.lldp import ChassisId, Lldpdu, LldpError, LldpFrame, LldpReason, PortId, parse, parse_pdu
from testbed.frames.lldp_tlvs import (
    Capabilities,
    Capability,
    ManagementAddress,
    Organisational,
    Text,
    TextKind,
    Tlv,
    TlvReason,
    Unknown,
)

SOURCE = Mac.parse("02:00:00:00:0a:01")
HEAD = bytes.fromhex("0180c200000e 020000000a01 88cc")
CHASSIS = bytes.fromhex("0207 04 020000000a00")  # type 1, 7 octets: a MAC address
PORT = bytes.fromhex("0405 05 65746830")  # type 2, 5 octets: interface name "eth0"
TTL = bytes.fromhex("0602 0079")  # type 3: 121 seconds
END = bytes.fromhex("0000")
LEAST = HEAD + CHASSIS + PORT + TTL

PDU = Lldpdu(ChassisId.of_mac(Mac.parse("02:00:00:00:0a:00")), PortId.interface("eth0"), 121)

OPTIONAL: dict[str, tuple[Tlv, str]] = {
    "port description": (Text(TextKind.PORT_DESCRIPTION, b"to h1"), "0805 746f206831"),
    "system name": (Text(TextKind.SYSTEM_NAME, b"s1"), "0a02 7331"),
    "empty name": (Text(TextKind.SYSTEM_NAME, b""), "0a00"),
    "system description": (Text(TextKind.SYSTEM_DESCRIPTION, "é".encode()), "0c02 c3a9"),
    "capabilities": (Capabilities(Capability.BRIDGE | Capability.ROUTER, Capability.BRIDGE), "0e04 0014 0004"),
    #                                                                  len fam address  num interface oid
    "IPv4": (ManagementAddress.ip("192.0.2.1"), "100c 05 01 c0000201 01 00000000 00"),
    "IPv6": (
        ManagementAddress.ip("2001:db8::1", 3),
        "1018 11 02 20010db8000000000000000000000001 02 00000003 00",
    ),
    "MAC and OID": (
        ManagementAddress(6, SOURCE.octets, 0x01020304, 3, b"\x2b\x06"),
        "1010 07 06 020000000a01 03 01020304 02 2b06",
    ),
    "organisational": (Organisational(b"\x00\x12\x0f", 4, b"\x05\xee"), "fe06 00120f 04 05ee"),
    "organisational, nothing in it": (Organisational(b"\xff\xff\xff", 255, b""), "fe04 ffffff ff"),
    "reserved type": (Unknown(9, b"\x01"), "1201 01"),
    "highest reserved type": (Unknown(126, b""), "fc00"),
}


def refusal(data: bytes) -> tuple[LldpReason, str]:
    with pytest.raises(LldpError) as caught:
        parse(data)
    return caught.value.reason, str(caught.value)


def flaws(*tlvs: str) -> tuple[tuple[Tlv, ...], list[tuple[str, str]]]:
    """Read optional TLVs in hexadecimal, and return the TLVs with the counters and messages of those that are left
    out.
    """
    pdu = parse(LEAST + bytes.fromhex("".join(tlvs))).pdu
    return pdu.tlvs, [(flaw.counter, flaw.message) for flaw in pdu.flaws]


# On the wire


def test_the_least_frame_has_the_octets_of_the_standard_and_is_padded() -> None:
    frame = LldpFrame(SOURCE, PDU)
    octets = LEAST + END
    assert frame.encode().hex() == (octets + bytes(60 - len(octets))).hex()
    assert parse(frame.encode()) == frame


@pytest.mark.parametrize(("tlv", "octets"), OPTIONAL.values(), ids=OPTIONAL)
def test_each_optional_tlv_has_the_octets_of_the_standard(tlv: Tlv, octets: str) -> None:
    data = LEAST + bytes.fromhex(octets) + END
    frame = LldpFrame(SOURCE, Lldpdu(PDU.chassis_id, PDU.port_id, 121, (tlv,)))
    assert frame.encode().hex() == data.ljust(60, b"\0").hex()
    assert parse(data) == frame
    assert parse(data).pdu.flaws == ()


def test_all_of_them_in_one_frame_keep_their_order() -> None:
    once = [entry for name, entry in OPTIONAL.items() if name != "empty name"]
    data = LEAST + b"".join(bytes.fromhex(octets) for _, octets in once) + END
    assert parse(data).pdu.tlvs == tuple(tlv for tlv, _ in once)
    assert parse(data).encode() == data


def test_a_shutdown_frame_has_ttl_0() -> None:
    frame = LldpFrame(SOURCE, Lldpdu(PDU.chassis_id, PDU.port_id, 0))
    assert frame.encode().startswith(HEAD + CHASSIS + PORT + bytes.fromhex("0602 0000 0000"))
    assert parse(frame.encode()).pdu.ttl == 0


octet_strings = st.binary(min_size=1, max_size=40)
ids = st.tuples(st.integers(0, 255), octet_strings)
short_tlvs = (
    st.builds(Capabilities, st.integers(0, 0xFFFF), st.integers(0, 0xFFFF))
    | st.builds(
        ManagementAddress,
        st.integers(0, 255),
        st.binary(min_size=1, max_size=31),
        st.integers(0, 2**32 - 1),
        st.integers(0, 255),
        st.binary(max_size=128),
    )
    | st.builds(Organisational, st.binary(min_size=3, max_size=3), st.integers(0, 255), st.binary(max_size=100))
    | st.builds(Unknown, st.integers(9, 126), st.binary(max_size=100))
    | st.builds(Text, st.sampled_from(TextKind), st.binary(max_size=100))
)
only_once = {TextKind.PORT_DESCRIPTION, TextKind.SYSTEM_NAME, TextKind.SYSTEM_DESCRIPTION, "capabilities"}


def key(tlv: Tlv) -> object:
    if isinstance(tlv, Text):
        return tlv.kind
    return "capabilities" if isinstance(tlv, Capabilities) else id(tlv)


@given(ids, ids, st.integers(0, 0xFFFF), st.lists(short_tlvs, max_size=8, unique_by=key))
def test_a_frame_is_read_as_it_was_built(
    chassis: tuple[int, bytes], port: tuple[int, bytes], ttl: int, tlvs: list[Tlv]
) -> None:
    frame = LldpFrame(SOURCE, Lldpdu(ChassisId(*chassis), PortId(*port), ttl, tuple(tlvs)))
    found = parse(frame.encode())
    assert found == frame
    assert found.pdu.flaws == ()
    assert found.encode() == frame.encode()


# A frame that is refused


@pytest.mark.parametrize(
    ("octets", "reason", "message"),
    [
        (b"", LldpReason.TOO_SHORT, "a frame of 0 octets is cut short: an Ethernet header would end at 14"),
        (LEAST[:13], LldpReason.TOO_SHORT, "a frame of 13 octets is cut short: an Ethernet header would end at 14"),
        (LEAST[:12] + b"\x08\x00" + LEAST[14:], LldpReason.NOT_LLDP, "EtherType 0x0800 is not LLDP, 0x88cc"),
        (
            LEAST[:12] + bytes.fromhex("8100 6000") + LEAST[12:],
            LldpReason.NOT_LLDP,
            "EtherType 0x8100 is not LLDP, 0x88cc",
        ),
        (
            bytes.fromhex("0180c2000003") + LEAST[6:],
            LldpReason.WRONG_DESTINATION,
            "an LLDP frame to 01:80:c2:00:00:03 is refused: DCBX uses 01:80:c2:00:00:0e alone",
        ),
        (LEAST.ljust(1519), LldpReason.TOO_LONG, "an LLDP frame of 1519 octets is refused: 1518 is the most"),
        (HEAD, LldpReason.BAD_CHASSIS_ID, "the LLDPDU ends where its chassis ID should be"),
        (HEAD + b"\x02", LldpReason.BAD_CHASSIS_ID, "the LLDPDU ends where its chassis ID should be"),
        (
            HEAD + END,
            LldpReason.BAD_CHASSIS_ID,
            "a TLV of type 0 stands where chassis ID, type 1, should be",
        ),
        (
            HEAD + PORT + CHASSIS + TTL,
            LldpReason.BAD_CHASSIS_ID,
            "a TLV of type 2 stands where chassis ID, type 1, should be",
        ),
        (
            HEAD + b"\x02\x01\x04" + PORT + TTL,
            LldpReason.BAD_CHASSIS_ID,
            "the chassis ID has 1 octets, and has to have 2 to 256",
        ),
        (
            HEAD + b"\x03\x01\x07" + bytes(256) + PORT + TTL,
            LldpReason.BAD_CHASSIS_ID,
            "the chassis ID has 257 octets, and has to have 2 to 256",
        ),
        (LEAST[:20], LldpReason.BAD_CHASSIS_ID, "the chassis ID has a length of 7 octets, and 4 are left"),
        (HEAD + CHASSIS, LldpReason.BAD_PORT_ID, "the LLDPDU ends where its port ID should be"),
        (HEAD + CHASSIS + TTL, LldpReason.BAD_PORT_ID, "a TLV of type 3 stands where port ID, type 2, should be"),
        (HEAD + CHASSIS + CHASSIS, LldpReason.BAD_PORT_ID, "a TLV of type 1 stands where port ID, type 2, should be"),
        (
            HEAD + CHASSIS + b"\x04\x00" + TTL,
            LldpReason.BAD_PORT_ID,
            "the port ID has 0 octets, and has to have 2 to 256",
        ),
        (HEAD + CHASSIS + PORT + END, LldpReason.BAD_TTL, "a TLV of type 0 stands where TTL, type 3, should be"),
        (HEAD + CHASSIS + PORT + b"\x06\x01\x79", LldpReason.BAD_TTL, "the TTL has 1 octets, and has to have 2 to 511"),
        (
            HEAD + CHASSIS + PORT + b"\x06\x02\x00",
            LldpReason.BAD_TTL,
            "the TTL has a length of 2 octets, and 1 are left",
        ),
        *(
            (
                LEAST + again,
                LldpReason.MANDATORY_REPEATED,
                f"a TLV of type {kind} comes again, where chassis ID, port ID and TTL are over",
            )
            for kind, again in ((1, CHASSIS), (2, PORT), (3, TTL))
        ),
    ],
)
def test_a_frame_whose_mandatory_part_is_wrong_is_refused_under_its_own_reason(
    octets: bytes, reason: LldpReason, message: str
) -> None:
    assert refusal(octets) == (reason, message)


def test_reasons_are_names_of_counters() -> None:
    assert [str(reason) for reason in LldpReason] == [
        "not_lldp",
        "wrong_destination",
        "too_short",
        "too_long",
        "bad_chassis_id",
        "bad_port_id",
        "bad_ttl",
        "mandatory_repeated",
    ]


@pytest.mark.parametrize("length", range(len(LEAST)))
def test_no_truncation_of_the_mandatory_part_is_read(length: int) -> None:
    with pytest.raises(LldpError):
        parse(LEAST[:length])


# What a receiver bears with


def test_a_missing_end_is_not_a_fault() -> None:
    assert parse(LEAST) == parse(LEAST + END)
    assert parse(LEAST).pdu.flaws == ()


@given(st.binary(max_size=400))
def test_what_follows_end_is_not_read(rest: bytes) -> None:
    found = parse(LEAST + bytes.fromhex("0a02 7331") + END + rest)
    assert (found.pdu.tlvs, found.pdu.flaws) == ((Text(TextKind.SYSTEM_NAME, b"s1"),), ())


def test_management_addresses_and_organisational_tlvs_may_be_repeated() -> None:
    address, organisational = OPTIONAL["IPv4"], OPTIONAL["organisational"]
    tlvs, wrong = flaws(address[1], address[1], organisational[1], organisational[1])
    assert (tlvs, wrong) == ((address[0], address[0], organisational[0], organisational[0]), [])


def test_octets_after_the_fields_of_a_tlv_are_not_read() -> None:
    tlvs, wrong = flaws("0e05 0014 0004 ff", "100e 05 01 c0000201 01 00000000 00 aabb")
    assert (tlvs, wrong) == ((Capabilities(0x14, 4), ManagementAddress.ip("192.0.2.1")), [])
    longer_ttl = HEAD + CHASSIS + PORT + bytes.fromhex("0603 0079 ff")
    assert parse(longer_ttl).pdu == PDU


def test_identifiers_of_unknown_kinds_still_tell_neighbours_apart() -> None:
    data = HEAD + bytes.fromhex("0202 c8 01 0402 00 02") + TTL
    assert parse(data).pdu == Lldpdu(ChassisId(0xC8, b"\x01"), PortId(0, b"\x02"), 121)


@pytest.mark.parametrize(
    ("octets", "counter", "message"),
    [
        ("0a02 7332", "system_name.repeated", "system name comes again; the first counts"),
        (
            "0b00" + "41" * 256,
            "system_name.repeated",
            "system name comes again; the first counts",
        ),
        (
            "0d00" + "41" * 256,
            "system_description.too_long",
            "system description has 256 octets, and 255 at most are allowed",
        ),
        (
            "0e03 001400",
            "system_capabilities.too_short",
            "a TLV for system capabilities has 3 octets, and 4 are the least",
        ),
        (
            "1008 05 01 c0000201 01 00",
            "management_address.too_short",
            "a TLV for management address has 8 octets, and 9 are the least",
        ),
        (
            "1009 01 01 01 00000000 00 00",
            "management_address.bad_length",
            "an address of 1 octets with its family does not fit into a TLV of 9",
        ),
        (
            "1009 05 01 c0000201 01 0000",
            "management_address.bad_length",
            "an address of 5 octets with its family does not fit into a TLV of 9",
        ),
        (
            "100b 05 01 c0000201 01 00000000",
            "management_address.bad_length",
            "an address of 5 octets with its family does not fit into a TLV of 11",
        ),
        (
            "1030 21" + "00" * 47,
            "management_address.bad_length",
            "an address of 33 octets with its family does not fit into a TLV of 48",
        ),
        (
            "100d 05 01 c0000201 01 00000000 02 2b",
            "management_address.bad_length",
            "an object identifier of 2 octets does not fit; 1 are left of 128 at most",
        ),
        (
            "108d 05 01 c0000201 01 00000000 81" + "00" * 129,
            "management_address.bad_length",
            "an object identifier of 129 octets does not fit; 129 are left of 128 at most",
        ),
        ("fe03 0080c2", "organisational.too_short", "a TLV for organisational has 3 octets, and 4 are the least"),
    ],
)
def test_a_wrong_optional_tlv_is_left_out_and_the_others_count(octets: str, counter: str, message: str) -> None:
    name, capable = OPTIONAL["system name"], OPTIONAL["reserved type"]
    assert flaws(name[1], octets, capable[1]) == ((name[0], capable[0]), [(counter, message)])


@pytest.mark.parametrize(
    ("octets", "counter", "message"),
    [
        ("08ff 00", "tlv.cut_short", "a TLV of type 4 has a length of 255 octets, and 1 are left"),
        ("fe05 0080c20b", "tlv.cut_short", "a TLV of type 127 has a length of 5 octets, and 4 are left"),
        ("08", "tlv.cut_short", "one octet is left, and a TLV starts with two"),
        ("0003 010203 0a02 7332", "end.not_empty", "End has 3 octets"),
    ],
)
def test_reading_ends_where_the_octets_do(octets: str, counter: str, message: str) -> None:
    name = OPTIONAL["system name"]
    assert flaws(name[1], octets) == ((name[0],), [(counter, message)])


def test_reasons_of_tlvs_are_names_of_counters() -> None:
    assert [str(reason) for reason in TlvReason] == [
        "cut_short",
        "too_short",
        "too_long",
        "bad_length",
        "repeated",
        "not_empty",
    ]


@given(st.binary(max_size=200) | st.builds(bytes.__add__, st.just(CHASSIS + PORT + TTL), st.binary(max_size=200)))
def test_any_octets_are_an_lldpdu_or_refused(octets: bytes) -> None:
    try:
        pdu = parse_pdu(octets)
    except LldpError as error:
        assert error.reason in LldpReason
    else:
        assert parse_pdu(pdu.encode()) == pdu


# For people


def test_identifiers_are_shown_as_what_they_are() -> None:
    shown = [
        ChassisId.of_mac(SOURCE),
        ChassisId.local("s1"),
        ChassisId(5, bytes.fromhex("01 c0000201")),
        ChassisId(5, bytes.fromhex("02 20010db8000000000000000000000001")),
        ChassisId(5, bytes.fromhex("06 020000000a01")),
        ChassisId(5, b"\x63\x01"),
        ChassisId(4, b"\x01\x02"),
        PortId.of_mac(SOURCE),
        PortId.interface("s1-eth1"),
        PortId(7, b"\xff\x00"),
        PortId(7, b"a\x1b[2J"),
    ]
    assert [str(identifier) for identifier in shown] == [
        "02:00:00:00:0a:01",
        "s1",
        "192.0.2.1",
        "2001:db8::1",
        "02:00:00:00:0a:01",
        "01",
        "0102",
        "02:00:00:00:0a:01",
        "s1-eth1",
        "ff00",
        "611b5b324a",
    ]
    assert str(Text(TextKind.SYSTEM_NAME, b"s\xff1")) == "s\ufffd1"
    assert str(ManagementAddress.ip("192.0.2.1")) == "192.0.2.1"


# Building


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: ChassisId(4, b""), "a chassis ID of 0 octets has an invalid length; must be 1 to 255"),
        (lambda: PortId(5, bytes(256)), "a port ID of 256 octets has an invalid length; must be 1 to 255"),
        (lambda: PortId(256, b"a"), "port ID subtype 256 does not fit into 8 bits"),
        (lambda: ChassisId(-1, b"a"), "chassis ID subtype -1 does not fit into 8 bits"),
        (lambda: Lldpdu(PDU.chassis_id, PDU.port_id, 65536), "a TTL of 65536 seconds does not fit: it is 0 to 65535"),
        (
            lambda: Text(TextKind.SYSTEM_NAME, bytes(256)),
            "a system name of 256 octets is too long: it has 255 at most",
        ),
        (lambda: Capabilities(0x10000, 0), "capabilities 0x10000 and 0x0 do not fit into 16 bits each"),
        (lambda: ManagementAddress(1, b""), "a management address of 0 octets has an invalid length; must be 1 to 31"),
        (
            lambda: ManagementAddress(1, bytes(32)),
            "a management address of 32 octets has an invalid length; must be 1 to 31",
        ),
        (
            lambda: ManagementAddress(1, bytes(4), oid=bytes(129)),
            "an object identifier of 129 octets is too long: it has 128 at most",
        ),
        (
            lambda: ManagementAddress(256, bytes(4)),
            "address family 256, interface numbering 1 or interface 0 does not fit into its 8, 8 and 32 bits",
        ),
        (
            lambda: ManagementAddress.ip("192.0.2"),
            "'192.0.2' is not an IP address: write for example '192.0.2.1'",
        ),
        (lambda: Organisational(b"\x00\x80", 1, b""), "an OUI of 2 octets has an invalid length; must be 3"),
        (lambda: Organisational(b"\x00\x80\xc2", 256, b""), "organisational subtype 256 does not fit into 8 bits"),
        (
            lambda: Organisational(b"\x00\x80\xc2", 1, bytes(508)),
            "an organisational TLV of 508 octets is too long: it has 507 at most",
        ),
        (lambda: Unknown(8, b""), "TLV type 8 is not reserved: 9 to 126 are"),
        (lambda: Unknown(127, b""), "TLV type 127 is not reserved: 9 to 126 are"),
        (lambda: Unknown(9, bytes(512)), "a TLV of 512 octets is too long: it has 511 at most"),
        (
            lambda: Lldpdu(PDU.chassis_id, PDU.port_id, 1, (Unknown(9, bytes(511)),) * 3).encode(),
            "an LLDPDU of 1561 octets does not fit into a frame, which holds 1500; send fewer or shorter TLVs",
        ),
    ],
)
def test_invalid_values_are_not_built(build: object, message: str) -> None:
    assert callable(build)
    with pytest.raises(FieldError) as caught:
        build()
    assert str(caught.value) == message
