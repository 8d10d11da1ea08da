"""`xoff switch counters`: PFC's counters of a real switch, beside those of the lab. It needs no lab."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from testbed.errors import UsageError, nearest
from testbed.lab.results.folder import Folder
from testbed.lab.results.folder import read as read_folder
from testbed.lab.results.result import Exit
from testbed.report.timeline.pfc_counts import PfcCounts
from testbed.subjects.sonic import read as tables
from testbed.subjects.sonic.counters import ShownCounters, grown, read
from testbed.subjects.sonic.lab.settings import read_octets

_HEADS = ("port", "priority", "received", "sent")


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", type=Path, metavar="FILE",
        help="what `show pfc counters` printed, or an archive of `show techsupport`",
    )  # fmt: skip
    parser.add_argument("--beside", type=Path, metavar="RESULT", help="a result of the same switch in the lab")
    parser.add_argument(
        "--config", metavar="FILE", help="its config_db.json, for the names of ports (default: that in the archive)"
    )


def counters(options: argparse.Namespace) -> int:
    """Show the PFC counters of a real switch where one is not 0; with --beside those of the lab in a result, too."""
    readings, config = read(options.file)
    first, last = readings[0], readings[-1]
    lab = _lab(options, last, config) if options.beside is not None else None
    places = dict.fromkeys(last.used())
    if lab is not None:
        places |= dict.fromkeys(place for place, counted in lab.items() if any(counted))
    rows = [
        _row(first, last, lab, *place) for place in sorted(places, key=lambda place: (_natural(place[0]), place[1]))
    ]
    if options.json:
        print(json.dumps({"readings": [one.source for one in readings], "counters": rows}, indent=1))
    else:
        _show(readings, rows)
    return Exit.OK


def _row(
    first: ShownCounters,
    last: ShownCounters,
    lab: dict[tuple[str, int], tuple[int, int]] | None,
    port: str,
    priority: int,
) -> dict[str, Any]:
    row: dict[str, Any] = {"port": port, "priority": priority}
    for name, before, after in (("received", first.received, last.received), ("sent", first.sent, last.sent)):
        counts = after.get(port)
        row[name] = None if counts is None else counts[priority]
        if first is not last:
            row[f"{name} since"] = grown(before.get(port), counts, priority)
    if lab is not None:
        row["lab received"], row["lab sent"] = lab.get((port, priority), (0, 0))
    return row


def _lab(
    options: argparse.Namespace, last: ShownCounters, config: bytes | None
) -> dict[tuple[str, int], tuple[int, int]]:
    """Return the PFC frames that the ports of the same switch received and sent in the lab, by SONiC's names."""
    octets = config if options.config is None else read_octets(options.config)
    if octets is None:
        raise UsageError("the lab's ports have numbers, and the names are in config_db.json; --config FILE gives it")
    found = tables.read(octets).require(options.config or str(options.file))
    folder = read_folder(options.beside)
    node = _node(folder, found.hostname)
    names = {f"{node}-eth{number}": port for number, port in enumerate(found.ports, 1)}
    counts = PfcCounts()
    for event in folder.events():
        counts.add(event)
    return {(names[port], priority): counts.frames(port, priority) for port, priority in counts.seen() if port in names}


def _node(folder: Folder, hostname: str) -> str:
    switches = [name for network in folder.networks for name, kind in network.nodes.items() if kind == "switch"]
    chosen = list(dict.fromkeys(switches))
    if hostname in chosen:
        return hostname
    if len(chosen) == 1:
        return chosen[0]
    there = nearest(hostname, chosen) if chosen else "there is no switch in it"
    raise UsageError(f"{folder.path} has no switch {hostname or 'without a hostname'}; {there}")


def _show(readings: list[ShownCounters], rows: list[dict[str, Any]]) -> None:
    from rich.table import Table

    from testbed.cli.screen.console import stdout

    since = f", and how much they grew since {readings[0].source}" if len(readings) > 1 else ""
    print(f"PFC frames by {readings[-1].source}{since}")
    if not rows:
        print("no port has received or sent any")
        return
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for name in rows[0]:
        table.add_column(name, justify="left" if name == "port" else "right", no_wrap=True)
    for row in rows:
        table.add_row(*("-" if value is None else str(value) for value in row.values()))
    stdout.print(table, crop=False)


def _natural(port: str) -> tuple[str, int]:
    head = port.rstrip("0123456789")
    return head, int(port[len(head) :] or 0)
