"""A real line to the nanosecond: PFC frames wait for it, and take their time on it.

The rate is 10 Mb/s in the lab, 800 ns for each octet, at a scale of 1000.
"""

from __future__ import annotations

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
    wait_ns = obeyed_ns - (DELAY_NS + PFC_NS + STOPS_NS)
    run.claim("PAUSE is obeyed after its last bit", wait_ns, at_least=0, at_most=3 * TIMER_NS)
    left, noted = _back(run, "ideal")
    pauses = [at for at, octets in left if octets == PFC]
    run.claim("ideal: PAUSE waits", pauses[0] - noted["frame_sent"], at_least=0, at_most=1000)
    obeyed_ns = noted["queue_stopped"] - pauses[0] - (DELAY_NS + STOPS_NS)
    run.claim("ideal: PAUSE is obeyed after its first bit", obeyed_ns, at_least=0, at_most=3 * TIMER_NS)


def _back(run: Run, line: str) -> tuple[list[tuple[int, int]], dict[str, int]]:
    """Return what left the port to the sender, with its time, and when the agents noted what for the first time."""
    from testbed.net.build.network import network
    from testbed.net.fabric.port import Buffer
    from testbed.net.shell.wire import Tap
    from testbed.net.traffic import Flow
    from testbed.switch.buffer.settings import Static
    from topologies.incast import Incast

    buffer = Buffer(5000, xoff=Static(4), xon_offset=0, headroom=1000)
    with (
        network(Incast(1, delay="5us", buffer=buffer, line=line), run) as net,
        Tap(net["s1"], "s1-eth1", outgoing=True) as leaving,
    ):
        net.run(Flow("h1", "r", 3, count=1, frame="1514B"), Flow("r", "h1", 0, count=COUNT, frame="1514B"))
        left = [(at, len(octets)) for at, octets in leaving.arrivals() if len(octets) in (FRAME, PFC)]
        events = net.fabric.events()
    noted: dict[str, int] = {}
    for event in events:
        noted.setdefault(event.kind, event.lab_ns)
    return left, noted
