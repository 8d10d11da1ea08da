"""The controller under attack: damaged input for its doors, and a soak with hostile clients.

    python bench/controller.py fuzz [--count N] [--seed S] [DOOR ...]
    python bench/controller.py soak [--seconds N] [--hostile N] [--library os-ken]
    python bench/controller.py policies

`fuzz` throws N inputs (20 000; 10 000 000 take some hours) at each door, takes the CPU time of each, and ends with 1 if
one took 50 ms or memory grew. `soak` runs the controller as a process, with four routers, an operator who asks and
changes all the time, and hostile clients at all doors, on loopback; it ends with 1 if the operator's 99th percentile is
not under 100 ms, or a session of a router was lost. Both libraries have to be installed for their option. `policies`
takes the time of one POST while there are 1, 100, 500 and 1000 policies.
"""

from __future__ import annotations

import argparse
import gc
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.fuzz_controller import DOORS, MS, TOKEN, Door, run
from tests.soak_controller import Soak

MOST_NS = 50 * MS
MOST_GROWTH_KIB = 20_000
WARM = 5000
"""The number of inputs before the first look at memory: histories and caches fill until then."""


def fuzz(name: str, count: int, seed: int) -> bool:
    """Return True if each input was in time and memory did not grow."""
    door: Door = DOORS[name](seed)
    slowest = 0

    def measured(act: Callable[[], None]) -> None:
        nonlocal slowest
        begun = time.thread_time_ns()
        try:
            act()
        finally:
            slowest = max(slowest, time.thread_time_ns() - begun)

    run(door, min(WARM, count), measured)
    gc.collect()
    before, begun = memory_kib(), time.monotonic()
    run(door, count - min(WARM, count), measured)
    gc.collect()
    grown = memory_kib() - before
    for outcome, times in sorted(door.outcomes.items()):
        print(f"{times:12} {outcome}")
    print(f"{name}: {count} inputs in {time.monotonic() - begun:.0f} s, slowest {slowest / MS:.1f} ms, {grown:+} KiB")
    return slowest < MOST_NS and grown < MOST_GROWTH_KIB


def memory_kib() -> int:
    """Return the memory of this process now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() // 1024


def policies() -> None:
    import json

    from testbed.rest.http import Request
    from tests.fake_routers import VPN
    from tests.fuzz_controller import RestDoor

    door = RestDoor(1)
    headers = {"host": "localhost", "authorization": f"Bearer {TOKEN}", "content-type": "application/json"}

    def post(path: str, body: object) -> float:
        begun = time.thread_time_ns()
        response = door.north.handle(Request("POST", path, (), headers, json.dumps(body).encode()), door.now_ns)
        door.south.step(door.now_ns)
        took = (time.thread_time_ns() - begun) / MS
        assert response.status == 201, response.body
        door.settle()
        return took

    post("/vpns", VPN)
    site = door.manager.vpns["red"].site("R3")
    assert site is not None
    took = []
    for colour in range(1001, 2002):
        took.append(post("/policies", {"headend": "R1", "colour": colour, "endpoint": "R3", "service": str(site.sid)}))
        if len(took) in (20, 100, 500, 1000):
            print(f"{len(took):5} policies: a POST takes {median(took[-20:]):.2f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description="The controller under attack.")
    what = parser.add_subparsers(dest="what", required=True)
    damaged = what.add_parser("fuzz")
    damaged.add_argument("doors", nargs="*", metavar="DOOR", help=", ".join(DOORS))
    damaged.add_argument("--count", type=int, default=20_000, metavar="N")
    damaged.add_argument("--seed", type=int, default=1)
    soaking = what.add_parser("soak")
    soaking.add_argument("--seconds", type=float, default=600)
    soaking.add_argument("--hostile", type=int, default=200)
    soaking.add_argument("--library", default="os-ken")
    what.add_parser("policies")
    options = parser.parse_args()
    if options.what == "policies":
        policies()
    elif options.what == "fuzz":
        if unknown := set(options.doors) - DOORS.keys():
            parser.error(f"there is no door {', '.join(sorted(unknown))}; there are {', '.join(DOORS)}")
        held = [fuzz(name, options.count, options.seed) for name in options.doors or DOORS]
        sys.exit(0 if all(held) else "an input took 50 ms or more, or memory grew")
    else:
        with Soak(options.library, options.hostile) as soak:
            soak.run(options.seconds)
        print(soak.text())
        sys.exit(0 if soak.held(100) else "the operator waited too long, or a router's session was lost")


if __name__ == "__main__":
    main()
