"""The experiments on rules of one's own come out."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.lab.engines.engine import PreparedEngine
from tests.lab.conftest import kept

pytestmark = pytest.mark.engines("um")


def test_a_rule_holds_a_queue_at_one_length(ready: PreparedEngine, tmp_path: Path) -> None:
    result = kept("pi_marking", ready, tmp_path)
    (how,) = set(result.provenance.switch_rules.values())
    assert how.startswith("code in the kernel, at most ") and not result.provenance.rate_controls


def test_a_rule_couples_two_queues(ready: PreparedEngine, tmp_path: Path) -> None:
    kept("l4s_dual_queue", ready, tmp_path)


def test_a_rate_that_a_switch_stamps_is_fair_and_holds_its_queue(ready: PreparedEngine, tmp_path: Path) -> None:
    kept("rocc_fair_rate", ready, tmp_path)


def test_a_rule_moves_flows_to_other_uplinks_in_their_order(ready: PreparedEngine, tmp_path: Path) -> None:
    kept("safe_flowlets", ready, tmp_path)
