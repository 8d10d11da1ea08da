"""The two engines in virtual time on the same loads, in one run and in turns.

    ./xoff test --unit && python bench/engines.py

A row is packet-hops per wall second of `um` over those of `vm`. Start-up does not count: of each load there is a short
and a long run, and what the long one has beyond the short one is measured. The last rows are start-up itself.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.dataplane import HOPS, Load, run, speeds
from testbed.lab import engine
from testbed.lab.engine import Kind, Ready

LOADS: dict[str, tuple[int, int]] = {
    "incast 2:1, lines of 100 Mb/s": (2, 100),
    "incast 2:1, lines of 500 Mb/s": (2, 20),
    "incast 8:1, lines of 1 Gb/s": (8, 10),
}
"""Hosts and scale."""
LEAST = 10


def main() -> int:
    engines = [engine.prepare(kind, print) for kind in (Kind.VM, Kind.UM)]
    reached = True
    for name, (hosts, scale) in LOADS.items():
        slow, fast = speeds(*(_incast(ready, hosts, scale) for ready in engines))
        hops = [speed.more["frames"] * HOPS / speed.wall_s for speed in (slow, fast)]
        ratio = hops[1] / hops[0]
        reached = reached and ratio >= LEAST
        print(f"{name}: vm {hops[0]:.0f}, um {hops[1]:.0f} packet-hops per wall second; um : vm {ratio:.1f}")
        print(f"   frames lost: vm {slow.long['lost']:.0f}, um {fast.long['lost']:.0f}")
    slow, fast = speeds(*(_tcp(ready) for ready in engines))
    hops = [speed.more["frames on lines"] / speed.wall_s for speed in (slow, fast)]
    print(f"TCP: vm {hops[0]:.0f}, um {hops[1]:.0f} packet-hops per wall second; um : vm {hops[1] / hops[0]:.1f}")
    for ready in engines:
        walls = sorted(run(ready, "incast", frames=20, hosts=2, scale=100).times.wall_s for _ in range(3))
        print(
            f"{ready.kind}: an incast of 40 frames takes {walls[0]:.2f} s from the start of the machine to the result"
        )
    print(f"um : vm is to be at least {LEAST} for each incast: {'✓' if reached else '✗'}")
    return 0 if reached else 1


def _incast(ready: Ready, hosts: int, scale: int) -> Load:
    short, long = ({"frames": frames // hosts} for frames in (8000, 40000))
    return Load(ready, "incast", short, long, {"hosts": hosts, "scale": scale, "queues_only": False})


def _tcp(ready: Ready) -> Load:
    return Load(ready, "tcp", {"seconds": 1}, {"seconds": 5}, {"joined": True, "queues_only": False})


if __name__ == "__main__":
    sys.exit(main())
