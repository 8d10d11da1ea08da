"""Compare the figures of `um` with those of `vm`, by the tolerances that are stated.

    ./xoff verify --out um; ./xoff verify --engine vm --out vm
    python tools/compare_engines.py um vm

Each of the two is a result folder or a folder of them. Exit code 1 if anything differs more than is stated. With
--update what is as stated goes into `experiments/engines.json` and the tables of `docs/engines.md`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from testbed.errors import UsageError, XoffError, plain  # noqa: E402
from testbed.experiment import definition  # noqa: E402
from tools import engine_figures, engines_page, tolerances  # noqa: E402
from tools.engine_figures import Agreement  # noqa: E402
from tools.tolerances import Stated  # noqa: E402


def main(argv: Sequence[str] | None = None) -> int:
    """Compare two folders; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("um", type=Path, metavar="UM", help="results of um")
    parser.add_argument("vm", type=Path, metavar="VM", help="results of vm")
    parser.add_argument("--json", action="store_true", help="JSON on standard output, for scripts")
    parser.add_argument("--update", action="store_true", help=f"write {engines_page.FILE} and {engines_page.PAGE}")
    options = parser.parse_args(argv)
    try:
        return _compare(options)
    except XoffError as error:
        print(plain(str(error)), file=sys.stderr)
        return error.exit_code


def _compare(options: argparse.Namespace) -> int:
    um, vm = engine_figures.stored(options.um), engine_figures.stored(options.vm)
    for name in um.keys() - {one.name for one in definition.for_any_engine()}:
        um.pop(name)
    if alone := sorted(um.keys() ^ vm.keys()):
        raise UsageError(f"only one of {options.um} and {options.vm} has a result of {', '.join(alone)}")
    stated = tolerances.read(ROOT)
    found = [engine_figures.compare(um[name], vm[name], stated.get(name, Stated())) for name in um]
    if options.json:
        report = {
            one.experiment: engine_figures.as_json(one) | {"faults": list(one.faults), "notes": list(one.notes)}
            for one in found
        }
        print(json.dumps(report, indent=1))
    else:
        for one in found:
            _show(one)
    if options.update:
        engines_page.update(ROOT, [one for one in found if not one.faults], stated)
    return int(any(one.faults for one in found))


def _show(agreement: Agreement) -> None:
    """Print a line, and one for each fault and note."""
    mark = "✗" if agreement.faults else "-" if agreement.degraded else "✓"
    more = [*agreement.faults, *(f"note: {one}" for one in agreement.notes)]
    for line in (f"{mark} {agreement.experiment:<24} {agreement}", *(f"    {one}" for one in more)):
        print(plain(line))


if __name__ == "__main__":
    sys.exit(main())
