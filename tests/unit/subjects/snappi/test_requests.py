"""Requests while a test runs, and counters of flows."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from testbed.subjects.snappi import requests
from testbed.subjects.snappi.config import TestPlan, read_config
from testbed.subjects.snappi.counting import WINDOW_NS, WORDS, Receipts, Tally
from testbed.subjects.snappi.pacing import TestPortLine
from testbed.subjects.snappi.reading import OtgError

MS = 1_000_000


def plan(**metrics: Any) -> TestPlan:
    return read_config(
        {
            "ports": [{"name": "p1"}, {"name": "p2"}, {"name": "p3"}],
            "captures": [{"name": "c", "port_names": ["p2"]}],
            "devices": [
                {"name": "d", "ethernets": [{"name": "e", "mac": "02:00:00:00:00:01", "port_name": "p1"}]},
            ],
            "flows": [
                {"name": "f", "tx_rx": {"port": {"tx_name": "p1", "rx_names": ["p2"]}},
                 "metrics": {"enable": True, **metrics}},
                {"name": "g", "tx_rx": {"port": {"tx_name": "p1"}}},
            ],
        },
        {"p1": TestPortLine(100_000_000, 1000)},
    )  # fmt: skip


def tally() -> Tally:
    return Tally(memoryview(array("q", bytes(8 * WORDS))))


@pytest.mark.parametrize(
    ("request_", "found"),
    [
        ({"choice": "traffic", "traffic": {"choice": "flow_transmit", "flow_transmit": {"state": "start"}}},
         requests.Control("flows", "start")),
        ({"choice": "traffic", "traffic": {"flow_transmit": {"state": "pause", "flow_names": ["g"]}}},
         requests.Control("flows", "pause", ("g",))),
        ({"choice": "port", "port": {"choice": "capture", "capture": {"state": "stop"}}},
         requests.Control("capture", "stop", ("p2",))),
        ({"choice": "port", "port": {"choice": "link", "link": {"state": "down", "port_names": ["p3"]}}},
         requests.Control("link", "down", ("p3",))),
        ({"choice": "protocol", "protocol": {"choice": "all", "all": {"state": "start"}}},
         requests.Control("protocols", "start")),
    ],
)  # fmt: skip
def test_control_states(request_: Mapping[str, Any], found: requests.Control) -> None:
    assert requests.read_control(request_, plan()) == found


def test_metrics_states_and_captures() -> None:
    wanted = requests.read_metrics(
        {"choice": "flow", "flow": {"flow_names": ["f"], "metric_names": ["frames_tx"]}}, plan()
    )
    assert wanted == requests.MetricsRequest("flow", ("f",), frozenset({"frames_tx"}))
    assert requests.read_metrics({}, plan()) == requests.MetricsRequest("port", ())
    assert requests.read_states({"choice": "ipv6_neighbors"}, plan()) == requests.MetricsRequest("ipv6_neighbors", ())
    part = {"choice": "slice", "slice": {"choice": "initial", "initial": {"start": 3, "count": 5}}}
    assert requests.read_capture({"port_name": "p2", "packets": part}, plan()) == requests.CaptureRequest("p2", 2, 5)


@pytest.mark.parametrize(
    ("read", "request_", "path"),
    [
        (requests.read_control, {"choice": "protocol", "protocol": {"choice": "bgp", "bgp": {}}}, "protocol.bgp"),
        (requests.read_control,
         {"choice": "traffic", "traffic": {"flow_transmit": {"state": "start", "flow_names": ["x"]}}},
         "traffic.flow_transmit.flow_names[0]"),
        (requests.read_control, {"choice": "port", "port": {"capture": {"state": "start", "port_names": ["p1"]}}},
         "port.capture.port_names"),
        (requests.read_control, {"choice": "port", "port": {"link": {"state": "half"}}}, "port.link.state"),
        (requests.read_metrics, {"choice": "isis"}, "isis"),
        (requests.read_metrics, {"choice": "flow", "flow": {"flow_names": ["g"]}}, "flow.flow_names"),
        (requests.read_states, {"choice": "lldp_neighbors"}, "lldp_neighbors"),
        (requests.read_capture, {"port_name": "p1"}, "port_name"),
    ],
)  # fmt: skip
def test_refused_requests_name_the_field(
    read: Callable[[Mapping[str, Any], TestPlan], Any], request_: Mapping[str, Any], path: str
) -> None:
    with pytest.raises(OtgError) as caught:
        read(request_, plan())
    assert [error.partition(":")[0] for error in caught.value.errors] == [path]


def test_rates_are_of_the_last_whole_window() -> None:
    counted = tally()
    for number in range(150):
        counted.count(number * MS, 64)
    assert (counted.frames, counted.octets, counted.first_ns, counted.last_ns) == (150, 150 * 64, 0, 149 * MS)
    assert counted.rates(150 * MS) == (1000, 64_000)
    assert counted.rates(2 * WINDOW_NS) == (500, 32_000)
    assert counted.rates(3 * WINDOW_NS) == (0, 0)
    counted.count(5 * WINDOW_NS, 64)
    assert counted.rates(5 * WINDOW_NS + 1) == (0, 0)


@pytest.mark.parametrize(("mode", "serialised"), [("cut_through", 0), ("store_forward", 100 * 80)])
def test_a_frame_is_found_by_its_signature_where_it_is_expected(mode: str, serialised: int) -> None:
    flow = plan(latency={"enable": True, "mode": mode}).flows[0]
    counted = tally()
    receipts = Receipts([flow], {"f": counted}, {"p1": 80_000})
    frame = flow.packet.frame(7, 100, 5 * MS)
    receipts.count("p2", 6 * MS, len(frame), frame)
    for port, length, octets in (
        ("p3", 96, frame),
        ("p2", 96, frame[:50]),
        ("p2", 96, bytes(96)),
        ("p2", 10, b"short"),
    ):
        receipts.count(port, 7 * MS, length, octets)
    assert (counted.frames, counted.octets) == (1, 100)
    assert counted.latency_ns() == (MS - serialised, MS - serialised, MS - serialised)
