"""A far end that cannot measure: the procedure stops, the configured default stays, and the port reports it."""

from experiments.headroom._headroom import FRAME, FRAME_CELLS, Sender, able, bursts
from xoff import Buffer, Duration, Port, Run, Static, experiment

SHORT, LONG = Duration("1us"), Duration("100us")
"""Delays of the cables, one way: 200 m and 20 km of fibre."""
DEFAULT = 79
"""The cells of headroom that a switch comes with for 10 Gb/s and 5 m."""
BELOW = 10


@experiment(timeout="120s")
def headroom_one_sided(run: Run) -> None:
    """Headroom is measured where both ends can; elsewhere the default stays, and loses frames on a long cable.

    Three hosts on short cables and three on long ones: one announces the capability, one has DCBX without it, one
    does not. Where it is not announced the port reports why it keeps the default: on the short cable nothing is lost by
    that, on the long one what the default is short of. The control case is the host that can, on a like cable.
    """
    hosts = {
        f"{cable}, {kind}": Sender(cable, port)
        for cable in (SHORT, LONG)
        for kind, port in (("able", able()), ("not able", Port().with_dcbx()), ("without DCBX", Port()))
    }
    threshold = Static(BELOW * FRAME_CELLS)
    buffer = Buffer(total=10_000, xoff=threshold, xon_offset=FRAME_CELLS, shortest=FRAME.bytes + 4, headroom=DEFAULT)
    found = dict(zip(hosts, bursts(run, list(hosts.values()), able(), buffer, BELOW), strict=True))
    needed = found[f"{LONG}, able"].used
    for name, seen in found.items():
        port = f"s1-eth{list(found).index(name) + 1}"
        run.figure(f"{name}: status of the port", seen.status)
        if name.endswith(", able"):
            run.claim(f"{name}: headroom was measured", seen.round_trip is not None, equals=True)
            run.claim(f"{name}: lost", seen.lost, equals=0)
            continue
        expected = (
            f"{port}: headroom is not measured, since the peer does not announce it; the configured default stays"
        )
        run.claim(f"{name}: status of the port", seen.status, equals=expected)
        run.claim(f"{name}: cells of headroom", seen.headroom, equals=DEFAULT)
        short = needed - DEFAULT // FRAME_CELLS if name.startswith(str(LONG)) else 0
        run.claim(f"{name}: lost", seen.lost, equals=short)
        run.claim(f"{name}: dropped for want of headroom", seen.dropped, equals=short)
