"""What is left of a frame that is trimmed, and that no frame is lost from the counts."""

from __future__ import annotations

import random

import pytest
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrFragment, IPv6ExtHdrSegmentRouting
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Packet, Raw

from testbed.linux.port_program.trimming_tables import EXCEPTION, TRIMMING, Trimmed, TrimmingTables
from testbed.net.fabric.port import Port, PortError
from testbed.switch.buffer.model import BufferModel, Rest
from testbed.switch.buffer.settings import BufferSettings, Dynamic, GroupSettings, QueueSettings, Static
from testbed.switch.buffer.use import DropReason
from testbed.switch.trimming.cut import rest
from testbed.switch.trimming.settings import TrimException, Trimming, TrimmingError

DSCP = 48
PAYLOAD = bytes(range(256)) * 6


def octets(packet: Packet) -> bytes:
    return bytes(packet)


def built_again(cut: bytes) -> Packet:
    """Return the rest with lengths and checksums as Scapy computes them for its octets."""
    packet = Ether(cut)
    for layer in (IP, IPv6, UDP, TCP):
        number = 1
        while (found := packet.getlayer(layer, number)) is not None:
            for name in ("len", "plen", "chksum"):
                if name in found.fields:
                    delattr(found, name)
            number += 1
    return packet


V4 = Ether(dst="02:00:00:00:00:01") / IP(src="10.0.0.1", dst="10.0.0.2", tos=0x61, ttl=61)
V6 = Ether(dst="02:00:00:00:00:01") / IPv6(src="fd00::1", dst="fd00::2", tc=0x61, hlim=61)


@pytest.mark.parametrize("size", [64, 128, 129, 255, 256])
@pytest.mark.parametrize("head", [V4, V6], ids=["IPv4", "IPv6"])
@pytest.mark.parametrize("upper", [UDP(sport=1000, dport=2000), TCP(sport=1000, dport=2000, flags="A")],
                         ids=["UDP", "TCP"])  # fmt: skip
def test_a_rest_is_the_frames_first_octets_with_right_lengths_and_checksums(
    head: Packet, upper: Packet, size: int
) -> None:
    whole = octets(head / upper / Raw(PAYLOAD))
    cut = rest(whole, size, DSCP)
    assert cut is not None
    assert len(cut) == size
    packet = Ether(cut)
    layer = packet[IP] if IP in packet else packet[IPv6]
    assert (layer.tos if IP in packet else layer.tc) == DSCP << 2 | 1, "the DSCP is new, ECN is not"
    assert (layer.ttl if IP in packet else layer.hlim) == 61
    if len(octets(head)) + len(octets(upper)) <= size:
        assert octets(built_again(cut)) == cut


def test_the_fin_of_a_segment_goes_with_its_last_octet() -> None:
    cut = rest(octets(V4 / TCP(flags="FPA") / Raw(PAYLOAD)), 128, DSCP)
    assert cut is not None
    assert str(Ether(cut)[TCP].flags) == "PA"
    assert octets(built_again(cut)) == cut


def test_a_checksum_that_was_wrong_stays_wrong_and_none_stays_none() -> None:
    frame = bytearray(octets(V4 / UDP() / Raw(PAYLOAD)))
    frame[60] ^= 1
    cut = rest(bytes(frame), 128, DSCP)
    assert cut is not None
    assert octets(built_again(cut)) != cut
    frame[40:42] = b"\0\0"
    cut = rest(bytes(frame), 128, DSCP)
    assert cut is not None
    assert cut[40:42] == b"\0\0"


def test_a_frame_that_is_no_longer_than_a_rest_stays_whole_with_the_new_dscp() -> None:
    whole = octets(V4 / UDP() / Raw(bytes(58)))
    cut = rest(whole, 128, DSCP)
    assert cut is not None
    assert cut == octets(built_again(whole[:15] + bytes([DSCP << 2 | 1]) + whole[16:]))


def test_of_a_tunnel_the_outer_dscp_is_new_and_both_lengths_are_right() -> None:
    inner = IPv6(src="fd00::1", dst="fd00::2", tc=4) / UDP(sport=1, dport=2) / Raw(PAYLOAD)
    routing = IPv6ExtHdrSegmentRouting(addresses=["fc00::1"], segleft=0)
    cut = rest(octets(V6 / routing / inner), 256, DSCP)
    assert cut is not None
    packet = Ether(cut)
    assert packet[IPv6].tc >> 2 == DSCP
    assert packet.getlayer(IPv6, 2).tc == 4
    assert octets(built_again(cut)) == cut


@pytest.mark.parametrize("frame", [
    octets(Ether(dst="ff:ff:ff:ff:ff:ff") / IP() / UDP() / Raw(PAYLOAD)),
    octets(Ether(dst="01:00:5e:00:00:01") / IP() / UDP() / Raw(PAYLOAD)),
    octets(Ether(dst="02:00:00:00:00:01", type=0x88B5) / Raw(PAYLOAD)),
    octets(Ether(dst="02:00:00:00:00:01") / IP(flags="MF") / UDP() / Raw(PAYLOAD)),
    octets(Ether(dst="02:00:00:00:00:01") / IP(frag=10) / Raw(PAYLOAD)),
    octets(V6 / IPv6ExtHdrFragment(offset=10) / Raw(PAYLOAD)),
    octets(Ether(dst="02:00:00:00:00:01") / IP(len=9000) / UDP() / Raw(PAYLOAD)),
], ids=["broadcast", "multicast", "no IP", "first fragment", "later fragment", "IPv6 fragment", "cut"])  # fmt: skip
def test_group_frames_fragments_and_what_is_no_whole_ip_packet_are_not_trimmed(frame: bytes) -> None:
    assert rest(frame, 128, DSCP) is None


def test_a_tag_counts_and_stays() -> None:
    whole = octets(Ether(dst="02:00:00:00:00:01") / Dot1Q(vlan=5, prio=3) / IP() / UDP() / Raw(PAYLOAD))
    cut = rest(whole, 128, DSCP)
    assert cut is not None
    assert len(cut) == 128
    assert Ether(cut)[Dot1Q].vlan == 5
    assert octets(built_again(cut)) == cut


def test_any_octets_are_cut_or_refused_and_never_longer() -> None:
    chance = random.Random(54)
    kinds = [octets(head / upper / Raw(PAYLOAD)) for head in (V4, V6) for upper in (UDP(), TCP())]
    for _ in range(20_000):
        frame = bytearray(chance.choice(kinds)[: chance.randrange(1, 1500)])
        for _ in range(chance.randrange(4)):
            frame[chance.randrange(min(len(frame), 80))] = chance.randrange(256)
        size = chance.randrange(64, 257)
        cut = rest(bytes(frame), size, DSCP)
        assert cut is None or len(cut) == min(size, len(frame))


@pytest.mark.parametrize(("given", "text"), [
    ({"size": 63}, "size is 63; it is 64 to 9216"),
    ({"dscp": 64}, "dscp is 64; it is 0 to 63"),
    ({"queue": 8}, "queue is 8; it is 0 to 7"),
    ({"tc": -1}, "tc is -1; it is 0 to 7"),
    ({"queues": frozenset({9})}, "a queue is 9"),
    ({"queues": frozenset()}, "names no queue"),
])  # fmt: skip
def test_settings_out_of_range_are_refused_by_name(given: dict[str, int], text: str) -> None:
    with pytest.raises(TrimmingError, match=text):
        Trimming(**{"queues": frozenset({0})} | given)  # type: ignore[arg-type]


def test_a_lossless_queue_is_not_trimmed() -> None:
    with pytest.raises(PortError, match="queue 3 is lossless"):
        Port().with_trimming(3)
    assert Port().without_pfc().with_trimming(3).trimming == Trimming(frozenset({3}))


def test_an_exception_says_which_frames_and_not_all() -> None:
    with pytest.raises(TrimmingError, match="fits every frame"):
        TrimException()
    with pytest.raises(TrimmingError, match="two versions"):
        TrimException(source="10.0.0.1", destination="fd00::1")
    with pytest.raises(TrimmingError, match="a network"):
        TrimException(source="10.0.0.300")
    assert str(TrimException(source="10.0.0.1").source) == "10.0.0.1/32"


def test_tables_of_a_port_are_written_and_counters_are_read() -> None:
    memory, exceptions = bytearray(TRIMMING.size * 3), bytearray(EXCEPTION.size * 24)
    tables = TrimmingTables(memory, exceptions)
    tables.set(1, Trimming(frozenset({0, 3}), 256, 10, None, 5))
    assert memory[TRIMMING.size : TRIMMING.size + 8] == (256).to_bytes(4, "little") + bytes([9, 10, 5, 0xFF])
    tables.set_exceptions(1, [TrimException(source="10.0.0.0/8", destination_port=4791, protocol="udp")])
    assert tables.excepted(1) == ((0, 0),)
    assert tables.trimmed(1) == (Trimmed(),) * 8
    tables.set(1, None)
    assert not any(memory[TRIMMING.size : TRIMMING.size + 8])


# Frames and octets are conserved


def model(chance: random.Random) -> BufferModel:
    """Return a small buffer of two ports with lossy groups, a lossless one, and limited queues."""

    def threshold() -> Static | Dynamic:
        found: list[Static | Dynamic] = [Static(chance.randrange(60)), Dynamic("1/2"), Dynamic(2)]
        return chance.choice(found)

    groups = {
        (port, priority): GroupSettings(priority == 3, chance.randrange(4), threshold(), headroom=8 * (priority == 3))
        for port in (1, 2)
        for priority in (0, 3, 6)
    }
    queues = {(9, queue): QueueSettings(chance.randrange(8), threshold()) for queue in (0, 6) if chance.random() < 0.7}
    return BufferModel(
        BufferSettings((1, 2, 9), 160, None, groups=groups, egress_pools=(80,) if queues else (), queues=queues)
    )


@pytest.mark.parametrize("seed", range(10))
def test_in_a_hundred_histories_each_what_came_was_admitted_trimmed_or_dropped(seed: int) -> None:
    for history in range(100):
        chance = random.Random(seed * 100 + history)
        buffer = model(chance)
        came = {"frames": 0, "octets": 0}
        left = dict.fromkeys(("whole", "trimmed", "dropped", "rests", "lost rests"), 0)
        octets_left = dict(left)
        inside: list[tuple[int, int, int, tuple[int, int]]] = []
        for _ in range(80):
            if inside and chance.random() < 0.3:
                port, priority, length, queue = inside.pop(chance.randrange(len(inside)))
                buffer.release(port, priority, length, queue)
                continue
            port, priority, length = chance.choice((1, 2)), chance.choice((0, 3, 6)), chance.randrange(64, 1515)
            queue = (9, priority)
            after = Rest(6, min(length, 128), (9, 6)) if chance.random() < 0.8 else None
            result = buffer.admit(port, priority, length, queue, after)
            came["frames"] += 1
            came["octets"] += length
            if result.dropped is None:
                kind = "whole"
                inside.append((port, priority, length, queue))
            elif result.rest is None:
                kind = "dropped"
                assert after is None or priority == 3, "a lossy frame with a rest is trimmed"
            else:
                assert after is not None
                kind = "trimmed"
                other = "rests" if result.rest.dropped is None else "lost rests"
                left[other] += 1
                octets_left[other] += after.length
                if result.rest.dropped is None:
                    inside.append((port, 6, after.length, (9, 6)))
            left[kind] += 1
            octets_left[kind] += length
        groups = buffer.snapshot()["groups"]
        assert came["frames"] == left["whole"] + left["trimmed"] + left["dropped"]
        assert came["octets"] == sum(octets_left[kind] for kind in ("whole", "trimmed", "dropped"))
        assert left["trimmed"] == left["rests"] + left["lost rests"]
        assert sum(one["admitted"]["frames"] for one in groups) == left["whole"] + left["rests"]
        assert sum(one.get("trimmed", {"frames": 0})["frames"] for one in groups) == left["trimmed"]
        drops = sum(one["dropped"][reason]["frames"] for one in groups for reason in DropReason)
        assert drops == left["dropped"] + left["lost rests"]
        for port, priority, length, queue in inside:
            buffer.release(port, priority, length, queue)
        assert all(one["used"] == {"guaranteed": 0, "shared": 0, "headroom": 0} for one in buffer.snapshot()["groups"])
