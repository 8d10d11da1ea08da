"""`xoff list`: what there is to run."""

from __future__ import annotations

import argparse
import json

from testbed.lab import definition
from testbed.lab.result import Exit


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
                    "ranges": {p.name: str(p.limits) for p in e.parameters if p.limits},
                    "timeout": str(e.timeout),
                }
                for e in found
            ],
            "topologies": [{"name": name, "summary": topologies.summary(name)} for name in topologies.names()],
        }
        print(json.dumps(content, indent=1))
        return Exit.OK
    from rich.table import Table

    from testbed.cli.console import stdout

    for title, rows in (
        ("experiments", [(e.name, e.summary, " ".join(map(str, e.parameters))) for e in found]),
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
