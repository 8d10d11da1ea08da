"""What the lossless data plane costs and how fast its agents are.

    ./xoff test --unit && python bench/dataplane.py

Times inside the lab are virtual and the same everywhere. The speed of the lab is wall time: it is taken from the
difference of a short and a long run, so that start-up does not count, and of each the quickest of three, for whatever
else the machine does only makes it slower. The 15 000 are a prototype's, without port program and agents: 4 s of TCP at
100 Mb/s over two hops, with segments joined, in 6.9 s.
"""

from __future__ import annotations

import resource
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from testbed import lab
from testbed.lab import definition, engine
from testbed.lab.engine import Ready
from testbed.lab.result import Result, Status

JOBS = Path(__file__).parent / "jobs" / "dataplane.py"
HOPS = 2
"""Ports whose queues a frame of the incast passes: its host's, and the switch's."""


def main() -> int:
    ready = engine.prepare(engine.Kind.VM, print)
    rows: list[tuple[str, str, str, bool | None]] = []

    def row(name: str, value: float, unit: str, *, at_most: float | None = None, at_least: float | None = None) -> None:
        wanted = f"at most {at_most:g} {unit}" if at_most is not None else ""
        wanted = f"at least {at_least:g} {unit}" if at_least is not None else wanted
        ok = None if not wanted else value <= (at_most or value) and value >= (at_least or value)
        rows.append((name, f"{value:.2f} {unit}".strip(), wanted, ok))

    found = figures(run(ready, "reaction"))
    for kind, said in (
        ("frame_sent", "threshold passed -> PFC frame sent"),
        ("queue_stopped", "PFC frame -> queue stopped"),
    ):
        row(f"{said}: samples", found[f"{kind}: samples"], "", at_least=1000)
        row(f"{said}: p50", found[f"{kind}: p50"], "us", at_most=60)
        row(f"{said}: p90", found[f"{kind}: p90"], "us")
        row(f"{said}: p99", found[f"{kind}: p99"], "us", at_most=150)
        row(f"{said}: worst", found[f"{kind}: worst"], "us")
    row("frames lost meanwhile", found["lost"], "", at_most=0)

    found = figures(run(ready, "cost"))
    bare, whole = found["queues only: us per frame"], found["everything: us per frame"]
    row("a frame through host and switch, queues only", bare, "us")
    row("the same with port program and agents", whole, "us")
    row("throughput with : without them", bare / whole, "", at_least=0.95)

    found = figures(run(ready, "start"))
    row("start of 8 hosts and 2 switches, plain Mininet", found["plain: start"], "ms")
    row("the same, lossless", found["lossless: start"], "ms")
    row("lossless : plain", found["lossless: start"] / found["plain: start"], "", at_most=1.5)

    for said, hosts, scale, least in (
        ("2:1, lines of 1 Gb/s: the lab's CPU is always busy", 2, 10, 15_000),
        ("8:1, the same", 8, 10, None),
        ("2:1, lines of 100 Mb/s: each frame waits for timers", 2, 100, None),
    ):
        (few, few_cpu), (many, many_cpu) = (
            timed(ready, "incast", frames=frames // hosts, hosts=hosts, scale=scale) for frames in (8000, 40000)
        )
        frames = figures(many)["frames"] - figures(few)["frames"]
        wall = many.times.wall_s - few.times.wall_s
        virtual = (many.times.virtual_ns - few.times.virtual_ns) / 1e9
        row(f"saturated incast, {said}: packet-hops per wall second", frames * HOPS / wall, "", at_least=least)
        row("   frames lost", figures(many)["lost"], "", at_most=0)
        row("   wall time per frame", wall / frames * 1e6, "us")
        row("   QEMU's CPU time per frame", (many_cpu - few_cpu) / frames * 1e6, "us")
        row("   virtual time per frame", virtual / frames * 1e6, "us")
        row("   timer interrupts per frame", figures(many)["interrupts per frame"], "")
        row("   context switches per frame", figures(many)["context switches per frame"], "")

    for said, joined, least in (("frame by frame", False, None), ("segments joined (GSO)", True, 15_000)):
        (few, few_cpu), (many, many_cpu) = (timed(ready, "tcp", seconds=seconds, joined=joined) for seconds in (1, 5))
        hops, queued = (figures(many)[name] - figures(few)[name] for name in ("frames on lines", "packet-hops"))
        wall = many.times.wall_s - few.times.wall_s
        rate = f"4 s of TCP at 100 Mb/s over two hops, {said}: packet-hops per wall second"
        row(rate, hops / wall, "", at_least=least)
        row("   wall time", wall, "s")
        row("   QEMU's CPU time", many_cpu - few_cpu, "s")
        row("   packet-hops, data and acknowledgements", hops, "")
        row("   what queues saw of them", queued, "")
        row("   goodput", figures(many)["goodput"], "Mb/s")

    width = max(len(name) for name, *_ in rows)
    for name, value, wanted, ok in rows:
        mark = {None: " ", True: "✓", False: "✗"}[ok]
        print(f"{mark} {name:<{width}}  {value:>14}  {wanted}")
    return 0 if all(ok is not False for *_, ok in rows) else 1


def run(ready: Ready, name: str, **parameters: object) -> Result:
    given = {key: str(value) for key, value in parameters.items()}
    with tempfile.TemporaryDirectory() as out:
        result = lab.run(definition.load_file(JOBS, name), parameters=given, on=ready, out=out)
    if result.status is not Status.OK:
        sys.exit(f"{name}: {result.reason}")
    return result


def timed(ready: Ready, name: str, **parameters: object) -> tuple[Result, float]:
    """The quickest of three runs, and the CPU time that QEMU took for it, in seconds."""
    found = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        result = run(ready, name, **parameters)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        found.append((result, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime))
    return min(found, key=lambda one: one[0].times.wall_s)


def figures(result: Result) -> dict[str, float]:
    return {figure.name: float(figure.value) for figure in result.figures}


if __name__ == "__main__":
    sys.exit(main())
