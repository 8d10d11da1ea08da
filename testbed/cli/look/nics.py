"""`xoff nics`: the settings of NICs by product that are public, each with its source."""

from __future__ import annotations

import argparse
import json

from testbed.cli.screen.console import shown, stdout
from testbed.lab.results.result import Exit
from testbed.roce.products.model import NicModel
from testbed.roce.products.table import NIC_MODELS, SOURCES, nic_model


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="one of them, as in connectx-5; by default all")


def nics(options: argparse.Namespace) -> int:
    """Show what is public of NICs, by product: the settings of `Roce(nic="connectx-5")`, and where each is from. What
    has no public source is not among them, and keeps its default."""
    chosen = list(NIC_MODELS.values()) if options.name is None else [nic_model(options.name)]
    if options.json:
        print(json.dumps([_as_json(model) for model in chosen], indent=1))
        return Exit.OK
    for model in chosen:
        stdout.print(f"[bold]{shown(model.name)}[/bold]  {shown(model.title)}")
        for source, known in model.by_source().items():
            settings = ", ".join(f"{one.setting}={one.value}" for one in known)
            stdout.print(f"  {settings}  [dim]\\[{source}][/dim]", highlight=False)
        for remark in model.remarks if options.name else ():
            stdout.print(f"  {shown(remark)}", style="dim", highlight=False)
    used = dict.fromkeys(source for model in chosen for source in model.by_source())
    stdout.print("sources:", style="dim")
    for key in used:
        stdout.print(f"  [dim]\\[{key}][/dim] {shown(SOURCES[key])}", highlight=False)
    if options.name is None:
        stdout.print("`xoff nics NAME` has remarks: what is not in a set, and why", style="dim")
    return Exit.OK


def _as_json(model: NicModel) -> dict[str, object]:
    return {
        "name": model.name,
        "title": model.title,
        "settings": [
            {"name": known.setting, "value": str(known.value), "source": SOURCES[known.source]} for known in model.known
        ],
        "remarks": list(model.remarks),
    }
