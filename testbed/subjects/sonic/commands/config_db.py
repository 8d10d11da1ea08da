"""`xoff switch check` and `xoff switch run`: config_db.json files of SONiC switches, and traffic over them."""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Sequence
from pathlib import Path

from testbed import shipped_packages
from testbed.cli.arguments import above_zero, one_of, whole_number
from testbed.cli.first_steps import running
from testbed.cli.first_steps.run import run_options as options_of_runs
from testbed.cli.screen import console, streams
from testbed.errors import UsageError
from testbed.experiment.definition import Origin
from testbed.lab.engines import load
from testbed.lab.results.result import Exit
from testbed.subjects.sonic import verdict
from testbed.subjects.sonic.lab.places import by_name
from testbed.subjects.sonic.lab.run import PATTERNS, Workload, hosts_at_ports, size_to_test, untested
from testbed.subjects.sonic.lab.settings import CELL, Switch, read_octets, scale_for
from testbed.units import Rate, Size

_EXPERIMENT = shipped_packages.folder(shipped_packages.EXPERIMENTS) / "_switch_run.py"


def _common_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE", help="config_db.json of a switch; several are a fabric")
    parser.add_argument(
        "--cell", type=whole_number(1, CELL), default=CELL, metavar="N", help=f"bytes of a buffer cell (default {CELL})"
    )


def check_options(parser: argparse.ArgumentParser) -> None:
    _common_options(parser)
    parser.add_argument("--json", action="store_true", help="JSON on standard output, for scripts")
    parser.add_argument("--strict", action="store_true", help="warnings are failures too")


def run_options(parser: argparse.ArgumentParser) -> None:
    _common_options(parser)
    parser.add_argument(
        "--workload", default="incast,2", metavar="W", help=f"{', '.join(PATTERNS)}, with hosts, as in incast,8"
    )
    parser.add_argument(
        "--ports", metavar="PORT,...",
        help="ports for the first hosts, as in Ethernet4 or leaf1:Ethernet4 (default: the one with the least headroom "
        "to spare, and one of each class; of an incast the last host, which receives, is at the one with the most)",
    )  # fmt: skip
    size = above_zero(Size, "1MB")
    parser.add_argument(
        "--size", type=size, metavar="S", help="what each flow sends (default: enough for pauses, 1MB at the least)"
    )
    parser.add_argument(
        "--frame", type=size, default=Size("1514B"), metavar="S", help="size of the frames, without FCS"
    )
    parser.add_argument("--priority", type=one_of("priority", "01234567"), default="3", metavar="P", help="0 to 7")
    parser.add_argument("--scale", type=whole_number(1, 1000), metavar="K", help="times longer than the hardware")
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="copy the experiment and the files there, to change them"
    )
    options_of_runs(parser)


# check


def check(options: argparse.Namespace) -> int:
    """Report what is wrong, contradictory, risky or not modelled in files of SONiC switches, with JSON paths."""
    streams.outlast()
    files = {}
    for name in options.files:
        if name in files:
            raise UsageError(f"{name} is given twice")
        files[name] = read_octets(name)
    readings = verdict.checked(files, options.cell)
    if options.json:
        print(json.dumps({name: verdict.as_json(one, options.cell) for name, one in readings.items()}, indent=1))
    else:
        for name, reading in readings.items():
            for text in verdict.lines(reading, options.cell):
                console.stdout.print(f"{name}: {text}", markup=False, highlight=False, soft_wrap=True)
    failed = any(not one.ok or (options.strict and one.problems.warnings) for one in readings.values())
    return Exit.USAGE if failed else Exit.OK


# run


def run(options: argparse.Namespace) -> int:
    """Run traffic over SONiC switches, in the lab, and measure losses, pauses and watermarks."""
    workload, priority = Workload.parse(options.workload), int(options.priority)
    switches = [Switch.from_config_db(name, scale=options.scale, cell=options.cell) for name in options.files]
    places = hosts_at_ports(switches, workload, options.ports or "")
    for one in switches:
        one.require()
    for name, port in places:
        by_name(switches)[name].dscp(priority, port)
    for text in untested(switches, places, workload):
        console.say(f"no sender is at {text}; --ports or a larger --workload puts one there")
    size = options.size or size_to_test(switches, places, workload, priority)
    scale = options.scale or max(scale_for(one.tables).k for one in switches)
    fastest = max((port.rate for one in switches for port in one.ports.values()), default=Rate("1Mb/s"))
    busy = load.Load(workload.count, fastest, options.frame.bytes, len(switches))
    free = not options.engine.cpu_takes_time
    if options.scale is None and not free:
        scale = max(scale, busy.least_scale(load.frame_costs()))
    load.require(busy, scale, free)
    if options.keep is not None:
        _keep(options.keep, options.files)
    parameters = {
        "switches": ",".join(options.files),
        "workload": options.workload,
        "size": str(size),
        "frame": str(options.frame),
        "priority": options.priority,
        "scale": str(scale),
        "cell": str(options.cell),
        "ports": options.ports or "",
    }
    return running.run_experiment(str(_EXPERIMENT), parameters, options, _origin(options, size))


def _origin(options: argparse.Namespace, size: Size) -> Origin:
    """Return the command that makes the result again."""
    words = ["switch", "run", *options.files, "--workload", options.workload, "--size", str(size)]
    words += ["--frame", str(options.frame), "--priority", options.priority, "--cell", str(options.cell)]
    if options.scale is not None:
        words += ["--scale", str(options.scale)]
    if options.ports is not None:
        words += ["--ports", options.ports]
    return Origin(tuple(words), tuple(options.files), takes_parameters=False)


def _keep(folder: Path, files: Sequence[str]) -> None:
    """Copy the experiment and the files to a folder, and say how they are run from there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        copies = []
        for number, file in enumerate(files, 1):
            copies.append(folder / f"switch{number}.json")
            shutil.copyfile(file, copies[-1])
        path = folder / "switch_run.py"
        shutil.copyfile(_EXPERIMENT, path)
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror}") from None
    console.say(f"xoff run {path} --set switches={','.join(map(str, copies))} runs it from there")
