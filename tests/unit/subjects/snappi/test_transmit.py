"""The times at which the flows of a port send: by their rates, one line for all, in bursts, and with pauses."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import pytest

from testbed.frames import Mac
from testbed.frames.mac_control import PauseFrame, PfcFrame
from testbed.subjects.snappi.config import FlowControl, FlowPlan, read_config
from testbed.subjects.snappi.pacing import TestPortLine
from testbed.subjects.snappi.transmit import State, Transmitter

LINE = TestPortLine(100_000_000, 1000)
OCTET_PS = 80_000
FULL_PS = 84 * OCTET_PS
"""The time of a frame of 64 octets on the line."""
QUANTUM_PS = 64 * OCTET_PS
PEER = Mac.parse("02:00:00:00:00:09")
EVERY = tuple(range(8))


def flows(*described: Mapping[str, Any]) -> list[FlowPlan]:
    made = [
        {"name": f"f{number}", "tx_rx": {"port": {"tx_name": "p1"}}, **flow} for number, flow in enumerate(described)
    ]
    return list(read_config({"ports": [{"name": "p1"}], "flows": made}, {"p1": LINE}).flows)


def at(percent: float, queue: int = 0, **more: Any) -> dict[str, Any]:
    ethernet = {"choice": "ethernet", "ethernet": {"pfc_queue": {"value": queue}}}
    return {"rate": {"percentage": percent}, "packet": [ethernet], **more}


def started(*described: Mapping[str, Any], control: FlowControl | None = None) -> Transmitter:
    transmitter = Transmitter(flows(*described), LINE, control)
    for stream in transmitter.streams:
        stream.start(0)
    return transmitter


def sent(transmitter: Transmitter, count: int) -> list[tuple[int, str]]:
    found = []
    for _ in range(count):
        start = transmitter.next()
        if start is None:
            break
        stream, _, _ = transmitter.sent(start)
        found.append((start.at_ps, stream.plan.name))
    return found


def times(transmitter: Transmitter, count: int) -> list[int]:
    return [at_ps for at_ps, _ in sent(transmitter, count)]


def test_a_rate_spaces_frames_evenly_from_the_start() -> None:
    assert times(started(at(50)), 4) == [0, 2 * FULL_PS, 4 * FULL_PS, 6 * FULL_PS]


def test_a_rate_without_an_exact_gap_does_not_drift() -> None:
    transmitter = started({"rate": {"pps": 3}})
    assert times(transmitter, 3001)[-1] == 1000 * 10**12


def test_flows_share_the_line_and_the_one_that_was_due_first_goes_first() -> None:
    found = sent(started(at(50), at(50)), 5)
    assert found == [(0, "f0"), (FULL_PS, "f1"), (2 * FULL_PS, "f0"), (3 * FULL_PS, "f1"), (4 * FULL_PS, "f0")]


def test_more_than_the_line_carries_goes_at_its_rate_in_equal_parts() -> None:
    found = sent(started(at(100), at(100)), 100)
    assert [at_ps for at_ps, _ in found] == [number * FULL_PS for number in range(100)]
    assert sum(name == "f0" for _, name in found) == 50


def test_a_flow_ends_by_its_frames_or_its_time() -> None:
    by_frames = started(at(100, duration={"fixed_packets": {"packets": 3}}))
    assert len(sent(by_frames, 10)) == 3
    assert by_frames.streams[0].state is State.STOPPED
    by_time = started({"rate": {"pps": 1000}, "duration": {"fixed_seconds": {"seconds": 0.01}}})
    assert len(sent(by_time, 100)) == 10


def test_bursts_have_their_gap_from_the_last_octet_to_the_first() -> None:
    burst = {"bursts": 2, "packets": 3, "inter_burst_gap": {"nanoseconds": 1000}}
    begin = 2 * FULL_PS + 72 * OCTET_PS + 1_000_000
    found = times(started(at(100, duration={"burst": burst})), 10)
    assert found == [0, FULL_PS, 2 * FULL_PS, begin, begin + FULL_PS, begin + 2 * FULL_PS]


def test_a_least_gap_and_a_delay() -> None:
    found = times(started(at(100, duration={"continuous": {"gap": 112, "delay": {"microseconds": 3}}})), 3)
    assert found == [3_000_000 + number * (72 + 112) * OCTET_PS for number in range(3)]


def test_a_flow_that_is_held_goes_on_as_much_later() -> None:
    transmitter = started(at(10))
    assert times(transmitter, 2) == [0, 10 * FULL_PS]
    (stream,) = transmitter.streams
    stream.pause(15 * FULL_PS)
    assert transmitter.next() is None
    stream.resume(45 * FULL_PS)
    assert times(transmitter, 2) == [50 * FULL_PS, 60 * FULL_PS]


def test_pfc_stops_its_queue_for_its_time_and_no_frame_makes_up_for_it() -> None:
    transmitter = started(at(10, queue=3), at(10, queue=4), control=FlowControl(EVERY))
    assert times(transmitter, 2) == [0, FULL_PS]
    transmitter.receive(PfcFrame.xoff(PEER, [3], 100).encode(), 5 * FULL_PS)
    until = 5 * FULL_PS + 100 * QUANTUM_PS
    found = sent(transmitter, 30)
    assert [one for one in found if one[0] < until and one[1] == "f0"] == []
    resumed = [at_ps for at_ps, name in found if name == "f0"]
    assert resumed[0] == until
    assert {later - earlier for earlier, later in itertools.pairwise(resumed)} <= {
        10 * FULL_PS, 11 * FULL_PS, 9 * FULL_PS,
    }  # fmt: skip


def test_a_time_of_zero_ends_a_pause() -> None:
    transmitter = started(at(100, queue=3), control=FlowControl(EVERY))
    transmitter.receive(PfcFrame.xoff(PEER, [3]).encode(), 0)
    start = transmitter.next()
    assert start is not None and start.at_ps == 65535 * QUANTUM_PS
    transmitter.receive(PfcFrame.xon(PEER, [3]).encode(), 100 * QUANTUM_PS)
    transmitter.receive(PfcFrame.xoff(PEER, [3], 50).encode(), 101 * QUANTUM_PS)
    assert times(transmitter, 2) == [151 * QUANTUM_PS, 151 * QUANTUM_PS + FULL_PS]


@pytest.mark.parametrize("delay", [0, 10, 90])
def test_pfc_delay_is_how_long_the_port_goes_on(delay: int) -> None:
    transmitter = started(at(100, queue=3), control=FlowControl(EVERY, delay))
    transmitter.receive(PfcFrame.xoff(PEER, [3], 100).encode(), 0)
    found = times(transmitter, 200)
    before = [at_ps for at_ps in found if at_ps < 100 * QUANTUM_PS]
    assert len(before) == -(-delay * QUANTUM_PS // FULL_PS)
    assert found[len(before)] == 100 * QUANTUM_PS


def test_classes_map_to_queues() -> None:
    control = FlowControl((0, 0, 0, 0, 0, 2, 0, 0))
    transmitter = started(at(100, queue=2), control=control)
    transmitter.receive(PfcFrame.xoff(PEER, [2, 3, 4], 100).encode(), 0)
    assert times(transmitter, 1) == [0]
    transmitter.receive(PfcFrame.xoff(PEER, [5], 100).encode(), 0)
    assert times(transmitter, 1) == [100 * QUANTUM_PS]


def test_pause_stops_all_queues_where_802_3x_is_configured_and_none_elsewhere() -> None:
    pause = PauseFrame(PEER, 50).encode()
    for control, first in ((FlowControl(()), 50 * QUANTUM_PS), (FlowControl(EVERY), 0), (None, 0)):
        transmitter = started(at(100, queue=6), control=control)
        transmitter.receive(pause, 0)
        assert times(transmitter, 1) == [first]


@pytest.mark.parametrize("control", [FlowControl(EVERY), FlowControl(())])
def test_pauses_that_a_port_sends_are_stopped_by_none(control: FlowControl) -> None:
    transmitter = started({"packet": [{"choice": "pfcpause", "pfcpause": {}}], "rate": {"pps": 10}}, control=control)
    transmitter.receive(PfcFrame.xoff(PEER, range(8)).encode(), 0)
    transmitter.receive(PauseFrame(PEER, 65535).encode(), 0)
    assert times(transmitter, 2) == [0, 10**11]


def test_frames_that_are_no_pauses_change_nothing() -> None:
    transmitter = started(at(100), control=FlowControl(EVERY))
    for frame in (b"", PfcFrame.xoff(PEER, [0]).encode()[:20], bytes(60)):
        transmitter.receive(frame, 0)
    assert (times(transmitter, 1), transmitter.received_pauses) == ([0], 0)


def test_another_rate_holds_from_the_next_frame_on() -> None:
    transmitter = started(at(10))
    assert times(transmitter, 2) == [0, 10 * FULL_PS]
    (stream,) = transmitter.streams
    (faster,) = flows(at(50, size={"fixed": 148}))
    stream.change(faster)
    assert times(transmitter, 3) == [20 * FULL_PS, 24 * FULL_PS, 28 * FULL_PS]
