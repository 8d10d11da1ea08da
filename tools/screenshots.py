"""Take the pictures of a report for the README: `python -m tools.screenshots`, with Debian's Chromium and Playwright.

The report is one of the site's samples, made now, so the picture shows what reports look like. No test compares it:
each version of Chromium draws a little otherwise.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.browser import chromium
from tools import gallery

ROOT = Path(__file__).parents[1]
FILE, EXPERIMENT = Path("docs/report.png"), "victim"
_WIDTH, _HEIGHT = 1200, 980
_LARGEST = 400_000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, default=ROOT / FILE, help=f"by default {FILE}")
    given = parser.parse_args()
    if why := chromium.missing():
        raise SystemExit(why)
    with tempfile.TemporaryDirectory(prefix="xoff-") as place, chromium.started() as browser:
        file = Path(place) / "report.html"
        file.write_text(gallery.sample_reports(ROOT)[EXPERIMENT], encoding="utf-8")
        page = browser.new_context(viewport={"width": _WIDTH, "height": _HEIGHT}, color_scheme="light").new_page()
        page.goto(file.as_uri())
        page.evaluate("xoffReport.loaded")
        page.wait_for_timeout(500)
        page.screenshot(path=str(given.output))
    if (size := given.output.stat().st_size) > _LARGEST:
        raise SystemExit(f"{given.output} has {size} octets, and {_LARGEST} are enough")
    print(f"{given.output}: {given.output.stat().st_size} octets")
    return 0


if __name__ == "__main__":
    sys.exit(main())
