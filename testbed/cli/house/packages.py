"""Packages that the lab lacks: the options `--with` and `--with-deb`, and `xoff image lock`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from testbed.lab.image import shipped_locks

if TYPE_CHECKING:
    from testbed.experiment.definition import Experiment
    from testbed.lab.engines.engine import PreparedEngine


def with_option(parser: argparse.ArgumentParser) -> None:
    what = parser.add_argument("--with", action="append", default=[], metavar="NAME", dest="packages")
    what.help = (
        f"a Python package that the lab lacks: {', '.join(shipped_locks.of_python())}, or a lock file (xoff image lock)"
    )
    parser.add_argument(
        "--with-deb", action=_Debian, default=[], metavar="NAME,...", dest="packages",
        help=f"Debian packages that the lab lacks: {', '.join(shipped_locks.of_debian())}, or lock files "
        "(xoff image lock --deb)",
    )  # fmt: skip


class _Debian(argparse.Action):
    """Adds names of Debian packages, with commas between them, to those of all packages."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: Any = None) -> None:
        from testbed.lab.image import debs

        names = [f"{debs.PREFIX}{name}" for name in values.split(",") if name]
        setattr(namespace, self.dest, [*getattr(namespace, self.dest), *names])


def lock_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("wanted", nargs="+", metavar="PACKAGE", help="as in pandas, or pandas==2.3.3; frr with --deb")
    parser.add_argument("--deb", action="store_true", help="lock packages of Debian, for run --with-deb")


def lock(options: argparse.Namespace) -> int:
    """Print a lock file for packages and all that they need: versions and SHA-256 of wheels for the lab's Python, or of
    Debian packages that the lab's image lacks."""
    from testbed.cli.screen.progress import setting_up
    from testbed.lab.image import debs, packages
    from testbed.lab.um import disks

    if options.deb:
        with setting_up() as report:
            status = disks.file_of_root(disks.image_of_root(report), "var/lib/dpkg/status", report)
            print(debs.lock(options.wanted, status, debs.suite(), report), end="")
    else:
        print(packages.lock(options.wanted), end="")
    return 0


def with_packages(engine: PreparedEngine, names: Sequence[str], experiment: Experiment | None = None) -> PreparedEngine:
    """Return the engine with the packages that the command line and the experiment name."""
    from testbed.cli.screen.progress import setting_up

    with setting_up() as report:
        if experiment is not None:
            engine = engine.having(experiment.further, report, experiment.source.parent)
        return engine.having(names, report)
