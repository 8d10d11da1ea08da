"""`xoff image`: what Xoff keeps in its cache."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path

from testbed.cli import machine
from testbed.cli.arguments import one_of
from testbed.cli.house import lab_file as commands
from testbed.errors import UsageError
from testbed.lab.engines import lab_file, table
from testbed.lab.engines.forecast import Step
from testbed.lab.host import cache, distribution, prerequisites
from testbed.lab.image import image
from testbed.lab.image.image import Image
from testbed.lab.results.result import Exit
from testbed.lab.um import disks, kernel
from testbed.lab.vm import snapshot

_ALL = "all"
_ONLY_OF_WHEELS = "um"


def export_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="the file to write")
    parser.add_argument(
        "--engine", type=one_of("engine to export for", (*lab_file.ENGINES, _ALL)), metavar="E",
        help=f"engines that the file is for: um, vm or {_ALL} (default {_ALL}; for um alone it is half as large)",
    )  # fmt: skip
    parser.add_argument(
        "--with-deb", action="append", default=[], metavar="NAME,...",
        help="Debian packages that the file carries too, named as for run --with-deb",
    )  # fmt: skip
    parser.add_argument("--small", action="store_true", help="take minutes to make the file a tenth smaller")
    parser.add_argument(
        "--wheel", action="store_true",
        help="write a wheel, for an index of Python packages, into the folder FILE; it is for um alone",
    )  # fmt: skip


def clean_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--all", action="store_true", help="also Python environments and what a crash left behind; results stay"
    )


def reference_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--engine", type=one_of("engine", lab_file.ENGINES), metavar="E", help="of this engine alone")


def build(options: argparse.Namespace) -> int:
    """Build the lab image anew, and show its digest and the version of every package."""
    from testbed.cli.screen.progress import setting_up

    distribution.require_labs()
    with setting_up([Step.IMAGE]) as report:
        machine.require(table.find("vm").requirements(building=True), report)
        found = image.build(report)
    return _show(found, options.json)


def info(options: argparse.Namespace) -> int:
    """Show the digest of the lab image, the version of every package in it, and what differs from the reference."""
    if (found := image.current()) is None:
        raise UsageError("there is no lab image yet; xoff image build makes it")
    return _show(found, options.json)


def export(options: argparse.Namespace) -> int:
    """Write the lab to one file, for a machine that has only Python; there `./xoff image import FILE` takes it."""
    from testbed.cli.screen.progress import setting_up

    distribution.require_labs()
    if options.wheel and options.engine not in (None, _ONLY_OF_WHEELS):
        raise UsageError(f"--wheel is for the engine {_ONLY_OF_WHEELS}, and not with --engine {options.engine}")
    chosen = options.engine or (_ONLY_OF_WHEELS if options.wheel else _ALL)
    engines = lab_file.ENGINES if chosen == _ALL else (chosen,)
    if not all(table.find(engine).is_built() for engine in engines):
        with setting_up() as report:
            machine.require(prerequisites.build_packages(), report)
    return commands.export(options, engines)


def reference(options: argparse.Namespace) -> int:
    """Build image and kernel with the newest packages, and write their versions as the reference (CONTRIBUTING.md)."""
    from testbed.cli.screen.progress import setting_up

    distribution.require_labs()
    steps = ([Step.KERNEL] if options.engine != "vm" else []) + ([Step.IMAGE] * 2 if options.engine != "um" else [])
    with setting_up(steps) as report:
        machine.require(table.find("vm").requirements(building=True), report)
        if options.engine != "vm":
            kernel.write_reference(kernel.build(report, pinned=False))
        if options.engine == "um":
            return Exit.OK
        image.write_reference(image.build(report, pinned=False))
        found = image.build(report)  # after the reference again: it is part of what an image is made of
        disks.write_reference(found, report)
    return _show(found, options.json)


def clean(options: argparse.Namespace) -> int:
    """Remove images, snapshots and kernels from the cache; they are made again when they are needed."""
    from testbed.cli.screen.console import say

    if options.all:
        return _clean_all()
    for path in image.clean():
        say(f"removed {path}")
    return Exit.OK


def _show(found: Image, as_json: bool) -> int:
    from testbed.cli.screen.console import stdout

    differences = found.differences()
    sizes = found.sizes | {"snapshots": snapshot.total_size()}
    if as_json:
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


def _clean_all() -> int:
    from testbed.cli.screen.console import say

    for path in [*cache.sweep(), *image.clean()]:
        say(f"removed {path}")
    further = ("python-*", "kvm-*.json", "cores", "lab-file-*", "lab-not-in-index", "cluster")
    for path in [path for name in further for path in sorted(cache.root().glob(name))]:
        if Path(sys.prefix) == path or not path.exists():
            continue  # the environment that we run in goes last
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        say(f"removed {path}")
    if Path(sys.prefix).parent == cache.root():
        shutil.rmtree(sys.prefix, ignore_errors=True)
    return Exit.OK
