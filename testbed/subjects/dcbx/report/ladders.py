"""DCBX ladders of a result: one picture for each cable whose two ports are in the log."""

from __future__ import annotations

import base64

from testbed.lab.results.folder import Folder, Network
from testbed.report.pages.markup import folded, heading, text
from testbed.subjects.dcbx.ladder import LadderError, ladder
from testbed.subjects.dcbx.ladder.svg import as_svg

MOST = 12
"""The most ladders in one report."""


def section(folder: Folder) -> list[str]:
    """Return the section with the ladders of a result, if it has any."""
    pictures = _pictures(folder)
    if not pictures:
        return []
    return [folded("DCBX", "".join(pictures), "which LLDP frames a pair of ports exchanged, as ladders")]


def _pictures(folder: Folder) -> list[str]:
    """Return pictures that open at a click. They are images, so no script in them runs and no style leaves them."""
    records = folder.dcbx()
    if not records:
        return []
    out: list[str] = [heading(3, "DCBX")]
    left = 0
    for network in folder.networks:
        own = [record for record in records if network.start_ns <= record["t_ns"] <= network.end_ns]
        ports = {record["port"] for record in own}
        for cable in network.cables:
            one, other = cable["ends"]
            if one not in ports or other not in ports:
                continue
            if len(out) > MOST:
                left += 1
                continue
            out.append(_one(network, own, one, other))
    if left:
        out.append(f'<p class="note">{left} more cables: xoff export {text(folder.path)} --ladder PORT PORT.</p>')
    return out if len(out) > 1 else []


def _one(network: Network, records: list[dict[str, object]], one: str, other: str) -> str:
    name = f"{network.title}: {one} and {other}"
    try:
        picture = as_svg(ladder(records, one, other))
    except LadderError as error:
        return f'<p class="note">{text(name)}: {text(error)}</p>'
    image = base64.b64encode(picture.encode()).decode()
    source = f"data:image/svg+xml;base64,{image}"
    return folded(name, f'<img class="ladder" loading="lazy" alt="DCBX ladder of {text(name)}" src="{source}">')
