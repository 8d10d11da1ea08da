"""The layout of a node's buffer for ports that request more cells than there are."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from testbed.agent.plan import BufferLayout
from testbed.agent.speaker.node_buffer import CellAllocation
from testbed.errors import UsageError

LOSSLESS = 1 << 3


class Cells:
    """A buffer of so many cells, of which a lossless port takes its headroom, 10 if that was not measured."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.asked = 0

    def __call__(
        self, lossless: Mapping[int, int], measured: Mapping[int, int], classes: Mapping[int, int]
    ) -> BufferLayout:
        self.asked += 1
        self.classes = dict(classes)
        needed = sum(measured.get(slot, 10) for slot, mask in lossless.items() if mask)
        if needed > self.total:
            raise UsageError(f"{needed - self.total} cells are missing")
        return BufferLayout((0, self.total - needed, needed), {})


def allocation(ports: int, measured: Mapping[int, int], granted: int = LOSSLESS) -> CellAllocation:
    made = CellAllocation(dict.fromkeys(range(ports), LOSSLESS))
    made.granted = dict.fromkeys(range(ports), granted)
    made.headroom = dict(measured)
    return made


def test_a_layout_with_cells_for_all_is_computed_once() -> None:
    buffer = Cells(1000)
    layout = allocation(48, {slot: 5 for slot in range(48)}).best(buffer)
    assert layout is not None and layout.sizes == (0, 1000 - 48 * 5, 48 * 5)
    assert buffer.asked == 1


@pytest.mark.parametrize(("granted", "missing"), [(0, 100), (LOSSLESS, 160)])
def test_the_port_that_needs_most_cells_goes_without_and_has_a_reason(granted: int, missing: int) -> None:
    one = allocation(4, {0: 50, 1: 200, 2: 50}, granted)
    layout = one.best(Cells(150))
    assert layout is not None and layout.sizes[2] == 110
    assert one.granted == {0: LOSSLESS, 1: 0, 2: LOSSLESS, 3: LOSSLESS}
    assert one.refused == {1: f"{missing} cells are missing"}
    assert one.missing(1) == LOSSLESS
