"""Flows of transport roce: what they may ask for. How they run is shown in the lab."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from testbed.errors import UsageError
from testbed.net.traffic import Flow, FlowOptionError
from testbed.net.traffic.roce import Roce
from testbed.net.traffic.roce_flow import ds_field
from testbed.roce.rates import Fixed, Line, RateControl
from testbed.roce.settings import RoceError, Settings
from testbed.switch.ecn.field import Ecn
from testbed.units import Rate, Size


class Own(RateControl):
    pass


def slow(line: Line) -> RateControl:
    return Fixed(line, Rate("1Mb/s"))


@pytest.mark.parametrize("rate_control", [None, "fixed", "dcqcn", "dcqcn-mlx", "timely", Own, slow])
def test_a_rate_control_is_a_name_a_class_or_a_function(rate_control: Any) -> None:
    assert Flow("h1", "h2", transport="roce", rate_control=rate_control).rate_control is rate_control


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rate_control": "dcqnc"}, r"there is no rate control 'dcqnc'; did you mean dcqcn\?"),
        ({"rate": "1Mb/s", "rate_control": "dcqcn"}, "rate is 1Mb/s, and rate_control 'dcqcn' has its own"),
        ({"frame": "1000B"}, "frame is 1kB; transport roce takes"),
        ({"transport": Roce(operation="atomic")}, "operation is 'atomic'; RoCE has write, read, send"),
        ({"transport": Roce(message=Size("0B"))}, "message is 0B"),
        ({"transport": Roce(cnp_priority=8)}, "cnp_priority is 8"),
        ({"transport": Roce(cnp_dscp=64)}, "cnp_dscp is 64"),
    ],
)
def test_a_flow_that_cannot_be_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(FlowOptionError, match=f"flow from h1 to h2: {message}"):
        Flow("h1", "h2", **{"transport": "roce"} | options)


def test_packets_are_ect_0_unless_the_flow_asks_for_another_field() -> None:
    assert ds_field(Flow("h1", "h2", 3, transport="roce")) == 24 << 2 | Ecn.ECT_0
    assert ds_field(Flow("h1", "h2", 3, transport="roce", ecn=Ecn.NOT_ECT, dscp=26)) == 26 << 2


def test_a_path_mtu_is_one_of_infiniband() -> None:
    with pytest.raises(RoceError, match="mtu is 1500"):
        Roce(settings=Settings(mtu=1500))


def node(name: str) -> Any:
    return SimpleNamespace(name=name)


def test_flows_that_run_together_have_the_same_settings() -> None:
    one = Flow(node("h1"), node("r"), transport=Roce())
    other = Flow(node("h2"), node("r"), transport=Roce(settings=Settings(mtu=256)))
    with pytest.raises(UsageError, match="these have different ones"):
        Roce.endpoints({0: one, 1: other})


def test_a_flow_waits_only_for_what_its_source_receives() -> None:
    one = Flow(node("h1"), node("h2"), transport="roce")
    other = Flow(node("h3"), node("h1"), transport=Roce(after=(0,)))
    with pytest.raises(UsageError, match="flow 1 from h3 waits for flow 0, which no RoCE flow to h3 is"):
        Roce.endpoints({0: one, 1: other})
    with pytest.raises(FlowOptionError, match="a read waits for no other flow"):
        Flow("h1", "h2", transport=Roce(operation="read", after=(0,)))
