"""`xoff run` and `xoff demo`: run experiments in an engine, and show their results.

Running itself is in `running`, which imports the lab: `--help` and completion do not wait for that.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from testbed.cli import index
from testbed.cli.arguments import above_zero, whole_number
from testbed.cli.engine_setup import engine_option
from testbed.cli.house.packages import with_option
from testbed.cli.screen import streams
from testbed.lab.engines.words import DEFAULT
from testbed.units import Duration


def experiment_options(parser: argparse.ArgumentParser) -> None:
    what = parser.add_argument("experiment", nargs="+", metavar="EXPERIMENT", help="a name, a FILE.py or FILE.py:NAME")
    what.completer = lambda **_: index.experiments()  # type: ignore[attr-defined]
    parser.add_argument("--set", action="append", default=[], metavar="K=V", help="set a parameter; may be repeated")
    with_option(parser)
    run_options(parser)


def run_options(parser: argparse.ArgumentParser, default: str | None = DEFAULT) -> None:
    count = whole_number(1, 2)
    parser.add_argument("-j", type=count, default=1, metavar="N", help="run up to N side by side, a core each")
    parser.add_argument(
        "--seed", type=whole_number(0, 7), default=1, metavar="N", help="reaches every random choice (default 1)"
    )
    parser.add_argument("--out", type=Path, default=Path("results"), metavar="DIR", help="where result folders go")
    engine_option(parser, default=default)
    duration = above_zero(Duration, "30s")
    parser.add_argument("--timeout", type=duration, metavar="T", help="limit of virtual time, as in 30s")
    parser.add_argument("--wall-timeout", type=duration, metavar="T", help="limit of wall time (default 15min)")
    parser.add_argument("--memory", type=whole_number(1, 500), metavar="MB", help="limit of the job's memory")
    parser.add_argument("--processes", type=whole_number(1, 100), metavar="N", help="limit of the job's processes")
    parser.add_argument(
        "--fidelity", action="append", default=[], metavar="K=V", help="what the lab must keep: idle=5%%, timer=200us"
    )
    parser.add_argument(
        "--capture",
        action="store_true",
        help="capture all cables into pcapng files below captures/ in the result folder",
    )
    parser.add_argument(
        "--capture-octets",
        type=whole_number(14, 128),
        metavar="N",
        help="the same, of each frame the first N octets only",
    )
    parser.add_argument(
        "--series", type=above_zero(Duration, "10us"), metavar="T",
        help="record loads of links, buffers, queues, ECN marks and rates of flows at this interval, as in 10us",
    )  # fmt: skip
    parser.add_argument(
        "--partitions", type=whole_number(1, 2), metavar="N",
        help="have each network over N kernels, cut at cables with a delay",
    )  # fmt: skip
    parser.add_argument("--scheduler", metavar="ADDRESS", help="have these kernels on a Dask cluster: tcp://HOST:PORT")
    parser.add_argument(
        "--lab", type=Path, metavar="FILE", help="have its workers take the lab from FILE, which all of them see"
    )
    parser.add_argument("--report", action="store_true", help="write report.html into the first result folder")
    parser.add_argument("--allow-degraded", action="store_true", help="a run of low fidelity is no failure")


def demo_options(parser: argparse.ArgumentParser) -> None:
    run_options(parser, default=None)
    parser.set_defaults(report=True)


def demo(options: argparse.Namespace) -> int:
    """Show what Xoff does: a lossless read across a WAN, from bare links on, the same on every machine."""
    from testbed.cli.first_steps.running import run_experiment
    from testbed.cli.screen import console
    from testbed.cli.screen.live_network import LiveNetwork
    from testbed.experiment.definition import Origin

    streams.outlast()
    network = LiveNetwork()
    if not options.json:
        console.stdout.print(
            "Two data centres and a WAN on a stock Linux kernel with a clock of its own,\n"
            "a thousand times slower than the hardware. Idle time is skipped and load cannot\n"
            "disturb it: the digest at the end is the same wherever you run this.",
            style="bold",
        )
    return run_experiment("cross_dc", {}, options, Origin(("demo",), takes_parameters=False), network=network)


def run(options: argparse.Namespace) -> int:
    """Run experiments; each leaves a folder with result.json, its event log and its output. A FILE.py is imported on
    this machine too, to read its parameters: its module level is executed as you, so run only files that you trust.
    With XOFF_READ_IN_LAB=1 in the environment the lab alone reads it."""
    from testbed.cli.first_steps.running import run_named

    return run_named(options)
