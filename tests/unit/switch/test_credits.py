"""Sender and receiver of credits: the twelve cases of the Scale-Up Test Standard, and random histories with losses."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from testbed.frames import Mac
from testbed.frames.link import credits
from testbed.frames.link.credits import CcUpdate, Freed
from testbed.net.fabric.port import Port
from testbed.switch.credits import law
from testbed.switch.credits.law import Link
from testbed.switch.credits.receiver import CreditReceiver
from testbed.switch.credits.sender import MODULUS, CreditSender
from testbed.switch.credits.settings import MOST_CREDITS, CreditError, CreditMode, Credits
from testbed.switch.priority.settings import PriorityMap, Trust
from testbed.units import NEVER, Duration, Rate
from tests.reference.credit_line import VC, Line, stats

LENGTHS = [
    base + x
    for base in (64, 128, 256, 512, 1518, 2048, 4096, 9216)
    for x in (-1, 0, 1)
    if (base, x) not in ((64, -1), (9216, 1))
]
"""The frame lengths of the standard's cases."""


class Cable:
    """Two cores whose messages go through their octets, in the order in which they were sent."""

    def __init__(self, settings: Credits) -> None:
        self.sender, self.receiver = CreditSender(settings), CreditReceiver(settings)
        self.now = 0

    def send(self, vc: int, octets: int) -> bool:
        """Send a frame that arrives at once; False if it has no credits."""
        if not self.sender.may_send(vc, octets):
            return False
        self.sender.sent(vc, octets, self.now)
        self.receiver.arrived(vc, octets)
        self.now += octets + 20
        return True

    def free(self, vc: int, octets: int) -> None:
        self.receiver.freed(vc, octets)

    def updates(self) -> None:
        """Pass all messages that are due, the receiver's first."""
        self.now = max(self.now, 0 if self.receiver.deadline == NEVER else self.receiver.deadline)
        while said := self.receiver.poll(self.now):
            self.sender.receive(through_octets(said))
            self.now += self.receiver.credits.cf_min

    def cc(self) -> None:
        """Pass a CC_Update as soon as one is due."""
        if self.sender.deadline != NEVER:
            self.now = max(self.now, self.sender.deadline)
            self.receiver.receive(used_through_octets(self.sender.poll(self.now)))


def through_octets(said: list[tuple[int, int]]) -> list[tuple[int, int]]:
    update = credits.parse_set(credits.both([Freed(*one) for one in said]).encode())
    return [(one.vc, one.credits) for one in {update.first, update.second}]


def used_through_octets(used: dict[int, int]) -> dict[int, int]:
    frame = CcUpdate(Mac(bytes(6)), 0, tuple(used.get(vc, 0) for vc in range(16))).encode()
    counts = credits.parse(frame).used
    return {vc: counts[vc] for vc in used}


def per_vc(limits: dict[int, int], **others: int) -> Credits:
    return replace(Credits(limits), **others)  # type: ignore[arg-type]


def next_multiple(step: int, now: int) -> int:
    return -(-now // step) * step


class TestOfTheStandard:
    """CBFC-01 to CBFC-12, of two cores."""

    def test_cbfc_01_the_sender_counts_what_frames_of_any_length_take(self) -> None:
        cable = Cable(per_vc({3: 100_000}))
        expected = 0
        for length in LENGTHS:
            assert cable.send(3, length)
            expected += -(-(length - 4) // 64)
        counters = cable.sender.counters[3]
        assert counters.sender_credits_consumed == counters.sender_credits_used == expected
        assert counters.sender_credits_freed == 0
        for length in LENGTHS:
            cable.free(3, length)
        cable.updates()
        assert (counters.sender_credits_used, counters.sender_credits_freed) == (0, expected)
        assert counters.sender_credits_used_watermark == expected

    def test_cbfc_02_the_receiver_counts_the_same(self) -> None:
        cable = Cable(per_vc({3: 100_000}, cell=208, overhead=0))
        for length in LENGTHS:
            cable.send(3, length)
        counters = cable.receiver.counters[3]
        expected = sum(-(-length // 208) for length in LENGTHS)
        assert (counters.receiver_credits_consumed, counters.receiver_credits_freed) == (expected, 0)
        for length in LENGTHS:
            cable.free(3, length)
        assert counters.receiver_credits_freed == expected

    def test_cbfc_03_credits_of_corrupted_frames_come_back_with_the_next_cc_update(self) -> None:
        cable = Cable(per_vc({3: 5000}))
        for _ in range(100):  # which the receiver's MAC discards
            assert cable.sender.may_send(3, 1518)
            cable.sender.sent(3, 1518, cable.now)
        before = cable.receiver.counters[3]
        assert (before.receiver_credits_consumed, before.receiver_credits_freed) == (0, 0)
        assert cable.receiver.deadline == NEVER
        cable.cc()
        cable.updates()
        used = cable.sender.counters[3]
        assert (before.receiver_credits_consumed, before.receiver_credits_freed) == (2400, 2400)
        assert (used.sender_credits_consumed, used.sender_credits_freed) == (2400, 2400)
        assert before.lost == 2400
        assert cable.sender.port_credits_used == 0
        assert cable.sender.deadline == NEVER

    @pytest.mark.parametrize("length", [64, 1518, 9215])
    def test_cbfc_04_a_drain_rate_of_0_stops_half_halves_and_full_is_full(self, length: int) -> None:
        link = Link(Rate("100Gb/s"), Duration("500ns"), length)
        need = law.credits(link)
        shares = {}
        for percent in (0, 50, 100):
            gap, time = link.frame_ps * 2, 40 * need.ps + 400 * link.frame_ps
            ways: dict[int, Callable[[int], int]] = {
                0: lambda now: 1 << 60,
                50: partial(next_multiple, gap),
                100: lambda now: now,
            }
            line = Line(link, need.cells, Credits({VC: need.cells}), blocked=ways[percent])
            line.run(time)
            assert line.dropped == 0
            shares[percent] = line.delivered * link.frame_ps / time
        assert shares[0] == 0
        assert 0.45 < shares[50] < 0.55
        assert shares[100] > 0.95

    @pytest.mark.parametrize("pcp", range(8))
    def test_cbfc_05_the_tag_decides_the_channel(self, pcp: int) -> None:
        priorities = PriorityMap(Trust.DOT1P)
        assert priorities.dot1p_to_local[priorities.pcp_to_dot1p[pcp]] == pcp

    @pytest.mark.parametrize("dscp", [0, 8, 24, 26, 46, 63])
    def test_cbfc_06_and_07_the_dscp_of_ipv4_and_ipv6_decides_the_channel(self, dscp: int) -> None:
        priorities = PriorityMap(Trust.DSCP)
        assert priorities.dot1p_to_local[priorities.dscp_to_dot1p[dscp]] == dscp >> 3

    def test_cbfc_08_per_channel_one_that_is_blocked_does_not_stop_the_other(self) -> None:
        cable = Cable(per_vc({1: 48, 2: 48}))
        assert cable.send(1, 1518)
        assert cable.send(1, 1518)
        assert not cable.send(1, 1518)  # nothing of VC 1 is freed
        for _ in range(100):
            assert cable.send(2, 1518)
            cable.free(2, 1518)
            cable.updates()
        assert not cable.send(1, 64)

    def test_cbfc_09_per_port_one_that_is_blocked_may_stop_the_other(self) -> None:
        cable = Cable(Credits({1: 1, 2: 1}, CreditMode.PER_PORT, total=96))
        for _ in range(4):  # without back-pressure both go on
            for vc in (1, 2):
                assert cable.send(vc, 1518)
                cable.free(vc, 1518)
            cable.updates()
        while cable.send(1, 1518):
            pass
        assert cable.sender.port_credits_used == 96
        assert not cable.send(2, 1518)

    def test_cbfc_10_four_to_one_loses_nothing_and_each_sender_gets_its_quarter(self) -> None:
        limit = 240
        cables = [Cable(per_vc({3: limit})) for _ in range(4)]
        queue: deque[int] = deque()
        delivered, refused = [0] * 4, 0
        for _ in range(2000):
            for number, cable in enumerate(cables):
                if cable.send(3, 1518):
                    queue.append(number)
                else:
                    refused += 1
                assert cable.receiver.counters[3].held <= limit
            out = queue.popleft()
            delivered[out] += 1
            cables[out].free(3, 1518)
            for cable in cables:
                cable.updates()
        assert refused
        assert max(delivered) - min(delivered) <= 1

    def test_cbfc_11_best_effort_beside_it_has_no_credits_and_takes_none(self) -> None:
        cable = Cable(per_vc({3: 24}))
        assert cable.send(3, 1518)
        assert not cable.send(3, 1518)
        for _ in range(1000):
            assert cable.send(0, 1518)
        assert cable.sender.counters.keys() == {3}
        assert cable.receiver.counters[3].held == 24

    @pytest.mark.parametrize("length", [9216, 64])
    def test_cbfc_12_a_round_trip_of_500_metres_at_line_rate(self, length: int) -> None:
        link = Link(Rate("400Gb/s"), Duration.from_ns(5 * 250), length)
        need = law.credits(link)
        line = Line(link, need.cells, Credits({VC: need.cells})).run(10 * need.ps)
        assert line.dropped == line.idle_ps == 0, stats(line)


class TestHistories:
    @pytest.mark.parametrize("seed", range(20))
    def test_fifty_random_histories_with_losses_are_never_negative_and_never_stuck(self, seed: int) -> None:
        for history in range(50):
            self.history(random.Random(1000 * seed + history))

    def history(self, rng: random.Random) -> None:
        per_port = rng.random() < 0.3
        vcs = rng.sample(range(32), rng.randrange(1, 5))
        longest = rng.choice((1518, 9216))
        cell = rng.choice((32, 64, 208, 256))
        least = -(-(longest + 20) // cell)
        settings = Credits(
            {vc: rng.randrange(least, 20 * least) for vc in vcs},
            CreditMode.PER_PORT if per_port else CreditMode.PER_VC,
            total=rng.randrange(least, 40 * least),
            cell=cell,
            overhead=rng.randrange(-16, 20),
            cc_interval=rng.choice((5_000, 65_536)),
        )
        loss = rng.choice((0.0, 0.01, 0.3))
        sender, receiver = CreditSender(settings), CreditReceiver(settings)
        # Each direction of the cable keeps the order; what is in it arrives in some later step.
        there: deque[tuple[str, object]] = deque()
        back: deque[list[tuple[int, int]]] = deque()
        buffer: list[tuple[int, int]] = []
        waiting = {vc: [rng.randrange(64, longest + 1) for _ in range(rng.randrange(1, 30))] for vc in vcs}
        to_send, now, quiet = sum(map(len, waiting.values())), 0, 0
        while to_send or there or buffer or sender.port_credits_used:
            now += rng.randrange(1, 2000)
            quiet += 1
            assert quiet < 3000, "stuck"
            if quiet > 300:
                loss = 0.0  # a cable that loses all of them for ever is stuck by right
            vc = rng.choice(vcs)
            if waiting[vc] and sender.may_send(vc, waiting[vc][0]):
                length = waiting[vc].pop(0)
                sender.sent(vc, length, now)
                there.append(("frame", (vc, length)))
                to_send -= 1
                quiet = 0
            if used := sender.poll(now):
                there.append(("cc", used_through(used)))
            while there and rng.random() < 0.5:
                kind, what = there.popleft()
                if rng.random() < loss:
                    continue
                if kind == "frame":
                    assert isinstance(what, tuple)
                    vc, length = what
                    receiver.arrived(vc, length)
                    buffer.append(what)
                else:
                    assert isinstance(what, dict)
                    receiver.receive(what)
            if buffer and rng.random() < 0.6:
                receiver.freed(*buffer.pop(rng.randrange(len(buffer))))
            if said := receiver.poll(now):
                back.append(through_octets(said))
            while back and rng.random() < 0.5:
                said = back.popleft()
                if rng.random() >= loss:
                    sender.receive(said)
            self.holds(settings, sender, receiver)
        assert sender.num_cf_updates_refused == 0
        assert sender.deadline == NEVER
        for one in sender.counters.values():
            assert one.sender_credits_consumed == one.sender_credits_freed

    @staticmethod
    def holds(settings: Credits, sender: CreditSender, receiver: CreditReceiver) -> None:
        for vc, one in sender.counters.items():
            held = receiver.counters[vc].held
            assert 0 <= held <= one.sender_credits_used
            if settings.mode is CreditMode.PER_VC:
                assert one.sender_credits_used <= settings.limits[vc]
        if settings.mode is CreditMode.PER_PORT:
            assert sender.port_credits_used <= settings.total


def used_through(used: dict[int, int]) -> dict[int, int]:
    """Return the counters of a CC_Update, of any VCs, as its octets have them."""
    found: dict[int, int] = {}
    for first in (0, 16):
        counts = tuple(used.get(first + place, 0) for place in range(16))
        parsed = credits.parse(CcUpdate(Mac(bytes(6)), first, counts).encode())
        found |= {first + place: count for place, count in enumerate(parsed.used) if first + place in used}
    return found


def test_settings_of_a_port_that_contradict_themselves_are_refused() -> None:
    for given, words in (
        ({"mode": "per_queue"}, "mode is 'per_queue'; write 'per_vc' or 'per_port'"),
        ({"cc_time": "0s"}, "cc_time is 0s; it is more than 0 and at most 65535us"),
        ({"cc_time": "70ms"}, "cc_time is 70ms; it is more than 0"),
        ({"cc_time": "10us", "cc_interval": 5000}, "cc_interval and cc_time are both given"),
        (
            {"cc_times": "10us"},
            "with_credits has no 'cc_times'; its timers are cf_min, cf_max and cc_interval or cc_time",
        ),
    ):
        with pytest.raises(CreditError, match=words):
            Port().with_credits(3, **given)


def test_a_time_between_cc_updates_is_octets_of_the_line() -> None:
    for rate, octets in (("100Gb/s", 125_000), ("400Gb/s", 500_000), ("10Gb/s", 12_500)):
        credits = Port().with_credits(3, cc_time="10us").credits
        assert credits is not None and credits.cc_octets(Rate(rate)) == octets
    plain = Port().with_credits(3, cc_interval=70_000).credits
    assert plain is not None and plain.cc_octets(Rate("100Gb/s")) == 70_000


class TestRules:
    def test_counters_run_on_past_20_bits(self) -> None:
        cable = Cable(per_vc({3: 1000}))
        for _ in range(2 * MODULUS // cable.sender.credits.of_frame(9216)):
            assert cable.send(3, 9216)
            cable.free(3, 9216)
            cable.updates()
        assert cable.sender.counters[3].sender_credits_consumed > MODULUS
        assert cable.sender.port_credits_used == 0

    def test_a_lost_cf_update_is_mended_by_the_next(self) -> None:
        cable = Cable(per_vc({3: 48}))
        for _ in range(2):
            cable.send(3, 1518)
            cable.free(3, 1518)
        assert cable.receiver.poll(10**6)  # lost
        assert not cable.send(3, 1518)
        cable.cc()
        cable.updates()
        assert cable.send(3, 1518)

    def test_a_count_that_would_free_more_than_is_out_is_refused(self) -> None:
        cable = Cable(per_vc({3: 48}))
        cable.send(3, 1518)
        assert cable.sender.receive([(3, 25)]) == set()
        assert cable.sender.num_cf_updates_refused == 1
        assert cable.sender.counters[3].sender_credits_used == 24
        assert cable.sender.receive([(3, 24)]) == {3}

    def test_frames_that_were_charged_twice_are_taken_back_by_a_cc_update(self) -> None:
        cable = Cable(per_vc({3: 48}))
        cable.send(3, 1518)
        cable.receiver.arrived(3, 1518)  # flooded to a second port
        for _ in range(2):
            cable.free(3, 1518)
        cable.updates()
        assert cable.sender.num_cf_updates_refused == 1
        cable.cc()
        cable.updates()
        assert cable.sender.port_credits_used == 0
        assert cable.receiver.counters[3].receiver_credits_consumed == 24

    def test_updates_keep_their_distance_and_come_again_while_frames_are_held(self) -> None:
        cable = Cable(per_vc({3: 1000}))
        cable.send(3, 1518)
        cable.send(3, 1518)
        assert cable.receiver.deadline == NEVER
        cable.free(3, 1518)
        assert cable.receiver.poll(1000) == [(3, 24)]
        cable.free(3, 64)
        assert cable.receiver.deadline == 1800
        assert cable.receiver.poll(1799) == []
        assert cable.receiver.poll(1800) == [(3, 25)]
        assert cable.receiver.deadline == 1800 + 65_536

    def test_more_than_two_channels_take_turns(self) -> None:
        cable = Cable(per_vc({1: 99, 5: 99, 9: 99}))
        for vc in (1, 5, 9):
            cable.send(vc, 64)
            cable.free(vc, 64)
        assert [vc for vc, _ in cable.receiver.poll(1000)] == [1, 5]
        assert [vc for vc, _ in cable.receiver.poll(1800)] == [9]
        assert cable.receiver.poll(10**9) == []

    def test_all_is_quiet_when_no_credits_are_out(self) -> None:
        cable = Cable(per_vc({3: 99}))
        assert cable.sender.deadline == cable.receiver.deadline == NEVER
        cable.send(3, 64)
        cable.free(3, 64)
        cable.updates()
        assert cable.sender.deadline == cable.receiver.deadline == NEVER

    @pytest.mark.parametrize(
        ("given", "what"),
        [
            ({"limits": {}}, "0 virtual channels; a port has 1 to 4"),
            ({"limits": dict.fromkeys(range(5), 1)}, "5 virtual channels"),
            ({"limits": {32: 1}}, "a virtual channel is 32; it is 0 to 31"),
            ({"limits": {3: MOST_CREDITS + 1}}, "the limit of VC 3 is 524288; it is 1 to 524287"),
            ({"limits": {3: 1}, "overhead": -17}, "overhead is -17; it is -16 to 127"),
            ({"limits": {3: 1}, "cf_min": 767}, "cf_min is 767; it is 768 to 131072"),
        ],
    )
    def test_settings_out_of_range_are_refused_by_name(self, given: dict[str, int], what: str) -> None:
        with pytest.raises(CreditError, match=what):
            Credits(**given)  # type: ignore[arg-type]
