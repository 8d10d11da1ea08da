"""Measure the set-up of Xoff: download, disk and CPU time of each part, in an empty cache.

    python3 bench/setup_costs.py [--steps "lab image" ...]

Writes testbed/lab/setup_costs.json, from which `xoff` forecasts. Only parts that are named are measured anew; a part
needs those before it, so these are made too. Downloads are what came in meanwhile by the interface to the Internet, so
nothing else may use the network; it ends with 1 where something does. All of it takes some 15 minutes. The file is not
edited by hand: `cpu_s` is CPU time, so a machine with other work gives the same figures.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from testbed.lab.engines.forecast import FILE, Step

ROOT = Path(__file__).parents[1]
REST_S, MOST_AT_REST = 3.0, 200_000

_PREPARE = (
    "from testbed.lab.engines import table; from testbed.lab.image import image; "
    "from testbed.lab.um import disks, kernel; say = print; "
)
_COMMANDS = {
    Step.ENVIRONMENT: [str(ROOT / "xoff"), "--version"],
    Step.IMAGE: [sys.executable, "-c", f"{_PREPARE} image.ensure(say)"],
    Step.KERNEL: [sys.executable, "-c", f"{_PREPARE} kernel.ensure(say)"],
    Step.ROOT: [sys.executable, "-c", f"{_PREPARE} disks.root(image.ensure(say), say)"],
    Step.SNAPSHOT: [sys.executable, "-c", f"{_PREPARE} table.prepare('vm', say)"],
}
_NEEDS_IMAGE = {Step.ROOT, Step.SNAPSHOT}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", nargs="+", type=Step, default=list(Step), metavar="STEP", help=", ".join(Step))
    options = parser.parse_args()
    if (others := _received_at_rest()) > MOST_AT_REST:
        print(f"{others} octets came in within {REST_S:g} s: something else uses the network", file=sys.stderr)
        return 1
    place = ROOT / "testbed" / "lab" / FILE
    steps = json.loads(place.read_text())["steps"] if place.exists() else {}
    with tempfile.TemporaryDirectory(prefix="xoff-costs-", dir="/var/tmp") as cache:
        environment = {**os.environ, "XOFF_CACHE": cache, "PIP_NO_CACHE_DIR": "1", "PYTHONPATH": str(ROOT)}
        for step in Step:
            helps = step is Step.IMAGE and _NEEDS_IMAGE & set(options.steps)
            if step not in options.steps and not helps:
                continue
            received, used, begun = _received(), _used(cache), _cpu_s()
            subprocess.run(_COMMANDS[step], env=environment, check=True, stdout=sys.stderr)
            figures = {
                "download_mb": round((_received() - received) / 1e6, 1),
                "disk_mb": round((_used(cache) - used) / 1e6, 1),
                "cpu_s": round(_cpu_s() - begun, 1),
            }
            print(f"{step}: {figures}")
            if step in options.steps:
                steps[step] = figures
    ordered = {step: steps[step] for step in Step if step in steps}
    place.write_text(json.dumps({"steps": ordered}, indent=1) + "\n")
    return 0


def _received_at_rest() -> int:
    """Octets that come in while this does nothing."""
    before = _received()
    time.sleep(REST_S)
    return _received() - before


def _received() -> int:
    """Octets that came in by the interfaces of the default routes."""
    routes = [line.split() for line in Path("/proc/net/route").read_text().splitlines()[1:]]
    outside = {name for name, destination, *_ in routes if destination == "00000000"}
    lines = [line.partition(":") for line in Path("/proc/net/dev").read_text().splitlines()[2:]]
    return sum(int(rest.split()[0]) for name, _, rest in lines if name.strip() in outside)


def _cpu_s() -> float:
    """CPU time of all children that have ended: unlike wall time, it does not depend on this machine's load."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _used(folder: str) -> int:
    return sum(path.lstat().st_blocks * 512 for path in Path(folder).rglob("*"))


if __name__ == "__main__":
    sys.exit(main())
