"""Measure what frames and nodes take of a CPU, and write load_costs.json for `testbed.lab.engines.load`.

    python bench/load.py [um] [vm] [check]

On `vm` it is the lab's CPU: a frame of 64 octets goes through one switch and through three. The difference is what a
switch takes, and the rest is the hosts'. Longer frames take hardly more.

On `um` it is the user's CPU: networks that do nothing; and 4:1 incasts of each transport, through one switch and
through three, and on slow lines and on fast ones, a short and a long one each, so that start-up does not count. All in
all it takes some minutes of CPU.

`check` runs a few networks on `um` and shows what they took beside what the costs foresee, scaled as for a user's run.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.cpu import Meter, most_mb
from testbed import lab
from testbed.experiment import definition
from testbed.experiment.demand import Demand
from testbed.lab.engines import load, table
from testbed.lab.engines.engine import PreparedEngine
from testbed.lab.results.result import Result
from testbed.lab.runs.outlook import Forecaster
from testbed.net.traffic.transport import transport_named
from testbed.units import Size

JOBS = Path(__file__).parent / "jobs" / "load.py"
FILE = Path(load.__file__).with_name(load.FILE)
FRAMES = {"udp": (1000, 12_000), "tcp": (1000, 6000), "roce": (500, 4000)}
"""The frames of each sender in the short and the long run."""
SENDERS = 4
FAST, SLOW = 100, 1000
"""Scales of lines of 10 Gb/s."""
_LINE_BPS = 10**10
FEW, MANY, SECONDS = 10, 90, 100
TURNS = 2


class _Boots:
    """The CPU time in s that boots took."""

    last_s, least_s = 0.0, float("inf")

    def take(self, cpu_s: float | None) -> None:
        assert cpu_s
        self.last_s, self.least_s = cpu_s, min(self.least_s, cpu_s)


_BOOTS = _Boots()


def main() -> int:
    chosen = sys.argv[1:] or ["um", "vm", "check"]
    found = json.loads(FILE.read_text())
    for engine, measure in (("um", run_costs), ("vm", frame_costs)):
        if engine in chosen:
            found[engine] = measure(table.prepare(engine, print))
            print(f"{engine}: {json.dumps(found[engine])}")
    FILE.write_text(json.dumps(found, indent=1) + "\n")
    if "check" in chosen:
        check(table.prepare("um", print))
    return 0


def check(ready: PreparedEngine) -> None:
    """Show the CPU time of some runs and the forecast of them, both in times of the run's own boot."""
    costs = load.RunCosts.of("um")
    assert costs is not None
    line_ns = 8 * 10**9 * FAST / _LINE_BPS
    for transport, frames in (("udp", 12_000), ("roce", 4000), ("", 0)):
        if transport:
            nodes, sent = SENDERS + 2, SENDERS * frames
            octets = Size(transport_named(transport).frame).bytes + 24
            demand = Demand(0, int(sent * octets * line_ns), {transport: sent}, {transport: sent}, {transport: SENDERS})
            took = boots(ready, "incast", transport=transport, senders=SENDERS, frames=frames, scale=FAST)
            foreseen = costs.run_s(nodes, demand)
        else:
            nodes = 64 + 4
            took, foreseen = boots(ready, "idle", hosts=64), costs.run_s(nodes)
        print(f"{transport or 'idle'}: {took * costs.boot_s / foreseen:.2f} of the forecast")


def frame_costs(ready: PreparedEngine) -> dict[str, float]:
    """Measure a frame on an engine where work of the CPU takes the lab's time."""
    one, three = (us_per_frame(ready, switches) for switches in (1, 3))
    switch = (three - one) / 2
    return {"host_us": round(one - switch, 1), "switch_us": round(switch, 1)}


def us_per_frame(ready: PreparedEngine, switches: int) -> float:
    (figure,) = (one for one in _run(ready, "cost", switches=switches).figures if one.name == "us per frame")
    return float(figure.value)


def run_costs(ready: PreparedEngine) -> dict[str, object]:
    """Measure runs on an engine where work of the CPU takes none of the lab's time."""
    few_nodes, few_mb = boots(ready, "idle", hosts=FEW), most_mb()
    many_nodes, many_mb = boots(ready, "idle", hosts=MANY), most_mb()
    few_idle = (boots(ready, "idle", hosts=FEW, seconds=SECONDS) - few_nodes) / SECONDS
    many_idle = (boots(ready, "idle", hosts=MANY, seconds=SECONDS) - many_nodes) / SECONDS
    idle = max(0.0, (many_idle - few_idle) / (MANY - FEW))
    node = (many_nodes - few_nodes) / (MANY - FEW)
    second = max(0.0, few_idle - FEW * idle)
    frames = {transport: _frame_costs(ready, transport, second) for transport in FRAMES}
    boot_s = _BOOTS.least_s
    micro = 1e6 * boot_s
    return {
        "boot_s": round(boot_s, 3),
        "job_s": round((few_nodes - FEW * node) * boot_s, 3),
        "node_s": round(node * boot_s, 4),
        "node_mb": round((many_mb - few_mb) / (MANY - FEW), 1),
        "second_us": round(second * micro, 1),
        "idle_us": round(idle * micro, 1),
        "frames": {
            transport: {name: round(cost * micro, 1) for name, cost in costs.items()}
            for transport, costs in frames.items()
        },
    }


def _frame_costs(ready: PreparedEngine, transport: str, second: float) -> dict[str, float]:
    """Return the boots that a frame, a switch on its way and a second of a flow take, by three pairs of runs.

    `second` is what each second of the lab takes anyway.
    """
    few, many = FRAMES[transport]
    more = SENDERS * (many - few)
    frame_s = 8 * (Size(transport_named(transport).frame).bytes + 24) / _LINE_BPS

    def pair(scale: int, switches: int) -> float:
        short, long = (
            boots(ready, "incast", transport=transport, senders=SENDERS, switches=switches, frames=frames, scale=scale)
            for frames in (few, many)
        )
        return long - short - more * frame_s * scale * second

    slow, fast, far = pair(SLOW, 1), pair(FAST, 1), pair(FAST, 3)
    flow_second = max(0.0, (slow - fast) / (more * frame_s * (SLOW - FAST) * SENDERS))
    switch = max(0.0, (far - fast) / 2 / more)
    host = max(0.0, fast / more - frame_s * FAST * SENDERS * flow_second - switch)
    return {"host_us": host, "switch_us": switch, "second_us": flow_second}


def boots(ready: PreparedEngine, name: str, **parameters: object) -> float:
    """Return the CPU time of a run in times of its own boot, the median of some: the same machine can be twice as slow
    a minute later, and a boot is then, too."""
    found = []
    for _ in range(TURNS):
        with closing(Meter()) as meter:
            with mock.patch.object(Forecaster, "booted", _BOOTS.take):
                _run(ready, name, **parameters)
            found.append(meter.read_s() / _BOOTS.last_s)
    print(f"{name} {parameters}: {', '.join(f'{one:.1f}' for one in found)} boots", flush=True)
    return statistics.median(found)


def _run(ready: PreparedEngine, name: str, **parameters: object) -> Result:
    with tempfile.TemporaryDirectory() as out:
        job = definition.load_file(JOBS, name)
        given = {key: str(value) for key, value in parameters.items()}
        result = lab.run(job, parameters=given, on=ready, out=out)
    if not result.passed:
        sys.exit(f"{name} {given}: {result.reason or 'not as claimed'}")
    return result


if __name__ == "__main__":
    sys.exit(main())
