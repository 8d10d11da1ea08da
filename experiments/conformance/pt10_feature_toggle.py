"""PT10: trimming turned on and off again and again."""

from experiments.conformance._case import Bench, Control, case
from experiments.conformance._trimming import trimmed, trims, without_trimming

WORKS = "frames for a full queue arrive trimmed: at first, and after each time"
TOGGLES = 10


@case(ports=3, tables=trims, timeout="300s", control=Control("the action drop", without_trimming, fails=[WORKS]))
def pt10_feature_toggle(bench: Bench) -> None:
    """packet_discard_action goes from trim to drop and back ten times: with trim frames are trimmed, with drop none."""
    with trimmed(bench) as on:
        priority = on.lossy[0]
        profile = bench.tables.queue_profiles[bench.port_of("h3"), on.queue(priority)]
        works, stays_off, refused = [on.works("h3", priority)], [], []
        for _ in range(TOGGLES):
            refused.append(on.configure(f"mmu -p {profile} -t off"))
            stays_off.append(on.works("h3", priority))
            if not bench.is_control:
                refused.append(on.configure(f"mmu -p {profile} -t on"))
            works.append(on.works("h3", priority))
        dead = on.fabric.snapshot(on.fabric.port(on.port("h3")).node.name)["now_ns"] == 0
    bench.claim(WORKS, works, equals=[True] * (TOGGLES + 1))
    bench.claim("with drop they do", stays_off, equals=[False] * TOGGLES)
    bench.claim("commands that were refused", [text for text in refused if text], equals=[])
    bench.claim("the switch's agent has died", dead, equals=False)
