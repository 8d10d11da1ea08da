"""`xoff list`: experiments, topologies and rate controls."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Container, Mapping
from typing import Any

from testbed import plugins
from testbed.cli import index
from testbed.cli.index import Listed


def list_(options: argparse.Namespace) -> int:
    """List experiments with their parameters, topologies and rate controls, those of installed packages too."""
    from testbed.cli.screen.console import print_error

    shipped = index.shipped()
    found = [*shipped.experiments, *_added(print_error)]
    own = {one.name for one in shipped.experiments}
    topologies = _topologies(shipped.topologies, print_error)
    controls = _rate_controls(print_error)
    if options.json:
        content: dict[str, Any] = {
            "experiments": [
                {
                    "name": e.name,
                    "summary": e.summary,
                    "parameters": e.parameters,
                    "ranges": e.ranges,
                    "timeout": e.timeout,
                    "conformance": e.kind == "conformance",
                    "published": e.kind == "published",
                    **_package(plugins.EXPERIMENTS, e.name, own),
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
        return 0
    from rich.table import Table

    from testbed.cli.screen.console import shown, stdout

    experiments, conformance, published = (
        [(e.name, e.summary, e.shown) for e in found if e.kind == wanted] for wanted in ("", "conformance", "published")
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
            source = _package(group, name, own).get("package")
            table.add_row(f"  [bold]{shown(name)}[/bold]", shown(f"{summary} ({source})" if source else summary))
            if parameters:
                table.add_row("", f"[dim]{shown(parameters)}[/dim]")
        stdout.print(f"{title}:", style="dim")
        stdout.print(table)
    return 0


def _topologies(own: Mapping[str, str], report: Callable[[str], None]) -> dict[str, str]:
    """Return the first line about each topology; a broken one of an installed package is reported and left out."""
    found = dict(own)
    for plugin in plugins.of_group(plugins.TOPOLOGIES):
        try:
            found.setdefault(plugin.name, plugins.summary(plugin))
        except plugins.PluginError as error:
            report(str(error))
    return dict(sorted(found.items()))


def _added(report: Callable[[str], None]) -> list[Listed]:
    """Return the experiments of installed packages; to say what they are takes importing them."""
    if not plugins.of_group(plugins.EXPERIMENTS):
        return []
    from testbed.experiment import definition

    return [index.listed(one) for one in definition.added(report)]


def _rate_controls(report: Callable[[str], None]) -> list[str]:
    from testbed.roce import rates

    found = []
    for name in rates.names():
        try:
            rates.maker_of(name)
        except plugins.PluginError as error:
            report(str(error))
        else:
            found.append(name)
    return found


def _package(group: str, name: str, own: Container[str] = ()) -> dict[str, str]:
    """Return the package that something comes from, if it is not one of Xoff's `own` experiments."""
    plugin = plugins.named(group, name)
    hidden = group == plugins.EXPERIMENTS and name in own
    return {"package": plugin.package} if plugin is not None and not hidden else {}
