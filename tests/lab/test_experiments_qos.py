"""The experiments with QoS policies: what each claims holds, its control cases too."""

from __future__ import annotations

from pathlib import Path

from testbed.lab.engine import Ready

from .conftest import kept


def test_vls_share_a_port_by_the_weights_and_the_limit_of_its_arbitration_tables(ready: Ready, tmp_path: Path) -> None:
    kept("qos_arbitration", ready, tmp_path)
