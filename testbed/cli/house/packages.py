"""Python packages that the lab lacks: the option `--with`, and `xoff image lock`."""

from __future__ import annotations

import argparse

from testbed.cli.screen.progress import setting_up
from testbed.experiment import definition
from testbed.lab.engines.engine import PreparedEngine
from testbed.lab.image import packages


def with_option(parser: argparse.ArgumentParser) -> None:
    what = parser.add_argument("--with", action="append", default=[], metavar="NAME", dest="packages")
    what.help = (
        f"a Python package that the lab lacks: {', '.join(packages.shipped())}, or a lock file (xoff image lock)"
    )


def lock_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("wanted", nargs="+", metavar="PACKAGE", help="as in pandas, or pandas==2.3.3")


def lock(options: argparse.Namespace) -> int:
    """Print a lock file for packages and all that they need: versions and SHA-256 of wheels for the lab's Python."""
    print(packages.lock(options.wanted), end="")
    return 0


def with_packages(
    engine: PreparedEngine, names: list[str], experiment: definition.Experiment | None = None
) -> PreparedEngine:
    """Return the engine with the packages that the command line and the experiment name."""
    with setting_up() as report:
        if experiment is not None:
            engine = engine.having(experiment.packages, report, experiment.source.parent)
        return engine.having(names, report)
