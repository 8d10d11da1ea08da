"""A port that the kernel serves in between does what one does that its agent serves alone."""

from __future__ import annotations

import os
import struct

import pytest

from testbed.agent import event_log
from testbed.agent.pfc.port import ServedPort
from testbed.frames import Mac
from testbed.frames.mac_control import PfcFrame
from testbed.linux.netlink import qdiscs
from testbed.linux.pfc_device import PRIORITIES, PfcPlan, PfcState, Serves, encoded
from testbed.switch.pfc.settings import PfcSettings, WatchdogSettings
from testbed.switch.pfc.timers import TIMERS
from testbed.switch.pfc.watchdog import Watchdog
from testbed.units import NEVER, Duration, Rate

MAC = Mac.parse("02:00:00:00:00:01")
PEER = Mac.parse("02:00:00:00:00:02")
ENABLED = 3, 4
BOTH = Serves.THRESHOLDS | Serves.FRAMES
WATCHDOG = WatchdogSettings(Duration("10us"), Duration("20us"), Duration("4us"))
DETECTION_NS, PERIOD_NS = 10_000, 4000


def port(watchdog: WatchdogSettings | None = None, timers: list[int] | None = None) -> ServedPort:
    settings = PfcSettings(frozenset(ENABLED), watchdog=watchdog)
    return ServedPort(settings, MAC, Rate("100Gb/s"), timers)


def given(one: ServedPort, serves: Serves = BOTH) -> PfcState:
    one.drain()
    return one.give(serves, held=0, overlaps=False, queues=bytes(1 << queue for queue in range(8)))


def as_the_kernel(state: PfcState, **changes: object) -> PfcState:
    """Return the state as it comes back: through its octets, and with these changes."""
    return PfcState.parse(state.encode())._replace(**changes)  # type: ignore[arg-type]


def row(**at: int) -> tuple[int, ...]:
    return tuple(at.get(f"p{priority}", 0) for priority in range(PRIORITIES))


def test_a_state_survives_its_octets_and_what_is_counted_begins_at_nothing() -> None:
    one = port(WATCHDOG)
    one.receive(PfcFrame.xoff(PEER, ENABLED).encode(), 1000)
    one.congested(1 << 3, 2000)
    state = given(one)
    assert PfcState.parse(state.encode()) == state
    assert (state.paused, state.congested, state.announced, state.active) == (0x18, 0x08, 0x08, 0x18)
    assert state.paused_since_ns[3:5] == (1000, 1000) and state.paused_since_ns[0] == NEVER
    assert (state.detection_ns, state.period_ns, state.polls_at_ns) == (DETECTION_NS, PERIOD_NS, 12_000)
    counted = state._replace(counts=(row(p3=7),) * 6, paused_ns=row(p3=9), began=1)
    assert PfcState.parse(counted.encode()) == state


def test_octets_are_those_of_the_kernels_structure() -> None:
    octets = given(port()).encode()
    assert len(octets) == 440 and octets[1] == BOTH and octets[5] == 0x18
    assert struct.unpack_from("=I", octets, 12) == (0xFFFF,)
    assert octets[16:24] == bytes(1 << queue for queue in range(8))


def test_pauses_that_the_kernel_obeyed_are_counted_and_end_here() -> None:
    alone, served = port(WATCHDOG), port(WATCHDOG)
    xoff, xon = PfcFrame.xoff(PEER, [3]).encode(), PfcFrame.xon(PEER, [3]).encode()
    for frame, at_ns in ((xoff, 1000), (xon, 6000), (xoff, 9000)):
        alone.receive(frame, at_ns)
    state = given(served)
    counts = (row(p3=2), row(p3=1), *[row()] * 4)
    served.take_back(
        as_the_kernel(
            state, paused=0x08, began=0x08, since_ns=row(p3=9000), polls_at_ns=12_000, counts=counts,
            paused_since_ns=tuple(9000 if priority == 3 else NEVER for priority in range(8)), paused_ns=row(p3=5000),
        )
    )  # fmt: skip
    # The kernel writes timers, too, and they are in memory that both have.
    for number in (3, 9):
        served._timers[number] = alone._timers[number]
    assert served.snapshot(10_000) == alone.snapshot(10_000)
    assert served.expire(12_000) == alone.expire(12_000)
    assert served.expire(20_000) == alone.expire(20_000) == (0, 0, 0x08)  # a storm since 9000
    assert served.drain() == alone.drain()[-1:]


def test_congestion_that_the_kernel_announced_is_repeated_here() -> None:
    timers = [NEVER] * TIMERS
    alone, served = port(), port(timers=timers)
    alone.congested(0x10, 1000)
    state = given(served)
    timers[8] = alone._timers[8]
    counts = (*[row()] * 2, row(p4=1), row(), row(p4=1), row())
    served.take_back(as_the_kernel(state, congested=0x10, announced=0x10, counts=counts))
    assert served.snapshot(2000) == alone.snapshot(2000)
    due_ns = timers[8]
    assert served.expire(due_ns) == alone.expire(due_ns) == (0, 0x10, 0)
    assert served.refreshed(0x10, due_ns) == alone.refreshed(0x10, due_ns)


def test_frames_are_the_agents_where_the_kernel_does_not_know_the_rules() -> None:
    class Other(Watchdog):
        pass

    one = port(WATCHDOG)
    one._watchdog = Other(WATCHDOG)
    assert given(one).serves == Serves.THRESHOLDS
    down = port()
    down.link_down(0)
    assert given(down).serves == Serves.THRESHOLDS and given(down).active == 0
    assert given(port(), Serves.FRAMES).serves == Serves.FRAMES


def test_a_port_is_encoded_with_the_places_of_its_plugs() -> None:
    requests = qdiscs.pausing(4100, 0x1_0003, True) + qdiscs.pausing(4100, 0x1_0004, True)
    assert qdiscs.paused_places(requests) == [0x1_0003, 0x1_0004]
    places = [qdiscs.paused_places(requests)] * 8
    timers = memoryview(bytearray(80)).cast("q")
    plan = PfcPlan(5, 4100, 7, MAC, places, 1, 2, 3, 4, 10**11, timers)
    octets = encoded(plan)
    assert len(octets) == 200 and struct.unpack_from("=III", octets) == (5, 4100, 7)
    assert struct.unpack_from("=4I", octets, 20) == (0x1_0003, 0x1_0004, 0, 0)
    with pytest.raises(ValueError, match="queue 0 of slot 5 has 5 plugs"):
        encoded(PfcPlan(5, 4100, 7, MAC, [[1] * 5] * 8, 1, 2, 3, 4, 10**11, timers))


def test_a_log_has_room_for_somebody_else_and_goes_on_behind_him() -> None:
    file = event_log.new()
    log = event_log.MappedLog(file)
    log.add(1, 2, 3, 4, 5)
    _, end, room = log.room()
    assert end == 2 * event_log.RECORD.size and room == os.fstat(file).st_size
    os.pwrite(file, event_log.RECORD.pack(6, 7, 8, 9, 10), end)
    os.pwrite(file, struct.pack("=Q", end + event_log.RECORD.size), 0)
    log.follow()
    log.add(11, 12, 13, 14, 15)
    assert [record[0] for record in event_log.read(file)] == [1, 6, 11]
    for number in range(43_688):
        log.add(number, 0, 0, 0, 0)
    _, end, room = log.room()  # another part, since what one event leads to would not fit
    assert room == 2 << 20 and room - end > 1 << 19
    os.close(file)
