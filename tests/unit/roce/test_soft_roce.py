"""The settings by which Soft-RoCE is told of DCQCN, by the names of mlx5's driver."""

from __future__ import annotations

from dataclasses import replace

import pytest

from testbed.roce import rates
from testbed.roce.in_kernel import soft_roce_settings
from testbed.roce.rates.dcqcn import PAPER, Dcqcn
from testbed.units import Rate, Scale

LINE = rates.Line(Rate("100Mb/s"), Scale(1000))


def test_parameters_are_those_of_the_paper_on_the_labs_scale() -> None:
    assert soft_roce_settings("dcqcn", LINE) == {
        "np_min_time_between_cnps": 50_000_000,
        "rp_max_rate": 100_000_000,
        "rp_min_rate": 40_000,
        "rp_ai_rate": 40_000,
        "rp_hai_rate": 200_000,
        "rp_dce_tcp_g": 4,
        "rp_initial_alpha_value": 1024,
        "rp_dce_tcp_rtt": 55_000_000,
        "rp_time_reset": 55_000_000,
        "rp_rate_reduce_monitor_period": 0,
        "rp_byte_reset": 10_000_000,
        "rp_threshold": 5,
    }
    assert soft_roce_settings("dcqcn-mlx", LINE)["rp_rate_reduce_monitor_period"] == 4_000_000


def test_a_rate_control_that_soft_roce_has_not_is_refused() -> None:
    with pytest.raises(rates.RateControlError, match="knows the rate controls dcqcn and dcqcn-mlx, and not timely"):
        soft_roce_settings("timely", LINE)


def test_a_gain_that_is_no_part_of_1024_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("testbed.roce.in_kernel.control", lambda name, line: Dcqcn(line, replace(PAPER, gain=0.3)))
    with pytest.raises(rates.RateControlError, match=r"rp_dce_tcp_g is .*; Soft-RoCE has whole parts of 1024"):
        soft_roce_settings("mine", LINE)
