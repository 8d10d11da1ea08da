"""Attachments of a report for other programs: a trace for Perfetto, and all captures as one file for Wireshark.

Both are in the page, compressed as its columns are, so that the report of a result is still one file that asks nobody
for anything. `assets/attachments.js` saves them, and hands the trace to Perfetto in a window that the reader's click
opens. What is too large for that has the command that writes the file.
"""

from __future__ import annotations

import base64
import io
import os
import shlex
import zlib
from collections.abc import Callable
from contextlib import ExitStack
from typing import BinaryIO

from testbed.errors import XoffError
from testbed.experiment.output import CAPTURES
from testbed.lab.results.folder import Folder
from testbed.report.exports import captures, perfetto
from testbed.report.pages.markup import Html, text

MOST_EVENTS = 100_000
"""The most events of a run whose trace is in its report; more take a second or longer to write."""
MOST_OCTETS = 64 << 20
"""The most octets of captures that are looked at."""
LARGEST = 1_000_000
"""The most octets of one attachment, compressed."""


def markup(number: int, folder: Folder, events: int) -> Html:
    """Return the buttons of a result, and the data behind them."""
    parts = []
    trace = _packed(perfetto.write, folder) if events <= MOST_EVENTS else None
    if trace is None:
        parts.append(_command(folder, "--perfetto", "a trace for Perfetto"))
    else:
        name = f"trace-{number}"
        parts.append(f'<button type="button" data-perfetto="{name}">Open in Perfetto</button>')
        parts.append(f'<button type="button" data-save="{name}">Save the trace</button>')
        parts.append(_data(name, f"{folder.name}.perfetto-trace", trace))
    if _has_captures(folder):
        merged = _packed(captures.write_merged, folder) if _are_small(folder) else None
        if merged is None:
            parts.append(_command(folder, "--pcapng", "captures for Wireshark"))
        else:
            name = f"captures-{number}"
            parts.append(f'<button type="button" data-save="{name}">Save the captures for Wireshark</button>')
            parts.append(_data(name, f"{folder.name}.pcapng", merged))
    about = (
        '<span class="note" role="status">Perfetto is a page of its own, ui.perfetto.dev, which gets the trace from '
        "this one and sends it nowhere.</span>"
    )
    return Html(f'<p class="tools others" hidden>{"".join(parts)}{about}</p>')


def _packed(write: Callable[[Folder, BinaryIO], None], folder: Folder) -> str | None:
    """Return a file as deflate in base64, or None if it is too large or cannot be made."""
    out = io.BytesIO()
    try:
        write(folder, out)
    except XoffError:
        return None  # a damaged capture; the command says which
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    octets = packer.compress(out.getvalue()) + packer.flush()
    return base64.b64encode(octets).decode() if len(octets) <= LARGEST else None


def _has_captures(folder: Folder) -> bool:
    return bool(folder.files.listing(CAPTURES))


def _are_small(folder: Folder) -> bool:
    with ExitStack() as stack:
        try:
            files = captures.open_captures(folder.path, stack)
        except XoffError:
            return False  # the command says why
        return sum(os.fstat(file.fileno()).st_size for file in files) <= MOST_OCTETS


def _data(identity: str, name: str, content: str) -> str:
    return f'<script type="text/plain" id="{identity}" data-name="{text(name, 100)}">{content}</script>'


def _command(folder: Folder, option: str, what: str) -> str:
    words = shlex.join(["xoff", "export", str(folder.path), option])
    return f'<span class="note"><code>{text(words)}</code> writes {what}.</span> '
