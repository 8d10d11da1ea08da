"""The experiment on Link Layer Retry comes out."""

from __future__ import annotations

from pathlib import Path

from testbed.lab.engines.engine import PreparedEngine
from tests.lab.conftest import kept


def test_roce_sends_nothing_again_over_cables_that_repair_their_losses(ready: PreparedEngine, tmp_path: Path) -> None:
    result = kept("link_retry", ready, tmp_path)
    assert result.figure("loss: packets sent again") > 0
    assert result.figure("loss, LLR: packets sent again") == 0
