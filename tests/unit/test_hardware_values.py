"""One rule for units: users write and read values of the modelled hardware, and the lab's have `lab` in their names."""

from __future__ import annotations

import json

import pytest

from testbed.net.fabric.port import Buffer, Port, PortNeeds, Reaction
from testbed.net.traffic import Flow, FlowOptionError, Report
from testbed.net.traffic.roce import Roce, RoceReport
from testbed.switch.pfc.settings import PfcSettings, WatchdogSettings
from testbed.units import Duration, Rate, Scale, hardware_times, real_ns

K = Scale(1000)


def report(scale: Scale) -> Report:
    """Return the report of 101 frames that came in 1.23 ms of the lab each, on a line of 10 Mb/s."""
    step = 1_230_400
    windows = tuple(sum(10**7 * place <= n * step < 10**7 * (place + 1) for n in range(101)) for place in range(13))
    return Report(
        sent=101, received=101, lost=0, doubled=0, out_of_order=0, ecn=(0,) * 4, octets=101 * 1514,
        first_lab_ns=5 * 10**9, last_lab_ns=5 * 10**9 + 100 * step, worst_delay_lab_ns=2_500_000, windows=windows,
        begin_lab_ns=5 * 10**9 - 1_500_000,
    ).in_hardware(scale)  # fmt: skip


def test_a_flow_is_of_the_hardware_and_in_the_lab_slower_by_the_scale() -> None:
    flow = Flow("h1", "r", rate="5Gb/s", duration="2ms", start="300us", transport="roce")
    lab = flow.in_lab(K, "node h1", "node r")
    assert (lab.source, lab.target) == ("node h1", "node r")
    assert (lab.rate, lab.duration, lab.start) == (Rate("5Mb/s"), Duration("2s"), Duration("300ms"))
    assert Flow("h1", "r", rate=Rate("10Gb/s") // 3).in_lab(K, "h1", "r").rate == Rate.from_bps(3_333_333)
    sampled = Flow("h1", "r", transport=Roce(sample=Duration("10us"))).in_lab(K, "h1", "r").transport
    assert isinstance(sampled, Roce) and sampled.sample == Duration("10ms")


def test_nothing_changes_at_scale_1() -> None:
    flow = Flow("h1", "r", rate="5Mb/s", duration="2s", start="300ms")
    assert flow.in_lab(Scale(1), "h1", "r") == flow
    assert report(Scale(1)).completion == Duration("124540us")


def test_a_report_is_of_the_hardware() -> None:
    lab, real = report(Scale(1)), report(K)
    assert (real.completion * 1000, real.worst_delay) == (lab.completion, Duration("2500ns"))
    assert real.goodput == lab.goodput * 1000
    begin_ns, end_ns = real.first_lab_ns, real.first_lab_ns + 50_000_000
    assert real.goodput_between(begin_ns, end_ns) == lab.goodput_between(begin_ns, end_ns) * 1000


def test_samples_of_rate_controls_have_rates_of_the_hardware() -> None:
    fields = {name: getattr(report(Scale(1)), name) for name in Report.__dataclass_fields__}
    found = RoceReport(
        **fields, samples=({"lab_ns": 7000, "sent": 3, "rate_lab_bps": 5.0, "round_trip_lab_ns": 65530},)
    )
    assert found.in_hardware(K).samples == ({"lab_ns": 7000, "sent": 3, "rate_bps": 5000.0, "round_trip_ns": 65.53},)


def test_a_rate_above_the_line_is_refused_as_it_is_given() -> None:
    with pytest.raises(FlowOptionError, match="rate is 25Gb/s, and the line of h1 is 10Gb/s; without rate"):
        Flow("h1", "r", rate="25Gb/s").check_line(Rate("10Gb/s"))


def test_times_of_a_ports_settings_are_multiplied_once() -> None:
    watchdog = WatchdogSettings(Duration("400us"), Duration("300us"), Duration("7us"))
    port = Port(
        PfcSettings(frozenset({3}), watchdog=watchdog),
        obeys_after=Duration("2us"),
        reaction=Reaction(Duration("26ns"), Duration("40ns")),
    )
    lab = port.in_lab(K)
    assert lab.pfc.watchdog == WatchdogSettings(Duration("400ms"), Duration("300ms"), Duration("7ms"))
    assert (lab.obeys_after, lab.reaction) == (Duration("2ms"), Reaction(Duration("26us"), Duration("40us")))
    assert lab.in_lab(K) == lab
    assert lab.in_hardware(K) == port


def test_a_response_of_buffers_is_the_hardwares_and_by_default_what_the_labs_agents_need() -> None:
    assert Buffer().lab_response(K) == Duration("150us")
    assert Buffer(response=Duration("1us")).lab_response(K) == Duration("1ms")
    needs = PortNeeds(frozenset({3}), Rate("10Mb/s"), Duration("5ms"), units=K)
    assert needs.headroom_cells(Buffer(response=Duration("150ns"))) == needs.headroom_cells(Buffer())


def test_readings_have_the_hardwares_times() -> None:
    found = {"paused_ns": 3_355_443, "xoff": 2, "ports": [{"now_ns": 5000, "paused_until_ns": None, "lab_ns": 5}]}
    assert hardware_times(found, K) == {
        "paused_ns": 3355.443,
        "xoff": 2,
        "ports": [{"now_ns": 5, "paused_until_ns": None, "lab_ns": 5}],
    }
    assert hardware_times(found, Scale(1)) is found
    assert json.dumps(hardware_times({"paused_ns": 1}, K)) == '{"paused_ns": 0.001}'
    assert Duration.nearest_ns(real_ns(26_500, K)) == Duration("26.5ns")
