"""Measure the size of a long run's report, and the time in which a browser opens and zooms it.

    python bench/report.py

The run has 60 s of lab time and 1e6 events, of 16 hosts that are paused at moments which do not repeat. The browser is
Debian's chromium, driven by the extra `browser`. Bounds: 5 MB, first paint after 2 s, a zoom in 100 ms.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from testbed.report.pages.page import report
from tests.browser import chromium
from tests.report_folders import large

EVENTS, SECONDS = 1_000_000, 60
_PAINT = """performance.getEntriesByType("paint").find((one) => one.name === "first-contentful-paint")?.startTime"""
_LOADED = "xoffReport.loaded.then(() => performance.now())"
_ZOOMS = """(async () => {
    const frame = () => new Promise(requestAnimationFrame), found = [], whole = 60e9;
    document.querySelector(".panel").scrollIntoView();
    for (let still = 0, seen = -1; still < 10; await frame()) {  // until what the scrolling brought into view is drawn
        still = xoffReport.draws === seen ? still + 1 : 0;
        seen = xoffReport.draws;
    }
    for (let part = 1; part > 1e-5; part /= 3) {
        const start = performance.now(), draws = xoffReport.draws;
        xoffReport.zoomTo(whole * 0.4, whole * (0.4 + 0.6 * part));
        while (xoffReport.draws === draws) await frame();
        found.push(performance.now() - start);
    }
    return found;
})()"""


def main() -> int:
    if why := chromium.missing():
        print(why)
        return 3
    with tempfile.TemporaryDirectory() as place:
        folder = large(Path(place) / "large", EVENTS, SECONDS)
        begun = time.perf_counter()
        source = report([folder])
        made_s = time.perf_counter() - begun
        file = Path(place) / "report.html"
        file.write_text(source, encoding="utf-8")
        size = file.stat().st_size
        with chromium.started() as browser:
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            page.goto(file.as_uri())
            ready_ms = page.evaluate(_LOADED)
            page.wait_for_function(_PAINT)
            paint_ms, zooms = page.evaluate(_PAINT), page.evaluate(_ZOOMS)
    print(f"report of {EVENTS} events in {SECONDS} s: made in {made_s:.1f} s")
    measured = [
        ("size", size / 1e6, 5, "MB"),
        ("first paint", paint_ms, 2000, "ms"),
        ("all tracks decoded and drawn", ready_ms, 2000, "ms"),
        ("slowest zoom", max(zooms), 100, "ms"),
    ]
    for name, value, bound, unit in measured:
        print(f"{name:30} {value:8.1f} {unit}, bound {bound} {unit}{'' if value < bound else '  EXCEEDED'}")
    print("zooms:", ", ".join(f"{one:.0f}" for one in zooms), "ms")
    return int(any(value >= bound for _, value, bound, _ in measured))


if __name__ == "__main__":
    sys.exit(main())
