"""Every published TLV that we send, read by an independent decoder: Wireshark's, in `tshark`.

One run of tshark reads all frames. What it found is put together into values again and compared with what was sent.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.frames import Mac
from testbed.frames.dcbx.values import AppEntry, DcbxVersion, Ets, EtsRecommendation, Selector, Tsa
from testbed.frames.lldp import ChassisId, Lldpdu, LldpFrame, PortId
from testbed.frames.lldp_tlvs import Capabilities, ManagementAddress, Text, TextKind
from testbed.subjects.dcbx.tlvs import (
    ApplicationPriority,
    CongestionNotification,
    DcbxTlvs,
    EtsConfiguration,
    Pfc,
    encode,
)
from tests.unit.frames.tshark import TSHARK, decode

pytestmark = [
    pytest.mark.packages("tshark"),
    pytest.mark.skipif(TSHARK is None, reason="tshark is not installed: our TLVs meet no independent decoder"),
]

SELECTORS = {"1": Selector.ETHERTYPE, "2": Selector.TCP, "3": Selector.UDP, "4": Selector.ANY_PORT, "5": Selector.DSCP}
LLDP = (
    Text(TextKind.PORT_DESCRIPTION, b"to h1"),
    Text(TextKind.SYSTEM_NAME, b"s1"),
    Text(TextKind.SYSTEM_DESCRIPTION, b"Xoff"),
    Capabilities(0x14, 0x04),
    ManagementAddress.ip("192.0.2.1", 7),
    ManagementAddress.ip("2001:db8::1"),
)


def some_tlvs() -> Iterator[DcbxTlvs]:
    """Return each TLV by itself, none, all, and many at random: always the same ones."""
    dice = random.Random(802)

    def bandwidth() -> tuple[int, ...]:
        cuts = sorted(dice.choices(range(101), k=7))
        return tuple(high - low for low, high in zip([0, *cuts], [*cuts, 100], strict=True))

    def ets() -> Ets:
        algorithms = dice.choices([int(algorithm) for algorithm in Tsa], k=8)
        return Ets(tuple(dice.choices(range(8), k=8)), bandwidth(), tuple(algorithms))

    def entry() -> AppEntry:
        return AppEntry(dice.randrange(8), dice.choice(list(SELECTORS.values())), dice.randrange(65536))

    for number in range(300):
        wanted = {0: 0, 1: 1, 2: 2, 3: 4, 4: 8, 5: 16, 6: 31}.get(number, dice.randrange(32))
        configuration = EtsConfiguration(ets(), dice.random() < 0.5, dice.random() < 0.5)
        advice = ets()
        pfc = Pfc(dice.randrange(256), dice.random() < 0.5, dice.randrange(9), dice.random() < 0.5)
        if number % 3 == 0:
            pfc = Pfc(pfc.enabled, pfc.willing, pfc.cap, pfc.mbc, headroom=True)
        enabled = dice.randrange(256)
        yield DcbxTlvs(
            dice.randint(1, 8) if wanted & 1 else None,
            configuration if wanted & 1 else None,
            EtsRecommendation(advice.bandwidth, advice.assignment, advice.tsa) if wanted & 2 else None,
            pfc if wanted & 4 else None,
            ApplicationPriority(tuple(entry() for _ in range(dice.randrange(9)))) if wanted & 8 else None,
            CongestionNotification(enabled, enabled & dice.randrange(256)) if wanted & 16 else None,
        )


def mask(fields: dict[str, list[str]], name: str) -> int:
    return sum(int(fields[f"{name}.prio{priority}"][0] in {"1", "True"}) << priority for priority in range(8))


def understood(fields: dict[str, list[str]]) -> DcbxTlvs:
    """Return the values again, from Wireshark's fields alone. Where two TLVs have the same field, ours come in
    order.
    """
    subtypes = [int(subtype, 16) for subtype in fields["lldp.ieee.802_1.subtype"]]
    willing = iter(flag in {"1", "True"} for flag in fields["lldp.dcbx.ieee.willing"])

    def table(name: str, nth: int, base: int = 10) -> tuple[int, ...]:
        return tuple(int(fields[f"{name}{number}"][nth], base) for number in range(8))

    def ets(nth: int) -> Ets:
        assignment = table("lldp.dcbx.feature.pg.pgid_prio", nth)
        return Ets(assignment, table("lldp.dcbx.feature.pg.per", nth), table("lldp.dcbx.ieee.ets.tsa", nth))

    def flag(name: str) -> bool:
        return fields[name][0] in {"1", "True"}

    classes, configuration, advice, pfc, applications, cn = (None,) * 6
    if 9 in subtypes:
        classes = int(fields["lldp.dcbx.ieee.ets.maxtcs"][0], 0) or 8
        configuration = EtsConfiguration(ets(0), next(willing), flag("lldp.dcbx.ieee.ets.cbs"))
    if 10 in subtypes:
        recommended = ets(1 if 9 in subtypes else 0)
        advice = EtsRecommendation(recommended.bandwidth, recommended.assignment, recommended.tsa)
    if 11 in subtypes:
        cap, enabled = int(fields["lldp.dcbx.ieee.pfc.numtcs"][0], 0), mask(fields, "lldp.dcbx.feature.pfc")
        pfc = Pfc(enabled, next(willing), cap, flag("lldp.dcbx.ieee.pfc.mbc"))
    if 12 in subtypes:
        columns = ("lldp.dcbx.ieee.app.prio", "lldp.dcbx.iee.app.sf", "lldp.dcbx.feature.app.proto")  # their spelling
        entries = zip(*(fields[column] for column in columns), strict=True)
        applications = ApplicationPriority(
            tuple(AppEntry(int(priority), SELECTORS[kind], int(protocol, 16)) for priority, kind, protocol in entries)
        )
    if 8 in subtypes:
        enabled, ready = (mask(fields, f"lldp.ieee.802_1qau.{name}") for name in ("cnpv", "ready"))
        assert ready & ~enabled == 0
        cn = CongestionNotification(enabled, enabled & ~ready)
    return DcbxTlvs(classes, configuration, advice, pfc, applications, cn)


def without_headroom(tlvs: DcbxTlvs) -> DcbxTlvs:
    """Return TLVs without our private octet, which other decoders do not know."""
    pfc = tlvs.pfc and Pfc(tlvs.pfc.enabled, tlvs.pfc.willing, tlvs.pfc.cap, tlvs.pfc.mbc)
    return DcbxTlvs(tlvs.traffic_classes, tlvs.ets, tlvs.recommendation, pfc, tlvs.applications, tlvs.cn)


@pytest.mark.slow
def test_wireshark_reads_every_published_tlv_as_we_meant_it(tmp_path: Path) -> None:
    sent = list(some_tlvs())
    frames = [
        LldpFrame(
            Mac.parse("02:00:00:00:0a:01"),
            Lldpdu(
                ChassisId.of_mac(Mac.parse("02:00:00:00:0a:00")),
                PortId.interface("eth0"),
                121,
                (*LLDP, *encode(DcbxVersion.PUBLISHED, tlvs)),
            ),
        ).encode()
        for tlvs in sent
    ]
    for tlvs, fields in zip(sent, decode(tmp_path, frames), strict=True):
        assert "_ws.malformed" not in fields
        assert understood(fields) == without_headroom(tlvs)
        assert fields["lldp.chassis.id.mac"] == ["02:00:00:00:0a:00"]
        assert fields["lldp.port.id"] == ["eth0"]
        assert fields["lldp.time_to_live"] == ["121"]
        assert fields["lldp.tlv.system.name"] == ["s1"]
        assert fields["lldp.mgn.addr.ip4"] == ["192.0.2.1"]
        assert fields["lldp.mgn.addr.ip6"] == ["2001:db8::1"]
        assert fields["lldp.tlv.enable_system_cap"] == ["0x0004"]


@pytest.mark.slow
def test_a_shutdown_frame_is_one_for_wireshark_too(tmp_path: Path) -> None:
    goodbye = Lldpdu(ChassisId.local("s1"), PortId.interface("eth0"), 0)
    (fields,) = decode(tmp_path, [LldpFrame(Mac.parse("02:00:00:00:0a:01"), goodbye).encode()])
    assert "_ws.malformed" not in fields
    assert fields["lldp.time_to_live"] == ["0"]
