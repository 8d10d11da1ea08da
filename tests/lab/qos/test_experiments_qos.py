"""The experiments with QoS policies: what each claims holds, its control cases too."""

from __future__ import annotations

from pathlib import Path

from testbed.lab.engines.engine import PreparedEngine

from ..conftest import kept


def test_vls_share_a_port_by_the_weights_and_the_limit_of_its_arbitration_tables(
    ready: PreparedEngine, tmp_path: Path
) -> None:
    kept("qos_arbitration", ready, tmp_path)


def test_vls_do_not_block_each_other_and_vl15_drops_and_has_no_path(ready: PreparedEngine, tmp_path: Path) -> None:
    kept("qos_lanes", ready, tmp_path)


def test_another_policy_drift_and_a_pulled_cable_are_followed_without_loss(
    ready: PreparedEngine, tmp_path: Path
) -> None:
    kept("qos_change", ready, tmp_path)


def test_the_rfcs_storage_and_low_latency_levels_are_kept_under_overload(ready: PreparedEngine, tmp_path: Path) -> None:
    kept("qos_storage", ready, tmp_path)


def test_each_clients_frames_have_the_values_of_its_path_record(ready: PreparedEngine, tmp_path: Path) -> None:
    kept("qos_clients", ready, tmp_path)


def test_partitions_have_their_own_level_and_do_not_reach_each_other(ready: PreparedEngine, tmp_path: Path) -> None:
    kept("qos_partitions", ready, tmp_path)
