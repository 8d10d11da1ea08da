"""`xoff image` and `xoff clean`: what Xoff keeps in its cache."""

from __future__ import annotations

import argparse
import enum
import json
import shutil
import sys
from pathlib import Path

from testbed.cli import carry as carrying
from testbed.cli import machine
from testbed.cli.arguments import one_of
from testbed.cli.engine_setup import machine_packages
from testbed.errors import UsageError
from testbed.lab import cache, carry, image, snapshot
from testbed.lab.engine import Kind, is_built
from testbed.lab.result import Exit
from testbed.lab.um import kernel


class What(enum.StrEnum):
    BUILD = "build"
    INFO = "info"
    EXPORT = "export"
    IMPORT = "import"
    CLEAN = "clean"
    REFERENCE = "reference"  # for who works on Xoff: CONTRIBUTING.md


_OFFERED = (What.BUILD, What.INFO, What.EXPORT, What.IMPORT, What.CLEAN)
_ALL = "all"


def image_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what", type=one_of("image command", _OFFERED, (What.REFERENCE,)), metavar="|".join(_OFFERED),
        help="build: anew; info: digest and versions; export, import: the lab in one FILE, for a machine that has only "
        "Python; clean: remove images, snapshots and kernels",
    )  # fmt: skip
    parser.add_argument("file", nargs="?", type=Path, metavar="FILE", help="for export and import")
    parser.add_argument(
        "--engine", type=one_of("engine to export for", (*carry.ENGINES, _ALL)), metavar="E",
        help=f"what an exported file is for: um, vm or {_ALL} (default {_ALL}; for um alone it is half as large)",
    )  # fmt: skip


def image_(options: argparse.Namespace) -> int:
    """The lab image: build it anew, show its digest and every package's version, carry it elsewhere, or remove it."""
    if (options.what in (What.EXPORT, What.IMPORT)) is (options.file is None):
        raise UsageError(f"xoff image {options.what} {'needs a' if options.file is None else 'takes no'} FILE")
    if options.engine is not None and options.what not in (What.EXPORT, What.REFERENCE):
        raise UsageError(f"xoff image {options.what} takes no --engine; it is for export")
    if options.what is What.IMPORT:
        return carrying.import_(options)

    from testbed.cli.console import say, stdout
    from testbed.cli.ui import setting_up

    if options.what is What.EXPORT:
        engines = carry.ENGINES if options.engine in (None, _ALL) else (options.engine,)
        if not all(is_built(Kind(engine)) for engine in engines):
            with setting_up() as report:
                machine.require(machine_packages(Kind.UM), report)
        return carrying.export(options, engines)
    if options.what is What.CLEAN:
        for path in image.clean():
            say(f"removed {path}")
        return Exit.OK
    if options.what is What.INFO:
        if (found := image.current()) is None:
            raise UsageError("there is no lab image yet; xoff image build makes it")
    else:
        with setting_up() as report:
            machine.require(machine_packages(), report)
            if options.what is What.REFERENCE:
                if options.engine != Kind.VM:
                    kernel.write_reference(kernel.build(report, pinned=False))
                if options.engine == Kind.UM:
                    return Exit.OK
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
    from testbed.cli.console import say

    for path in [*cache.sweep(), *image.clean()]:
        say(f"removed {path}")
    further = ("python-*", "kvm-*.json", "cores", "lab-file-*", "cluster")
    for path in [path for name in further for path in sorted(cache.root().glob(name))]:
        if Path(sys.prefix) == path or not path.exists():
            continue  # the environment that we run in goes last
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        say(f"removed {path}")
    if Path(sys.prefix).parent == cache.root():
        shutil.rmtree(sys.prefix, ignore_errors=True)
    return Exit.OK
