"""Ten times the distance is ten times the round trip: measured headroom follows, a fixed one is wrong at both ends."""

from dataclasses import replace

from experiments.headroom._headroom import FRAME, FRAME_CELLS, LINE, Sender, able, bursts
from xoff import Buffer, Duration, Port, Run, Static, experiment

DELAYS = ("10us", "100us", "1ms")
"""Delays of the cables, one way: about 2, 20 and 200 km of fibre."""
BELOW = 10


@experiment(timeout="240s")
def headroom_distance(run: Run) -> None:
    """Three cables, each ten times as long as the one before, with measured headroom and with a fixed one.

    The round trips measured, and X = rate x round trip, are ten times as large from one to the next, and nothing is
    lost. The control case is one headroom for all ports, the one measured for the cable in the middle: the long cable
    loses what headroom is short of, and the short one has nine times what it uses.
    """
    delays = [Duration(text) for text in DELAYS]
    threshold = Static(BELOW * FRAME_CELLS)
    buffer = Buffer(total=60_000, xoff=threshold, xon_offset=FRAME_CELLS, shortest=FRAME.bytes + 4, headroom=2_000)
    measured = bursts(run, [Sender(delay, able()) for delay in delays], able(), buffer, BELOW)
    octets = []
    for delay, seen in zip(delays, measured, strict=True):
        assert seen.round_trip is not None
        octets.append(LINE.size_in(seen.round_trip).bytes)
        run.figure(f"{delay}: X in octets, cells of headroom, frames that lay in it",
                   [octets[-1], seen.headroom, seen.used])  # fmt: skip
        run.claim(f"{delay}, measured: pauses", seen.pauses, at_least=1)
        run.claim(f"{delay}, measured: lost", seen.lost, equals=0)
        # A frame each way, the PFC frame, the frame that triggers PAUSE, and the rounding to cells.
        run.claim(f"{delay}, measured: frames of headroom that were not used",
                  round(seen.headroom / FRAME_CELLS - seen.used, 2), at_least=0, at_most=3)  # fmt: skip
    for number in (1, 2):
        times = round(octets[number] / octets[number - 1], 3)
        run.claim(f"X at {delays[number]}: times that at {delays[number - 1]}", times, at_least=9.9, at_most=10.1)
    middle = measured[1].headroom
    fixed = bursts(run, [Sender(delay, Port()) for delay in delays], Port(), replace(buffer, headroom=middle), BELOW)
    short = measured[2].used - middle // FRAME_CELLS
    run.claim(f"{delays[0]}, headroom of {delays[1]}: lost", fixed[0].lost, equals=0)
    run.claim(f"{delays[0]}, headroom of {delays[1]}: times what it used", middle // FRAME_CELLS // fixed[0].used,
              at_least=8)  # fmt: skip
    run.claim(f"{delays[1]}, headroom of {delays[1]}: lost", fixed[1].lost, equals=0)
    run.claim(f"{delays[2]}, headroom of {delays[1]}: lost", fixed[2].lost, equals=short)
    run.claim(f"{delays[2]}, headroom of {delays[1]}: dropped for want of headroom", fixed[2].dropped, equals=short)
