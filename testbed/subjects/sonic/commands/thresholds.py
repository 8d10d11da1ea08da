"""`xoff switch thresholds`: how a switch's buffer is divided, and when PAUSE is sent. It needs no lab."""

from __future__ import annotations

import argparse
import json

from testbed.lab.results.result import Exit
from testbed.switch.buffer import thresholds as model
from testbed.switch.buffer.thresholds import Answer, Asked


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--buffer", required=True, metavar="S", help="size of the buffer, as in 32MB")
    for name, meta, default, what in (
        ("--ports", "N", Asked.ports, "ports that share it"),
        ("--lossless", "N", Asked.lossless, "lossless priorities of each port"),
        ("--guaranteed", "S", Asked.guaranteed, "what each of them has for itself, as in 10kB"),
        ("--headroom", "S", Asked.headroom, "headroom of each of them, by xoff switch headroom"),
        ("--xon-offset", "S", Asked.xon_offset, "how far below the threshold XON is"),
        ("--cell", "B", Asked.cell, "size of a buffer cell, in bytes"),
    ):
        parser.add_argument(name, metavar=meta, default=default, help=f"{what} (default {default})")
    parser.add_argument(
        "--headroom-pool", metavar="S", help="all headroom together, if it is less than the sum (overbooked)"
    )
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument(
        "--alpha", metavar="A", help="dynamic threshold: part of what is free of the shared pool, as in 1/8 (default 1)"
    )
    kind.add_argument("--static", metavar="S", help="static threshold, as in 200kB")


def thresholds(options: argparse.Namespace) -> int:
    """Compute how a buffer is divided, and the thresholds of its lossless priorities: XOFF and XON, by how many of them
    are full."""
    found = model.answer(Asked(**{name: getattr(options, name) for name in Asked.__dataclass_fields__}))
    if options.json:
        print(json.dumps(model.as_json(found), indent=1))
    else:
        _show(found)
    return Exit.OK


def _show(found: Answer) -> None:
    settings = found.settings
    parts = (settings.guaranteed_cells, settings.headroom_cells, settings.shared_cells)
    print(f"{settings.total} cells of {settings.cell_bytes} B for {found.groups} lossless priorities of ports:")
    for name, cells in zip(("guaranteed", "headroom", "shared"), parts, strict=True):
        print(f"  {name:10} {cells:>9} cells  {cells * settings.cell_bytes:>12} B")
    print("full priorities    XOFF above     XON at")
    for row in found.rows:
        print(f"{row.groups:>15}  {row.xoff:>6} cells  {row.xon:>6} cells  ({row.xoff * settings.cell_bytes} B)")
    for note in found.notes:
        print(f"note: {note}")
