"""The two pictures of the README, a recording of the demo and a report: `xoff docs --figures` makes those that are old.

Each has the digest that its experiment gave when it was made: the recording in its `<metadata>`, the report in a
`tEXt` chunk of its PNG. A test compares these with experiments/digests.json. It does not compare the pictures
themselves, since a recording has times of the machine, and each version of Chromium draws a little otherwise.
"""

from __future__ import annotations

import json
import re
import struct
import tempfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.lab.studies import references
from tests.browser import chromium
from tools import gallery, terminal_recording

DEMO, DEMO_COMMAND = Path("docs/demo.svg"), ("./xoff", "demo")
REPORT = Path("docs/report.png")
_WIDTH, _HEIGHT = 1200, 980
_LARGEST = 400_000
_KEYWORD = b"xoff-digest"


@dataclass(frozen=True)
class Picture:
    """A picture of the README."""

    experiment: str
    """The experiment of the result that it shows."""
    digest: Callable[[bytes], str]
    """Return the digest that the file of the picture names, empty if it names none."""
    make: Callable[[Path, Path], None]
    """Make the picture of a checkout, into a file."""
    lacks: Callable[[], str] = str
    """Return what this machine lacks to make it, empty if nothing."""


def stale(root: Path) -> dict[Path, str]:
    """Return the pictures that are missing or old, with the reason."""
    digests = references.read(root)[gallery.ENGINE].digests
    found = {}
    for file, picture in PICTURES.items():
        if not (root / file).is_file():
            found[file] = "there is none"
        elif picture.digest((root / file).read_bytes()) != digests.get(picture.experiment):
            found[file] = f"{picture.experiment} gives another result"
    return found


def _record_demo(root: Path, file: Path) -> None:
    shown = " ".join(DEMO_COMMAND)
    with tempfile.TemporaryDirectory(prefix="xoff-") as folder:
        recorded = terminal_recording.record([str(root / DEMO_COMMAND[0]), *DEMO_COMMAND[1:]], Path(folder))
    # Not that of the recorded run: the live view of the demo moves what Open vSwitch does by microseconds.
    note = references.read(root)[gallery.ENGINE].digests[PICTURES[DEMO].experiment]
    frames = list(terminal_recording.frames(shown, recorded))
    terminal_recording.write(file, terminal_recording.svg(f"A terminal: {shown}", frames, note))


def _digest_of_svg(content: bytes) -> str:
    match = re.search(rb"<metadata>([0-9a-f]{64})</metadata>", content)
    return match[1].decode() if match else ""


def _draw_report(root: Path, file: Path) -> None:
    experiment = PICTURES[REPORT].experiment
    with tempfile.TemporaryDirectory(prefix="xoff-") as place, chromium.started() as browser:
        report = Path(place) / "report.html"
        report.write_text(gallery.sample_reports(root)[experiment], encoding="utf-8")
        page = browser.new_context(viewport={"width": _WIDTH, "height": _HEIGHT}, color_scheme="light").new_page()
        page.goto(report.as_uri())
        page.evaluate("xoffReport.loaded")
        page.wait_for_timeout(500)
        drawn: bytes = page.screenshot()
    if len(drawn) > _LARGEST:
        raise ValueError(f"{file} has {len(drawn)} octets, and {_LARGEST} are enough")
    sample: Mapping[str, Any] = json.loads(gallery.samples(root)[experiment]["result.json"])
    file.write_bytes(with_digest(drawn, sample["digest"]))


def with_digest(png: bytes, digest: str) -> bytes:
    """Return a PNG with a `tEXt` chunk that names a digest, before its last chunk (RFC 2083, 4.2.3)."""
    content = b"tEXt" + _KEYWORD + b"\0" + digest.encode()
    chunk = struct.pack("!I", len(content) - 4) + content + struct.pack("!I", zlib.crc32(content))
    end = png.rindex(b"IEND") - 4
    return png[:end] + chunk + png[end:]


def digest_of_png(content: bytes) -> str:
    match = re.search(_KEYWORD + rb"\0([0-9a-f]{64})", content)
    return match[1].decode() if match else ""


PICTURES = {
    DEMO: Picture("cross_dc", _digest_of_svg, _record_demo),
    REPORT: Picture("victim", digest_of_png, _draw_report, chromium.missing),
}
