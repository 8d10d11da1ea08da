"""Flows of transport roce: what they may ask for. How they run is shown in the lab."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from testbed.errors import UsageError
from testbed.net.traffic import Flow, FlowOptionError
from testbed.net.traffic.roce import Roce, RoceReport
from testbed.net.traffic.roce_flow import UsedQueuePair, ds_field
from testbed.net.traffic.transport import ip_version
from testbed.roce.rates import Fixed, Line, RateControl
from testbed.roce.settings import RoceError, Settings
from testbed.roce.source_port import source_port
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
        ({"transport": Roce(queue_pairs=0)}, "queue_pairs is 0; 1 to 256 is expected"),
        ({"transport": Roce(ip_version=5)}, "ip_version is 5; 4 or 6 is expected"),
        ({"transport": Roce(flow_label=1 << 20)}, "flow_label is 1048576; 0 to 1048575 is expected"),
        ({"transport": Roce(ip_version=4, flow_label=7)}, "IPv4 has no flow label; leave flow_label out"),
        ({"transport": Roce(queue_pairs=2, after=(0,))}, "a flow that waits for others has one queue pair"),
    ],
)
def test_a_flow_that_cannot_be_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(FlowOptionError, match=f"flow from h1 to h2: {message}"):
        Flow("h1", "h2", **{"transport": "roce"} | options)


MESSAGE = Size("10kB")


@pytest.mark.parametrize(
    ("options", "sizes"),
    [
        ({"size": "100kB"}, ["30kB", "30kB", "20kB", "20kB"]),
        ({"size": "95kB"}, ["30kB", "25kB", "20kB", "20kB"]),
        ({"count": 5}, ["20kB", "10kB", "10kB", "10kB"]),
        ({"count": 5, "size": "42kB"}, ["12kB", "10kB", "10kB", "10kB"]),
        ({"size": "15kB"}, ["10kB", "5kB"]),
        ({"size": "10kB"}, ["10kB"]),
    ],
)
def test_messages_of_a_flow_go_round_its_queue_pairs(options: dict[str, Any], sizes: list[str]) -> None:
    flow = Flow("h1", "h2", transport=Roce(queue_pairs=4, message=MESSAGE), rate="1Gb/s", **options)
    parts = flow.transport.parts(flow)
    assert [part.size for part in parts] == ([Size(size) for size in sizes] if len(sizes) > 1 else [flow.size])
    assert {part.rate for part in parts} == {Rate("1Gb/s") // len(sizes)}
    assert sum(part.transport.frames(part) or 0 for part in parts) == flow.transport.frames(flow)


def test_a_flow_without_an_end_has_all_its_queue_pairs() -> None:
    flow = Flow("h1", "h2", transport=Roce(queue_pairs=3), duration="1ms")
    assert [(part.size, part.count, part.duration) for part in flow.transport.parts(flow)] == [
        (None, None, flow.duration)
    ] * 3


def _part(first: int, last: int, windows: tuple[int, ...], **more: Any) -> RoceReport:
    many = sum(windows)
    return RoceReport(
        many, many, 0, 0, 1, (0, 0, many, 0), many * 1000, first, last, 0, windows, size=Size.from_bytes(many),
        intact=True, queue_pairs=(UsedQueuePair(256, 300, 49_152, many, last),), in_kernel=True, **more,
    )  # fmt: skip


def test_the_report_of_several_queue_pairs_is_one_that_ends_with_the_last() -> None:
    flow = Flow("h1", "h2", transport=Roce(queue_pairs=2))
    sample = {"lab_ns": 5, "sent": 0}
    ms = 10**6
    found = flow.transport.joined(
        flow,
        [
            _part(30 * ms, 51 * ms, (1, 2, 3), samples=(sample,), failure="no answer"),
            _part(ms, 31 * ms, (10, 20, 30, 40), retransmitted=7, samples=(sample,)),
        ],
    )
    assert isinstance(found, RoceReport)
    assert (found.sent, found.received, found.octets, found.ecn) == (106, 106, 106_000, (0, 0, 106, 0))
    assert (found.first_lab_ns, found.last_lab_ns, found.windows) == (ms, 51 * ms, (10, 20, 31, 42, 3))
    assert (found.retransmitted, found.out_of_order, found.size.bytes, found.intact) == (7, 2, 106, True)
    assert found.failure == "queue pair 0: no answer"
    assert [one["queue_pair"] for one in found.samples] == [0, 1]
    assert len(found.queue_pairs) == 2


def test_a_source_port_follows_from_the_numbers() -> None:
    assert source_port("queue pair", 0x123456, 7) == 0xC000 | 0x3456 & 0x3FFF
    assert source_port("hash", 0x101, 0x11C) == source_port("hash", 0x11C, 0x101)
    assert source_port(50_000, 1, 2) == 50_000
    product = 0x123 * 0xABC
    label = (product ^ product >> 20 ^ product >> 40) & 0xFFFFF
    assert source_port("hash", 0x123, 0xABC) == 0xC000 | (label & 0x3FFF ^ label >> 14)
    ports = {source_port("hash", 0x100 + own, 0x100 + far) for own in range(30) for far in range(30)}
    assert all(0xC000 <= port <= 0xFFFF for port in ports)
    assert len(ports) > 400, "of 465 pairs of numbers"


def test_packets_are_ect_0_unless_the_flow_asks_for_another_field() -> None:
    assert ds_field(Flow("h1", "h2", 3, transport="roce")) == 24 << 2 | Ecn.ECT_0
    assert ds_field(Flow("h1", "h2", 3, transport="roce", ecn=Ecn.NOT_ECT, dscp=26)) == 26 << 2


def test_a_path_mtu_is_one_of_infiniband() -> None:
    with pytest.raises(RoceError, match="mtu is 1500"):
        Roce(settings=Settings(mtu=1500))


def node(name: str) -> Any:
    return SimpleNamespace(name=name)


class Addressed:
    """A host with the addresses that it is given."""

    def __init__(self, name: str, ipv4: str | None, ipv6: str | None) -> None:
        self.name, self._ipv4, self.ipv6 = name, ipv4, ipv6
        self.params: dict[str, Any] = {}

    def IP(self) -> str | None:
        return self._ipv4

    def defaultIntf(self) -> Any:
        return self


BOTH, OLD, NEW = ("10.0.0.1", "fd00::1/64"), ("10.0.0.2", None), (None, "fd00::3/64")


@pytest.mark.parametrize(
    ("source", "target", "wanted", "version"),
    [(BOTH, BOTH, None, 4), (BOTH, BOTH, 6, 6), (BOTH, NEW, None, 6), (NEW, NEW, None, 6), (OLD, BOTH, None, 4)],
)
def test_a_flow_is_over_ipv4_if_both_ends_have_it_unless_it_names_a_version(
    source: Any, target: Any, wanted: int | None, version: int
) -> None:
    flow = Flow(Addressed("h1", *source), Addressed("h2", *target), transport=Roce(ip_version=wanted), size="1kB")
    assert ip_version(flow) == version
    assert flow.transport.frame_size(flow).bytes == 1024 + 74 + (20 if version == 6 else 0)


@pytest.mark.parametrize(
    ("source", "target", "wanted", "message"),
    [
        (BOTH, OLD, 6, r"flow 0 from h1 to h2: h2 has no IPv6 address; a topology gives one to each host by ipv6=True"),
        (NEW, OLD, None, "h1 and h2 have no addresses of one IP version; a topology"),
        (NEW, BOTH, 4, "h1 has no IPv4 address; Mininet gives one to each host that has not ip=None"),
    ],
)
def test_a_flow_between_hosts_without_addresses_of_its_version_is_refused(
    source: Any, target: Any, wanted: int | None, message: str
) -> None:
    flow = Flow(Addressed("h1", *source), Addressed("h2", *target), transport=Roce(ip_version=wanted), size="1kB")
    with pytest.raises(UsageError, match=message):
        Roce.endpoints({0: flow})


def test_flows_that_run_together_have_the_same_settings() -> None:
    one = Flow(node("h1"), node("r"), transport=Roce())
    other = Flow(node("h2"), node("r"), transport=Roce(settings=Settings(mtu=256)))
    with pytest.raises(UsageError, match="those of r have different ones"):
        Roce.endpoints({0: one, 1: other})


def test_a_flow_waits_only_for_what_its_source_receives() -> None:
    one = Flow(node("h1"), node("h2"), transport="roce")
    other = Flow(node("h3"), node("h1"), transport=Roce(after=(0,)))
    with pytest.raises(UsageError, match="flow 1 from h3 waits for flow 0, which no RoCE flow to h3 is"):
        Roce.endpoints({0: one, 1: other})
    with pytest.raises(FlowOptionError, match="a read waits for no other flow"):
        Flow("h1", "h2", transport=Roce(operation="read", after=(0,)))
