"""Measure what a frame takes of the lab's CPU on `vm`, and write load_costs.json for `testbed.lab.engines.load`.

    python bench/load.py

A frame of 64 octets through one switch and through three: the difference is what a switch takes, and the rest is the
hosts'. Longer frames take hardly more.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import tempfile

from testbed import lab
from testbed.experiment import definition
from testbed.lab.engines import load, table
from testbed.lab.engines.engine import PreparedEngine

JOBS = Path(__file__).parent / "jobs" / "load.py"
FILE = Path(load.__file__).with_name(load.FILE)


def main() -> int:
    ready = table.prepare("vm", print)
    one, three = (measured(ready, switches) for switches in (1, 3))
    switch = (three - one) / 2
    costs = {"host_us": round(one - switch, 1), "switch_us": round(switch, 1)}
    FILE.write_text(json.dumps({"costs": costs}, indent=1) + "\n")
    print(f"{one:.1f} us through one switch, {three:.1f} us through three: {costs}, in {FILE}")
    return 0


def measured(ready: PreparedEngine, switches: int) -> float:
    with tempfile.TemporaryDirectory() as out:
        job = definition.load_file(JOBS, "cost")
        result = lab.run(job, parameters={"switches": str(switches)}, on=ready, out=out)
    (figure,) = (one for one in result.figures if one.name == "us per frame")
    return float(figure.value)


if __name__ == "__main__":
    sys.exit(main())
