"""The rule that a request matches: by the text of the RFC, and the compiled form against it."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.subjects.qos.matching import Fields, Rules, sequential
from testbed.subjects.qos.model import MatchRule, same
from testbed.subjects.qos.numbers import Ranges
from tests.unit.subjects.qos.policy_samples import random_policy

GROUPS = {"a": frozenset({0, 1}), "b": frozenset({2}), "none": frozenset[int]()}


def one(value: int, last: int | None = None) -> Ranges:
    return Ranges(((value, value if last is None else last),))


def first(rules: list[MatchRule], fields: Fields) -> int | None:
    """Return the first rule in both ways, which have to agree."""
    found = sequential(rules, fields, GROUPS)
    assert Rules(rules, GROUPS, 4).first(fields) == found
    return found


def test_the_first_rule_that_matches_applies() -> None:
    rules = [MatchRule("x", tclasses=one(7)), MatchRule("y", tclasses=one(7)), MatchRule("z")]
    assert first(rules, Fields(0, 1, tclass=7)) == 0
    assert first(rules, Fields(0, 1, tclass=8)) == 2


def test_a_value_matches_in_the_list_or_inside_a_range() -> None:
    rules = [MatchRule("x", tclasses=Ranges(((7, 9), (11, 11))))]
    assert [first(rules, Fields(0, 1, tclass=value)) for value in (6, 7, 8, 9, 10, 11, 12)] == [
        None, 0, 0, 0, None, 0, None,
    ]  # fmt: skip


def test_all_criteria_have_to_match() -> None:
    rules = [MatchRule("x", destinations=("a",), service_ids=one(22))]
    assert first(rules, Fields(3, 0, service_id=22)) == 0
    assert first(rules, Fields(3, 2, service_id=22)) is None
    assert first(rules, Fields(3, 0, service_id=23)) is None


def test_source_and_destination_are_lists_of_groups_and_names_have_no_case() -> None:
    rules = [MatchRule("x", sources=("A", "b")), MatchRule("y", sources=("none",)), MatchRule("z", destinations=("b",))]
    assert [first(rules, Fields(port, 3)) for port in range(4)] == [0, 0, 0, None]
    assert first(rules, Fields(3, 2)) == 2


def test_both_source_and_destination_are_required_if_both_are_given() -> None:
    rules = [MatchRule("x", sources=("a",), destinations=("b",))]
    assert first(rules, Fields(0, 2)) == 0
    assert first(rules, Fields(0, 1)) is None and first(rules, Fields(3, 2)) is None


def test_a_request_without_the_mask_bit_of_a_criterion_cannot_match() -> None:
    for rule in (
        MatchRule("x", service_ids=Ranges(((0, (1 << 64) - 1),))),
        MatchRule("x", tclasses=one(0, 255)),
        MatchRule("x", qos_classes=one(0, 4095)),
        MatchRule("x", pkeys=one(0, 0x7FFF)),
    ):
        assert first([rule], Fields(0, 1)) is None


def test_a_request_with_more_fields_than_the_rule_can_match() -> None:
    assert first([MatchRule("x", tclasses=one(7))], Fields(0, 1, 22, 7, 3, 1)) == 0
    assert first([MatchRule("x")], Fields(0, 1, 22, 7, 3, 1)) == 0


@given(st.integers(0, 2**32))
@settings(max_examples=150, deadline=None)
def test_compiled_rules_find_what_a_sequential_search_finds(seed: int) -> None:
    rng = random.Random(seed)
    policy = random_policy(rng, rules=rng.choice((1, 5, 40)))
    groups = {same(group.name): frozenset(p for p in range(8) if p in group.port_guids) for group in policy.port_groups}
    rules = Rules(policy.rules, groups, 8)
    for _ in range(50):
        first, second = (value if rng.random() < 0.7 else None for value in (rng.randrange(40), rng.randrange(12)))
        fields = Fields(
            rng.randrange(8), rng.randrange(8), first, second, rng.choice((None, 1, 5)), rng.choice((None, 1, 2))
        )
        assert rules.first(fields) == sequential(policy.rules, fields, groups)


def test_more_rules_than_a_block_holds_are_compiled_alike() -> None:
    rng = random.Random(4)
    rules = [MatchRule("x", service_ids=one(rng.randrange(5000))) for _ in range(3000)]
    compiled = Rules(rules, {}, 1)
    for value in range(0, 5000, 37):
        fields = Fields(0, 0, service_id=value)
        assert compiled.first(fields) == sequential(rules, fields, {})
