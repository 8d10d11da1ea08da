"""Measure the speed of the SRv6 WAN: PFC out of a tunnel, intent to tunnels, a failure, paths for 1000 routers.

    python bench/srv6.py

Times inside the lab are virtual and the same everywhere. Paths are computed on this machine, in its CPU time.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Mapping
from ipaddress import IPv6Address
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from testbed import lab
from testbed.experiment import definition
from testbed.lab.engines import table
from testbed.lab.engines.engine import PreparedEngine
from testbed.lab.results.result import Status
from testbed.subjects.srv6.controller.paths import Paths
from testbed.subjects.srv6.controller.policy import compute
from testbed.subjects.srv6.controller.topology import Link, Topology
from testbed.subjects.srv6.protocol import behaviours
from testbed.subjects.srv6.protocol.sid import Adjacency, Sid
from testbed.subjects.srv6.session.intents import Dynamic, Key, Policy
from testbed.subjects.srv6.session.messages import RouterPort

ROOT = Path(__file__).parents[1]
ROUTERS, POLICIES = 1000, 200


def main() -> int:
    ready = table.prepare("vm", print)
    found = figures(ready, ROOT / "bench" / "jobs" / "srv6.py", "tunnelled")
    rows: list[tuple[str, float, str, float | None]] = [
        ("PFC frame out of a tunnel -> queue stopped: samples", found["samples"], "", None)
    ]
    rows += [
        (f"   {part}", found[part], "us", 300.0 if part == "p99" else None) for part in ("p50", "p90", "p99", "worst")
    ]
    found = figures(ready, ROOT / "experiments" / "wan" / "wan_controller.py", "wan_controller")
    names = {
        "figure 2, real routers: from the last router to the last tunnel": (
            "ns from the last router to the last tunnel",
            2000.0,
        ),
        "   from a cut cable to the last new list": ("a cut: ns until the last new list", 500.0),
    }
    rows += [(said, found[name] / 1e6, "ms", limit) for said, (name, limit) in names.items()]
    found = figures(ready, ROOT / "tests" / "lab" / "jobs" / "controller.py", "fifty")
    for said, name, limit in (
        (
            "50 routers, 200 policies: from connect to the last tunnel",
            "from connect to the last reverse tunnel, 50 routers",
            10_000.0,
        ),
        ("   from a failure to the last new list", "from a failure to the last new list, 50 routers", 500.0),
    ):
        rows.append((said, found[name] / 1e6, "ms", limit))
    rows += [(said, seconds * 1000, "ms", None) for said, seconds in computation().items()]
    width = max(len(name) for name, *_ in rows)
    for name, value, unit, most in rows:
        mark = " " if most is None else "✓" if value <= most else "✗"
        wanted = "" if most is None else f"at most {most:g} {unit}"
        print(f"{mark} {name:<{width}}  {f'{value:.1f} {unit}':>12}  {wanted}")
    return 0 if all(most is None or value <= most for _, value, _, most in rows) else 1


def figures(ready: PreparedEngine, file: Path, name: str) -> Mapping[str, float]:
    """Numbers of a run: figures, and what claims measured."""
    with tempfile.TemporaryDirectory() as out:
        result = lab.run(definition.load_file(file, name), on=ready, out=out)
    if result.status is not Status.OK:
        sys.exit(f"{name}: {result.reason}")
    found = {figure.name: figure.value for figure in result.figures}
    found |= {claim.name: claim.measured for claim in result.claims}
    return {name: float(value) for name, value in found.items() if isinstance(value, int | float)}


def computation() -> Mapping[str, float]:
    """CPU seconds, for a WAN of random links."""
    rng = random.Random(1)
    topology = Topology()
    names = [f"r{number}" for number in range(ROUTERS)]
    edges = names[::20]
    for name in names:
        topology.add_router(name)
    pairs = {tuple(sorted((number, rng.randrange(number)))) for number in range(1, ROUTERS)}
    while len(pairs) < 2 * ROUTERS:
        pairs.add(tuple(sorted(rng.sample(range(ROUTERS), 2))))
    ports: dict[str, list[str]] = {name: [] for name in names}
    for one, other in sorted(pairs):
        delay = rng.randrange(1_000_000, 10_000_000)
        ends = RouterPort(names[one], f"to{other}"), RouterPort(names[other], f"to{one}")
        topology.put_link(Link(ends, (delay, delay)))
        for end in ends:
            ports[end.router].append(end.interface)
    for number, name in enumerate(names):
        sids = [Sid(name, IPv6Address(f"fd00:a:{number + 1:x}:1::"), behaviours.END)]
        for place, interface in enumerate(ports[name]):
            kinds = (
                [(behaviours.END_X, 0x20), (behaviours.END_X_PFC, 0x1000)]
                if name in edges
                else [(behaviours.END_X, 0x20)]
            )
            for kind, first in kinds:
                adjacency = Adjacency(interface, IPv6Address("fd00:b::ff"))
                address = IPv6Address(f"fd00:a:{number + 1:x}:{first + place:x}::")
                sids.append(Sid(name, address, kind, adjacencies=(adjacency,)))
        if name in edges:
            sids.append(Sid(name, IPv6Address(f"fd00:a:{number + 1:x}:d4::"), behaviours.END_DT46))
        topology.put_sids(name, sids)
    begun = time.process_time()
    paths = Paths(topology)
    paths.shortest(names[0], names[-1])
    first_paths = time.process_time() - begun
    policy_ends = [(a, b) for a in edges for b in edges if a != b][:POLICIES]
    services = {name: IPv6Address(f"fd00:a:{number + 1:x}:d4::") for number, name in enumerate(names)}
    policies = [Policy(Key(a, 100, b), (Dynamic(pfc_ends=True),), services[b]) for a, b in policy_ends]
    begun = time.process_time()
    outcomes = compute(topology, policies)
    all_of_them = time.process_time() - begun
    active = sum(outcome.active is not None for outcome in outcomes)
    if active < len(policies):
        sys.exit(f"{len(policies) - active} of {len(policies)} policies have no path: {outcomes[0].refused}")
    return {
        f"{ROUTERS} routers, {2 * ROUTERS} links: a first path": first_paths,
        f"   {POLICIES} policies with their tunnels": all_of_them,
    }


if __name__ == "__main__":
    sys.exit(main())
