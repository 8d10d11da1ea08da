"""The experiment on credits comes out."""

from __future__ import annotations

from pathlib import Path

from testbed.lab.engines.engine import PreparedEngine
from tests.lab.conftest import kept


def test_credits_take_less_of_the_buffer_than_pfc(ready: PreparedEngine, tmp_path: Path) -> None:
    result = kept("credits", ready, tmp_path)
    assert result.figure("credits: most cells of the buffer from s1") == 24
    assert result.figure("PFC: most cells of the buffer from s1") > 24
