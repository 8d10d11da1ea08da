"""A real line to the nanosecond: PFC frames wait for it and take their time on it, and cells come free with last bits.

The rate is 10 Mb/s in the lab, 800 ns for each octet, at a scale of 1000.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from testbed.lab import Run, experiment
from testbed.switch.pfc.line import Line
from testbed.units import Rate, Size

RATE = Rate("10Mb/s")
FRAME, PFC = 1514, 60
T_NS, PFC_NS = (FRAME + 24) * 800, (PFC + 24) * 800
DELAY_NS = 5_000_000
SENDS_NS, STOPS_NS = 26_000, 40_000
"""From the threshold to PAUSE, and from PAUSE to the stopped queue."""
EARLY_NS = 64
"""By so much a port of `um` may run ahead of its line: the least that htb can be given."""
TIMER_NS = 1
"""The time by which a timer of the kernel is late."""
TAP_NS = 500
"""By so much the times of a tap are later than those of agents: a system call of `um`."""
COUNT = 12


@experiment(timeout="60s")
def test_pfc_frames_wait_for_the_line_and_take_their_time_on_it(run: Run) -> None:
    """Frames go back to the sender that is paused: each leaves when the reference says, PAUSE ahead of those that wait.

    On an ideal line PAUSE leaves at once, in the middle of a frame, and is there with its first bit.
    """
    left, noted = _back(run, "real")
    sent_ns = noted["frame_sent"]
    line = Line(RATE)
    # Frames that come one after the other wait for the line, and PAUSE is ready when the second one waits.
    ready = [(left[0][0], FRAME), (sent_ns, PFC), *[(left[0][0], FRAME)] * (COUNT - 1)]
    wanted = [line.send(at, Size.from_bytes(octets + 4)) for at, octets in ready]
    run.claim("what leaves", [octets for _, octets in left], equals=[octets for _, octets in ready])
    late = [at - first for (at, _), (first, _) in zip(left, wanted, strict=True)]
    run.claim("each leaves when the reference says", late, equals=[0, *[TIMER_NS - EARLY_NS] * COUNT])
    pause_ns = left[1][0]
    run.claim("PAUSE waits", pause_ns - sent_ns, equals=T_NS - EARLY_NS + TIMER_NS - (sent_ns - left[0][0]))
    obeyed_ns = noted["queue_stopped"] - pause_ns
    wait_ns = obeyed_ns + TAP_NS - (DELAY_NS + PFC_NS + STOPS_NS)
    run.claim("PAUSE is obeyed after its last bit", wait_ns, at_least=0, at_most=3 * TIMER_NS)
    left, noted = _back(run, "ideal")
    pauses = [at for at, octets in left if octets == PFC]
    run.claim("ideal: PAUSE waits", pauses[0] - noted["frame_sent"] - TAP_NS, at_least=0, at_most=TIMER_NS)
    obeyed_ns = noted["queue_stopped"] + TAP_NS - pauses[0] - (DELAY_NS + STOPS_NS)
    run.claim("ideal: PAUSE is obeyed after its first bit", obeyed_ns, at_least=0, at_most=3 * TIMER_NS)


def _back(run: Run, line: str) -> tuple[list[tuple[int, int]], dict[str, int]]:
    """Return what left the port to the sender, with its time, and when the agents noted what for the first time."""
    from testbed.net.build.network import network
    from testbed.net.fabric.port import Buffer, Port
    from testbed.net.shell.wire import Tap
    from testbed.net.traffic import Flow
    from testbed.switch.buffer.settings import Static
    from testbed.switch.pfc.settings import PfcSettings
    from topologies.incast import Incast

    buffer = Buffer(5000, xoff=Static(4), xon_offset=0, headroom=1000)
    port = Port(pfc=PfcSettings(enabled=frozenset({3}), send_xon=False))  # so XON does not wait for the line, too
    with (
        network(Incast(1, delay="5us", buffer=buffer, port=port, line=line), run) as net,
        Tap(net["s1"], "s1-eth1", outgoing=True) as leaving,
    ):
        net.run(Flow("h1", "r", 3, count=1, frame="1514B"), Flow("r", "h1", 0, count=COUNT, frame="1514B"))
        left = [(at, len(octets)) for at, octets in leaving.arrivals() if len(octets) in (FRAME, PFC)]
        events = net.fabric.events()
    noted: dict[str, int] = {}
    for event in events:
        noted.setdefault(event.kind, event.lab_ns)
    return left, noted


@experiment(timeout="60s")
def test_the_cells_of_a_frame_come_free_with_its_last_bit(run: Run) -> None:
    """No frame fits below the threshold, so each is a pause, which ends when its cells are free."""
    for line, wanted in (("real", T_NS), ("ideal", 0)):
        lasted, in_use = _pauses(run, line)
        late = [ns - wanted for ns in lasted]
        run.claim(f"{line}: each pause ends when the frame has left", late, equals=[min(wanted, TIMER_NS)] * 3)
        run.claim(f"{line}: cells in use at the end", in_use, equals=0)


def _pauses(run: Run, line: str) -> tuple[list[int], int]:
    """Return how long the group was congested by each of three frames, and the cells that are in use after them."""
    from testbed.net.build.network import network
    from testbed.net.fabric.port import Buffer
    from testbed.net.traffic import Flow
    from testbed.switch.buffer.settings import Static
    from topologies.incast import Incast

    buffer = Buffer(5000, xoff=Static(4), xon_offset=0, headroom=100)
    with network(Incast(1, delay="5us", buffer=buffer, line=line), run) as net:
        for _ in range(3):
            net.run(Flow("h1", "r", 3, count=1, frame="1514B"))
            net.sleep("20us")
        events: list[Any] = [one for one in net.fabric.events() if one.kind in ("congested", "relieved")]
        in_use = sum(net.fabric.group("s1-eth1", 3).used)
    moments = [one.lab_ns for one in events]
    return [later - earlier for earlier, later in list(pairwise(moments))[::2]], in_use
