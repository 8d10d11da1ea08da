"""The copies of one memory on several machines, with programs in place of kernels that read and change it."""

from __future__ import annotations

import mmap
import socket
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.lab.partition import memory, relay
from testbed.lab.partition.link import Channel
from testbed.lab.partition.relay import Peer, Relay

WAITS, RUNS, JOINING = 3, 2, 1
NEVER = (1 << 63) - 1


class Machine:
    """A machine of a network, and what a kernel on it would see and do."""

    def __init__(self, descriptor: int, parts: int, own: Sequence[int]) -> None:
        self.own, self.parts = own, parts
        self.relay = Relay(descriptor, parts, own)
        self.memory = mmap.mmap(descriptor, memory.size(parts))

    def read(self, part: int, name: str) -> int:
        at, kind = FIELDS[name]
        found: int = struct.unpack_from(kind, self.memory, 4096 + 256 * part + at)[0]
        return found

    def write(self, part: int, **values: int) -> None:
        for name, value in values.items():
            at, kind = FIELDS[name]
            struct.pack_into(kind, self.memory, 4096 + 256 * part + at, value)

    def ring(self, one: int, other: int) -> int:
        return memory.HEAD + (one * self.parts + other) * memory.RING

    def visible(self, one: int, other: int) -> int:
        found: int = struct.unpack_from("=Q", self.memory, self.ring(one, other) + 256)[0]
        return found

    def send(self, one: int, other: int, arrival: int, content: bytes) -> None:
        """Show a frame, as a kernel does when it comes to its horizon."""
        at = self.visible(one, other)
        head = struct.pack("=QIIIHHHHI", arrival, 0, 1, len(content), 0, 0, 0, 0, 0)
        frame = head + content + bytes(-len(content) % 8)
        base, place = self.ring(one, other) + 4096, at % (1 << 20)
        first = min(len(frame), (1 << 20) - place)
        self.memory[base + place : base + place + first] = frame[:first]
        self.memory[base : base + len(frame) - first] = frame[first:]
        struct.pack_into("=Q", self.memory, self.ring(one, other) + 256, at + len(frame))
        self.write(other, frames=min(self.read(other, "frames") or NEVER, arrival))

    def take(self, one: int, other: int) -> bytes:
        """Take the frames that a part has shown to one that is here, and return their octets with their heads."""
        ring = self.ring(one, other)
        begin: int = struct.unpack_from("=Q", self.memory, ring + 128)[0]
        end = self.visible(one, other)
        whole = self.memory[ring + 4096 : ring + memory.RING] * 2
        octets = whole[begin % (1 << 20) : begin % (1 << 20) + end - begin]
        struct.pack_into("=Q", self.memory, ring + 128, end)
        self.write(other, frames=NEVER)
        return octets

    def bell(self, part: int) -> None:
        """Ring the bell of a part, which the relay hears for those that are elsewhere."""
        self.relay._lock()
        self.relay._ring_bell(part)
        self.relay._unlock()


FIELDS = {
    "bell": (0, "=I"), "state": (8, "=I"), "generation": (12, "=I"), "base": (32, "=Q"), "next": (40, "=Q"),
    "frames": (48, "=Q"), "given": (72, "=Q"), "octets": (96, "=I"),
}  # fmt: skip


def until(check: Callable[[], bool]) -> None:
    end_s = time.monotonic() + 5
    while not check():
        assert time.monotonic() < end_s
        time.sleep(0.001)


Maker = Callable[..., list[Machine]]


@pytest.fixture
def machines() -> Iterator[Maker]:
    """Return a function that makes machines with these parts, which are connected."""
    with ExitStack() as held:

        def make(*placement: Sequence[int]) -> list[Machine]:
            parts = sum(map(len, placement))
            made = [Machine(held.enter_context(memory.shared(parts)), parts, own) for own in placement]
            peers: list[list[Peer]] = [[] for _ in placement]
            for one in range(len(placement)):
                for other in range(one):
                    here, there = socket.socketpair()
                    keys = b"up", b"down"
                    peers[one].append(Peer(f"m{other}", Channel(other, here, keys[0], keys[1]), placement[other]))
                    peers[other].append(Peer(f"m{one}", Channel(one, there, keys[1], keys[0]), placement[one]))
            for machine, others in zip(made, peers, strict=True):
                machine.relay.begin(others)
                held.callback(machine.relay.close)
            return made

        yield make


def test_a_part_that_waits_is_seen_to_wait_elsewhere_and_its_bell_is_rung(machines: Maker) -> None:
    one, other = machines([0], [1])
    before = other.read(1, "bell")
    one.write(0, state=WAITS, generation=1, next=500, frames=NEVER)
    one.bell(1)
    until(lambda: other.read(0, "next") == 500)
    assert (other.read(0, "state"), other.read(0, "generation"), other.read(0, "frames")) == (WAITS, 1, NEVER)
    until(lambda: other.read(1, "bell") > before)


@pytest.mark.parametrize("state", [RUNS, JOINING])
def test_a_part_that_runs_is_seen_to_wait_for_the_moment_at_which_it_began(machines: Maker, state: int) -> None:
    """A kernel rings only parts that wait; two that see each other join would wait for ever."""
    one, other = machines([0], [1])
    one.write(0, state=state, generation=1, base=700, next=100)
    one.bell(1)
    until(lambda: other.read(0, "next") == 700)
    assert other.read(0, "state") == WAITS


def test_a_frame_comes_to_the_same_place_and_counts_until_it_is_taken(machines: Maker) -> None:
    one, other, third = machines([0], [1], [2])
    for part, machine in enumerate((one, other, third)):
        machine.write(part, state=WAITS, generation=1, next=9000, frames=NEVER)
        machine.bell((part + 1) % 3)
    until(lambda: all(machine.read(part, "next") == 9000 for machine in (one, other, third) for part in range(3)))
    one.send(0, 1, 640, b"a frame of 18 oct.")
    one.send(0, 1, 600, b"another")
    one.bell(1)
    until(lambda: other.visible(0, 1) > 0 and third.read(1, "frames") == 600)
    assert (other.read(1, "frames"), one.read(1, "frames")) == (600, 600)
    taken = other.take(0, 1)
    assert b"a frame of 18 oct." in taken and b"another" in taken
    other.bell(0)
    until(lambda: third.read(1, "frames") == NEVER and one.read(1, "frames") == NEVER)
    assert struct.unpack_from("=Q", one.memory, one.ring(0, 1) + 128)[0] == len(taken)


def test_frames_go_round_the_end_of_a_ring(machines: Maker) -> None:
    one, other = machines([0], [1])
    content = bytes(range(250)) * 60
    one.write(1, frames=NEVER)
    for number in range(1 + (1 << 20) // len(content)):
        one.send(0, 1, 1000 + number, content)
        one.bell(1)
        until(lambda: other.visible(0, 1) == one.visible(0, 1))
        assert other.take(0, 1)[32:15032] == content
        other.bell(0)
        until(lambda: one.memory[one.ring(0, 1) + 128 :][:8] == other.memory[other.ring(0, 1) + 128 :][:8])


def test_what_is_given_to_all_comes_with_the_note_of_it(machines: Maker) -> None:
    one, other = machines([0, 2], [1])
    box = one.relay._box(2, 1)
    one.memory[box : box + 5] = b"given"
    one.write(2, given=1)
    struct.pack_into("=2I", one.memory, 4096 + 256 * 2 + 96, 0, 5)
    one.bell(1)
    until(lambda: other.read(2, "given") == 1)
    assert other.memory[box : box + 5] == b"given"


def test_a_sender_that_waits_for_room_has_the_receiver_woken_and_hears_of_the_room(machines: Maker) -> None:
    one, other = machines([0], [1])
    one.write(1, frames=NEVER)
    one.send(0, 1, 5, b"12345678")
    struct.pack_into("=I", one.memory, one.ring(0, 1) + 264, 1)
    one.bell(1)
    until(lambda: other.memory[other.ring(0, 1) + 264] == 1)
    before = one.read(0, "bell")
    other.take(0, 1)
    other.memory[other.ring(0, 1) + 264] = 0
    other.bell(0)
    until(lambda: one.read(0, "bell") > before and one.memory[one.ring(0, 1) + 264] == 0)


def test_a_machine_that_goes_is_named(machines: Maker) -> None:
    one, other = machines([0], [1])
    other.relay.close()
    until(lambda: one.relay.lost() is not None)
    found = one.relay.lost()
    assert found is not None
    assert found.startswith(f"{relay.LOST} (m1): the other end has closed the connection")


@given(st.binary(min_size=1, max_size=300))
@settings(max_examples=100, deadline=None)
def test_no_message_has_a_relay_write_what_is_not_the_senders(garbage: bytes) -> None:
    """Messages of a machine that has the key and says something else than a relay does."""
    with memory.shared(2) as descriptor:
        machine = Machine(descriptor, 2, [0])
        machine.write(0, state=WAITS, next=77)
        peer = Peer("m1", Channel(1, socket.socketpair()[0], b"a", b"b"), [1])
        try:
            machine.relay._put(peer, garbage)
        except (ValueError, IndexError, struct.error, KeyError) as error:
            assert str(error)
        assert (machine.read(0, "state"), machine.read(0, "next")) == (WAITS, 77)


@pytest.mark.parametrize(
    ("record", "why"),
    [
        ((1, 0, 0, 100, 0, 0), "it speaks for part 0, which is not there"),
        ((2, 1, 0, 8, 9, 0), "it sends more frames than there is room for"),
        ((4, 1, 0, 0, 1, 0), ""),
        ((4, 1, 0, (1 << 18) + 1, 1, 0), "it gives more than a box holds"),
        ((9, 1, 0, 0, 0, 0), "it says 9, which means nothing"),
        ((3, 0, 7, 0, 0, 0), "it speaks for part 7, which is not there"),
        ((3, 0, 1, 0, 8, 0), "it has taken frames that were not sent"),
    ],
)
def test_what_no_relay_says_is_refused_in_plain_words(record: tuple[int, ...], why: str) -> None:
    with memory.shared(2) as descriptor:
        machine = Machine(descriptor, 2, [0])
        peer = Peer("m1", Channel(1, socket.socketpair()[0], b"a", b"b"), [1])
        message = struct.pack("=BBBxIQQ", *record) + bytes(record[3])
        if not why:
            machine.relay._put(peer, message)
            return
        with pytest.raises(ValueError, match=why):
            machine.relay._put(peer, message)


@pytest.mark.parametrize("visible", [1 << 62, (1 << 64) - 32, (1 << 20) + 32, 16])
def test_a_part_that_shows_what_is_no_frame_ends_the_relay_at_once(machines: Maker, visible: int) -> None:
    one, _ = machines([0], [1])
    struct.pack_into("=Q", one.memory, one.ring(0, 1) + 256, visible)
    one.bell(1)
    until(lambda: one.relay.lost() is not None)
    assert "has shown" in str(one.relay.lost())


def test_a_part_that_gives_more_than_a_box_holds_ends_the_relay(machines: Maker) -> None:
    one, _ = machines([0], [1])
    one.write(0, given=1, octets=(1 << 18) + 1)
    struct.pack_into("=2I", one.memory, 4096 + 96, *[(1 << 18) + 1] * 2)
    one.bell(1)
    until(lambda: one.relay.lost() is not None)
    assert "part 0 gives more than a box holds" in str(one.relay.lost())
