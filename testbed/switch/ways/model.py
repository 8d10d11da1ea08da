"""The rules of equal ways, without a kernel: what the port program does for each frame.

`Group` is a set of ways from one switch to some stations. Its members are numbered; which of them are there can change.

Runs in C: `testbed/linux/port_program/port.bpf.c`, `testbed/linux/port_program/port_rules.bpf.h`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address

from testbed.switch.ways.settings import TABLE, By, HashField, Ways

WORDS = 15
"""The words of a frame that are hashed: source address (4), destination address (4), source and destination port,
protocol, flow label, queue pair, and the MAC addresses (3)."""
FLOWLETS = 1024
"""The flowlets that a group keeps apart."""
_32_BITS = 0xFFFFFFFF
_64_LIVES = 64


@dataclass(frozen=True)
class Fields:
    """The fields of a frame that can be hashed; what a frame has not is 0."""

    source: str = ""
    destination: str = ""
    protocol: int = 0
    source_port: int = 0
    destination_port: int = 0
    flow_label: int = 0
    queue_pair: int = 0
    source_mac: bytes = bytes(6)
    destination_mac: bytes = bytes(6)

    def words(self) -> tuple[int, ...]:
        """Return the fields as the words that are hashed."""
        macs = self.source_mac[:2] + self.destination_mac[:2]
        return (
            *_address(self.source),
            *_address(self.destination),
            self.source_port << 16 | self.destination_port,
            self.protocol,
            self.flow_label,
            self.queue_pair,
            int.from_bytes(self.source_mac[2:], "big"),
            int.from_bytes(self.destination_mac[2:], "big"),
            int.from_bytes(macs, "big"),
        )


def _address(text: str) -> tuple[int, int, int, int]:
    if not text:
        return 0, 0, 0, 0
    if ":" not in text:
        return int(IPv4Address(text)), 0, 0, 0
    octets = IPv6Address(text).packed
    first, second, third, fourth = (int.from_bytes(octets[at : at + 4], "big") for at in range(0, 16, 4))
    return first, second, third, fourth


def _masks(fields: HashField) -> tuple[int, ...]:
    """Return the bits of each word that belong to chosen fields."""

    def bits_of(field: HashField, bits: int = _32_BITS) -> int:
        return bits if field in fields else 0

    return (
        *[bits_of(HashField.SOURCE)] * 4,
        *[bits_of(HashField.DESTINATION)] * 4,
        bits_of(HashField.SOURCE_PORT, 0xFFFF0000) | bits_of(HashField.DESTINATION_PORT, 0xFFFF),
        bits_of(HashField.PROTOCOL),
        bits_of(HashField.FLOW_LABEL),
        bits_of(HashField.QUEUE_PAIR),
        bits_of(HashField.SOURCE_MAC),
        bits_of(HashField.DESTINATION_MAC),
        bits_of(HashField.SOURCE_MAC, 0xFFFF0000) | bits_of(HashField.DESTINATION_MAC, 0xFFFF),
    )


def hash_of(words: Sequence[int], fields: HashField, seed: int) -> int:
    """Return MurmurHash3 (32 bits) over the words of the chosen fields."""
    value = seed
    for word, mask in zip(words, _masks(fields), strict=True):
        mixed = (word & mask) * 0xCC9E2D51 & _32_BITS
        value ^= _rotated(mixed, 15) * 0x1B873593 & _32_BITS
        value = (_rotated(value, 13) * 5 + 0xE6546B64) & _32_BITS
    value ^= 4 * WORDS
    value = (value ^ value >> 16) * 0x85EBCA6B & _32_BITS
    value = (value ^ value >> 13) * 0xC2B2AE35 & _32_BITS
    return value ^ value >> 16


def _rotated(word: int, by: int) -> int:
    return (word << by | word >> 32 - by) & _32_BITS


def seed_of_switch(run_seed: int, switch: str) -> int:
    """Return the seed of a switch's hash where none is given: another one for each switch and for each run."""
    value = run_seed & _32_BITS
    for octet in switch.encode():
        value = ((value ^ octet) * 0x01000193) & _32_BITS  # FNV-1a
    return (value ^ value >> 16) * 0x85EBCA6B & _32_BITS


def table(settings: Ways, weights: Sequence[int], is_there: Sequence[bool]) -> tuple[int, ...]:
    """Return the members in the order in which hashes and turns find them; empty if no way is left.

    A member with weight w is there w times, spread evenly. With resilient hashing the places of members that have left
    go to the others in turn, and those of the others stay.
    """
    there = [member for member, here in enumerate(is_there) if here]
    if not there:
        return ()
    if settings.by is not By.RESILIENT:
        return _spread([weight if here else 0 for weight, here in zip(weights, is_there, strict=True)])
    row = _spread(weights)
    places = [row[place % len(row)] for place in range(settings.buckets)]
    turn = 0
    for place, member in enumerate(places):
        if not is_there[member]:
            places[place] = there[turn % len(there)]
            turn += 1
    return tuple(places)


def _spread(weights: Sequence[int]) -> tuple[int, ...]:
    """Return each member as often as its weight says, as evenly as can be."""
    total, credit, row = sum(weights), [0] * len(weights), []
    for _ in range(total):
        credit = [have + weight for have, weight in zip(credit, weights, strict=True)]
        best = max(range(len(weights)), key=credit.__getitem__)
        credit[best] -= total
        row.append(best)
    return tuple(row)


@dataclass
class WayOfGroup:
    """A way, and what it has been given."""

    is_there: bool = True
    frames: int = 0
    octets: int = 0
    load: int = 0
    load_ns: int = 0


@dataclass
class Group:
    """Equal ways from one switch. `queued` returns the octets that wait at a member's port."""

    settings: Ways
    seed: int
    weights: Sequence[int]
    gap_ns: int
    half_life_ns: int
    queued: Callable[[int], int] = lambda member: 0
    rule: Callable[[Sequence[int], Sequence[tuple[int, int, bool]]], int] | None = None
    """The rule of one's own, where the settings have one: a function of what is told of a frame, and of each way."""
    number: int = 0
    """The group's number, as a rule reads it."""
    members: list[WayOfGroup] = field(default_factory=list)
    flowlets: int = 0

    def __post_init__(self) -> None:
        self.members = self.members or [WayOfGroup() for _ in self.weights]
        self._next = 0
        self._random = self.seed or 1
        self._flowlets: dict[int, tuple[int, int]] = {}
        self._make_table()

    def _make_table(self) -> None:
        self.table = table(self.settings, self.weights, [member.is_there for member in self.members])
        if len(self.table) > TABLE:
            raise ValueError(f"a table of {len(self.table)} entries")

    def set_there(self, member: int, is_there: bool) -> None:
        """Take a member out, or in again."""
        self.members[member].is_there = is_there
        self._make_table()

    def choose(self, words: Sequence[int], now_ns: int = 0, length: int = 0) -> int | None:
        """Return the member that a frame takes; None if no way is left."""
        if not self.table:
            return None
        by = self.settings.by
        if by in (By.HASH, By.RESILIENT):
            place = self.table[self.hash(words) % len(self.table)]
        elif by in (By.FLOWLET, By.ADAPTIVE_FLOWLET):
            place = self._by_flowlet(self.hash(words) % FLOWLETS, now_ns)
        elif by is By.SPRAY:
            place = self.table[self._next % len(self.table)]
            self._next = self._next % len(self.table) + 1
        elif by is By.RANDOM:
            place = self._by_chance()
        elif by is By.RULE:
            place = self._by_rule(words, now_ns, length)
        else:
            place = self._least_loaded(now_ns)
        self._count(self.members[place], now_ns, length)
        return place

    def hash(self, words: Sequence[int]) -> int:
        """Return the hash of a frame."""
        return hash_of(words, self.settings.mask, self.seed)

    def _by_flowlet(self, number: int, now_ns: int) -> int:
        last_ns, member = self._flowlets.get(number, (-1, -1))
        if member < 0 or now_ns - last_ns >= self.gap_ns or not self.members[member].is_there:
            is_adaptive = self.settings.by is By.ADAPTIVE_FLOWLET
            member = self._least_loaded(now_ns) if is_adaptive else self._by_chance()
            self.flowlets += 1
        self._flowlets[number] = now_ns, member
        return member

    def _by_rule(self, words: Sequence[int], now_ns: int, length: int) -> int:
        """Return the way that the rule chooses; that of the hash, if it chooses one that has left."""
        assert self.rule is not None
        value = self.hash(words)
        last_ns, last = self._flowlets.get(value % FLOWLETS, (0, -1))
        told = (
            now_ns, length, value, now_ns - last_ns, last, words[8] >> 16, words[8] & 0xFFFF, words[9], words[11],
            words[10], words[3] or words[0], words[7] or words[4], self.number,
        )  # fmt: skip
        places = range(len(self.members))
        ways = [(self.queued(one), self._given(one, now_ns), self.members[one].is_there) for one in places]
        place = self.rule(told, ways)
        if not 0 <= place < len(ways):
            raise ValueError(f"the rule chooses way {place} of {len(ways)}")
        if not self.members[place].is_there:
            place = self.table[value % len(self.table)]
        self.flowlets += place != last
        self._flowlets[value % FLOWLETS] = now_ns, place
        return place

    def _by_chance(self) -> int:
        state = self._random
        state ^= state << 13 & _32_BITS
        state ^= state >> 17
        state ^= state << 5 & _32_BITS
        self._random = state
        return self.table[state % len(self.table)]

    def _least_loaded(self, now_ns: int) -> int:
        many = len(self.members)
        first = self._next % many
        self._next = first + 1
        order = [(first + turn) % many for turn in range(many)]
        return min((one for one in order if self.members[one].is_there), key=lambda one: self._load(one, now_ns))

    def _load(self, place: int, now_ns: int) -> int:
        return self.queued(place) + self._given(place, now_ns)

    def _given(self, place: int, now_ns: int) -> int:
        """Return the octets that a way was given lately."""
        member = self.members[place]
        lives = self._lives(member, now_ns)
        return member.load >> lives if lives < _64_LIVES else 0

    def _lives(self, member: WayOfGroup, now_ns: int) -> int:
        return (now_ns - member.load_ns) // self.half_life_ns if self.half_life_ns else _64_LIVES

    def _count(self, member: WayOfGroup, now_ns: int, length: int) -> None:
        member.frames += 1
        member.octets += length
        if self.half_life_ns:
            lives = self._lives(member, now_ns)
            member.load = member.load >> lives if lives < _64_LIVES else 0
            member.load_ns += lives * self.half_life_ns
            member.load += length
