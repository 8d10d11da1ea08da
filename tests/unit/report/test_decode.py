"""`xoff decode` reads both formats of captures, shows frames in words, and survives any octets."""

from __future__ import annotations

import io
import json
import shutil
import struct
import subprocess
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from testbed.cli import main
from testbed.frames import Mac, headroom, lldp, mac_control, path_record, roce, roce_cm, srh
from testbed.frames.capture_file import Captured, CaptureError, frames
from testbed.frames.dcbx.values import DcbxVersion
from testbed.frames.ipv6 import ETHERNET, ROUTING, UDP, Packet
from testbed.frames.telemetry import Stamp, Telemetry
from testbed.report.exports.frame_text import ethernet, layers
from testbed.subjects.dcbx.tlvs import DcbxTlvs, Pfc
from testbed.subjects.dcbx.tlvs import encode as dcbx_tlvs

A, B = Mac.parse("02:00:00:00:00:01"), Mac.parse("02:00:00:00:00:02")
XOFF = mac_control.PfcFrame.xoff(A, [3, 4], 65535).encode()


def block(order: str, kind: int, body: bytes) -> bytes:
    body += bytes(-len(body) % 4)
    length = struct.pack(f"{order}I", 12 + len(body))
    return struct.pack(f"{order}I", kind) + length + body + length


def option(order: str, code: int, value: bytes) -> bytes:
    return struct.pack(f"{order}HH", code, len(value)) + value + bytes(-len(value) % 4)


def pcapng(order: str, *content: tuple[int, bytes, str]) -> bytes:
    """Return a capture of one interface in nanoseconds, with frames of (time, octets, comment)."""
    out = block(order, 0x0A0D0D0A, struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1))
    name = option(order, 2, b"s1-eth1") + option(order, 9, bytes([9])) + option(order, 0, b"")
    out += block(order, 1, struct.pack(f"{order}HHI", 1, 0, 0) + name)
    for t_ns, octets, comment in content:
        head = struct.pack(f"{order}IIIII", 0, t_ns >> 32, t_ns & 2**32 - 1, len(octets), len(octets))
        note = option(order, 1, comment.encode()) + option(order, 0, b"") if comment else b""
        out += block(order, 6, head + octets + bytes(-len(octets) % 4) + note)
    return out


def pcap(order: str, magic: int, *content: tuple[int, int, bytes]) -> bytes:
    out = struct.pack(f"{order}IHHiIII", magic, 2, 4, 0, 0, 65535, 1)
    for seconds, fraction, octets in content:
        out += struct.pack(f"{order}IIII", seconds, fraction, len(octets), len(octets)) + octets
    return out


@pytest.mark.parametrize("order", ["<", ">"])
def test_pcapng_has_names_nanoseconds_and_comments(order: str) -> None:
    found = list(frames(io.BytesIO(pcapng(order, (5_000_000_001, XOFF, "pause"), (2**33, XOFF, "")))))
    assert found == [
        Captured(5_000_000_001, "s1-eth1", 1, 60, XOFF, ("pause",)),
        Captured(2**33, "s1-eth1", 1, 60, XOFF),
    ]


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(("magic", "t_ns"), [(0xA1B2C3D4, 7_000_000_000 + 5000), (0xA1B23C4D, 7_000_000_005)])
def test_pcap_has_microseconds_or_nanoseconds(order: str, magic: int, t_ns: int) -> None:
    assert list(frames(io.BytesIO(pcap(order, magic, (7, 5, XOFF))))) == [Captured(t_ns, "", 1, 60, XOFF)]


@pytest.mark.parametrize(
    ("octets", "message"),
    [
        (b"", "a file of 0 octets"),
        (b"GIF89a", "it begins with 47494638"),
        (pcap("<", 0xA1B2C3D4, (1, 2, XOFF))[:-1], "it ends where 60 more octets should be"),
        (pcap("<", 0xA1B2C3D4, (1, 2, XOFF))[:30], "it ends within the record at octet 24"),
        (pcapng("<", (1, XOFF, ""))[:-6], "more octets should be"),
        (pcapng("<") + struct.pack("<II", 6, 2**31), "would have 2147483648 octets"),
        (pcapng("<") + block("<", 6, bytes(8)), "of type 6, is damaged"),
        (pcapng("<") + struct.pack("<II", 9, 12) + b"xxxx", "another length at its end"),
    ],
)
def test_a_damaged_file_gives_one_error(octets: bytes, message: str) -> None:
    with pytest.raises(CaptureError, match=message):
        list(frames(io.BytesIO(octets)))


@pytest.mark.packages("tshark")
@pytest.mark.parametrize("kind", ["pcapng", "pcap", "nsecpcap"])
def test_files_that_wireshark_writes_are_read(tmp_path: Path, kind: str) -> None:
    if (editcap := shutil.which("editcap")) is None:
        pytest.skip("editcap is missing")
    (tmp_path / "ours").write_bytes(pcapng("<", (5_000_001_000, XOFF, ""), (2**33 * 1000, bytes(61), "")))
    subprocess.run([editcap, "-F", kind, tmp_path / "ours", tmp_path / "theirs"], check=True)
    with (tmp_path / "theirs").open("rb") as file:
        found = [(one.t_ns, one.octets) for one in frames(file)]
    assert found == [(5_000_001_000, XOFF), (2**33 * 1000, bytes(61))]


@given(st.binary(max_size=300))
@example(b"\x0a\x0d\x0d\x0a")
def test_any_octets_are_read_or_refused(octets: bytes) -> None:
    for start in (b"", struct.pack("<I", 0xA1B2C3D4), pcapng("<")):
        with suppress(CaptureError):
            list(frames(io.BytesIO(start + octets)))


@given(st.binary(max_size=300))
def test_any_frame_is_put_into_words(octets: bytes) -> None:
    assert ethernet(octets)
    for kind in (0x8100, 0x8808, 0x88CC, 0x86DD, 0x0800):
        assert ethernet(bytes(12) + struct.pack("!H", kind) + octets)


def test_pfc_names_each_priority_and_its_time() -> None:
    assert ethernet(XOFF)[-1] == "PFC XOFF priority 3 for 65535 quanta, 4 for 65535 quanta"
    assert (
        ethernet(mac_control.PfcFrame.of(A, {3: 0, 5: 7}).encode())[-1]
        == "PFC XOFF priority 5 for 7 quanta; XON priority 3"
    )
    assert ethernet(mac_control.PauseFrame(A, 9).encode())[-1] == "PAUSE, 9 quanta"


def test_headroom_measurement_has_its_stamps_or_the_reason_why_not() -> None:
    request = headroom.MeasurementRequest(A, 0xABCD, 4, 123)
    assert ethernet(request.encode())[-1] == "headroom measurement request, session 0x0000abcd sequence 4 t1 123 ns"
    answer = headroom.Response.to(request, B, 200, 210).encode()
    assert ethernet(answer)[-1].endswith("t1 123 ns t2 200 ns t3 210 ns")
    assert "wrong tag" in ethernet(request.encode(key=b"another"))[-1]


@pytest.mark.parametrize("version", list(DcbxVersion))
def test_lldp_shows_the_values_of_its_dcbx_in_either_format(version: DcbxVersion) -> None:
    tlvs = tuple(dcbx_tlvs(version, DcbxTlvs(pfc=Pfc(enabled=0b1000, willing=True, cap=8), traffic_classes=8)))
    pdu = lldp.Lldpdu(lldp.ChassisId.of_mac(A), lldp.PortId.interface("eth7"), 120, tlvs)
    said = "; ".join(ethernet(lldp.LldpFrame(A, pdu).encode()))
    assert "port eth7 TTL 120" in said and f"DCBX {version}" in said and "PFC" in said


def test_a_pfc_frame_in_a_reverse_tunnel_is_seen_through_its_segments() -> None:
    one, two = IPv6Address("fd00::1"), IPv6Address("fd00::2")
    routing = srh.Srh.along([one, two], ETHERNET).encode()
    packet = Packet(two, one, ROUTING, routing + XOFF, traffic_class=0xB8).encode()
    said = ethernet(B.octets + A.octets + b"\x81\x00" + struct.pack("!HH", 5 << 13 | 7, 0x86DD) + packet)
    assert said[1:4] == [
        "VLAN 7 priority 5",
        "IPv6 fd00::2 > fd00::1 DSCP 46 hop limit 64",
        "segment routing, 1 left of fd00::1 fd00::2",
    ]
    assert said[-1].startswith("PFC XOFF priority 3")


def test_frames_within_frames_end_somewhere() -> None:
    octets = XOFF
    for _ in range(20):
        packet = Packet(IPv6Address(1), IPv6Address(2), ETHERNET, octets).encode()
        octets = B.octets + A.octets + b"\x86\xdd" + packet
    assert len(ethernet(octets)) < 30


def test_a_cnp_is_a_cnp() -> None:
    content = roce.encode(roce.Packet.cnp(17)) + bytes(4)
    udp = struct.pack("!HHHH", 50000, 4791, 8 + len(content), 0) + content
    packet = Packet(IPv6Address(1), IPv6Address(2), UDP, udp, traffic_class=1 << 2 | 1, flow_label=0x12345).encode()
    said = ethernet(B.octets + A.octets + b"\x86\xdd" + packet)
    assert "DSCP 1 ECT(1) flow label 0x12345" in said[1] and said[-1].startswith("RoCEv2 cnp QP 17 PSN 0, BECN")


def test_atomic_operations_and_what_goes_with_sends_are_shown() -> None:
    add = roce.Packet(roce.Opcode.FETCH_ADD, 17, 5, atomic=roce.AtomicEth(0x40, 9, 3))
    answer = roce.Packet(roce.Opcode.ATOMIC_ACKNOWLEDGE, 18, 5, aeth=roce.Aeth(1), original=0x2A)
    gone = roce.Packet(roce.Opcode.SEND_ONLY_INVALIDATE, 17, 6, bytes(8), invalidate=0x1001)
    told = roce.Packet(roce.Opcode.SEND_ONLY_IMMEDIATE, 17, 7, bytes(8), immediate=7)
    assert [ethernet(roce_frame(packet))[-1] for packet in (add, answer, gone, told)] == [
        "RoCEv2 fetch add QP 17 PSN 5, 64 bits at 0x40, 0 octets",
        "RoCEv2 atomic acknowledge QP 18 PSN 5, ACK MSN 1, original 0x2a, 0 octets",
        "RoCEv2 send only invalidate QP 17 PSN 6, invalidates 0x1001, 8 octets",
        "RoCEv2 send only immediate QP 17 PSN 7, immediate 0x7, 8 octets",
    ]


def test_the_command_prints_a_line_for_each_frame(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "x.pcapng"
    file.write_bytes(pcapng("<", (1_500_000_000, XOFF, "\x1b[31mred\n"), (1_500_000_500, bytes(70), "")))
    assert main(["decode", str(file)]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == (
        "1.500000000 s1-eth1 02:00:00:00:00:01 > 01:80:c2:00:00:01; "
        "PFC XOFF priority 3 for 65535 quanta, 4 for 65535 quanta # \\x1b[31mred "
    )
    assert second.startswith("1.500000500 s1-eth1 00:00:00:00:00:00 > 00:00:00:00:00:00; EtherType 0x0000, 56 octets")
    assert main(["decode", str(file), "--only", "PFC"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1
    assert main(["decode", str(tmp_path / "none")]) == 2
    (tmp_path / "x").write_bytes(b"no capture")
    assert main(["decode", str(tmp_path / "x")]) == 2
    assert "begins with 6e6f2063" in capsys.readouterr().err


def lines_of_json(file: Path, capsys: pytest.CaptureFixture[str], *words: str) -> list[Any]:
    assert main(["decode", str(file), "--json", *words]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def roce_frame(packet: roce.Packet) -> bytes:
    content = roce.encode(packet) + bytes(4)
    udp = struct.pack("!HHHH", 50000, 4791, 8 + len(content), 0) + content
    return B.octets + A.octets + b"\x86\xdd" + Packet(IPv6Address(1), IPv6Address(2), UDP, udp).encode()


def test_json_has_the_fields_of_each_layer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "x.pcapng"
    answer = headroom.Response.to(headroom.MeasurementRequest(A, 7, 4, 123), B, 200, 210).encode()
    file.write_bytes(pcapng("<", (1, XOFF, "why"), (2, answer, ""), (3, roce_frame(roce.Packet.cnp(17)), "")))
    pfc, measured, cnp = lines_of_json(file, capsys)
    assert (pfc["t_ns"], pfc["interface"], pfc["length"], pfc["comments"]) == (1, "s1-eth1", 60, ["why"])
    assert pfc["layers"][1]["xoff"] == {"3": 65535, "4": 65535}
    assert {key: measured["layers"][1][key] for key in ("message", "session", "t2_ns", "t3_ns")} == {
        "message": "response", "session": 7, "t2_ns": 200, "t3_ns": 210,
    }  # fmt: skip
    assert cnp["layers"][-1]["layer"] == "cnp" and cnp["layers"][-1]["destination_qp"] == 17
    assert len(lines_of_json(file, capsys, "--kind", "cnp")) == 1


def test_connection_management_and_path_records_are_read() -> None:
    ask = roce_cm.Request(5, roce_cm.service_id(4420), 17, 99, 1024, IPv4Address("10.0.0.1"), IPv4Address("10.0.0.2"))
    assert ethernet(roce_frame(roce_cm.packet(ask, 1, 0)))[-1] == (
        "connection manager request, ID 0x5, service id 0x1061144, qp 17, psn 99, mtu 1024"
    )
    record = path_record.PathRecord(service_id=0x10, sgid=1, dgid=2, sl=4).pack()
    mad = path_record.SaMad(path_record.Method.GET, path_record.Attribute.PATH_RECORD, 8, data=record).pack()
    packet = roce.Packet(roce.Opcode.DATAGRAM, roce_cm.CM_QP, 0, mad, deth=roce.Deth(roce_cm.Q_KEY, 1))
    (layer,) = [one for one in layers(roce_frame(packet)) if one.kind == "sa"]
    assert layer.text == "subnet administration get path record, status 0x0000; ::1 > ::2 SL 4 service ID 0x10"
    assert layer.fields["records"][0]["sl"] == 4


def test_telemetry_is_shown_behind_the_packet_that_has_it() -> None:
    area = Telemetry((Stamp(9, 1082, 64_920, 10_000),))
    packet = roce.Packet(roce.Opcode.ACKNOWLEDGE, 17, 3, aeth=roce.Aeth(1), telemetry=area.returned())
    assert ethernet(roce_frame(packet))[-2:] == [
        "RoCEv2 acknowledge QP 17 PSN 3, ACK MSN 1, 0 octets",
        "telemetry returned, 1 stamps of 5; 1082 octets wait, 64920 sent at 9 ns",
    ]
    stamp = {"time_ns": 9, "queue_octets": 1082, "sent_octets": 64_920, "kbps": 10_000}
    fields = layers(roce_frame(packet))[-1].fields
    assert fields == {"returned": True, "room": 5, "stamps": [stamp], "overflowed": False}


def test_damaged_management_datagrams_are_refused_with_a_reason() -> None:
    for mad in (b"", b"\x01", bytes(256), b"\x01\x03" + bytes(254), b"\x01\x07\x02\x03" + bytes(252)):
        packet = roce.Packet(roce.Opcode.DATAGRAM, roce_cm.CM_QP, 0, mad, deth=roce.Deth(roce_cm.Q_KEY, 1))
        assert "refused" in ethernet(roce_frame(packet))[-1]
