"""How a speaker divides a node's buffer among ports that want more than there is."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from testbed.agent.plan import BufferLayout
from testbed.agent.speaker.speaker import Speaker
from testbed.errors import UsageError

LOSSLESS = 1 << 3


class Cells:
    """A buffer of so many cells, of which a lossless port takes its headroom, 10 if that was not measured."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.asked = 0

    def __call__(self, lossless: Mapping[int, int], measured: Mapping[int, int]) -> BufferLayout:
        self.asked += 1
        needed = sum(measured.get(slot, 10) for slot, mask in lossless.items() if mask)
        if needed > self.total:
            raise UsageError(f"{needed - self.total} cells are missing")
        return BufferLayout((0, self.total - needed, needed), {})


def speaker(ports: int, measured: Mapping[int, int], granted: int = LOSSLESS) -> Speaker:
    made = Speaker.__new__(Speaker)  # without its sockets
    made._wanted = dict.fromkeys(range(ports), LOSSLESS)
    made._granted = dict.fromkeys(range(ports), granted)
    made._headroom = dict(measured)
    made._refused = {}
    made._note = made._record = lambda *_: None  # type: ignore[method-assign]
    return made


def test_a_division_that_serves_all_is_computed_once() -> None:
    buffer = Cells(1000)
    division = speaker(48, {slot: 5 for slot in range(48)})._possible(buffer, 0)
    assert division is not None and division.sizes == (0, 1000 - 48 * 5, 48 * 5)
    assert buffer.asked == 1


@pytest.mark.parametrize(("granted", "missing"), [(0, 100), (LOSSLESS, 160)])
def test_who_needs_most_goes_without_and_is_told_why(granted: int, missing: int) -> None:
    one = speaker(4, {0: 50, 1: 200, 2: 50}, granted)
    division = one._possible(Cells(150), 0)
    assert division is not None and division.sizes[2] == 110
    assert one._granted == {0: LOSSLESS, 1: 0, 2: LOSSLESS, 3: LOSSLESS}
    assert one._refused == {1: f"{missing} cells are missing"}
