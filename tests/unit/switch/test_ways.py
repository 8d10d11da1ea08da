"""Equal ways: the hash, the table, and each rule."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from testbed.errors import UsageError
from testbed.switch.ways.frame import fields_of
from testbed.switch.ways.model import Fields, Group, hash_of, seed_of_switch, table
from testbed.switch.ways.settings import HashField, Ways, ways_of

ALL = HashField(0x1FF)


def group(settings: Ways, many: int = 4, seed: int = 7, weights: tuple[int, ...] = (), **more: object) -> Group:
    return Group(settings, seed, weights or (1,) * many, 1000, 500, **more)  # type: ignore[arg-type]


def flow(number: int) -> tuple[int, ...]:
    return Fields("10.0.0.1", "10.0.0.2", 17, 1024 + number, 4791).words()


@pytest.mark.parametrize(
    ("seed", "words", "value"),  # by the package mmh3 over the same octets
    [
        (0, [0] * 15, 0xB7168892),
        (1, list(range(15)), 0x9F93505A),
        (0xDEADBEEF, [number * 0x9E3779B9 & 0xFFFFFFFF for number in range(1, 16)], 0xBD83F91C),
    ],
)
def test_the_hash_is_murmurhash3(seed: int, words: list[int], value: int) -> None:
    assert hash_of(words, ALL, seed) == value


@pytest.mark.parametrize("one", [field for field in HashField if field is not HashField.INNER])
def test_a_field_counts_only_if_it_is_chosen(one: HashField) -> None:
    plain = Fields("10.0.0.1", "10.0.0.2", 6, 1000, 2000, 3, 4, bytes(range(6)), bytes(range(6, 12)))
    others = {
        HashField.SOURCE: Fields("10.0.0.9"), HashField.DESTINATION: Fields(destination="10.0.0.9"),
        HashField.PROTOCOL: Fields(protocol=17), HashField.SOURCE_PORT: Fields(source_port=9),
        HashField.DESTINATION_PORT: Fields(destination_port=9), HashField.FLOW_LABEL: Fields(flow_label=9),
        HashField.QUEUE_PAIR: Fields(queue_pair=9), HashField.SOURCE_MAC: Fields(source_mac=bytes([9] * 6)),
        HashField.DESTINATION_MAC: Fields(destination_mac=bytes([9] * 6)),
    }  # fmt: skip
    changed = {
        name: getattr(others[one], name) or getattr(plain, name)
        for name in Fields.__dataclass_fields__
        if getattr(others[one], name) != getattr(Fields(), name)
    }
    other = Fields(**{name: getattr(plain, name) for name in Fields.__dataclass_fields__} | changed)
    assert hash_of(plain.words(), one, 1) != hash_of(other.words(), one, 1)
    assert hash_of(plain.words(), ALL & ~one, 1) == hash_of(other.words(), ALL & ~one, 1)


def test_hashes_spread_flows_over_a_thousand_seeds_as_chance_does() -> None:
    found: Counter[int] = Counter()
    for seed in range(1000):
        one = group(Ways(), 4, seed)
        found.update(Counter(one.choose(flow(number)) for number in range(16)).values())
        assert sum(member.frames for member in one.members) == 16
    # Of 16 flows over 4 ways a way has 4 with a chance of 0.225, and 8 with 0.020: some 901 and 79 of 4000 ways.
    assert [found[many] for many in (4, 8)] == [944, 71]


def test_a_switch_has_another_seed_than_its_neighbour_and_in_each_run() -> None:
    seeds = {seed_of_switch(run, switch) for run in (1, 2, 3) for switch in ("leaf1", "leaf2", "spine1")}
    assert len(seeds) == 9


def test_a_table_has_each_member_as_often_as_its_weight_says_spread_evenly() -> None:
    assert table(Ways(), (1, 1, 1), (True,) * 3) == (0, 1, 2)
    assert table(Ways(), (2, 1, 1), (True,) * 3) == (0, 1, 2, 0)
    assert table(Ways(), (3, 1), (True, True)) == (0, 0, 1, 0)
    assert table(Ways(), (2, 1, 1), (False, True, True)) == (1, 2)
    assert table(Ways(), (1, 1), (False, False)) == ()


def test_with_resilient_hashing_only_flows_of_the_lost_way_move_and_come_back() -> None:
    one = group(Ways("resilient", buckets=128), 4)
    before = [one.choose(flow(number)) for number in range(1000)]
    one.set_there(2, False)
    after = [one.choose(flow(number)) for number in range(1000)]
    moved = [number for number in range(1000) if before[number] != after[number]]
    assert moved == [number for number in range(1000) if before[number] == 2]
    assert len(moved) == 230
    one.set_there(2, True)
    assert [one.choose(flow(number)) for number in range(1000)] == before


def test_with_plain_hashing_a_lost_way_moves_most_flows() -> None:
    one = group(Ways(), 4)
    before = [one.choose(flow(number)) for number in range(1000)]
    one.set_there(2, False)
    after = [one.choose(flow(number)) for number in range(1000)]
    assert sum(old != new for old, new in zip(before, after, strict=True)) == 746


def test_spraying_goes_round_by_weights() -> None:
    one = group(Ways("spray"), weights=(2, 1, 1))
    assert [one.choose(flow(0)) for _ in range(8)] == [0, 1, 2, 0, 0, 1, 2, 0]


def test_frames_by_chance_are_the_same_for_a_seed() -> None:
    first, again, other = group(Ways("random")), group(Ways("random")), group(Ways("random"), seed=8)
    drawn = [[one.choose(flow(0)) for _ in range(200)] for one in (first, again, other)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert sorted(Counter(drawn[0]).values()) == [45, 49, 51, 55]


def test_a_flowlet_keeps_its_way_until_the_flow_is_silent_for_the_gap() -> None:
    one = group(Ways("flowlet"), 64)
    first = [one.choose(flow(0), at_ns) for at_ns in (0, 999, 1998, 2997)]
    assert len(set(first)) == 1
    assert one.flowlets == 1
    one.choose(flow(0), 3997)
    assert one.flowlets == 2


def test_a_flowlet_leaves_a_way_that_is_gone() -> None:
    one = group(Ways("flowlet"), 2)
    first = one.choose(flow(0), 0)
    assert first is not None
    one.set_there(first, False)
    assert one.choose(flow(0), 1) == 1 - first


def test_the_least_loaded_way_is_the_one_with_the_shortest_queue_then_by_turns() -> None:
    queued = {0: 3000, 1: 0, 2: 1500}
    one = group(Ways("least loaded"), 3, queued=lambda member: queued[member])
    assert one.choose(flow(0), 0, 1000) == 1
    assert one.choose(flow(0), 0, 1000) == 1  # 1000 octets of load are still less than 1500
    assert one.choose(flow(0), 0, 1000) == 2
    assert one.choose(flow(0), 5000, 1000) == 1  # ten half-lives later


def test_without_any_way_a_frame_is_dropped() -> None:
    one = group(Ways(), 1)
    one.set_there(0, False)
    assert one.choose(flow(0)) is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"by": "hsah"}, r"by is 'hsah'; .*hash"),
        ({"fields": ("sauce",)}, "no field sauce; .*source"),
        ({"fields": ()}, "without fields"),
        ({"fields": ("inner",)}, "without fields"),
        ({"seed": -1}, "seed is -1"),
        ({"weights": {"spine1": 0}}, "the weight of spine1 is 0; write a whole number, 1 or more"),
        ({"by": "resilient", "buckets": 300}, "buckets is 300; write a whole number from 1 to 256"),
        ({"gap": "0us"}, "gap is 0"),
    ],
)
def test_wrong_settings_are_refused_with_the_way_out(given: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Ways(**given)  # type: ignore[arg-type]


def test_settings_without_effect_are_known() -> None:
    assert Ways("spray", fields="source", gap="1us", weights={"spine1": 2}).unused() == ["fields", "gap"]
    assert Ways("flowlet", gap="1us", fields="source").unused() == []
    assert Ways("least loaded", seed=3, weights={"spine1": 2}, buckets=7).unused() == ["seed", "weights", "buckets"]
    assert ways_of("spray") == Ways("spray")
    with pytest.raises(UsageError, match="ways is 4; write Ways"):
        ways_of(4)  # type: ignore[arg-type]


def test_fields_are_read_from_random_octets_without_an_error() -> None:
    chance = random.Random(1)
    for _ in range(3000):
        frame = bytearray(chance.randbytes(chance.randrange(80)))
        frame[12:14] = chance.choice([b"\x08\x00", b"\x86\xdd", b"\x81\x00", b"\x88\xa8", b"\x08\x06"])
        fields_of(bytes(frame), chance.random() < 0.5).words()
