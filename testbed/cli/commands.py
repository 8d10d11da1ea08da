"""The commands: each one says what it takes and does it."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import testbed
from testbed.cli import dcbx, headroom, ladder, machine, sr
from testbed.errors import UsageError
from testbed.lab import cache, cores, definition, image, needs, snapshot
from testbed.lab.engine import Kind, Ready, prepare
from testbed.lab.fidelity import Thresholds
from testbed.lab.job import Limits
from testbed.lab.result import Exit, Result
from testbed.units import Duration

Subparsers = Any  # argparse's own type for it is private
_ENGINE_HELP = (
    "vm: virtual time, the default; um: virtual time and native speed, where the CPU's work is free; "
    "realtime: the virtual machine in real time; host: this machine, as root"
)


def add_all(subparsers: Subparsers) -> None:
    """Declare every command."""
    _add(subparsers, "demo", demo, "show what Xoff does, in a minute", _run_options)
    _add(subparsers, "test", test, "run Xoff's own tests", _test_options)
    _add(subparsers, "list", list_, "list experiments and topologies", _json_option)
    _add(subparsers, "run", run, "run experiments", _experiment_options, _run_options)
    _add(subparsers, "shell", shell, "Mininet's command line in the lab, in real time", _shell_options)
    _add(subparsers, "headroom", headroom.headroom, "what headroom a port needs", headroom.options, _json_option)
    _add(subparsers, "ladder", ladder.draw, "a diagram of DCBX on a link, from a run's log", ladder.options)
    _add(subparsers, "agent", dcbx.agent, "DCBX on an interface of this machine", dcbx.agent_options)
    _add(subparsers, "dcbx", dcbx.dcbx, "what such agents negotiate", dcbx.dcbx_options, _json_option)
    _add(subparsers, "doctor", doctor, "check this machine", _doctor_options, _json_option)
    _add(subparsers, "image", image_, "the lab image", _image_options, _json_option)
    _add(subparsers, "clean", clean, "remove everything that Xoff keeps in its cache")
    _add(subparsers, "sr", sr.sr, "ask the SR policy controller, or wish something of it", sr.options)
    _add(subparsers, "completion", completion, "print shell completion", _completion_options)


def _add(
    subparsers: Subparsers,
    name: str,
    perform: Callable[[argparse.Namespace], int],
    summary: str,
    *options: Callable[[argparse.ArgumentParser], None],
) -> None:
    parser = subparsers.add_parser(name, help=summary, description=(perform.__doc__ or summary))
    for add in options:
        add(parser)
    parser.set_defaults(perform=perform)


def _json_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="JSON on standard output, for scripts")


def _test_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--unit", action="store_true", help="only what needs no lab and no second of its own")
    parser.add_argument("--all", action="store_true", help="also those that take more than five minutes")
    parser.add_argument("pattern", nargs="?", metavar="PATTERN", help="a test file, or a word of test names")


def _experiment_options(parser: argparse.ArgumentParser) -> None:
    what = parser.add_argument("experiment", nargs="+", metavar="EXPERIMENT", help="a name, a FILE.py or FILE.py:NAME")
    what.completer = lambda **_: [e.name for e in definition.shipped()]  # type: ignore[attr-defined]
    parser.add_argument("--set", action="append", default=[], metavar="K=V", help="set a parameter; may be repeated")


def _run_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-j", type=int, default=1, metavar="N", help="run up to N side by side, a core each")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="reaches every random choice (default 1)")
    parser.add_argument("--out", type=Path, default=Path("results"), metavar="DIR", help="where result folders go")
    parser.add_argument("--engine", type=Kind, choices=list(Kind), default=Kind.VM, help=_ENGINE_HELP)
    parser.add_argument("--timeout", type=Duration, metavar="T", help="limit of virtual time, as in 30s")
    parser.add_argument("--wall-timeout", type=Duration, metavar="T", help="limit of wall time (default 15min)")
    parser.add_argument("--memory", type=int, metavar="MB", help="limit of the job's memory")
    parser.add_argument("--processes", type=int, metavar="N", help="limit of the job's processes")
    parser.add_argument(
        "--fidelity", action="append", default=[], metavar="K=V", help="what the lab must keep: idle=5%%, timer=200us"
    )
    parser.add_argument("--allow-degraded", action="store_true", help="a run of low fidelity is no failure")
    _json_option(parser)


def _shell_options(parser: argparse.ArgumentParser) -> None:
    from testbed.net.shell import names

    what = parser.add_argument("topology", metavar="TOPOLOGY", help=f"as in star,8; there are {', '.join(names())}")
    what.completer = lambda **_: names()  # type: ignore[attr-defined]
    engines = [Kind.REALTIME, Kind.HOST]
    parser.add_argument("--engine", type=Kind, choices=engines, default=Kind.REALTIME, help=_ENGINE_HELP)


def _doctor_options(parser: argparse.ArgumentParser) -> None:
    engines = ("vm", "um", "host", "all")
    parser.add_argument("--engine", choices=engines, default="vm", help="what must work (default vm)")
    parser.add_argument("--install", action="store_true", help="install what is missing, then check")


def _image_options(parser: argparse.ArgumentParser) -> None:
    what = parser.add_argument("what", choices=("build", "info", "clean", "reference"), metavar="build|info|clean")
    what.help = "build: anew; info: digest and versions; clean: remove images, snapshots and kernels"


def _completion_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))


def demo(options: argparse.Namespace) -> int:
    """Show what Xoff does: a lossless read across a WAN, from bare links on, the same on every machine."""
    from testbed.cli.ui import stdout

    options.experiment, options.set = ["cross_dc"], []
    if not options.json:
        stdout.print(
            "Two data centres and a WAN on a stock Linux kernel with a clock of its own,\n"
            "a thousand times slower than the hardware. Idle time is skipped and load cannot\n"
            "disturb it: the digest at the end is the same wherever you run this.",
            style="bold",
        )
    return run(options)


def run(options: argparse.Namespace) -> int:
    """Run experiments; each leaves a folder with result.json, its event log and its output."""
    from testbed.cli import ui

    chosen = [definition.find(name) for name in options.experiment]
    given = dict(_assignment(text) for text in options.set)
    for experiment in chosen:
        experiment.read_parameters(given)  # a typo is said before anything is set up
    thresholds = Thresholds()
    for setting in options.fidelity:
        thresholds = thresholds.changed(setting)
    if options.j < 1:
        raise UsageError(f"-j {options.j}: at least 1 is expected")
    ready = _ready(options.engine)
    cancel = threading.Event()

    from testbed.lab import api

    with ui.Screen(many=options.j > 1 and len(chosen) > 1, quiet_stdout=options.json) as screen:

        def one(experiment: definition.Experiment) -> Result | None:
            if cancel.is_set():
                return None
            watch = screen.watch(experiment.name)
            try:
                return api.run(
                    experiment, parameters=given, seed=options.seed, out=options.out, on=ready,
                    limits=_limits(options, experiment), thresholds=thresholds, watcher=watch, cancel=cancel,
                )  # fmt: skip
            finally:
                watch.close()

        results, interruption = _run_all(chosen, one, options.j, cancel)
    if options.json:
        print(json.dumps([result.as_json() | {"folder": str(result.folder)} for result in results], indent=1))
    else:
        for result in results:
            ui.show(result)
    if interruption is not None:
        raise interruption
    return max((result.exit_code(options.allow_degraded) for result in results), default=Exit.OK)


def _run_all(
    chosen: list[definition.Experiment],
    one: Callable[[definition.Experiment], Result | None],
    width: int,
    cancel: threading.Event,
) -> tuple[list[Result], KeyboardInterrupt | None]:
    """Run all; after an interruption, what there is and the interruption itself."""
    interruption = None
    with ThreadPoolExecutor(min(width, max(len(cores.available()), 1))) as pool:
        pending = [pool.submit(one, experiment) for experiment in chosen]
        results = []
        for future in pending:
            while True:
                try:
                    results.append(future.result())
                    break
                except KeyboardInterrupt as error:
                    # The runs are in threads of their own; they end by themselves and keep what they had.
                    interruption = interruption or error
                    cancel.set()
    return [result for result in results if result is not None], interruption


def test(options: argparse.Namespace) -> int:
    """Run Xoff's own tests: --unit on this machine and within a minute, else those with the lab too."""
    root = Path(testbed.__path__[0]).parent
    if not (root / "tests").is_dir():
        raise UsageError("the tests come with the source: clone the repository and use ./xoff test there")
    command = [sys.executable, "-m", "pytest"]
    places = ["tests/unit"] if options.unit else ["tests/unit", "tests/lab"]
    if options.pattern and (root / options.pattern.partition("::")[0]).exists():
        places = [options.pattern]
    elif options.pattern:
        command += ["-k", options.pattern]
    elif not options.all:
        command += ["-m", "not long and not slow" if options.unit else "not long"]
    if not options.unit:
        from testbed.cli.ui import setting_up

        with setting_up() as report:
            machine.require([*machine_packages(), *needs.test_packages()], report)
        if not options.pattern:  # or the tests themselves say, if they need it, what is being made
            _ready(Kind.UM)
        _ready(Kind.VM)
    if not (options.unit and options.pattern):  # a few are done before the others have started
        # A lab takes a core of its own; tests side by side get different ones.
        command += ["-n", str(len(cores.available())), "--dist", "worksteal"]
    return subprocess.run([*command, *places], cwd=root, check=False).returncode and Exit.FAILED


def list_(options: argparse.Namespace) -> int:
    """List experiments with their parameters, and topologies."""
    from testbed.net import shell as topologies

    found = definition.shipped()
    if options.json:
        content = {
            "experiments": [
                {
                    "name": e.name,
                    "summary": e.summary,
                    "parameters": {p.name: str(p.default) for p in e.parameters},
                    "timeout": str(e.timeout),
                }
                for e in found
            ],
            "topologies": [{"name": name, "summary": topologies.summary(name)} for name in topologies.names()],
        }
        print(json.dumps(content, indent=1))
        return Exit.OK
    from rich.table import Table

    from testbed.cli.ui import stdout

    for title, rows in (
        ("experiments", [(e.name, e.summary, " ".join(f"{p.name}={p.default}" for p in e.parameters)) for e in found]),
        ("topologies", [(name, topologies.summary(name), "") for name in topologies.names()]),
    ):
        table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
        for name, summary, parameters in rows:
            table.add_row(f"  [bold]{name}[/bold]", summary)
            if parameters:
                table.add_row("", f"[dim]{parameters}[/dim]")
        stdout.print(f"{title}:", style="dim")
        stdout.print(table)
    return Exit.OK


def shell(options: argparse.Namespace) -> int:
    """Mininet's command line on a topology, in real time, in this terminal."""
    from testbed.cli.shell import shell as converse
    from testbed.net import shell as topologies

    topologies.check(options.topology)
    return converse(options.topology, _ready(options.engine))


def doctor(options: argparse.Namespace) -> int:
    """Check this machine: what an engine needs, what is missing, and the remedy."""
    from testbed.cli import doctor as clinic
    from testbed.cli.ui import stdout

    if options.install:
        clinic.install(options.engine)
    checks = []
    if options.engine in ("um", "all"):
        checks += clinic.um_checks()
    if options.engine in ("vm", "all"):
        checks += clinic.vm_checks()
    if options.engine in ("host", "all"):
        checks += clinic.host_checks()
    missing = [check for check in checks if not check.ok]
    if options.json:
        print(json.dumps(clinic.as_json(checks), indent=1))
        return Exit.MACHINE if missing else Exit.OK
    for check in checks:
        mark = "[green]ok[/green]     " if check.ok else "[red]missing[/red]"
        stdout.print(f"{mark} {check.engine:<5}{check.what}  [dim]{check.found}[/dim]", soft_wrap=True)
        if check.remedy:
            stdout.print(f"        -> {check.remedy}", soft_wrap=True)
    if missing:
        stdout.print(f"{len(missing)} of {len(checks)} missing; `xoff doctor --install` gets what can be installed")
        return Exit.MACHINE
    stdout.print("all there")
    return Exit.OK


def image_(options: argparse.Namespace) -> int:
    """The lab image: build it anew, show its digest and every package's version, or remove it."""
    from testbed.cli.ui import say, setting_up, stdout

    if options.what == "clean":
        for path in image.clean():
            say(f"removed {path}")
        return Exit.OK
    if options.what == "info":
        if (found := image.current()) is None:
            raise UsageError("there is no lab image yet; xoff image build makes it")
    else:
        with setting_up() as report:
            machine.require(machine_packages(), report)
            if options.what == "reference":
                image.write_reference(image.build(report, pinned=False))
            found = image.build(report)  # after `reference` again: it is part of what an image is made of
    differences = found.differences()
    sizes = found.sizes | {"snapshots": snapshot.total_size()}
    if options.json:
        content = {"path": str(found.path), "key": found.key, "digest": found.digest, "kernel": found.kernel}
        lists = {"sizes": sizes, "debian": found.debian, "python": found.python}
        print(json.dumps(content | lists | {"differences_from_reference": differences}, indent=1))
        return Exit.OK
    for name, value in (
        ("digest", found.digest),
        ("kernel", found.kernel),
        ("in", str(found.path)),
        ("sizes", ", ".join(f"{name} {size / 1e6:.0f} MB" for name, size in sizes.items())),
    ):
        stdout.print(f"[dim]{name:<8}[/dim]{value}", soft_wrap=True)
    for kind, versions in (("Debian", found.debian), ("Python", found.python)):
        stdout.print(f"[dim]{kind}[/dim]")
        for name, version in versions.items():
            stdout.print(f"  {name} {version}", soft_wrap=True)
    if differences:
        stdout.print("not the reference image: figures may differ from those that Xoff publishes")
        for difference in differences:
            stdout.print(f"  {difference}", soft_wrap=True)
    else:
        stdout.print("the reference image")
    return Exit.OK


def clean(options: argparse.Namespace) -> int:
    """Remove images, snapshots, Python environments and what a crash left behind; results stay."""
    from testbed.cli.ui import say

    for path in [*cache.sweep(), *image.clean()]:
        say(f"removed {path}")
    for path in [*cache.root().glob("python-*"), *cache.root().glob("kvm-*.json"), cache.root() / "cores"]:
        if Path(sys.prefix) == path or not path.exists():
            continue  # the environment that we run in goes last
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        say(f"removed {path}")
    if Path(sys.prefix).parent == cache.root():
        shutil.rmtree(sys.prefix, ignore_errors=True)
    return Exit.OK


def completion(options: argparse.Namespace) -> int:
    """Print what makes a shell complete xoff's commands, as in: eval "$(xoff completion bash)"."""
    import argcomplete

    print(argcomplete.shellcode(["xoff"], shell=options.shell))
    return Exit.OK


def machine_packages(kind: Kind = Kind.VM) -> list[needs.Package]:
    """What building and running the lab takes; root needs no id mapping."""
    wanted = needs.machine_packages(virtual_machine=kind is not Kind.UM)
    return [p for p in wanted if p.name != "uidmap" or os.geteuid() != 0]


def _ready(kind: Kind) -> Ready:
    from testbed.cli.ui import setting_up

    with setting_up() as report:
        if kind is not Kind.HOST:
            machine.require(machine_packages(kind), report)
        return prepare(kind, report)


def _limits(options: argparse.Namespace, experiment: definition.Experiment) -> Limits:
    limits = Limits(virtual_s=_seconds(options.timeout or experiment.timeout))
    if options.wall_timeout:
        limits = replace(limits, wall_s=_seconds(options.wall_timeout))
    if options.memory:
        limits = replace(limits, memory_mb=options.memory)
    if options.processes:
        limits = replace(limits, processes=options.processes)
    return limits


def _seconds(duration: Duration) -> float:
    return duration.ps / 1e12


def _assignment(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"--set {text}: NAME=VALUE is expected, as in --set hosts=8")
    return name, value
