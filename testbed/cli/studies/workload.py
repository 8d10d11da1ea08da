"""`xoff workload`: a load of RoCE flows over a topology, with its figures, its digest and an entry for BibTeX."""

from __future__ import annotations

import argparse
import datetime
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, product
from pathlib import Path

from testbed import shipped_packages
from testbed.cli.arguments import above_zero, one_of, whole_number
from testbed.cli.first_steps import running
from testbed.cli.first_steps.run import run_options
from testbed.cli.screen import console
from testbed.cli.studies import sweep
from testbed.errors import UsageError
from testbed.experiment import definition
from testbed.experiment.definition import Origin
from testbed.experiment.parameters import LARGEST_FILE
from testbed.lab.results import citation
from testbed.lab.results.foreign import ForeignFolder
from testbed.lab.results.result import Exit, Result
from testbed.lab.studies.sweep import Sweep
from testbed.measures.background import Background
from testbed.measures.fabric_under_test import FabricUnderTest
from testbed.measures.offered_load import FLOWS, OfferedLoad, known_sizes
from testbed.measures.own_files import files_of
from testbed.measures.training_load import TrainingLoad
from testbed.net.shell import topologies
from testbed.plot.figure import plot
from testbed.roce import rates
from testbed.roce.nic import Recovery
from testbed.strict import regular_files
from testbed.units import Duration
from testbed.workload import traces
from testbed.workload.arrivals import PATTERNS
from testbed.workload.chakra import LARGEST

_SIZES, _LOAD, _PATTERN = "websearch", "50%", "random"
"""The defaults of flows at random."""
_OF_FLOWS = ("flows", "duration", "pull")
"""The options about flows at random that those beside a training job do not have: they last as long as it does."""
_OF_ONE_RUN = (
    "series", "capture", "capture_octets", "partitions", "scheduler", "lab", "report", "fidelity", "timeout",
    "wall_timeout", "memory", "processes",
)  # fmt: skip
"""The options that a study has not."""
_COLUMNS = {
    "slowdown, median": "slowdown\nmedian",
    "slowdown, 95th percentile": "\n95 %",
    "slowdown, 99th percentile": "\n99 %",
    "times a switch paused a neighbour": "\npaused",
    "packets marked by ECN": "packets\nmarked",
    "packets sent again": "\nsent again",
}
"""The figures that the table of a study has, with their heads."""
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
        metavar="SIZES",
        help=f"sizes of flows: {known_sizes()}, or a CSV of size,percent (default {_SIZES})",
    )
    parser.add_argument(
        "--load", metavar="L,...", help=f"of each host's line, or of an incast's target, on the wire (default {_LOAD}%)"
    )
    parser.add_argument(
        "--control", default="dcqcn", metavar="C,...",
        help=f"the rate control: {', '.join(rates.names())}, or FILE.py:NAME (default dcqcn)",
    )  # fmt: skip
    parser.add_argument("--pattern", metavar="P", help=f"{', '.join(PATTERNS)} (default {_PATTERN})")
    parser.add_argument(
        "--flows", type=whole_number(1, 200), metavar="N", help=f"how many flows begin (default {FLOWS})"
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
        "--pull", action="append", metavar="PORT@T",
        help="pull a cable so long after the begin, PORT@T+T until it is back; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--trace", metavar="T", help=f"a training job: {', '.join(traces.names())}, or Chakra's files by rank"
    )
    parser.add_argument("--straggler", default="", metavar="R=F,...", help="ranks that compute longer, as in 3=1.5")
    parser.add_argument(
        "--shrink", type=whole_number(1, 100), default=1, metavar="N", help="divide sizes and times of traces by N"
    )
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="copy the --trace there, to change it, and run nothing"
    )
    parser.add_argument("--no-figures", action="store_true", help="draw nothing")
    run_options(parser)


def workload(options: argparse.Namespace) -> int:
    """Offer a load of flows to a topology in the lab: completion times, slowdown, pauses, marks and losses. With
    several loads or rate controls, as in --load 30%,60%, it runs each combination. With --trace the flows are those of
    a training job, beside such a load if --load is there, too."""
    if options.trace is not None:
        return _trace(options)
    if options.straggler or options.shrink > 1 or options.keep is not None:
        raise UsageError("--straggler, --shrink and --keep are for training jobs, which --trace names")
    sizes = options.sizes or _SIZES
    path = Path(sizes)
    is_file = path.suffix != "" or "/" in sizes
    loads, controls = _several("load", options.load or _LOAD), _several("control", options.control)
    files = files_of(options.topo, *controls)
    given = {
        "topo": options.topo, "sizes": sizes, "load": ",".join(loads), "control": ",".join(controls),
        "pattern": options.pattern or _PATTERN, "pfc": options.pfc, "ecn": options.ecn, "recovery": options.recovery,
    }  # fmt: skip
    if options.duration:
        given["duration"] = str(options.duration)
    else:
        given["flows"] = str(options.flows or FLOWS)
    if options.hosts:
        given["hosts"] = str(options.hosts)
    if options.pull:
        given["pull"] = ",".join(options.pull)
    for load, control in product(loads, controls):  # a mistake is told before any run
        wanted = OfferedLoad.of(
            topo=options.topo, sizes=sizes, table=_text(path) if is_file else None, load=load, control=control,
            pattern=given["pattern"], flows=options.flows or FLOWS, lasts=options.duration or Duration("0s"),
            hosts=options.hosts, pfc=options.pfc == "on", ecn=options.ecn, recovery=RECOVERIES[options.recovery],
            pulls=given.get("pull", ""),
        )  # fmt: skip
        wanted.transfers(random.Random(options.seed))  # those of the run
    words = ["workload", *(word for name, value in given.items() for word in (f"--{name}", value))]
    own = ((sizes,) if is_file else (), map(str, files))
    origin = Origin(tuple(words), tuple(chain(*own)), takes_parameters=False)
    given |= {"recovery": RECOVERIES[options.recovery], "topo": topologies.shown(options.topo)}
    if is_file:
        given["table"] = sizes
    if files:
        given["files"] = ",".join(map(str, files))
    shown = [topologies.shown(control) for control in controls]
    if len(loads) * len(controls) > 1:
        grid = {name: [value] for name, value in given.items()} | {"load": loads, "control": shown}
        return _study(options, grid, origin)
    parameters = given | {"control": shown[0]}
    return running.run_experiment(
        str(_EXPERIMENT), parameters, options, origin, after=lambda results: _finish(results, options)
    )


def _several(name: str, text: str) -> list[str]:
    """Return the values of an option that takes several."""
    values = text.split(",")
    if len(set(values)) < len(values) or not all(values):
        raise UsageError(f"--{name} {text[:60]}: each value is there once, as in --{name} A,B")
    return values


def _study(options: argparse.Namespace, grid: Mapping[str, Sequence[str]], origin: Origin) -> int:
    """Make a run for each load and each rate control, and show them in a table and in figures."""
    for name in _OF_ONE_RUN:
        if getattr(options, name):
            word = name.replace("_", "-")
            raise UsageError(f"--{word} is for one run; with several loads or rate controls leave it out")
    if not options.engine.reproducible:
        raise UsageError(f"--engine {options.engine}: runs of a study are kept by their inputs; take um or vm")
    experiment = replace(definition.find(str(_EXPERIMENT)), origin=origin)
    out = Path("results/sweep-workload") if options.out == Path("results") else options.out
    study = sweep.make(experiment, grid, [options.seed], options, out)
    tables = study.write_tables()
    if options.json:
        print(json.dumps({"folder": str(study.folder), "rows": [row.columns() for row in study.rows]}, indent=1))
    else:
        _show(study)
    if not options.no_figures:
        _draw_study(study, grid)
    for one in (*study.failed, *study.not_made):
        console.say(f"load {one.parameters['load']}, {one.parameters['control']}: {one.status}: {one.reason}")
    console.say(f"tables: {', '.join(map(str, tables))}; xoff plot sweep {study.folder} draws any figure of them")
    if study.interruption is not None:
        raise study.interruption
    if study.failed or study.not_made:
        return Exit.MACHINE
    return Exit.OK if all(row.passed for row in study.rows) else Exit.FAILED


def _show(found: Sweep) -> None:
    from rich.table import Table

    shown = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    shown.add_column("\nload", justify="right")
    shown.add_column("\ncontrol", overflow="fold")
    for head in _COLUMNS.values():
        shown.add_column(head, justify="right", no_wrap=True)
    for row in found.rows:
        values = [row.figures.get(name) for name in _COLUMNS]
        cells = ["-" if value is None else f"{value:,.4g}" if value < 1000 else f"{value:,.0f}" for value in values]
        shown.add_row(row.parameters["load"], console.shown(row.parameters["control"]), *cells)
    console.stdout.print(shown)


def _draw_study(found: Sweep, grid: Mapping[str, Sequence[str]]) -> None:
    runs = [found.folder / row.folder for row in found.rows]
    panels = "load" if len(grid["load"]) > 1 and len(grid["control"]) > 1 else ""
    for kind in FIGURES if runs else ():
        try:
            path = plot(kind, *runs, panels=panels, size="page").save(found.folder / f"{kind}.pdf")
        except UsageError as error:
            console.say(str(error))
            continue
        console.stderr.print(f"figure: {console.shown(path)}", soft_wrap=True)


def _trace(options: argparse.Namespace) -> int:
    """Run a training job of execution traces."""
    for name in _OF_FLOWS:
        if getattr(options, name) is not None:
            raise UsageError(
                f"--{name} is for flows at random alone; beside --trace {options.trace[:40]} they arrive for as long "
                "as the job sends"
            )
    for name in ("sizes", "pattern"):
        if getattr(options, name) is not None and options.load is None:
            raise UsageError(
                f"--{name} is of flows at random, which --trace {options.trace[:40]} has beside it with --load alone"
            )
    if options.load is not None and "," in options.load:
        raise UsageError(f"--load {options.load[:40]}: beside a training job there is one load")
    if "," in options.control:
        raise UsageError(f"--control {options.control[:40]}: a training job has one rate control")
    words = options.trace.split(",")
    own = any(Path(word).suffix for word in words)
    files = [Path(word) for word in words] if own else traces.files(options.trace)
    contents = [(path.name, _octets(path)) for path in files]
    if options.keep is not None:
        return _keep(options.keep, files)
    user_files = files_of(options.topo, options.control)
    fabric = FabricUnderTest.of(
        options.topo, control=options.control, pfc=options.pfc == "on", ecn=options.ecn,
        recovery=RECOVERIES[options.recovery],
    )  # fmt: skip
    sizes = options.sizes or _SIZES
    path = Path(sizes)
    is_file = path.suffix != "" or "/" in sizes
    beside = Background.of(
        load=options.load or "", sizes=sizes, table=_text(path) if is_file else None,
        pattern=options.pattern or _PATTERN,
    )  # fmt: skip
    TrainingLoad.of(
        fabric, contents, ranks=options.hosts, shrink=options.shrink, stragglers=options.straggler, beside=beside
    )  # a mistake is told before the run
    given = {
        "topo": options.topo, "control": options.control, "pfc": options.pfc, "ecn": options.ecn,
        "recovery": options.recovery, "shrink": str(options.shrink), "straggler": options.straggler,
        "hosts": str(options.hosts or ""), "load": options.load or "", "sizes": sizes if beside else "",
        "pattern": str(beside.pattern) if beside else "",
    }  # fmt: skip
    chosen = {name: value for name, value in given.items() if value}
    again = [
        "workload",
        "--trace",
        options.trace,
        *(part for name, one in chosen.items() for part in (f"--{name}", one)),
    ]
    chosen |= {name: topologies.shown(chosen[name]) for name in ("topo", "control")}
    chosen["recovery"] = RECOVERIES[options.recovery]
    renamed = {"straggler": "stragglers", "hosts": "ranks"}
    parameters = {renamed.get(name, name): value for name, value in chosen.items()}
    parameters["traces"] = ",".join(map(str, files))
    if is_file:
        parameters["table"] = sizes
    if user_files:
        parameters["files"] = ",".join(map(str, user_files))
    kept = (*(words if own else ()), *((sizes,) if is_file else ()), *map(str, user_files))
    origin = Origin(tuple(again), kept, takes_parameters=False)
    return running.run_experiment(str(_EXPERIMENT.with_name("_trace.py")), parameters, options, origin)


def _keep(folder: Path, files: Sequence[Path]) -> int:
    """Copy traces into a folder of the user's."""
    folder.mkdir(parents=True, exist_ok=True)
    kept = []
    for path in files:
        with ForeignFolder(folder).create(path.name) as out:
            out.write(_octets(path))
        kept.append(str(folder / path.name))
    console.stdout.print(f"xoff workload --trace {','.join(kept)}", soft_wrap=True, markup=False, highlight=False)
    return Exit.OK


def _octets(path: Path) -> bytes:
    try:
        return regular_files.octets(path, LARGEST)
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
        return regular_files.text(path, LARGEST_FILE)
    except OSError as error:
        raise UsageError(f"--sizes {path}: {error.strerror}; {known_sizes()} are published ones, by name") from None
