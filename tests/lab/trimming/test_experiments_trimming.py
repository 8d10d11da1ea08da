"""The experiment on trimming comes out."""

from __future__ import annotations

from pathlib import Path

from testbed.lab.engines.engine import PreparedEngine
from tests.lab.conftest import kept


def test_frames_without_room_arrive_as_rests_and_none_is_lost(ready: PreparedEngine, tmp_path: Path) -> None:
    result = kept("trimming", ready, tmp_path)
    whole, rests = result.figure("trimmed: frames that arrived whole, and as rests")
    assert whole + rests == 2400
