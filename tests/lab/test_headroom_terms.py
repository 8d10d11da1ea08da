"""Each term of the sum of headroom is needed: where PFC frames take their time on the line, one less loses a frame.

The rate is 10 Mb/s in the lab, and a frame of 1514 octets takes T = 1230.4 us on the line. It takes eight cells.
"""

from __future__ import annotations

from testbed.lab import Run, experiment

T_NS = 1_230_400
PFC_NS = 84 * 800
REACTION_NS = 26_000 + 40_000
"""From the threshold to PAUSE, and from PAUSE to the stopped queue."""
CELLS = 8
THRESHOLD = 160
FRAMES = 60


@experiment(timeout="60s")
def test_headroom_that_is_short_by_a_term_loses_what_the_sum_says(run: Run) -> None:
    """A sender at line rate is paused, and what still comes in goes into headroom.

    Its first bit leaves when the queue is not stopped yet, which is two cable delays, the agents' reactions and the PFC
    frame's time after the frame that triggered it; one more frame is on its way to the line already. A frame that has
    just begun on the way back is ahead of PAUSE, and costs one frame more. At the second delay the time of the PFC
    frame alone decides about one frame.
    """
    for delay_ns, ahead in ((5_000_000, False), (5_000_000, True), (4_860_600, False)):
        wanted = _sum(delay_ns, ahead)
        label = f"{delay_ns / 1000:g} us{', a frame ahead' * ahead}"
        for short in (0, 1):
            used, lost, dropped, ahead_ns = _paused(delay_ns, ahead, (wanted - short) * CELLS)
            run.claim(f"{label}, short by {short}: frames in headroom", used, equals=wanted - short)
            run.claim(f"{label}, short by {short}: lost", (lost, dropped), equals=(short, short))
            run.claim(f"{label}, short by {short}: PAUSE waits", ahead_ns, equals=T_NS - 26_001 if ahead else 0)
    run.claim("frames more with a frame ahead", _sum(5_000_000, True) - _sum(5_000_000, False), equals=1)
    without = _sum(4_860_600, False, pfc_ns=0)
    run.claim("frames more for the time of the PFC frame", _sum(4_860_600, False) - without, equals=1)


def _sum(delay_ns: int, ahead: bool, pfc_ns: int = PFC_NS) -> int:
    """Return the frames in headroom: the one that triggers PAUSE, those that leave until it is obeyed, and one more.

    The trigger was on the line, and then in the cable, before it was there; the next one has left T after it.
    """
    waits_ns = T_NS - 26_000 if ahead else 0
    until_ns = T_NS + delay_ns + REACTION_NS + waits_ns + pfc_ns + delay_ns
    early_ns = 22_400  # by so much a host may run ahead of its rate
    return 1 + (until_ns + early_ns) // T_NS + 1


def _paused(delay_ns: int, ahead: bool, headroom: int) -> tuple[int, int, int, int]:
    """Return the frames in headroom, those lost by the flow and by headroom, and how long PAUSE waited for the line."""
    from testbed.frames.mac_control import PfcFrame
    from testbed.net.build.network import network
    from testbed.net.fabric.port import Buffer
    from testbed.net.shell.wire import RawPort, Tap
    from testbed.net.traffic import Flow
    from testbed.switch.buffer.settings import Static
    from testbed.units import Duration
    from topologies.incast import Incast

    buffer = Buffer(5000, xoff=Static(THRESHOLD), xon_offset=0, headroom=headroom)
    delay = Duration.from_ps(delay_ns)  # at a scale of 1000
    topo = Incast(1, delay=delay, buffer=buffer, forwarding="store-and-forward")
    with (
        network(topo) as net,
        RawPort(net["r"], "r-eth0") as raw,
        Tap(net["s1"], "s1-eth1", outgoing=True) as leaving,
    ):
        raw.send(PfcFrame.xoff(net.fabric.port("r-eth0").mac, [3]).encode())
        net.sleep("30us")
        flows = [Flow("h1", "r", 3, count=FRAMES, frame="1514B")]
        if ahead:
            flows.append(Flow("r", "h1", 0, count=FRAMES, frame="1514B"))
        lost = net.run(*flows).lost
        group = net.fabric.group("s1-eth1", 3)
        left = list(leaving.arrivals())
    pause_ns = next(at for at, octets in left if octets[12:14] == b"\x88\x08")
    before = [at for at, octets in left if len(octets) == 1514 and at <= pause_ns]
    waits_ns = max(0, before[-1] + T_NS - pause_ns) if before else 0
    return group.high_water[2] // CELLS, lost, group.dropped_frames[0], waits_ns
