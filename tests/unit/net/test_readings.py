"""Counters since a moment: differences of counts, and states as they are."""

from __future__ import annotations

from testbed.net.watch.readings import since

BEFORE = {
    "s1-eth1": {
        "now_ns": 1000,
        "ignored_frames": {"not_enabled": 2},
        "priorities": [{"priority": 3, "enabled": True, "paused_until_ns": None, "xoff_sent": 5, "ignored": {"x": 1}}],
    }
}
NOW = {
    "s1-eth1": {
        "now_ns": 5000,
        "ignored_frames": {"not_enabled": 2},
        "priorities": [{"priority": 3, "enabled": True, "paused_until_ns": 6000, "xoff_sent": 7, "ignored": {"x": 1}}],
    },
    "s1-eth2": {"ignored_frames": {"not_enabled": 4}},
}


def test_counts_are_differences_and_states_are_as_they_are() -> None:
    found = since(NOW, BEFORE)
    assert found["s1-eth1"] == {
        "now_ns": 5000,
        "ignored_frames": {"not_enabled": 0},
        "priorities": [{"priority": 3, "enabled": True, "paused_until_ns": 6000, "xoff_sent": 2, "ignored": {"x": 0}}],
    }


def test_what_was_not_there_before_counts_from_zero() -> None:
    assert since(NOW, BEFORE)["s1-eth2"] == NOW["s1-eth2"]
    assert since(NOW, None) == NOW


def test_pools_lists_of_states_and_a_new_agent() -> None:
    before = {"used": {"shared": 9}, "most": {"shared": 9}, "stopped": [3], "sent": {"xoff": 9}, "segments": ["a"]}
    now = {"used": {"shared": 4}, "most": {"shared": 9}, "stopped": [4], "sent": {"xoff": 2}, "segments": ["b"]}
    assert since(now, before) == now | {"sent": {"xoff": 0}}


def test_no_reading_takes_a_truth_for_a_number() -> None:
    assert since({"up": True}, {"up": True}) == {"up": True}
