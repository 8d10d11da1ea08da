"""Our packets as other decoders read them: scapy's, and tshark's with its list of errors.

Both are optional on a developer's machine; the tests that need one are skipped without it, and say so.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from testbed.frames import icmpv6, ipv6, srh
from testbed.frames.icmpv6 import Echo, EchoType, Error
from testbed.frames.ipv6 import Packet
from testbed.frames.mac_control import PfcFrame
from testbed.frames.srh import Srh, Tlv
from testbed.subjects.srv6.protocol.endx_pfc import Forward, LocalSid, SendIcmp, process
from testbed.subjects.srv6.protocol.reverse_tunnel import Encapsulator, ReverseTunnel
from tests.unit.subjects.srv6.srv6_world import DOMAIN, MAC, R1, R1_PFC, R2_END, R3, R3_END, SENT_BY_R3

TUNNEL = ReverseTunnel("R3", "R1", (R3_END.address, R2_END.address, R1_PFC.address))
OF_SLICE_7 = ReverseTunnel("R3", "R1", TUNNEL.segments, slice_id=7)
FRAME = PfcFrame.of(MAC, {3: 0xFFFF, 5: 0})
PLAIN = Encapsulator(TUNNEL, R3).packet(FRAME)
SLICED = Encapsulator(OF_SLICE_7, R3).packet(FRAME)
LOCAL = LocalSid(R1_PFC, DOMAIN)


def answer(packet: bytes) -> bytes:
    result = process(packet, LOCAL)
    assert isinstance(result, SendIcmp)
    return result.packet


ECHO = Echo(EchoType.REQUEST, 7, 1, b"ping").encode(R3, R1_PFC.address)
PING_REPLY = answer(Packet(R3, R1_PFC.address, ipv6.ICMPV6, ECHO).encode())
UNKNOWN_UPPER_LAYER = answer(Packet(R3, R1_PFC.address, 6, bytes(20)).encode())
TOO_FAR = answer(
    Packet(
        R3, R1_PFC.address, ipv6.ROUTING, Srh(17, (R3_END.address, R1_PFC.address), 1).encode() + bytes(8), hop_limit=1
    ).encode()
)
TLVS = Packet(
    R1,
    R2_END.address,
    ipv6.ROUTING,
    Srh.along([R2_END.address, R1_PFC.address], 59, tag=5, tlvs=srh.encode_tlvs([Tlv(0x42, b"abc")])).encode(),
).encode()


# scapy


@pytest.fixture(scope="module")
def scapy() -> Any:
    pytest.importorskip("scapy", reason="scapy is not installed here, so it cannot decode our packets")
    import scapy.contrib.mac_control
    import scapy.layers.inet6
    import scapy.layers.l2

    class Layers:
        inet6 = scapy.layers.inet6
        ether = scapy.layers.l2.Ether
        pfc = scapy.contrib.mac_control.MACControlClassBasedFlowControl

    return Layers


def test_scapy_reads_the_reverse_tunnel(scapy: Any) -> None:
    packet = scapy.inet6.IPv6(PLAIN)
    assert (packet.src, packet.dst, packet.tc, packet.plen, packet.nh, packet.hlim) == (
        str(R3),
        str(R2_END.address),
        0xC0,
        116,
        43,
        64,
    )
    routing = packet[scapy.inet6.IPv6ExtHdrSegmentRouting]
    assert routing.addresses == [str(R1_PFC.address), str(R2_END.address), str(R3_END.address)]
    assert (routing.nh, routing.len, routing.type, routing.segleft, routing.lastentry) == (143, 6, 4, 1, 2)


def test_scapy_reads_the_slice_option_and_the_frame_inside(scapy: Any) -> None:
    packet = scapy.inet6.IPv6(SLICED)
    options = packet[scapy.inet6.IPv6ExtHdrHopByHop].options
    assert (options[0].otype, bytes(options[0].optdata)) == (0x1E, bytes.fromhex("0000000000000007"))
    frame = scapy.ether(SLICED[-60:])
    assert (frame.dst, frame.src) == ("01:80:c2:00:00:01", str(MAC))
    control = frame[scapy.pfc]
    assert (control.c3_enabled, control.c3_pause_time, control.c5_enabled, control.c5_pause_time) == (1, 0xFFFF, 1, 0)
    assert [getattr(control, f"c{n}_enabled") for n in range(8)] == [0, 0, 0, 1, 0, 1, 0, 0]


def test_scapy_reads_tlvs(scapy: Any) -> None:
    routing = scapy.inet6.IPv6(TLVS)[scapy.inet6.IPv6ExtHdrSegmentRouting]
    assert (routing.tag, routing.segleft, len(routing.addresses)) == (5, 1, 2)
    assert [(tlv.type, tlv.len) for tlv in routing.tlv_objects][:1] == [(0x42, 3)]


def test_scapy_builds_what_we_build(scapy: Any) -> None:
    layers = scapy.inet6
    built = layers.IPv6(src=str(R3), dst=str(R2_END.address), tc=0xC0, hlim=64) / layers.IPv6ExtHdrSegmentRouting(
        addresses=[str(segment) for segment in reversed(TUNNEL.segments)], segleft=1, lastentry=2, nh=143
    )
    assert bytes(built / PfcFrame.xoff(MAC, [3]).encode()).hex() == SENT_BY_R3.hex()


@pytest.mark.parametrize("packet", [PING_REPLY, UNKNOWN_UPPER_LAYER, TOO_FAR])
def test_scapy_agrees_with_our_checksums(scapy: Any, packet: bytes) -> None:
    read = scapy.inet6.IPv6(packet)
    stated = read.payload.cksum
    del read.payload.cksum
    assert scapy.inet6.IPv6(bytes(read)).payload.cksum == stated


def test_we_read_what_scapy_sends(scapy: Any) -> None:
    layers = scapy.inet6
    ping = layers.IPv6(src=str(R3), dst=str(R1_PFC.address)) / layers.ICMPv6EchoRequest(id=9, seq=3, data=b"x")
    reply = Packet.parse(answer(bytes(ping)))
    assert icmpv6.parse(reply.source, reply.destination, reply.payload) == Echo(EchoType.REPLY, 9, 3, b"x")
    routed = layers.IPv6(src=str(R1), dst=str(R1_PFC.address)) / layers.IPv6ExtHdrSegmentRouting(
        addresses=[str(R3_END.address), str(R1_PFC.address)], segleft=1, lastentry=1, nh=59
    )
    result = process(bytes(routed), LOCAL)
    assert isinstance(result, Forward)
    assert Packet.parse(result.packet).destination == R3_END.address


# tshark

TSHARK = shutil.which("tshark")


def needs_tshark(test: Callable[..., None]) -> Callable[..., None]:
    skipped = pytest.mark.skipif(TSHARK is None, reason="tshark is not installed here")(test)
    return pytest.mark.packages("tshark")(skipped)  # type: ignore[no-any-return]


LINKTYPE_IPV6 = 229


def dissect(folder: Path, packets: list[bytes], *fields: str) -> list[list[str]]:
    """Return one row of fields for each packet, as tshark reads it."""
    capture = folder / "capture.pcap"
    with capture.open("wb") as out:
        out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, LINKTYPE_IPV6))
        for packet in packets:
            out.write(struct.pack("<IIII", 0, 0, len(packet), len(packet)) + packet)
    assert TSHARK is not None
    chosen = [part for field in fields for part in ("-e", field)]
    done = subprocess.run(
        [TSHARK, "-n", "-r", str(capture), "-T", "fields", "-E", "separator=|", *chosen],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return [line.split("|") for line in done.stdout.splitlines()]


@needs_tshark
def test_tshark_reads_list_and_frame_and_finds_nothing_wrong(tmp_path: Path) -> None:
    fields = (
        "_ws.expert.message",
        "ipv6.routing.segleft",
        "ipv6.routing.srh.last_entry",
        "ipv6.routing.srh.addr",
        "eth.dst",
        "macc.opcode",
        "macc.cbfc.enbv.c3",
        "macc.cbfc.pause_time.c3",
        "macc.cbfc.pause_time.c5",
    )
    addresses = ",".join(str(segment) for segment in reversed(TUNNEL.segments))
    assert (
        dissect(tmp_path, [PLAIN, SLICED], *fields)
        == [["", "1", "2", addresses, "01:80:c2:00:00:01", "0x0101", "1", "65535", "0"]] * 2
    )


@needs_tshark
def test_tshark_reads_the_slice_option(tmp_path: Path) -> None:
    ((kind, data),) = dissect(tmp_path, [SLICED], "ipv6.opt.type", "ipv6.opt.experimental")
    assert kind.split(",")[0] in ("30", "0x1e")
    assert data == "0000000000000007"


@needs_tshark
def test_tshark_finds_nothing_wrong_in_what_the_sid_answers_and_forwards(tmp_path: Path) -> None:
    forwarded = process(
        Packet(
            R3,
            R1_PFC.address,
            ipv6.ROUTING,
            Srh.along([R1_PFC.address, R3_END.address], ipv6.NO_NEXT_HEADER).encode(),
        ).encode(),
        LOCAL,
    )
    assert isinstance(forwarded, Forward)
    rows = dissect(
        tmp_path,
        [PING_REPLY, TOO_FAR, UNKNOWN_UPPER_LAYER, forwarded.packet],
        "icmpv6.type",
        "icmpv6.code",
        "icmpv6.checksum.status",
    )
    assert [row[:3] for row in rows] == [["129", "0", "1"], ["3", "0", "1"], ["4", "4", "1"], ["", "", ""]]
    quiet = dissect(tmp_path, [PING_REPLY, forwarded.packet, TLVS], "frame.number", "_ws.expert.message")
    assert quiet == [["1", ""], ["2", ""], ["3", ""]]


@needs_tshark
def test_a_decoder_that_found_everything_right_would_be_noticed(tmp_path: Path) -> None:
    """Check that the check can fail: tshark warns of a list that is longer than its header."""
    broken = bytearray(PLAIN)
    broken[44] = 9
    assert dissect(tmp_path, [bytes(broken)], "_ws.expert.message") != [[""]]
    error = Error(icmpv6.ErrorType.TIME_EXCEEDED, 0, 0, PLAIN)
    wrong = bytearray(icmpv6.answer(R1, error))
    wrong[42] ^= 1
    ((status,),) = dissect(tmp_path, [bytes(wrong)], "icmpv6.checksum.status")
    assert status == "0"
