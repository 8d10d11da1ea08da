"""Swift and HPCC by hand-computed steps, and through two endpoints: windows, acknowledgements and telemetry."""

from __future__ import annotations

import math

import pytest

from testbed.frames import roce, telemetry
from testbed.frames.roce import Opcode
from testbed.frames.telemetry import Stamp
from testbed.roce.memory import Content, Sink
from testbed.roce.rates import (
    Acknowledgement,
    Hpcc,
    HpccParameters,
    Line,
    RateControl,
    RateControlError,
    Swift,
    SwiftParameters,
)
from testbed.roce.work import Operation, Work
from testbed.units import Duration, Rate, Scale, Size
from tests.unit.roce.roce_link import LINE as SLOW
from tests.unit.roce.roce_link import Link, Network

LINE = Line(Rate("10Gb/s"), Scale(1))
PACKET = 1250
"""Octets of a packet that takes a microsecond."""
US = 1000


def acknowledged(at: int, round_trip_lab_ns: int | None = None, *stamps: Stamp, packets: int = 1) -> Acknowledgement:
    return Acknowledgement(packets, at, at + 10, round_trip_lab_ns, stamps)


# Swift


def swift(**parameters: object) -> Swift:
    made = Swift(LINE, SwiftParameters(hops=2, **parameters))  # type: ignore[arg-type]
    made.on_sent(0, PACKET)
    return made


def test_swift_begins_with_what_the_line_carries_in_its_base_target_and_at_line_rate() -> None:
    control = swift()
    assert (control.packets, control.window, control.rate_lab_bps) == (26.0, 26, 10e9)  # 20 us and two hops of 3 us


def test_swifts_target_grows_as_the_window_shrinks_within_its_range() -> None:
    control = swift()
    slope = 100_000 / (1 / math.sqrt(0.1) - 1 / math.sqrt(100))
    assert control.target_lab_ns == pytest.approx(26_000 + slope / math.sqrt(26) - slope / 10)
    for packets, target in ((100.0, 26_000), (500.0, 26_000), (0.1, 126_000), (0.02, 126_000)):
        control.packets = packets
        assert control.target_lab_ns == pytest.approx(target)


def test_swift_adds_one_packet_in_a_window_of_acknowledgements_below_its_target() -> None:
    control = swift()
    control.on_acknowledged(0, acknowledged(1, 10 * US))
    assert control.packets == pytest.approx(26 + 1 / 26)
    control.packets = 0.5
    control.on_acknowledged(0, acknowledged(3, 10 * US, packets=2))
    assert control.packets == 2.5


def test_swift_cuts_by_the_excess_of_delay_once_in_a_round_trip_and_never_below_half() -> None:
    control = swift(flow_range=Duration("0s"))
    control.on_acknowledged(0, acknowledged(1, 40 * US))
    assert control.packets == pytest.approx(26 * (1 - 0.8 * (40 - 26) / 40))
    once = control.packets
    control.on_acknowledged(39 * US, acknowledged(2, 40 * US))
    assert control.packets == once
    control.on_acknowledged(40 * US, acknowledged(3, 400 * US))
    assert control.packets == once / 2


def test_swift_paces_one_packet_below_a_window_of_one() -> None:
    control = swift(flow_range=Duration("0s"))
    control.packets = 0.5
    control.on_acknowledged(0, acknowledged(1, 100 * US))
    assert (control.packets, control.window) == (0.25, 1)
    assert control.rate_lab_bps == pytest.approx(PACKET * 8 * 0.25 / 100e-6)  # one packet in 400 us


def test_swift_cuts_after_a_loss_and_begins_at_the_least_window_after_five_in_a_row() -> None:
    control = swift()
    control.on_loss(0)
    assert control.packets == 13
    for _ in range(3):
        control.on_loss(1)
    assert control.packets == 13
    control.on_loss(2)
    assert control.packets == 0.01
    control.on_acknowledged(US, acknowledged(1, 10 * US))
    control.on_loss(10**9)
    assert control.packets == pytest.approx(1.01 / 2)


@pytest.mark.parametrize(
    ("parameters", "why"),
    [
        ({"flow_least": 0.0}, "flow_least is 0.0"),
        ({"least_window": 0.0}, "windows are 0.0"),
        ({"most_window": 0.5}, "1 or more"),
        ({"base_target": Duration("0s")}, "base_target is 0"),
        ({"decrease": 1.0}, "decrease is 1.0"),
        ({"additive_increase": 0.0}, "additive_increase is 0.0"),
    ],
)
def test_parameters_of_swift_that_cannot_be_are_refused(parameters: dict[str, object], why: str) -> None:
    with pytest.raises(RateControlError, match=why):
        SwiftParameters(**parameters)  # type: ignore[arg-type]


# HPCC

KBPS = 10_000_000
BASE = HpccParameters(base_round_trip=Duration("10us"), additive_increase=Size("125B"))
FIRST = 12_500
"""W_init: 10 us of the line."""


def hpcc(parameters: HpccParameters = BASE) -> Hpcc:
    made = Hpcc(LINE, parameters)
    made.on_sent(0, PACKET)
    return made


def stamp(at_us: int, queue: int, sent: int) -> Stamp:
    return Stamp(at_us * US, queue, sent, KBPS)


def test_hpcc_begins_with_what_the_line_carries_in_the_base_round_trip() -> None:
    control = hpcc()
    assert (control.window_octets, control.window, control.rate_lab_bps) == (FIRST, 10, 10e9)
    assert Hpcc(LINE)._step_octets == pytest.approx(16_250 * 0.05 / 20)


def test_hpcc_divides_its_window_by_the_load_of_the_fullest_port() -> None:
    control = hpcc()
    control.on_acknowledged(0, acknowledged(1, None, stamp(0, 25_000, 0), stamp(0, 0, 0)))
    assert control.window_octets == FIRST  # one stamp says nothing of a rate
    control.on_acknowledged(0, acknowledged(2, None, stamp(10, 12_500, 12_500), stamp(10, 0, 1250)))
    assert control.load == pytest.approx(12_500 / 12_500 + 1)
    assert control.window_octets == pytest.approx(FIRST * 0.95 / 2 + 125)
    assert control.window == math.ceil(control.window_octets / PACKET)
    assert control.rate_lab_bps == pytest.approx(control.window_octets * 8 / 10e-6)


def test_hpcc_averages_the_load_over_the_base_round_trip() -> None:
    control = hpcc()
    control.on_acknowledged(0, acknowledged(1, None, stamp(0, 0, 0)))
    control.on_acknowledged(0, acknowledged(2, None, stamp(2, 0, 2500)))
    assert control.load == pytest.approx(0.2)
    control.on_acknowledged(0, acknowledged(3, None, stamp(4, 0, 5000)))
    assert control.load == pytest.approx(0.8 * 0.2 + 0.2)


def test_hpcc_refers_to_the_window_of_the_last_round_trip_until_the_next() -> None:
    control = hpcc()
    control.on_acknowledged(0, acknowledged(1, None, stamp(0, 12_500, 0)))
    control.on_acknowledged(0, acknowledged(2, None, stamp(10, 12_500, 12_500)))
    once = control.window_octets
    control.on_acknowledged(0, acknowledged(12, None, stamp(20, 12_500, 25_000)))
    assert control.window_octets == pytest.approx(once * 0.95 / 2 + 125)  # from the same reference
    again = control.window_octets
    control.on_acknowledged(0, acknowledged(13, None, stamp(30, 12_500, 37_500)))
    assert control.window_octets == pytest.approx(once * 0.95 / 2 + 125)
    control.on_acknowledged(0, acknowledged(24, None, stamp(40, 12_500, 50_000)))
    assert control.window_octets == pytest.approx(again * 0.95 / 2 + 125)


def test_hpcc_adds_a_step_in_each_stage_and_then_multiplies() -> None:
    control = hpcc()
    control.window_octets = control._reference = 5000.0
    control.on_acknowledged(0, acknowledged(1, None, stamp(0, 0, 0)))
    for number in range(1, 6):
        control.on_acknowledged(0, acknowledged(1 + number * 20, None, stamp(number * 10, 0, number * 7500)))
        assert control.window_octets == pytest.approx(5000 + number * 125)
    control.on_acknowledged(0, acknowledged(200, None, stamp(60, 0, 45_000)))
    assert control.window_octets == pytest.approx(5625 * 0.95 / 0.6 + 125)


def test_hpcc_does_not_compare_stamps_of_two_ways_or_of_long_ago() -> None:
    control = hpcc()
    control.on_acknowledged(0, acknowledged(1, None, stamp(0, 0, 0)))
    control.on_acknowledged(1, acknowledged(2, None, stamp(10, 99_999, 0), stamp(10, 99_999, 0)))
    control.on_acknowledged(1 << 32, acknowledged(3, None, stamp(20, 99_999, 0), stamp(20, 99_999, 0)))
    control.on_acknowledged(1 << 32, acknowledged(4))
    assert (control.window_octets, control.load) == (FIRST, 0.0)


@pytest.mark.parametrize(
    ("parameters", "why"),
    [
        ({"base_round_trip": Duration("0s")}, "base_round_trip is 0"),
        ({"utilisation": 0.0}, "utilisation is 0.0"),
        ({"flows": 0}, "flows 0"),
    ],
)
def test_parameters_of_hpcc_that_cannot_be_are_refused(parameters: dict[str, object], why: str) -> None:
    with pytest.raises(RateControlError, match=why):
        HpccParameters(**parameters)  # type: ignore[arg-type]


# Through two endpoints


class Recorder(RateControl):
    """A window of three packets, and what it is told."""

    counts_acknowledgements = needs_telemetry = True

    def __init__(self, line: Line) -> None:
        super().__init__(line)
        self.window = 3
        self.told: list[Acknowledgement] = []
        self.losses = self.under_way = self.most_under_way = 0

    def on_sent(self, now_lab_ns: int, octets: int) -> None:
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)

    def on_acknowledged(self, now_lab_ns: int, acknowledged: Acknowledgement) -> None:
        self.told.append(acknowledged)
        self.under_way -= acknowledged.packets

    def on_loss(self, now_lab_ns: int) -> None:
        self.losses += 1


def run(network: Network, octets: int = 256 * 20) -> tuple[Link, Recorder, Sink]:
    """Write so many octets over a way of two ports that stamp, 5 us and 7 us after each other."""
    link = Link(network, rate_control=Recorder)
    content, receive, count = Content(1), link.b.receive, 0

    def by_ports(datagram: bytes, ecn: int, now_lab_ns: int) -> object:
        nonlocal count
        count += 1
        if roce.parse(datagram).telemetry is not None:
            made = bytearray(datagram)
            area = telemetry.encode(roce.parse(datagram).telemetry._replace(stamps=_stamps(count)))  # type: ignore[union-attr]
            made[roce.BTH_OCTETS : roce.BTH_OCTETS + len(area)] = area
            datagram = bytes(made)
        return receive(datagram, ecn, now_lab_ns)

    link.b.receive = by_ports  # type: ignore[assignment,method-assign]
    sink = Sink(content=content)
    key = link.memory(sink)
    link.near.post(Work(Operation.WRITE, content, octets, 0, 0, key))
    link.until(lambda: link.near.requester.idle)
    assert isinstance(link.near.rate, Recorder)
    return link, link.near.rate, sink


def _stamps(count: int) -> tuple[Stamp, ...]:
    return Stamp(count, 1, 2, 3), Stamp(count, 4, 5, 6)


def test_each_packet_of_a_rate_control_that_counts_is_acknowledged_with_round_trip_and_stamps() -> None:
    link, control, sink = run(Network())
    assert sink.received == 256 * 20
    assert sink.digest
    assert sum(one.packets for one in control.told) == 20
    assert control.most_under_way == 3
    assert all(one.round_trip_lab_ns == 20_000 for one in control.told)
    assert all(one.stamps[0][1:] == (1, 2, 3) and one.stamps[1][1:] == (4, 5, 6) for one in control.told)
    assert not link.b.refused
    data = [roce.parse(one.datagram) for _, one in link.network.delivered if one.to == "10.0.0.2"]
    assert all(one.ack_request and one.telemetry for one in data if one.opcode is Opcode.WRITE_MIDDLE)


def test_the_round_trip_of_a_packet_that_was_sent_twice_is_not_told_and_losses_are() -> None:
    _, control, sink = run(Network(seed=3, loss=0.05), octets=256 * 200)
    assert sink.received == 256 * 200
    assert control.losses
    assert sum(one.packets for one in control.told) == 200
    assert {one.round_trip_lab_ns for one in control.told} - {20_000, None} == set()
    assert any(one.round_trip_lab_ns is None for one in control.told)


@pytest.mark.parametrize("name", ["swift", "hpcc"])
def test_a_flow_over_a_way_without_queues_is_sent_at_line_rate(name: str) -> None:
    link = Link(Network(delay_ns=500_000), rate_control=name)
    content = Content(1)
    sink = Sink(content=content)
    link.near.post(Work(Operation.WRITE, content, 256 * 2000, 0, 0, link.memory(sink)))
    link.until(lambda: link.near.requester.idle)
    assert sink.received == 256 * 2000
    extra = 84 if name == "hpcc" else 0
    wanted_ns = 2000 * (256 + 82 + extra) * 8 * 10**9 / SLOW.rate.bps
    assert link.now_ns == pytest.approx(wanted_ns, rel=0.1)
