"""`xoff workload`: a load of RoCE flows over a topology, with its figures, its digest and an entry for BibTeX."""

from __future__ import annotations

import argparse
import datetime
import random
from pathlib import Path

from testbed import shipped_packages
from testbed.cli.arguments import above_zero, one_of, whole_number
from testbed.cli.first_steps import run as running
from testbed.cli.screen import console
from testbed.errors import UsageError
from testbed.experiment.definition import Origin
from testbed.lab.results import citation
from testbed.lab.results.foreign import ForeignFolder
from testbed.lab.results.result import Result
from testbed.measures.fabric_under_test import FabricUnderTest
from testbed.measures.offered_load import FLOWS, OfferedLoad, known_sizes
from testbed.measures.training_load import TrainingLoad
from testbed.plot.figure import plot
from testbed.roce import rates
from testbed.roce.nic import Recovery
from testbed.units import Duration
from testbed.workload import traces
from testbed.workload.arrivals import PATTERNS

_EXPERIMENT = shipped_packages.folder(shipped_packages.EXPERIMENTS) / "_workload.py"
RECOVERIES = {str(one).replace(" ", "-"): str(one) for one in Recovery}
"""The ways of recovery by the words of `--recovery`."""
FIGURES = ("cdf", "slowdown")
"""The figures that are drawn of each run."""


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--topo", default="fat-tree,4", metavar="T", help="a topology, as in leaf-spine,4,2,8 (xoff list)"
    )
    parser.add_argument(
        "--sizes",
        default="websearch",
        metavar="SIZES",
        help=f"sizes of flows: {known_sizes()}, or a CSV of size,percent",
    )
    parser.add_argument(
        "--load", default="50%", metavar="L", help="of each host's line, or of an incast's target (50%%)"
    )
    parser.add_argument("--control", default="dcqcn", metavar="C", help=f"the rate control: {', '.join(rates.names())}")
    parser.add_argument("--pattern", default="random", metavar="P", help=", ".join(PATTERNS))
    parser.add_argument(
        "--flows", type=whole_number(1, 200), default=FLOWS, metavar="N", help=f"how many flows begin (default {FLOWS})"
    )
    parser.add_argument(
        "--duration",
        type=above_zero(Duration, "10ms"),
        metavar="T",
        help="the time in which flows begin, in place of --flows",
    )
    parser.add_argument(
        "--hosts", type=whole_number(2, 8), default=0, metavar="N", help="the first N hosts of the topology"
    )
    switch = one_of("setting", ("on", "off"))
    parser.add_argument("--pfc", type=switch, default="on", metavar="on|off", help="lossless, or drops (default: on)")
    parser.add_argument(
        "--ecn", type=one_of("setting", ("auto", "on", "off")), default="auto", metavar="on|off",
        help="marks before PFC (default: if the rate control goes by them)",
    )  # fmt: skip
    parser.add_argument(
        "--recovery", type=one_of("recovery", tuple(RECOVERIES)), default="go-back-N", metavar="R",
        help=f"what RoCE sends again after a loss: {', '.join(RECOVERIES)} (default go-back-N)",
    )  # fmt: skip
    parser.add_argument(
        "--trace", metavar="T", help=f"a training job: {', '.join(traces.names())}, or Chakra's files by rank"
    )
    parser.add_argument("--straggler", default="", metavar="R=F,...", help="ranks that compute longer, as in 3=1.5")
    parser.add_argument(
        "--shrink", type=whole_number(1, 100), default=1, metavar="N", help="divide sizes and times of traces by N"
    )
    parser.add_argument("--no-figures", action="store_true", help="draw nothing")
    running.run_options(parser)


def workload(options: argparse.Namespace) -> int:
    """Offer a load of flows to a topology in the lab: completion times, slowdown, pauses, marks and losses. With
    --trace the flows are those of a training job."""
    if options.trace is not None:
        return _trace(options)
    if options.straggler or options.shrink > 1:
        raise UsageError("--straggler and --shrink are for training jobs, which --trace names")
    path = Path(options.sizes)
    is_file = path.suffix != "" or "/" in options.sizes
    wanted = OfferedLoad.of(
        topo=options.topo, sizes=options.sizes, table=_text(path) if is_file else None, load=options.load,
        control=options.control, pattern=options.pattern, flows=options.flows, lasts=options.duration or Duration("0s"),
        hosts=options.hosts, pfc=options.pfc == "on", ecn=options.ecn, recovery=RECOVERIES[options.recovery],
    )  # fmt: skip
    wanted.transfers(random.Random(options.seed))  # those of the run, so that a mistake is told before it
    options.experiment, options.packages = [str(_EXPERIMENT)], []
    given = {
        "topo": options.topo, "sizes": options.sizes, "load": options.load, "control": options.control,
        "pattern": options.pattern, "pfc": options.pfc, "ecn": options.ecn, "recovery": options.recovery,
    }  # fmt: skip
    if options.duration:
        given["duration"] = str(options.duration)
    else:
        given["flows"] = str(options.flows)
    if options.hosts:
        given["hosts"] = str(options.hosts)
    words = ["workload", *(word for name, value in given.items() for word in (f"--{name}", value))]
    origin = Origin(tuple(words), (options.sizes,) if is_file else (), takes_parameters=False)
    given["recovery"] = RECOVERIES[options.recovery]
    if is_file:
        given["table"] = options.sizes
    options.set = [f"{name}={value}" for name, value in given.items()]
    return running.run_as(options, origin, after=lambda results: _finish(results, options))


def _trace(options: argparse.Namespace) -> int:
    """Run a training job of execution traces."""
    for name, default in _OF_FLOWS.items():
        if getattr(options, name) != default:
            raise UsageError(f"--{name} is for flows at random; those of --trace {options.trace[:40]} are the job's")
    words = options.trace.split(",")
    own = any(Path(word).suffix for word in words)
    files = [Path(word) for word in words] if own else traces.files(options.trace)
    fabric = FabricUnderTest.of(
        options.topo, control=options.control, pfc=options.pfc == "on", ecn=options.ecn,
        recovery=RECOVERIES[options.recovery],
    )  # fmt: skip
    contents = [(path.name, _octets(path)) for path in files]
    TrainingLoad.of(
        fabric, contents, ranks=options.hosts, shrink=options.shrink, stragglers=options.straggler
    )  # a mistake is told before the run
    given = {
        "topo": options.topo, "control": options.control, "pfc": options.pfc, "ecn": options.ecn,
        "recovery": options.recovery, "shrink": str(options.shrink), "straggler": options.straggler,
        "hosts": str(options.hosts or ""),
    }  # fmt: skip
    chosen = {name: value for name, value in given.items() if value}
    again = [
        "workload",
        "--trace",
        options.trace,
        *(part for name, one in chosen.items() for part in (f"--{name}", one)),
    ]
    options.experiment, options.packages = [str(_EXPERIMENT.with_name("_trace.py"))], []
    chosen["recovery"] = RECOVERIES[options.recovery]
    renamed = {"straggler": "stragglers", "hosts": "ranks"}
    options.set = [f"{renamed.get(name, name)}={value}" for name, value in chosen.items()]
    options.set.append(f"traces={','.join(map(str, files))}")
    origin = Origin(tuple(again), tuple(words) if own else (), takes_parameters=False)
    return running.run_as(options, origin)


_OF_FLOWS = {"sizes": "websearch", "load": "50%", "pattern": "random", "flows": FLOWS, "duration": None}
"""The options about flows at random, with their defaults."""


def _octets(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"--trace {path}: {error.strerror}; {', '.join(traces.names())} are traces that come with Xoff"
        ) from None


def _finish(results: list[Result], options: argparse.Namespace) -> None:
    """Draw the figures of runs and write their citations, and print where they are."""
    out = console.stderr if options.json else console.stdout
    for result in results:
        if result.folder is None:
            continue
        files = ForeignFolder(result.folder)
        if not options.no_figures:
            for kind in FIGURES:
                try:
                    found = plot(kind, result)
                except UsageError as error:  # no flow was complete, or there is no matplotlib
                    console.say(str(error))
                    continue
                with files.create(f"{kind}.pdf") as file:
                    found.write(file, ".pdf")
                out.print(f"figure: {console.shown(result.folder / f'{kind}.pdf')}", soft_wrap=True)
        entry = citation.bibtex(result, datetime.date.today().year)
        with files.create(citation.FILE) as file:
            file.write(entry.encode())
        out.print(
            f"to cite it, {console.shown(result.folder / citation.FILE)}:\n{console.shown(entry)}",
            end="",
            soft_wrap=True,
        )


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise UsageError(f"--sizes {path}: {reason}; {known_sizes()} are published ones, by name") from None
