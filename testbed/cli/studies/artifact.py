"""`xoff artifact`: results with all that makes them again, for an artifact evaluation."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from testbed.cli.screen import console
from testbed.errors import UsageError
from testbed.lab.results.result import Exit
from testbed.lab.studies import artifact as artifacts
from testbed.lab.studies.artifact import RERUN

_EXAMPLES = """\
examples:
  xoff artifact results/sweep-incast
  xoff artifact results --figure "Figure 3=results/incast-001" --lab lab.tar

With --lab FILE, of `xoff image export FILE --engine um`, a reviewer downloads and compiles nothing.
"""


def options(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "folder",
        type=Path,
        metavar="DIR",
        help="a result folder, a sweep's or benchmark's, or one with several results",
    )
    parser.add_argument("--figure", action="append", default=[], metavar="NAME=RESULT",
                        help="what of the publication a result folder is for; may be repeated")  # fmt: skip
    parser.add_argument("--lab", type=Path, metavar="FILE", help="put the lab of this file into the artifact")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="default: DIR-artifact")


def artifact(options: argparse.Namespace) -> int:
    """Pack results for an artifact evaluation: a table of commands, digests and minutes, code, locks, results, RO-Crate
    metadata, and a program that makes all of it again and compares digests."""
    folder = options.folder
    if not folder.is_dir():
        raise UsageError(f"{folder}: there is no such folder; `xoff run` and `xoff sweep` make some in results/")
    if options.lab is not None and not options.lab.is_file():
        raise UsageError(f"--lab {options.lab}: there is no such file; ./xoff image export {options.lab} writes it")
    out = options.out or folder.resolve().with_name(f"{folder.resolve().name}-artifact")
    packed = artifacts.pack(folder, out, dict(map(_figure, options.figure)), options.lab)
    if options.json:
        content = {
            "folder": str(packed.folder),
            "octets": packed.octets,
            "commands": list(map(asdict, packed.commands)),
            "files": {name: str(path) for name, path in packed.files.items()},
            "left_out": packed.left_out,
        }
        print(json.dumps(content, indent=1))
        return Exit.OK
    for left in packed.left_out:
        console.print_error(f"left out: {left}")
    for one in packed.commands:
        console.stdout.print(f"runs: {console.shown(one.shown)}", soft_wrap=True)
    for name, path in packed.files.items():
        console.stdout.print(f"takes: files/{console.shown(name)}, from {console.shown(path)}", soft_wrap=True)
    runs = sum(len(one.digests) for one in packed.commands)
    console.stdout.print(
        f"{console.shown(packed.folder)}: {len(packed.commands)} commands, {runs} digests, {packed.octets >> 20} MB\n"
        f"a reviewer calls: python3 {RERUN}",
        soft_wrap=True,
    )
    return Exit.OK


def _figure(text: str) -> tuple[Path, str]:
    name, equals, path = text.rpartition("=")
    if not name or not equals or not path:
        raise UsageError(f'--figure {text}: NAME=RESULT is expected, as in --figure "Figure 3=results/incast-001"')
    return Path(path), name
