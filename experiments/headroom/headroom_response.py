"""The far end's own response is part of the delay: rate x delay more of headroom, measured without configuration."""

from dataclasses import replace

from experiments.headroom._headroom import FRAME, FRAME_CELLS, FRAME_TIME, Sender, able, bursts
from xoff import Buffer, Duration, Port, Run, Static, experiment

SLOWER = ("0s", "2us", "5us", "12us")
"""The time by which each far end obeys PAUSE later. A frame takes 1.23 us."""
APART_NS = 20
"""The difference that the far ends' own work makes between two round trips, at most."""
BELOW = 10
BURSTS = 2


@experiment(timeout="120s")
def headroom_response(run: Run) -> None:
    """Four hosts on equal cables obey PAUSE later and later; each port measures that, and keeps rate x delay more.

    With measured headroom nothing is lost. The control case is one headroom for all ports, the one that was measured
    for the host that responds at once: the others lose what their delay is worth, exact to the frame.
    """
    delays = [Duration(text) for text in SLOWER]
    cable = FRAME_TIME * 5 // 4  # with the agents' own time the first far end needs no more than two and a half frames
    buffer = Buffer(total=8000, xoff=Static(BELOW * FRAME_CELLS), xon_offset=FRAME_CELLS, shortest=FRAME.bytes + 4)
    senders = [Sender(cable, able(replace(Port(), obeys_after=delay))) for delay in delays]
    measured = bursts(run, senders, able(), replace(buffer, headroom=800), BELOW, times=BURSTS)
    quick = measured[0]
    for delay, seen in zip(delays, measured, strict=True):
        name = f"{delay} later"
        assert seen.median is not None and quick.median is not None
        more_ns = (seen.median.ps - quick.median.ps) / 1000
        run.figure(f"{name}: round trips, median and longest", [seen.median, seen.round_trip])
        run.figure(f"{name}: cells of headroom, frames that lay in it", [seen.headroom, seen.used])
        run.claim(f"{name}: more in the round trip, in ns", more_ns,
                  at_least=delay.ns - APART_NS, at_most=delay.ns + APART_NS)  # fmt: skip
        # In frames, 1538 octets on the wire. Headroom is of the longest of 16 samples, which may be a little more.
        due = delay / FRAME_TIME
        frames = (seen.headroom - quick.headroom) / FRAME_CELLS
        run.claim(f"{name}: more headroom, in frames", round(frames, 2),
                  at_least=round(float(due) - 0.25, 2), at_most=round(float(due) + 0.75, 2))  # fmt: skip
        run.claim(f"{name}: pauses", seen.pauses, at_least=BURSTS)
        run.claim(f"{name}: lost", seen.lost, equals=0)
    senders = [Sender(cable, replace(Port(), obeys_after=delay)) for delay in delays]
    fixed = bursts(run, senders, Port(), replace(buffer, headroom=quick.headroom), BELOW, times=BURSTS)
    for delay, seen, needed in zip(delays, fixed, (seen.used for seen in measured), strict=True):
        short = max(0, needed - quick.headroom // FRAME_CELLS)
        run.claim(f"{delay} later, the headroom of the first for all: lost", seen.lost, equals=short * BURSTS)
    run.claim("the last, with the headroom of the first: lost", fixed[-1].lost, at_least=BURSTS)
