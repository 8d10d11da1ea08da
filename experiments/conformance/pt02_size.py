"""PT02: the size of trimmed packets."""

from experiments.conformance._case import Bench, Control, case
from experiments.conformance._trimming import (
    DSCP,
    FRAMES,
    JUMBO,
    KINDS,
    SIZE,
    TTL,
    trimmed,
    trims,
    without_trimming,
)

_JUMBO_SIZE = 4084
CAME = "frames of each kind that arrived with 256 octets"


@case(
    ports=3,
    tables=trims,
    timeout="240s",
    control=Control("the action drop", without_trimming, fails=[CAME, "trimmed, by show queue counters"]),
)
def pt02_size(bench: Bench) -> None:
    """Frames of 1500 octets for a full queue arrive with 256, those of 5000 with 4084, and queue counters say so."""
    with trimmed(bench) as on:
        priority = on.lossy[0]
        on.congest("h3", priority)
        before = int(on.queue_counters("h3", priority)["trimpacket"])
        came = {}
        for kind in KINDS:
            on.send(on.frame("h3", priority, kind=kind))
            came[kind] = on.arrived("h3")
        counted = on.queue_counters("h3", priority)
        rests = on.queue_counters("h3", 6)
        on.configure(f"switch-trimming global --size {_JUMBO_SIZE}")
        on.send(on.frame("h3", priority, JUMBO), 20)
        jumbo = on.arrived("h3")
        on.relieve("h3", priority)
    exact = {kind: sum((one.octets, one.ttl) == (SIZE, TTL) for one in found) for kind, found in came.items()}
    bench.claim(CAME, exact, equals=dict.fromkeys(KINDS, FRAMES))
    bench.claim("trimmed, by show queue counters", int(counted["trimpacket"]) - before, equals=FRAMES * len(KINDS))
    bench.claim("drops beside trimmed frames", int(counted["droppacket"]) - int(counted["trimpacket"]), equals=0)
    bench.claim("octets of each rest, by show queue counters",
                int(rests["totalbytes"]) / max(1, int(rests["totalpacket"])), equals=SIZE)  # fmt: skip
    bench.claim("DSCPs of rests", sorted({one.dscp for found in came.values() for one in found}), equals=[DSCP])
    bench.claim("octets of frames of 5000", [one.octets for one in jumbo], equals=[_JUMBO_SIZE] * 20)
