"""The counters of queue pairs: one list for Python, C and the reports of flows."""

from __future__ import annotations

from dataclasses import fields

import pytest

from testbed.linux.roce_device import C
from testbed.roce.counters import Counters
from tools.roce_counters import HEADER, header


def test_the_structure_in_c_is_made_of_the_list_in_python() -> None:
    assert HEADER.read_text() == header(), "python -m tools.roce_counters makes it"
    assert list(C.xr_counters().values()) == [one.name for one in fields(Counters)]


def test_the_report_of_a_queue_pair_has_them_whole() -> None:
    report = C.xr_report(counters=C.xr_counters(rnr_naks=7))
    assert Counters(**report.counters.values()) == Counters(rnr_naks=7)


def test_a_structure_refuses_a_name_that_it_has_not() -> None:
    with pytest.raises(TypeError, match="struct xr_counters has no timeout"):
        C.xr_counters(timeout=1)
    with pytest.raises(AttributeError, match=r"xoff_roce.h.* have no struct xr_pears"):
        _ = C.xr_pears
