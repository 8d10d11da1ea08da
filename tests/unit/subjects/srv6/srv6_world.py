"""The draft's Figure 3 for the tests of SRv6: addresses, SIDs and packets, the packets written out by hand.

R1 --- R2 --- R3      SIDs are in fd00:a::/32, routers' addresses in fd00:b::/32
"""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv6Address

from testbed.frames import Mac
from testbed.subjects.srv6.protocol import behaviours
from testbed.subjects.srv6.protocol.domain import SrDomain
from testbed.subjects.srv6.protocol.sid import Adjacency, Flavours, Sid

DOMAIN = SrDomain(["fd00:a::/32"], ["fd00:b::/32"])
MAC = Mac.parse("02:00:00:00:0a:03")


def address(text: str) -> IPv6Address:
    return IPv6Address(text)


R1, R2, R3 = (address(f"fd00:b::{n}") for n in (1, 2, 3))
TO_R2 = Adjacency("wan0", address("fd00:b:12::2"))
R1_END, R2_END, R3_END = (Sid(f"R{n}", address(f"fd00:a:{n}:1::"), behaviours.END) for n in (1, 2, 3))
R1_PFC = Sid("R1", address("fd00:a:1:f::"), behaviours.END_X_PFC, adjacencies=(TO_R2,))
R3_PFC = Sid(
    "R3", address("fd00:a:3:f::"), behaviours.END_X_PFC, adjacencies=(Adjacency("wan0", address("fd00:b:23::2")),)
)
R3_END_X = Sid(
    "R3", address("fd00:a:3:e::"), behaviours.END_X, adjacencies=(Adjacency("wan0", address("fd00:b:23::2")),)
)
R1_VPN, R3_VPN = (Sid(f"R{n}", address(f"fd00:a:{n}:d::"), behaviours.END_DT46) for n in (1, 3))
ALL = (R1_END, R1_PFC, R1_VPN, R2_END, R3_END, R3_PFC, R3_END_X, R3_VPN)

# The same in hexadecimal.
R1_HEX, R3_HEX = "fd00000b000000000000000000000001", "fd00000b000000000000000000000003"
R1_PFC_HEX, R2_END_HEX = "fd00000a0001000f0000000000000000", "fd00000a000200010000000000000000"
R3_END_HEX, R3_VPN_HEX = "fd00000a000300010000000000000000", "fd00000a0003000d0000000000000000"
R3_PFC_HEX = "fd00000a0003000f0000000000000000"

# XOFF of priority 3:   destination  source       type opcode vector times 0 to 7
PFC = bytes.fromhex("0180c2000001 02000000 0a03 8808 0101 0008 000000000000ffff0000000000000000") + bytes(26)

#                      next len type left last flags tag
REVERSE_SRH = f"8f 06 04 {{left}} 02 00 0000 {R1_PFC_HEX} {R2_END_HEX} {R3_END_HEX}"
#                 next len type 8 flags context reserved id    PadN
SLICE_7 = "2b 01 1e 08 00 00 0000 00000007 01 02 00 00"

# As R3 sends it: class CS6, 116 octets, routing header, hop limit 64, to R2, one segment left.
SENT_BY_R3 = bytes.fromhex(f"6c000000 0074 2b 40 {R3_HEX} {R2_END_HEX}" + REVERSE_SRH.format(left="01")) + PFC
# As it comes to R1 after R2's End.
AT_R1 = bytes.fromhex(f"6c000000 0074 2b 3f {R3_HEX} {R1_PFC_HEX}" + REVERSE_SRH.format(left="00")) + PFC
# The same with the id of slice 7: 16 octets more, hop-by-hop options first.
SENT_BY_R3_FOR_SLICE_7 = (
    bytes.fromhex(f"6c000000 0084 00 40 {R3_HEX} {R2_END_HEX}" + SLICE_7 + REVERSE_SRH.format(left="01")) + PFC
)
AT_R1_FOR_SLICE_7 = (
    bytes.fromhex(f"6c000000 0084 00 3f {R3_HEX} {R1_PFC_HEX}" + SLICE_7 + REVERSE_SRH.format(left="00")) + PFC
)

# A tenant's packet, IPv4 in IPv6 along {R1.End.X.PFC, R2.End, R3's VPN SID}: as it comes to R1's SID, and to R3's.
INNER = bytes.fromhex("45000014 00000000 40fd0000 0a000001 0a000002")
DATA_SRH = f"04 06 04 {{left}} 02 00 0000 {R3_VPN_HEX} {R2_END_HEX} {R1_PFC_HEX}"
DATA_AT_R1 = bytes.fromhex(f"60000000 004c 2b 40 {R1_HEX} {R1_PFC_HEX}" + DATA_SRH.format(left="02")) + INNER
DATA_AFTER_R1 = bytes.fromhex(f"60000000 004c 2b 3f {R1_HEX} {R2_END_HEX}" + DATA_SRH.format(left="01")) + INNER
DATA_AT_R3 = bytes.fromhex(f"60000000 004c 2b 3e {R1_HEX} {R3_VPN_HEX}" + DATA_SRH.format(left="00")) + INNER


def with_flavours(sid: Sid, flavours: Flavours) -> Sid:
    return replace(sid, flavours=flavours)


def changed(packet: bytes, place: int, value: int) -> bytes:
    """Return the packet with one octet changed."""
    return packet[:place] + bytes([value]) + packet[place + 1 :]
