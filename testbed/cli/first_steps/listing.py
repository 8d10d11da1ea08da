"""`xoff list`: experiments, topologies and rate controls."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any

from testbed import plugins
from testbed.experiment import definition
from testbed.lab.results.result import Exit
from testbed.roce import rates


def list_(options: argparse.Namespace) -> int:
    """List experiments with their parameters, topologies and rate controls, those of installed packages too."""
    from testbed.cli.screen.console import print_error

    found = [*definition.shipped(), *definition.added(print_error)]
    kinds = {case.name: "conformance" for case in definition.conformance()}
    kinds |= {one.name: "published" for one in definition.published()}
    topologies = _topologies(print_error)
    controls = _rate_controls(print_error)
    if options.json:
        content: dict[str, Any] = {
            "experiments": [
                {
                    "name": e.name,
                    "summary": e.summary,
                    "parameters": {p.name: "" if p.default is None else str(p.default) for p in e.parameters},
                    "ranges": {p.name: str(p.limits) for p in e.parameters if p.limits},
                    "timeout": str(e.timeout),
                    "conformance": kinds.get(e.name) == "conformance",
                    "published": kinds.get(e.name) == "published",
                    **_package(plugins.EXPERIMENTS, e.name),
                }
                for e in found
            ],
            "topologies": [
                {"name": name, "summary": summary, **_package(plugins.TOPOLOGIES, name)}
                for name, summary in topologies.items()
            ],
            "rate_controls": [{"name": name, **_package(plugins.RATE_CONTROLS, name)} for name in controls],
        }
        print(json.dumps(content, indent=1))
        return Exit.OK
    from rich.table import Table

    from testbed.cli.screen.console import shown, stdout

    experiments, conformance, published = (
        [(e.name, e.summary, " ".join(map(str, e.parameters))) for e in found if kinds.get(e.name, "") == wanted]
        for wanted in ("", "conformance", "published")
    )
    for title, group, rows in (
        ("experiments", plugins.EXPERIMENTS, experiments),
        ("results of others", plugins.EXPERIMENTS, published),
        ("conformance cases", plugins.EXPERIMENTS, [(name, summary, "") for name, summary, _ in conformance]),
        ("topologies", plugins.TOPOLOGIES, [(name, summary, "") for name, summary in topologies.items()]),
        ("rate controls", plugins.RATE_CONTROLS, [(name, "", "") for name in controls]),
    ):
        table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
        for name, summary, parameters in rows:
            source = _package(group, name).get("package")
            table.add_row(f"  [bold]{shown(name)}[/bold]", shown(f"{summary} ({source})" if source else summary))
            if parameters:
                table.add_row("", f"[dim]{shown(parameters)}[/dim]")
        stdout.print(f"{title}:", style="dim")
        stdout.print(table)
    return Exit.OK


def _topologies(report: Callable[[str], None]) -> dict[str, str]:
    """Return the first line about each topology; a broken one of an installed package is reported and left out."""
    from testbed.net.shell import topologies

    found = {}
    for name in topologies.names():
        try:
            found[name] = topologies.summary(name)
        except plugins.PluginError as error:
            report(str(error))
    return found


def _rate_controls(report: Callable[[str], None]) -> list[str]:
    found = []
    for name in rates.names():
        try:
            rates.maker_of(name)
        except plugins.PluginError as error:
            report(str(error))
        else:
            found.append(name)
    return found


def _package(group: str, name: str) -> dict[str, str]:
    """Return the package that something comes from, if it is not Xoff's own."""
    plugin = plugins.named(group, name)
    own = group != plugins.EXPERIMENTS or name not in {experiment.name for experiment in definition.shipped()}
    return {"package": plugin.package} if plugin is not None and own else {}
