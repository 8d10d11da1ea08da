"""The registry of transports, and what each transport refuses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from testbed.errors import UsageError
from testbed.net.traffic import Endpoint, Flow, FlowError, Outcome, Report, Transport, register, transport, udp
from testbed.net.traffic.tcp import Tcp, TcpReport
from testbed.net.traffic.udp import Udp
from testbed.net.traffic.udp_sockets import datagrams
from testbed.units import Duration, Rate, Scale, Size


@dataclass(frozen=True)
class Pigeon(Transport):
    """A transport of a user."""

    name = "pigeon"
    frame = "100B"
    birds: int = 1

    def check(self, flow: Flow) -> None:
        if flow.rate_control:
            raise UsageError("pigeons have no rate control")

    @classmethod
    def endpoints(cls, flows: Mapping[int, Flow]) -> Sequence[Endpoint]:
        return []

    def report(self, flow: Flow, outcome: Outcome) -> Report:
        raise NotImplementedError


def test_a_registered_transport_is_found_by_its_name_and_gives_the_default_frame(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transport, "_TRANSPORTS", dict(transport._TRANSPORTS))
    register(Pigeon())
    flow = Flow("h1", "h2", transport="pigeon")
    assert flow.transport == Pigeon()
    assert flow.frame == Size("100B")
    with pytest.raises(UsageError, match="flow from h1 to h2: pigeons have no rate control"):
        Flow("h1", "h2", transport="pigeon", rate_control="fixed")


def test_an_object_of_a_transport_needs_no_registration() -> None:
    assert Flow("h1", "h2", transport=Pigeon(birds=7)).transport == Pigeon(birds=7)


def test_transports_of_xoff_are_found_by_name() -> None:
    assert Flow("h1", "h2").transport == Udp()
    assert Flow("h1", "h2", transport="tcp", duration="1s").transport == Tcp()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"transport": "tpc"}, r"there is no transport tpc; did you mean tcp\?"),
        ({"transport": 7}, "transport is 7; a name or an object"),
        ({"rate_control": "dcqcn"}, "rate_control is 'dcqcn'; transport udp has 'fixed' only"),
        ({"size": "0B"}, "a size of 0B sends nothing"),
        ({"transport": "tcp"}, "transport tcp needs a duration or a size"),
        ({"transport": "tcp", "duration": "1s", "size": "1MB"}, "transport tcp needs a duration or a size"),
        ({"transport": "tcp", "duration": "0s"}, "transport tcp needs a duration above 0s"),
        ({"transport": "tcp", "duration": "1s", "ecn": 1}, "transport tcp has no ecn"),
        ({"transport": "tcp", "duration": "1s", "frame": "100B"}, "frame is 100B"),
        ({"transport": "tcp", "duration": "1s", "dscp": -1}, "transport tcp has its priority from its DSCP"),
        ({"transport": "tcp", "duration": "1s", "rate_control": "bbr"}, "transport tcp has cubic, dctcp, reno"),
    ],
)
def test_what_a_transport_cannot_carry_is_refused_in_one_line(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        Flow("h1", "h2", **given)
    assert str(caught.value).startswith("flow from h1 to h2: ")


def test_iperf3_measures_whole_seconds_of_the_lab() -> None:
    def refused(duration: str, scale: int) -> str:
        with pytest.raises(UsageError) as caught:
            Flow("h1", "h2", transport="tcp", duration=duration).in_lab(Scale(scale), "h1", "h2")
        return str(caught.value)

    assert refused("1500ms", 1).endswith("iperf3 measures whole seconds of the lab, not 1.5s")
    assert refused("1500us", 1000).endswith("whole seconds of the lab, here a multiple of 1ms, not 1.5ms")
    assert Flow("h1", "h2", transport="tcp", duration="2ms").in_lab(Scale(1000), "h1", "h2").duration == Duration("2s")


def test_a_size_is_sent_in_whole_datagrams_and_a_smaller_count_ends_the_flow_first() -> None:
    assert datagrams(Flow("h1", "h2", frame="142B", size="1000B")) == 10
    assert datagrams(Flow("h1", "h2", frame="142B", size="1001B")) == 11
    assert datagrams(Flow("h1", "h2", frame="142B", size="1001B", count=3)) == 3


def test_the_report_of_tcp_has_what_iperf3_measured() -> None:
    flow = Flow("h1", "h2", transport="tcp", size="1MB")
    end = {"sum_received": {"bytes": 10**6, "bits_per_second": 8e6}, "sum_sent": {"retransmits": 3}}
    report = Tcp().report(flow, Outcome(10**6, (5, 10**9, end), None, begin_ns=1))
    assert isinstance(report, TcpReport)
    assert (report.received, report.lost, report.retransmits) == (10**6, 0, 3)
    assert report.goodput == Rate("8Mb/s")
    assert report.completion.ns == 10**9 - 1


def test_a_tcp_flow_that_did_not_end_is_an_error() -> None:
    flow = Flow("h1", "h2", transport="tcp", size="1MB")
    with pytest.raises(FlowError, match="did not end"):
        Tcp().report(flow, Outcome(0, None, None, 0))


def test_a_host_whose_flows_the_kernel_serves_has_one_process_for_all_of_them() -> None:
    nodes = {name: SimpleNamespace(name=name) for name in ("a", "b", "c")}
    ways = (("a", "b"), ("c", "a"), ("a", "c"), ("b", "b"))
    flows = {5 + place: Flow(nodes[one], nodes[other]) for place, (one, other) in enumerate(ways)}
    found = {one.node.name: (one.sends, one.receives) for one in udp.in_kernel(flows)}
    assert found == {"a": ((5, 7), (6,)), "b": ((8,), (5, 8)), "c": ((6,), (7,))}
    assert list(found) == ["a", "c", "b"], "in the order of the flows' sources, as processes open sockets"


def test_many_hosts_whose_flows_the_kernel_serves_share_eight_processes() -> None:
    nodes = [SimpleNamespace(name=f"h{number}") for number in range(1, 19)]
    flows = {place: Flow(one, other) for place, (one, other) in enumerate(pairwise(nodes))}
    endpoints = udp.in_kernel(flows)
    assert [len({flows[index].source.name for index in one.sends}) for one in endpoints] == [3, 3, 3, 3, 3, 2]
    assert sorted(index for one in endpoints for index in one.receives) == list(flows)
    assert [one.place for one in endpoints[:2]] == ["h1 and 2 more", "h4 and 2 more"]
