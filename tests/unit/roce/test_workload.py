"""Workloads: patterns, collectives, arrivals, published sizes, and what is computed of completions."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.measures.random_flows import FRAMING
from testbed.units import Duration, Rate, Size
from testbed.workload import statistics, transfers
from testbed.workload.arrivals import Pattern, arrivals
from testbed.workload.sizes import Distribution, distribution, distributions
from testbed.workload.statistics import Completion, Unloaded
from testbed.workload.transfers import Transfer, WorkloadError

MB = Size("1MB")


def hosts(count: int) -> list[str]:
    return [f"h{number}" for number in range(1, count + 1)]


def finished(pattern: list[Transfer]) -> list[int]:
    """Blocks of each transfer that are sent in the end, if a block takes a moment."""
    block = [one.block.bytes if one.block else one.size.bytes for one in pattern]
    wanted = [-(-one.size.bytes // size) for one, size in zip(pattern, block, strict=True)]
    done = [0] * len(pattern)
    while True:
        ready = [
            place
            for place, one in enumerate(pattern)
            if done[place] < wanted[place] and all(done[other] > done[place] - one.lag for other in one.after)
        ]
        if not ready:
            assert done == wanted
            return done
        for place in ready:
            done[place] += 1


def test_incast_has_one_target_and_all_to_all_every_pair() -> None:
    assert [one.source for one in transfers.incast(hosts(3), "r", MB)] == hosts(3)
    pairs = {(one.source, one.target) for one in transfers.all_to_all(hosts(4), MB)}
    assert len(pairs) == 12
    assert all(source != target for source, target in pairs)


@given(st.integers(2, 40), st.integers(0, 2**32))
def test_in_a_permutation_each_host_sends_once_and_receives_once_and_never_to_itself(count: int, seed: int) -> None:
    pattern = transfers.permutation(hosts(count), MB, random.Random(seed))
    assert {one.source for one in pattern} == {one.target for one in pattern} == set(hosts(count))
    assert all(one.source != one.target for one in pattern)
    assert pattern == transfers.permutation(hosts(count), MB, random.Random(seed))


@given(st.integers(2, 12), st.integers(1, 10_000_000))
def test_a_ring_moves_twice_all_but_one_part_over_each_link(count: int, octets: int) -> None:
    pattern = transfers.ring_all_reduce(hosts(count), Size.from_bytes(octets))
    part = -(-octets // count)
    assert [one.size.bytes for one in pattern] == [part * 2 * (count - 1)] * count
    assert finished(pattern) == [2 * (count - 1)] * count
    for place, one in enumerate(pattern):
        (before,) = one.after
        assert pattern[before].target == one.source
        assert one.target == hosts(count)[(place + 1) % count]


@given(st.integers(2, 12))
def test_a_gathering_ring_moves_all_but_one_part_over_each_link(count: int) -> None:
    pattern = transfers.ring_all_gather(hosts(count), MB)
    assert [one.size.bytes for one in pattern] == [-(-MB.bytes // count) * (count - 1)] * count
    assert finished(pattern) == [count - 1] * count
    assert all(pattern[one.after[0]].target == one.source for one in pattern)


@given(st.integers(1, 4))
def test_halving_and_doubling_gives_each_host_the_data_of_all(rounds: int) -> None:
    count = 1 << rounds
    pattern = transfers.halving_doubling_all_reduce(hosts(count), MB)
    assert len(pattern) == 2 * rounds * count
    finished(pattern)
    sent = Counter[str]()
    has = {host: {host} for host in range(count)}
    for number in range(rounds):
        of_round = pattern[number * count : (number + 1) * count]
        before = {host: set(all_) for host, all_ in has.items()}
        for one in of_round:
            has[int(one.target[1:]) - 1] |= before[int(one.source[1:]) - 1]
    assert all(all_ == set(range(count)) for all_ in has.values()), "a part is the sum over all hosts"
    for number, one in enumerate(pattern):
        sent[one.source] += one.size.bytes
        for other in one.after:
            assert pattern[other].target == one.source and other // count == number // count - 1
    assert set(sent.values()) == {2 * (MB.bytes - MB.bytes // count)}, "as much as an ideal all-reduce sends"


def test_halving_and_doubling_takes_a_power_of_two() -> None:
    with pytest.raises(WorkloadError, match="there are 6 hosts; halving and doubling takes a power of two, such as 8"):
        transfers.halving_doubling_all_reduce(hosts(6), MB)


@given(st.integers(2, 20))
def test_a_tree_reduces_to_the_first_host_and_broadcasts_from_there(count: int) -> None:
    pattern = transfers.tree_all_reduce(hosts(count), MB)
    assert len(pattern) == 2 * (count - 1)
    finished(pattern)
    for one in pattern:
        assert all(pattern[other].target == one.source for other in one.after)
    leaves = {one.source for one in pattern if not one.after}
    assert "h1" not in leaves
    counted = Counter(one.target for one in pattern)
    assert all(counted[host] >= 1 for host in hosts(count))


def test_a_client_asks_again_when_it_has_the_response() -> None:
    pattern = transfers.request_response("c", "s", Size("1kB"), Size("20kB"), 5)
    assert [one.size for one in pattern] == [Size("5kB"), Size("100kB")]
    assert finished(pattern) == [5, 5]
    with pytest.raises(WorkloadError, match="count is 0"):
        transfers.request_response("c", "s", MB, MB, 0)


def test_bursts_have_the_size_of_their_rate_and_end_with_the_time() -> None:
    times = {"on": Duration("10ms"), "off": Duration("30ms"), "lasts": Duration("85ms")}
    pattern = transfers.on_off("a", "b", Rate("8Mb/s"), dice=None, **times)
    assert [(one.start.ns // 10**6, one.size.bytes) for one in pattern] == [(0, 10_000), (40, 10_000), (80, 5_000)]
    random_ones = transfers.on_off("a", "b", Rate("8Mb/s"), dice=random.Random(1), **times)
    assert random_ones == transfers.on_off("a", "b", Rate("8Mb/s"), dice=random.Random(1), **times)


@pytest.mark.slow
def test_random_arrivals_load_each_line_as_asked() -> None:
    chosen = distribution("alistorage")
    line, lasts = Rate("100Mb/s"), Duration("100s")
    pattern = arrivals(
        hosts(8), Pattern("random"), chosen, load=0.5, line=line, framing=FRAMING, lasts=lasts, dice=random.Random(3)
    )
    bits = sum(FRAMING.on_wire(one.size).bits for one in pattern)
    assert bits / (line.bps * 8 * 100) == pytest.approx(0.5, rel=0.05)
    assert all(one.source != one.target for one in pattern)
    assert [one.start for one in pattern] == sorted(one.start for one in pattern)


@pytest.mark.parametrize("name", ["websearch", "hadoop", "alistorage"])
def test_a_published_distribution_names_its_source_and_is_drawn_as_it_stands(name: str) -> None:
    chosen = distribution(name)
    assert "SIGCOMM" in chosen.source
    dice = random.Random(4)
    drawn = sorted(chosen.draw(dice).bytes for _ in range(20_000))
    for octets, percent in zip(chosen.octets[1:-1], chosen.percent[1:-1], strict=True):
        share = sum(one <= octets for one in drawn) / len(drawn) * 100
        assert share == pytest.approx(percent, abs=1.5)
    assert sum(drawn) / len(drawn) == pytest.approx(chosen.mean.bytes, rel=0.1)


def test_points_of_a_distribution_are_met_exactly() -> None:
    chosen = Distribution("two", "here", (0, 100, 300), (0.0, 50.0, 100.0))
    assert [chosen.at(part).bytes for part in (0.0, 0.25, 0.5, 0.75, 1.0)] == [1, 50, 100, 200, 300]
    assert chosen.mean == Size("125B")


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(WorkloadError, match="2 or more different ones"):
        transfers.permutation(["h1", "h1"], MB, random.Random(1))
    with pytest.raises(WorkloadError, match=r"no distribution 'websaerch'; did you mean websearch\?"):
        distribution("websaerch")
    with pytest.raises(WorkloadError, match="rows rise from 0 to 100"):
        Distribution("bad", "here", (0, 5), (0.0, 99.0))
    with pytest.raises(WorkloadError, match="load is 2"):
        arrivals(
            hosts(2), Pattern("random"), distribution("hadoop"), load=2, line=Rate("1Mb/s"), framing=FRAMING,
            lasts=Duration("1s"), dice=random.Random(1),
        )  # fmt: skip
    assert sorted(distributions()) == ["alistorage", "hadoop", "websearch"]


def test_slowdown_is_one_where_nothing_is_in_the_way() -> None:
    network = Unloaded(Rate("100Mb/s"), Duration("1ms"))
    assert network.best(Size("2048B")) == Rate("100Mb/s").time_for(Size("2212B")) + Duration("1ms")
    alone = Completion(Size("2048B"), network.best(Size("2048B")))
    assert statistics.slowdown(alone, network) == 1
    assert statistics.slowdown(Completion(alone.size, alone.took * 3), network) == 3


def test_a_port_of_the_lab_sends_the_last_packet_at_once() -> None:
    line, delay = Rate("100Mb/s"), Duration("4ms")
    lab = Unloaded(line, delay, sends_at_once=True)
    assert lab.best(Size("100B")) == lab.best(Size("1024B")) == delay
    assert lab.best(Size("1025B")) == delay + line.time_for(Size("1106B"))


def test_completions_are_shown_by_classes_of_size() -> None:
    network = Unloaded(Rate("100Mb/s"), Duration("0s"))
    found = [Completion(Size("1kB"), network.best(Size("1kB")) * factor) for factor in range(1, 101)]
    found.append(Completion(MB, network.best(MB) * 2))
    assert statistics.by_size(found, network, [Size("10kB")]) == {
        "up to 10kB": {"flows": 100, "mean": 50.5, "p50": 50.0, "p99": 99.0},
        "above 10kB": {"flows": 1, "mean": 2.0, "p50": 2.0, "p99": 2.0},
    }


def test_jains_index_is_1_for_equals_and_1_over_n_for_one_that_has_all() -> None:
    assert statistics.jain([5, 5, 5]) == 1
    assert statistics.jain([9, 0, 0]) == pytest.approx(1 / 3)
    assert statistics.percentile([1, 2, 3, 4], 50) == 2


@pytest.mark.parametrize(
    "make",
    [
        transfers.all_to_all, transfers.ring_all_reduce, transfers.ring_all_gather, transfers.tree_all_reduce,
        transfers.halving_doubling_all_reduce, lambda all_, size: transfers.incast(all_[:3], all_[3], size),
        lambda all_, size: transfers.permutation(all_, size, random.Random(1)),
        lambda all_, size: transfers.request_response(all_[0], all_[1], size, size, 3),
    ],
)  # fmt: skip
def test_a_size_may_be_text(make: Any) -> None:
    assert make(hosts(4), "1MB") == make(hosts(4), MB)
