"""Results of others come out as `docs/published.md` says, and `xoff verify --published` shows them."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.experiment import definition
from testbed.lab.engines.engine import PreparedEngine
from testbed.lab.results import folder
from tests.lab.conftest import kept

LONG = ("dsh", "incast_across_spines", "livelock", "pauses_by_ways", "permutation_of_racks")
"""They take 6 CPU seconds and more; `xoff verify --published` runs them too."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(one.name, marks=pytest.mark.long if one.name in LONG else ()) for one in definition.published()],
)
def test_a_published_result_comes_out(ready: PreparedEngine, tmp_path: Path, name: str) -> None:
    result = kept(name, ready, tmp_path)
    assert result.folder is not None
    values = folder.read(result.folder).published()
    assert values and all(one.source for one in values)
    assert all(one.within is not None or one.differs for one in values), "what is not claimed says what differs"
