"""ECN that marks in one step, as DCTCP requires: no packet below the threshold, each one from it on."""

from typing import Any

from experiments.congestion._held import LINE, Held, Marking, found
from xoff import Ecn, EcnCurve, Run, Size, experiment, network

FRAME = Size("1514B")
SHORT, THRESHOLD, LIMIT = 10, 20, 40
"""Lengths of the queue, in frames."""
HELD = 20
"""Frames of each kind that find the queue at a length."""
OVERFLOWING = 30
"""Frames that are sent too many: more than there is room for."""
KINDS = tuple(Ecn)
MARKABLE = (Ecn.ECT_0, Ecn.ECT_1, Ecn.CE)


@experiment(timeout="60s")
def ecn_step(run: Run) -> None:
    """A queue is held at known lengths: below 20 frames nothing happens, from 20 on every packet is marked.

    Packets with all four values of the ECN field take part. Those that cannot be marked are dropped instead; what finds
    the queue at its limit of 40 frames is dropped, whatever it is. The control case is the same queue without ECN.
    """
    reports = _lengths(run, EcnCurve.step(FRAME * THRESHOLD, FRAME * LIMIT))
    for waiting in (SHORT, THRESHOLD - 1):
        for kind in KINDS:
            _claim(run, f"{waiting} waiting, {kind.name}", reports[f"{kind.name} at {waiting}"], waiting, kind)
    for kind in MARKABLE:
        _claim(run, f"{THRESHOLD} waiting, {kind.name}", reports[f"{kind.name} at {THRESHOLD}"], THRESHOLD, Ecn.CE)
    run.claim(f"{THRESHOLD} waiting, NOT_ECT: arrived", reports["NOT_ECT on top"].received, equals=0)
    full = reports["full, h1"].lost + reports["full, h2"].lost
    # Each frame that leaves makes room for one: the queue grows by one less than there is room for, then one of two is
    # lost in each frame time.
    run.claim("lost at the limit", full, equals=OVERFLOWING - (LIMIT - THRESHOLD - 1))

    reports = _lengths(run, None)
    for kind in KINDS:
        _claim(run, f"without ECN, {kind.name}", reports[f"{kind.name} at {THRESHOLD}"], THRESHOLD, kind)


def _lengths(run: Run, curve: EcnCurve | None) -> dict[str, Any]:
    """Return the report of the packets of each kind at each length."""
    with network(Marking(curve)) as net:
        held = Held(net)
        length = 0
        for next_length in (SHORT, THRESHOLD - 1, THRESHOLD):
            held.grow(f"to {next_length}", next_length - length)
            length = next_length
            for kind in KINDS:
                if curve is None or length < THRESHOLD or kind is not Ecn.NOT_ECT:
                    held.hold(f"{kind.name} at {length}", HELD, kind)
        held.beside("NOT_ECT on top", HELD // 2, Ecn.NOT_ECT, LINE // 4)  # these do not keep a queue long
        held.hold("below that", HELD * 2)
        held.grow("full", OVERFLOWING)
        reports = held.run()
        cells = sum(sum(net.fabric.group(port, 3).used) for port in ("s1-eth1", "s1-eth2"))
        run.claim(f"{'with' if curve else 'without'} ECN: cells still held in the end", cells, equals=0)
    return reports


def _claim(run: Run, name: str, report: Any, waiting: int, arrives_as: Ecn) -> None:
    """Claim that all frames of a step arrived with this field, and found the queue as long as planned."""
    run.claim(f"{name}: found waiting", found(report), equals=waiting)
    run.claim(f"{name}: arrived, by ECN field", report.ecn, equals=tuple(HELD * (kind is arrives_as) for kind in KINDS))
