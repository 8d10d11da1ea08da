"""Netlink messages, octet by octet, and the port program's object."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import pytest

from testbed.frames import Mac
from testbed.linux.netlink import links, qdiscs
from testbed.linux.netlink.messages import attribute, attributes, text, u32
from testbed.linux.port_program import build
from testbed.net.fabric.cable import Line
from testbed.net.fabric.port import Port
from testbed.net.fabric.queues import Queues
from testbed.switch.ecn.curve import EcnCurve
from testbed.units import Rate, Size


def test_an_attribute_is_padded_to_four_octets() -> None:
    assert attribute(3, b"abcde") == bytes.fromhex("0900 0300") + b"abcde" + bytes(3)
    assert text(1, "htb") == bytes.fromhex("0800 0100") + b"htb\0"
    assert attributes(u32(1, 7) + text(2, "x")) == {1: b"\7\0\0\0", 2: b"x\0"}


def test_attributes_with_a_wrong_length_end_the_list() -> None:
    assert attributes(bytes.fromhex("0300 0100 0000 0000")) == {}


def test_stopping_a_queue_is_one_request_without_an_answer() -> None:
    request = qdiscs.pausing(4097, qdiscs.handle(1, 0x13), stop=True)
    length, kind, flags, _, _ = struct.unpack_from("=IHHII", request)
    assert (length, kind, flags) == (len(request), 36, 1)  # RTM_NEWQDISC, NLM_F_REQUEST: no acknowledgement
    assert struct.unpack_from("=iIII", request, 20) == (4097, 0, 0x10013, 0)
    inside = attributes(request, 36)
    assert inside[1] == b"plug\0"
    assert struct.unpack("=iI", inside[2])[0] == 0  # TCQ_PLUG_BUFFER
    again = attributes(qdiscs.pausing(4097, qdiscs.handle(1, 0x13), stop=False), 36)
    assert struct.unpack("=iI", again[2])[0] == 2  # TCQ_PLUG_RELEASE_INDEFINITE


def test_a_pair_of_interfaces_is_one_request_with_both_ends_in_their_places() -> None:
    one = links.End("h1-eth0", 4096, 11, Mac.parse("02:00:00:00:00:01"))
    other = links.End("s1-eth1", 4097, 12)
    outer = attributes(links.pair(one, other).body, 16)
    assert (outer[3], outer[28], outer[31]) == (b"h1-eth0\0", struct.pack("=I", 11), struct.pack("=I", 1))
    assert outer[1] == bytes.fromhex("020000000001")
    kind = attributes(outer[18])
    assert kind[1] == b"veth\0"
    peer = attributes(kind[2])[1]
    assert struct.unpack_from("=i", peer, 4) == (4097,)
    assert attributes(peer, 16)[3] == b"s1-eth1\0"
    assert attributes(peer, 16)[28] == struct.pack("=I", 12)


def test_line_rate_counts_what_a_frame_takes_on_the_wire() -> None:
    message = qdiscs.htb_class(
        1,
        qdiscs.handle(1),
        qdiscs.handle(1, 1),
        rate=Rate("10Mb/s"),
        burst_ns=20_000,
        quantum=1562,
    )
    options = attributes(attributes(message.body, 20)[2])[1]
    _, link_layer, overhead, _, _, octets_per_second = struct.unpack_from("=BBHhHI", options)
    assert (link_layer, overhead, octets_per_second) == (1, 24, 1_250_000)
    assert struct.unpack_from("=II", options, 24) == (313, 313)  # ticks of 64 ns


def test_a_port_has_a_class_and_a_pause_point_for_each_priority_below_the_line() -> None:
    made = Queues(4097, Rate("10Mb/s"), Port(shares={3: 50}, strict=frozenset({7}))).messages()
    kinds = [attributes(message.body, 20)[1].rstrip(b"\0").decode() for message in made]
    assert kinds.count("htb") == 2 + 1 + 8
    assert kinds.count("plug") == 2 * 8  # each made, then opened
    classes = [message for message in made if message.kind == 40]
    parameters = [attributes(attributes(message.body, 20)[2])[1] for message in classes[1:]]
    quanta = [struct.unpack_from("=I", options, 32)[0] for options in parameters]
    levels = [struct.unpack_from("=I", options, 40)[0] for options in parameters]
    assert levels == [2, 2, 2, 2, 2, 2, 2, 1], "the strict one is served first, after PFC frames of a real line"
    assert quanta[3] / quanta[0] == pytest.approx(5000 / 833, rel=0.01)
    assert min(quanta) >= 1514, "less than a frame would not be served in proportion"


@pytest.mark.parametrize("line", Line)
def test_only_the_class_of_the_line_has_its_rate_and_what_bypasses_the_queues_goes_to_it(line: Line) -> None:
    """A class of a queue that had a rate to wait for would let its first frame go without a look at the line."""
    queues = Queues(4096, Rate("10Mb/s"), Port(), line=line)
    classes = {}
    for message in queues.messages():
        if message.kind == 40:
            own, parent = struct.unpack_from("=II", message.body, 8)
            (rate,) = struct.unpack_from("=I", attributes(attributes(message.body, 20)[2])[1], 8)
            classes[own] = parent, rate
    roots = [struct.unpack_from("=II", m.body, 8) for m in queues.messages() if m.kind == 36 and b"htb" in m.body]
    (root, _), (scheduler, below) = roots
    assert classes.pop(below) == (root, 1_250_000)
    assert set(classes.values()) == {(scheduler, 4_000_000_000)}
    assert set(queues.arrange().sockets) <= classes.keys()
    assert queues.control == root
    assert (queues.pause in classes) == (line is Line.REAL)


def test_red_has_a_parent_that_dequeues_only_what_the_pause_point_gives() -> None:
    curve = EcnCurve("10kB", "20kB", 1)
    made = Queues(4097, Rate("10Mb/s"), Port(ecn={3: curve})).messages()
    places = {}
    for message in made:
        own, parent = struct.unpack_from("=II", message.body, 8)
        places[attributes(message.body, 20)[1].rstrip(b"\0").decode(), own >> 16] = parent
    assert places["tbf", 0x13] == qdiscs.handle(1, 0x13)
    assert places["red", 0x23] == qdiscs.handle(0x13, 1)
    assert places["plug", 0x33] == qdiscs.handle(0x23, 1)
    assert places["plug", 0x34] == qdiscs.handle(1, 0x14), "a queue without ECN needs none"
    assert [kind for kind, _ in places].count("tbf") == 1


@pytest.mark.parametrize("frees", [True, False])
@pytest.mark.parametrize(
    ("buffer", "limit"),
    [("136MB", 136_000_000 + (64 << 20)), ("8GB", 2**32 - 2**16), (None, 2**32 - 2**16)],
    ids=["of a switch", "of more than a qdisc counts", "none"],
)
def test_every_queue_holds_what_the_buffer_of_its_node_admits(buffer: str | None, limit: int, frees: bool) -> None:
    """This holds for all pause points and the qdiscs before them, also where red has a parent to measure by."""
    port = Port(ecn={3: EcnCurve("10kB", "20kB", 1)})
    room = Size(buffer) if buffer else None
    limits: dict[str, list[int]] = {"plug": [], "tbf": []}
    for message in Queues(4097, Rate("10Mb/s"), port, frees=frees, buffer=room).messages():
        inside = attributes(message.body, 20)
        kind = inside[1].rstrip(b"\0").decode()
        if kind == "plug" and message.create:
            limits["plug"].append(struct.unpack("=iI", inside[2])[1])
        if kind == "tbf":
            limits["tbf"].append(struct.unpack_from("=I", attributes(inside[2])[1], 24)[0])
        if kind == "netem":
            assert struct.unpack_from("=II", inside[2])[1] == 2**32 - 1, "frames, whatever their length"
    assert set(limits["plug"]) == {limit} and len(limits["plug"]) == 8
    assert set(limits["tbf"]) == {limit}


def test_a_queue_is_emptied_by_two_new_pause_points_one_after_the_other() -> None:
    """Whichever of the two handles the plug has, the other replaces it; the queue ends with its usual plug, stopped."""
    curve = EcnCurve("10kB", "20kB", 1, limit="60kB")
    queues = Queues(4097, Rate("10Mb/s"), Port(ecn={3: curve}), buffer=Size("1MB"))
    (usual,) = {
        struct.unpack_from("=I", message.body, 8)[0]
        for message in queues.messages()
        if message.create and attributes(message.body, 20)[1] == b"plug\0" and b"\x60\xea\0\0" in message.body
    }
    for priority, limit in ((3, 60_000), (4, 1_000_000 + (64 << 20))):
        request = queues.emptied(priority)
        (first,) = struct.unpack_from("=I", request)
        assert struct.unpack_from("=I", request, first) == (first,) and len(request) == 2 * first
        places = []
        for start in (0, first):
            kind, flags = struct.unpack_from("=HH", request, start + 4)
            assert (kind, flags) == (36, 0x501)  # a new one in place of what is there, and no answer
            interface, own, parent = struct.unpack_from("=iII", request, start + 20)
            inside = attributes(request[start : start + first], 36)
            assert (interface, inside[1], struct.unpack("=iI", inside[2])) == (4097, b"plug\0", (0, limit))
            places.append((own, parent))
        assert places[0][0] != places[1][0] and places[0][1] == places[1][1]
        assert priority != 3 or places[1][0] == usual


@pytest.mark.slow
@pytest.mark.packages("clang-14", "llvm-14", "libbpf-dev")
@pytest.mark.parametrize(("kept", "source"), build.SOURCES.items())
def test_the_objects_of_programs_at_ports_are_made_from_their_sources(tmp_path: Path, kept: Path, source: Path) -> None:
    if not (shutil.which(build.COMPILER) and Path("/usr/include/bpf/bpf_helpers.h").exists()):
        pytest.skip(f"{build.COMPILER} or libbpf's headers are missing, so the object cannot be built anew")
    build.build(tmp_path / "port.bpf.o", *build.VARIANTS.get(kept, ()), source=source)
    assert (tmp_path / "port.bpf.o").read_bytes() == kept.read_bytes(), (
        "run python3 -m testbed.linux.port_program.build and commit what it makes"
    )
