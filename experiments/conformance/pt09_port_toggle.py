"""PT09: trimming while ports go down and come up."""

from experiments.conformance._case import Bench, Control, case
from experiments.conformance._trimming import (
    DSCP,
    FRAMES,
    HOST_DSCP,
    PROFILE,
    SIZE,
    SPINE_DSCP,
    Trimmed,
    asymmetric,
    trimmed,
    trims,
    without_trimming,
)

WORKS = "frames for a full queue arrive trimmed, after each toggle"
TOGGLES = 10


@case(ports=3, tables=trims, timeout="600s", control=Control("the action drop", without_trimming, fails=[WORKS]))
def pt09_port_toggle(bench: Bench) -> None:
    """A port goes down and up ten times, then two ports do: frames are trimmed after each, with each port's DSCP."""
    with trimmed(bench) as on:
        priority = on.lossy[0]
        first = on.works("h3", priority)
        name = next(name for name in bench.tables.profiles if name.startswith(PROFILE))
        profile = bench.tables.queue_profiles.get((bench.port_of("h3"), on.queue(priority)), name)
        on.configure(f"mmu -p {profile} -t off")
        on.congest("h3", priority)
        on.send(on.frame("h3", priority))
        dropped = [len(on.arrived("h3")), on.fabric.dropped() >= FRAMES]
        on.relieve("h3", priority)
        if not bench.is_control:
            on.configure(f"mmu -p {profile} -t on")
        before = on.port_counters("h3")[0]
        works = [_toggled(on, priority, {"h3": DSCP}) for _ in range(TOGGLES)]
        trimmed_frames = on.port_counters("h3")[0] - before
    with trimmed(bench, asymmetric(bench.tables, [bench.port_of("h2"), bench.port_of("h3")])) as on:
        both = [_toggled(on, priority, {"h2": HOST_DSCP, "h3": SPINE_DSCP}) for _ in range(TOGGLES)]
    bench.claim(WORKS, works, equals=[True] * TOGGLES)
    bench.claim("it does before", first, equals=True)
    bench.claim(
        "with packet_discard_action drop: frames that arrived, and drops are counted", dropped, equals=[0, True]
    )
    bench.claim("frames trimmed by show interfaces counters trim, of those sent", trimmed_frames, at_least=10 * TOGGLES)
    bench.claim("asymmetric, at two ports, after each toggle", both, equals=[True] * TOGGLES)


def _toggled(on: Trimmed, priority: int, dscps: dict[str, int]) -> bool:
    """Take ports down and up; do they trim?"""
    for state in ("down", "up"):
        for host in dscps:
            port = on.fabric.port(on.port(host))
            port.node.cmd(f"ip link set {port.name} {state}")
        on.net.sleep(on.bench.paced("10us"))
    return all([on.works(host, priority, dscp, SIZE) for host, dscp in dscps.items()])
