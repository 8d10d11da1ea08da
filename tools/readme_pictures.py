"""The two pictures of the README, a recording of the demo and a report, and the run that the site's first page replays:
`xoff docs --figures` makes those that are old.

Each has the digest that its experiment gave when it was made: the recording in its `<metadata>`, the report in a
`tEXt` chunk of its PNG, the run in a file of its archive. A test compares these with experiments/digests.json. It does
not compare the pictures themselves, since a recording has times of the machine, and each version of Chromium draws a
little otherwise.
"""

from __future__ import annotations

import io
import json
import re
import struct
import subprocess
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.lab.studies import references
from testbed.report.pages.page import report
from tests.browser import chromium
from tools import gallery, terminal_recording

DEMO, DEMO_COMMAND = Path("docs/demo.svg"), ("./xoff", "demo")
REPORT = Path("docs/report.png")
RUN = Path("docs/gallery/replayed.tar.xz")
"""A result folder with the captures of all cables, so that its report has frames that move."""
_WIDTH, _HEIGHT = 1200, 980
_LARGEST = 400_000
_KEYWORD = b"xoff-digest"
_DIGEST = "digest"
"""The file of the archive of a run that has the digest of its experiment."""


@dataclass(frozen=True)
class Picture:
    """A picture of the README, or the run of the first page."""

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
        file_of_report = Path(place) / "report.html"
        file_of_report.write_text(gallery.sample_reports(root)[experiment], encoding="utf-8")
        page = browser.new_context(viewport={"width": _WIDTH, "height": _HEIGHT}, color_scheme="light").new_page()
        page.goto(file_of_report.as_uri())
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


def _record_run(root: Path, file: Path) -> None:
    """Run the experiment with captures, which belong to its digest, and keep the folder beside the usual digest."""
    with tempfile.TemporaryDirectory(prefix="xoff-") as place:
        name = PICTURES[RUN].experiment
        command = [str(root / "xoff"), "run", name, "--capture", "--engine", gallery.ENGINE, "--out", place]
        subprocess.run(command, cwd=root, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
        (folder,) = Path(place).iterdir()
        pack(folder, references.read(root)[gallery.ENGINE].digests[name], file)


def pack(folder: Path, digest: str, file: Path) -> None:
    """Put a result folder into an archive, which has the same octets for the same files."""
    content = {
        f"{folder.name}/{path.relative_to(folder)}": path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }
    with tarfile.open(file, "w:xz", preset=9, format=tarfile.USTAR_FORMAT) as archive:
        for name, octets in [(_DIGEST, digest.encode()), *sorted(content.items())]:
            member = tarfile.TarInfo(name)
            member.size = len(octets)
            archive.addfile(member, io.BytesIO(octets))


def _digest_of_run(content: bytes) -> str:
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        member = archive.extractfile(_DIGEST)
        return member.read().decode() if member is not None else ""


def replays(root: Path) -> dict[str, str]:
    """Return the pages of the run that is replayed: `replay`, its network alone, and `replayed`, the whole report."""
    with tempfile.TemporaryDirectory(prefix="xoff-") as place, tarfile.open(root / RUN) as archive:
        archive.extractall(place, filter="data")
        (folder,) = (path for path in Path(place).iterdir() if path.is_dir())
        return {"replay": report([folder], only_replay=True), "replayed": report([folder])}


PICTURES = {
    DEMO: Picture("cross_dc", _digest_of_svg, _record_demo),
    REPORT: Picture("victim", digest_of_png, _draw_report, chromium.missing),
    RUN: Picture("incast", _digest_of_run, _record_run),
}
