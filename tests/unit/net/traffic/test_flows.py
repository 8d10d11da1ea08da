"""Values computed from a flow's counts, and a fabric's cables as agents see them that were forked before a change."""

from __future__ import annotations

import os
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from testbed.errors import UsageError
from testbed.frames import Mac
from testbed.linux.interface_memory import Forgotten
from testbed.net.build.network import Network
from testbed.net.fabric import cabling
from testbed.net.fabric.cable import Cable
from testbed.net.fabric.cabling import _MIDDLES
from testbed.net.fabric.core import FabricCore
from testbed.net.fabric.fabric import Fabric
from testbed.net.fabric.port import Buffer, Port
from testbed.net.fabric.switch_buffer import SwitchBuffer
from testbed.net.traffic import WINDOW_NS, Flow, FlowOptionError, Report
from testbed.net.traffic.flows import Flows
from testbed.net.traffic.tcp import TcpReport
from testbed.units import Duration, Rate, Scale, Size

FRAME = Size("1226B")  # 10 kbit on the wire
FIRST_NS = 1_000_000_000


def report(*windows: int) -> Report:
    frames = sum(windows)
    last_ns = FIRST_NS + len(windows) * WINDOW_NS
    octets = frames * FRAME.bytes
    return Report(frames, frames, 0, 0, 0, (), octets, FIRST_NS, last_ns, 0, windows)


@pytest.mark.parametrize(
    ("begin_ms", "for_ms", "frames"),
    [
        (0, 20, 3),
        (10, 20, 6),
        (5, 20, 6),
        (30, 20, 0),
        (-20, 20, 0),
        (-500, 100, 0),
        (-10, 20, 1),
        (-15, 20, 1),
        (-30, 60, 7),
    ],
)
def test_goodput_between_moments_is_what_came_in_it_wherever_the_flow_began(
    begin_ms: int, for_ms: int, frames: int
) -> None:
    begin_ns = FIRST_NS + begin_ms * 10**6
    found = report(1, 2, 4).goodput_between(begin_ns, begin_ns + for_ms * 10**6)
    assert found == Rate.from_bps(frames * 10_000 * 1000 // for_ms)


class Intf:
    """In the place of Mininet's interface."""

    def __init__(self, slot: int, node: str, link: Any) -> None:
        self.slot, self.name, self.link = slot, f"{node}-eth0", link
        self.node = SimpleNamespace(name=node, params={}, ports={self: slot})


class Requests:
    """In the place of a netlink socket."""

    def __init__(self) -> None:
        self.ups: dict[int, bool] = {}

    def send(self, messages: Any) -> None:
        for message in messages:
            if message.what.startswith("setting interface"):
                self.ups[int(message.what.split()[2])] = message.what.endswith("up")


@pytest.fixture
def fabric(monkeypatch: pytest.MonkeyPatch) -> Fabric:
    """A switch's port and a host's, on a cable of 10 us."""
    made: Any = Fabric(FabricCore())
    made.cabling.socket = made.requests = Requests()
    made.cabling._middle_ends = [_MIDDLES, _MIDDLES + 1]
    monkeypatch.setattr("testbed.linux.process.kernel.real_time", lambda *_: None)
    monkeypatch.setattr("os.sched_setscheduler", lambda *_: None)
    made.core.sockets._by_name = {"s1": Requests(), "h1": Requests()}
    link = SimpleNamespace()
    cable = Cable("10Mb/s", delay="10us")
    for slot, name in enumerate(("s1", "h1")):
        made.cabling._pending[slot] = Mac.parse(f"02:00:00:00:00:0{slot}"), cable
        setattr(link, f"intf{slot + 1}", Intf(slot, name, link))
    link.scale = Scale(1)
    made.cabling.add(link)
    for port in made.ports.values():
        port.settings = Port()
    return made  # type: ignore[no-any-return]


def headroom(buffer: SwitchBuffer) -> int:
    return buffer({0: 1 << 3}, {}).limits[0, 3].headroom


def test_an_agent_that_was_forked_before_a_cable_was_changed_divides_by_the_new_one(fabric: Fabric) -> None:
    buffer = SwitchBuffer.of(Buffer(), [fabric.port("s1-eth0")], fabric.cabling.delays)
    short = headroom(buffer)
    ready, answer = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        os.read(ready[0], 1)
        os.write(answer[1], str(headroom(buffer)).encode())
        os._exit(0)
    fabric.cabling.change_delay("h1-eth0", Duration("20ms"))
    os.write(ready[1], b".")
    found = int(os.read(answer[0], 20))
    os.waitpid(pid, 0)
    for end in (*ready, *answer):
        os.close(end)
    assert found == headroom(buffer) > short + 200
    assert {fabric.port(name).cable.delay for name in ("h1-eth0", "s1-eth0")} == {Duration("20ms")}


def test_the_far_end_of_a_port_that_is_down_has_no_carrier_whatever_its_cable(
    fabric: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    port, far = fabric.port("s1-eth0"), fabric.port("h1-eth0")
    monkeypatch.setattr(cabling, "remember", lambda pid, name: Forgotten(pid, ()))
    for one in (port, far):
        monkeypatch.setattr(one.intf.node, "pid", 1, raising=False)
    fabric.cabling.set_up(port.intf, False)
    assert fabric.requests.ups == {_MIDDLES: True, _MIDDLES + 1: False}, "the middle's end towards h1 is down"
    fabric.cabling.pull("h1-eth0")
    assert fabric.requests.ups == {_MIDDLES: False, _MIDDLES + 1: False}
    fabric.cabling.set_up(port.intf, True)
    assert fabric.requests.ups == {_MIDDLES: False, _MIDDLES + 1: False}, "the cable is out still"
    fabric.cabling.set_up(far.intf, False)
    fabric.cabling.plug("s1-eth0")
    assert fabric.requests.ups == {_MIDDLES: False, _MIDDLES + 1: True}
    fabric.cabling.set_up(far.intf, True)
    assert fabric.requests.ups == {_MIDDLES: True, _MIDDLES + 1: True}


class Ended(Flows):
    """Flows that have ended with these reports."""

    def __init__(self, *reports: Report) -> None:
        self.reports = list(reports)


def test_flows_sum_up_what_became_of_them() -> None:
    reports = [
        replace(report(3), lost=2, sent=5, worst_delay_lab_ns=400),
        replace(report(0, 4), worst_delay_lab_ns=900),
    ]
    flows = Ended(*reports)
    assert (flows.sent, flows.received, flows.lost) == (9, 7, 2)
    assert flows.worst_delay == Duration.from_ns(900)
    assert flows.completion == reports[1].completion > reports[0].completion


def test_reports_of_a_class_come_by_the_flows() -> None:
    first, tcp, last = report(1), TcpReport(**vars(report(1))), report(2)
    flows = Ended(first, tcp, last)
    assert flows.reports_of(TcpReport) == [tcp]
    assert flows.reports_of(Report) == [first, tcp, last]


def test_flows_without_an_end_are_not_waited_for() -> None:
    endless: Any = None
    with pytest.raises(FlowOptionError, match="waits for its end, and it has none; give it a count, a size"):
        Network.run(endless, Flow("h1", "r"))


def test_goodput_over_counts_from_the_begin_of_the_flow_in_the_time_of_the_hardware() -> None:
    real = replace(report(1, 2, 4), scale=Scale(1000), begin_lab_ns=FIRST_NS - 10_000_000)
    between = real.goodput_between(FIRST_NS, FIRST_NS + 20_000_000)
    assert real.goodput_over("10us", "20us") == between > Rate.from_bps(0)
    with pytest.raises(UsageError, match="goodput over 3us: arrivals are counted in windows of 10us of the hardware"):
        real.goodput_over("10us", "3us")
