"""The log of flows: best completion times by hand, and which flows have a completion time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from testbed.net.fabric.cable import Cable
from testbed.net.traffic import Flow
from testbed.net.traffic.report import Report, logged
from testbed.net.traffic.roce import Roce, RoceReport
from testbed.roce.rates import Dcqcn
from testbed.units import Scale, Size

MS = 1_000_000
H1, R = SimpleNamespace(name="h1"), SimpleNamespace(name="r")


def way(*rates: str, delay: str = "1ms") -> Any:
    """Cables of the lab, on its scale."""
    return [SimpleNamespace(lab_cable=Cable(rate, delay=delay)) for rate in rates]


def report(**others: Any) -> Report:
    values: dict[str, Any] = {
        "sent": 3, "received": 3, "lost": 0, "doubled": 0, "out_of_order": 0, "ecn": (0, 0, 3, 1), "octets": 4542,
        "first_lab_ns": 6 * MS, "last_lab_ns": 9 * MS, "worst_delay_lab_ns": 2 * MS, "windows": (3,),
        "begin_lab_ns": 5 * MS, "scale": Scale(1000),
    }  # fmt: skip
    return Report(**values | others)


def udp(**options: Any) -> Flow:
    return Flow(H1, R, frame="1501B", **options)


@pytest.mark.parametrize(
    ("flow", "cables", "best_us"),
    [
        # Two frames of 1501 + 24 octets at 10 Mb/s take 2440 us before the third is sent; two cables of 1 ms.
        (udp(count=3), way("10Mb/s", "10Mb/s"), 2440 + 2000),
        (udp(count=3), way("10Mb/s", "5Mb/s"), 4880 + 2000),
        (udp(count=3, rate="1Mb/s"), way("10Mb/s", "10Mb/s"), 24_400 + 2000),
        (udp(count=1), way("10Mb/s"), 1000),
        # RoCE: 2500 octets are packets of 1024, 1024 and 452; the first two have 82 octets beside their data.
        (Flow(H1, R, transport="roce", size="2500B"), way("10Mb/s"), 2 * 1106 * 0.8 + 1000),
        # Messages of 1500 octets are packets of 1024 and 476, so the last of 3000 octets is sent after three.
        (Flow(H1, R, transport=Roce(message=Size("1500B")), size="3000B"), way("10Mb/s"),
         (1024 + 476 + 1024 + 3 * 82) * 0.8 + 1000),
        (Flow(H1, R, transport=Roce(message=Size("1500B")), count=2), way("10Mb/s"),
         (1024 + 476 + 1024 + 3 * 82) * 0.8 + 1000),
        (Flow(H1, R, transport=Roce(operation="read"), size="1024B"), way("10Mb/s", "10Mb/s"), 4000),
    ],
)  # fmt: skip
def test_the_best_time_of_a_flow_that_is_alone(flow: Flow, cables: Any, best_us: float) -> None:
    line = logged(0, flow, report(scale=Scale(1)), cables)
    assert line["best_ns"] == round(best_us * 1000)


@pytest.mark.parametrize(
    ("flow", "cables"),
    [
        (udp(count=3), []),
        (udp(), way("10Mb/s")),
        (udp(duration="1s", count=5), way("10Mb/s")),
        (Flow(H1, R, transport="tcp", size="1MB"), way("10Mb/s")),
        (Flow(H1, R, transport=Roce(after=(0,)), size="1MB"), way("10Mb/s")),
    ],
    ids=["no way", "no end", "a duration", "TCP", "waits for another"],
)
def test_a_best_time_that_is_not_known(flow: Flow, cables: Any) -> None:
    assert logged(0, flow, report(), cables)["best_ns"] is None


def test_times_are_those_of_the_hardware() -> None:
    line = logged(7, udp(count=3, priority=4), report(), way("10Mb/s", "10Mb/s"))
    assert (line["t_ns"], line["flow"], line["source"], line["target"]) == (5 * MS, 7, "h1", "r")
    assert (line["completion_ns"], line["best_ns"], line["worst_delay_ns"]) == (4000, 4440, 2000)
    assert (line["size_bytes"], line["priority"], line["marked"], line["scale"]) == (4503, 4, 1, 1000)
    assert (line["retransmitted"], line["cnps"], line["failure"], line["rate_control"]) == (None, None, "", "")


@pytest.mark.parametrize(
    ("flow", "found"),
    [
        (udp(count=3), report(lost=1, received=2)),
        (udp(count=4), report()),
        (udp(duration="1s"), report()),
        (udp(count=3), report(first_lab_ns=0, last_lab_ns=0)),
    ],
    ids=["lost", "stopped before its end", "no end by data", "times not known"],
)
def test_a_flow_that_is_not_complete_has_no_completion_time(flow: Flow, found: Report) -> None:
    assert logged(0, flow, found, [])["completion_ns"] is None


def test_a_roce_flow_has_its_own_counters() -> None:
    flow = Flow(H1, R, transport="roce", size="2500B", rate_control=Dcqcn)
    found = RoceReport(**vars(report()) | {"retransmitted": 2, "cnps_received": 5, "size": Size("2500B")})
    line = logged(0, flow, found, way("10Mb/s"))
    assert (line["retransmitted"], line["cnps"], line["rate_control"]) == (2, 5, "Dcqcn")
    assert (line["size_bytes"], line["completion_ns"]) == (2500, 4000)
    failed = RoceReport(**vars(report()) | {"failure": "no answer"})
    assert logged(0, flow, failed, way("10Mb/s"))["completion_ns"] is None


def test_a_roce_flow_whose_last_message_is_short_is_complete_with_its_packets() -> None:
    """4089 octets in messages of 16000 are four packets, not a quarter of the sixteen that a message has."""
    flow = Flow(H1, R, transport=Roce(message=Size("16kB")), size="4089B")
    assert flow.transport.frames(flow) == 4
    found = RoceReport(**vars(report()) | {"sent": 4, "received": 4, "size": Size("4089B")})
    assert logged(0, flow, found, way("10Mb/s"))["completion_ns"] == 4000
    assert (
        Flow(H1, R, transport=Roce(message=Size("16kB")), size="36kB").transport.frames(
            Flow(H1, R, transport=Roce(message=Size("16kB")), size="36kB")
        )
        == 2 * 16 + 4
    )
