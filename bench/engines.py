"""The two engines in virtual time on the same loads, in one run and in turns.

    ./xoff test --unit && python bench/engines.py

A row is packet-hops per wall second of `um` over those of `vm`. Start-up does not count: of each load there is a short
and a long run, and what the long one has beyond the short one is measured. The last rows are start-up itself.

Only the same work is compared. In `vm` the CPU's work takes the lab's time, and a lab that is short of CPU sends fewer
frames than its lines carry: its senders take turns, nothing queues and nothing pauses, and a frame without timers and
pauses costs the emulator little. So each load is compared at the fastest of some rates that `vm` carries within
fidelity, and the rates that it does not carry are shown with what was different.

Beside them is the arrangement of the prototype, with queues alone: neither port program nor agents, so nothing pauses.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.dataplane import HOPS, Load, figures, run, speeds
from testbed.experiment.fidelity import Verdict
from testbed.lab.engines import table
from testbed.lab.engines.engine import PreparedEngine

LOADS: dict[str, tuple[int, tuple[int, ...]]] = {
    "incast 2:1 at 100 Mb/s": (2, (100,)),
    "incast 2:1 at most 500 Mb/s": (2, (20, 25, 40, 50)),
    "incast 8:1": (8, (10, 50, 100, 200, 400)),
}
"""Hosts, and scales of lines of 10 Gb/s to try, the fastest first."""
LEAST = 10
SHORT, LONG = 8000, 40000
_FRAME_BITS = 8 * 1538
"""The bits of the longest frame, with all that it takes on a line."""
_JUDGED_NS = 300_000_000
"""The least time in ns that the bottleneck is busy where fidelity is judged, by windows of 100 ms."""


def main() -> int:
    engines = [table.prepare(kind, print) for kind in ("vm", "um")]
    reached = True
    for name, (hosts, scales) in LOADS.items():
        scale = next((scale for scale in scales if _same_work(engines, name, hosts, scale)), None)
        if scale is None:
            print(f"{name}: vm carries none of these rates within fidelity")
            reached = False
            continue
        slow, fast = speeds(*(_incast(ready, hosts, scale) for ready in engines))
        hops = [speed.more["frames"] * HOPS / speed.wall_s for speed in (slow, fast)]
        ratio = hops[1] / hops[0]
        reached = reached and ratio >= LEAST
        print(f"{name}, scale {scale}: vm {hops[0]:.0f}, um {hops[1]:.0f} packet-hops per wall second; {ratio:.1f}")
        print(f"   frames lost: vm {slow.long['lost']:.0f}, um {fast.long['lost']:.0f}")
    slow, fast = speeds(*(_tcp(ready) for ready in engines))
    hops = [speed.more["frames on lines"] / speed.wall_s for speed in (slow, fast)]
    reached = reached and hops[1] / hops[0] >= LEAST
    print(f"TCP: vm {hops[0]:.0f}, um {hops[1]:.0f} packet-hops per wall second; {hops[1] / hops[0]:.1f}")
    slow, fast = speeds(*(_incast(ready, hosts=2, scale=100, queues_only=True) for ready in engines))
    hops = [speed.more["frames"] * HOPS / speed.wall_s for speed in (slow, fast)]
    print(f"incast 2:1 at 100 Mb/s, queues alone: vm {hops[0]:.0f}, um {hops[1]:.0f} packet-hops per wall second; "
          f"{hops[1] / hops[0]:.1f}")  # fmt: skip
    for ready in engines:
        walls = sorted(run(ready, "incast", frames=20, hosts=2, scale=100).times.wall_s for _ in range(3))
        print(
            f"{ready.engine}: an incast of 40 frames takes {walls[0]:.2f} s from the start of the machine to the result"
        )
    print(f"um : vm is to be at least {LEAST} for each load: {'✓' if reached else '✗'}")
    return 0 if reached else 1


def _same_work(engines: list[PreparedEngine], name: str, hosts: int, scale: int) -> bool:
    """Check that both engines carry the short load within fidelity, with nothing lost; print what they did if not."""
    same, words = True, []
    for ready in engines:
        frames = max(SHORT, _frames_in(_JUDGED_NS, scale)) // hosts
        result = run(ready, "incast", frames=frames, hosts=hosts, scale=scale, queues_only=False)
        found, verdict = figures(result), result.fidelity.verdict
        same = same and verdict is Verdict.KEPT and not found["lost"]
        words.append(
            f"{ready.engine} {result.fidelity.explained}, {found['pauses']:.0f} pauses, {found['lost']:.0f} lost"
        )
    if not same:
        print(f"{name}, scale {scale}: not compared: {'; '.join(words)}")
    return same


def _frames_in(time_ns: int, scale: int) -> int:
    """Return the number of longest frames that a line of 10 Gb/s on this scale carries in a time of the lab."""
    return time_ns * 10 // scale // _FRAME_BITS


def _incast(ready: PreparedEngine, hosts: int, scale: int, queues_only: bool = False) -> Load:
    short, long = ({"frames": frames // hosts} for frames in (SHORT, LONG))
    return Load(ready, "incast", short, long, {"hosts": hosts, "scale": scale, "queues_only": queues_only})


def _tcp(ready: PreparedEngine) -> Load:
    return Load(ready, "tcp", {"seconds": 1}, {"seconds": 5}, {"joined": True, "queues_only": False})


if __name__ == "__main__":
    sys.exit(main())
