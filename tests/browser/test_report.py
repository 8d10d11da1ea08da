"""Reports in a browser: they draw the logs, zoom, replay, print, and run nothing of a result."""

from __future__ import annotations

import re
import zlib
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.browser import chromium
from tests.browser.chromium import Opener, drawn
from tests.report_folders import MS, fabric, hostile, small

pytestmark = [
    pytest.mark.packages("chromium"),
    pytest.mark.skipif(bool(chromium.missing()), reason=chromium.missing()),
    pytest.mark.slow,
]


def pixels(page: Any, panel: int, lane: int, t_ns: int) -> list[int]:
    """Return red, green, blue and opacity of a lane's upper track at a time."""
    found: list[int] = page.evaluate(
        """([number, lane, t]) => {
            const panel = xoffReport.panels[number], { size, canvas } = panel, view = xoffReport.view;
            const x = size.left + ((t - view.start) / (view.end - view.start)) * size.plot;
            const ratio = canvas.width / size.width;
            const y = size.top + (lane + 0.3) * size.lane;
            return [...canvas.getContext("2d").getImageData(x * ratio, y * ratio, 1, 1).data];
        }""",
        [panel, lane, t_ns],
    )
    return found


def test_columns_arrive_in_the_browser_as_they_were_logged(opened: Opener, tmp_path: Path) -> None:
    page = opened(small(tmp_path / "one"))
    tracks = page.evaluate("xoffReport.reports[0].tracks.map((one) => [one.panel, one.port, [...one.t], [...one.v]])")
    found = {(panel, port): (times, values) for panel, port, times, values in tracks}
    assert found["paused", "h1-eth0"] == ([100 * MS + 20, 200 * MS + 20], [130 * MS + 20, 220 * MS + 20])
    assert found["occupancy", "s1-eth2"] == ([110 * MS, 140 * MS], [301, 204])
    assert found["drops", "s1-eth1"] == ([510 * MS, 600 * MS, 610 * MS], [0, 1, 2])


def test_a_bar_is_where_the_pause_was_and_nowhere_else(opened: Opener, tmp_path: Path) -> None:
    page = opened(small(tmp_path / "one"))
    page.locator(".panel").first.scroll_into_view_if_needed()
    drawn(page)
    red = [196, 50, 31, 255]
    assert pixels(page, 0, 0, 115 * MS) == red and pixels(page, 0, 0, 210 * MS) == red
    assert pixels(page, 0, 0, 160 * MS) != red and pixels(page, 0, 0, 300 * MS) != red
    page.evaluate(f"xoffReport.zoomTo({99 * MS}, {101 * MS})")
    drawn(page)
    assert pixels(page, 0, 0, 100 * MS + MS // 2) == red and pixels(page, 0, 0, 100 * MS - MS // 2) != red


def test_buttons_and_dragging_zoom_all_panels_together(opened: Opener, tmp_path: Path) -> None:
    page = opened(small(tmp_path / "one"), small(tmp_path / "two"))
    page.get_by_role("button", name="All", exact=True).click()
    assert page.evaluate("[xoffReport.view.start, xoffReport.view.end]") == [0, 1000 * MS]
    page.get_by_role("button", name="one: without PFC").click()
    assert page.evaluate("[xoffReport.view.start, xoffReport.view.end]") == [510 * MS, 990 * MS]
    page.get_by_role("button", name="Zoom in").click()
    assert page.evaluate("xoffReport.view.end - xoffReport.view.start") == 240 * MS
    page.get_by_role("button", name="All", exact=True).click()
    canvas = page.locator("canvas").first
    canvas.scroll_into_view_if_needed()
    drawn(page)
    box, size = canvas.bounding_box(), page.evaluate("xoffReport.panels[0].size")
    y = box["y"] + 9
    page.mouse.move(box["x"] + size["left"] + size["plot"] * 0.25, y)
    page.mouse.down()
    page.mouse.move(box["x"] + size["left"] + size["plot"] * 0.5, y, steps=5)
    page.mouse.up()
    start, end = page.evaluate("[xoffReport.view.start, xoffReport.view.end]")
    assert abs(start - 250 * MS) < 5 * MS and abs(end - 500 * MS) < 5 * MS
    canvas.dblclick()
    assert page.evaluate("[xoffReport.view.start, xoffReport.view.end]") == [0, 1000 * MS]


def test_the_slider_colours_the_ports_that_were_paused_at_its_time(opened: Opener, tmp_path: Path) -> None:
    page = opened(small(tmp_path / "one"))
    page.evaluate(f"xoffReport.setCursor({115 * MS})")
    coloured = "[...document.querySelectorAll('#network-0-1 .port')].map((one) => [one.dataset.port, one.classList[1]])"
    assert dict(page.evaluate(coloured)) == {
        "h1-eth0": "paused", "s1-eth1": "xoff", "h2-eth0": "paused", "s1-eth2": "xoff",
    }  # fmt: skip
    assert "h1-eth0 priority 3 paused" in page.locator("#state-0").inner_text()
    page.evaluate(f"xoffReport.setCursor({135 * MS})")
    assert dict(page.evaluate(coloured))["h1-eth0"] is None
    assert dict(page.evaluate(coloured))["h2-eth0"] == "paused"
    page.evaluate(f"xoffReport.setCursor({700 * MS})")
    assert page.locator("#network-0-1").is_visible(), "both networks are the same"
    assert page.locator("#state-0").inner_text() == "without PFC, at 700.0 us: no port is paused"


def test_play_moves_the_time_and_stops(opened: Opener, tmp_path: Path) -> None:
    page = opened(small(tmp_path / "one"))
    before = page.evaluate("Number(document.getElementById('cursor').value)")
    page.get_by_role("button", name="Play").click()
    page.wait_for_function(f"Number(document.getElementById('cursor').value) > {before}")
    page.get_by_role("button", name="Stop").click()
    assert page.get_by_role("button", name="Play").is_visible()


def test_what_is_under_the_pointer_is_named(opened: Opener, tmp_path: Path) -> None:
    page = opened(small(tmp_path / "one"))
    page.evaluate(f"xoffReport.zoomTo({90 * MS}, {240 * MS})")
    canvas = page.locator("canvas").first
    canvas.scroll_into_view_if_needed()
    drawn(page)
    box, size = canvas.bounding_box(), page.evaluate("xoffReport.panels[0].size")
    page.mouse.move(box["x"] + size["left"] + size["plot"] * (115 - 90) / 150, box["y"] + size["top"] + 6)
    shown = page.locator(".readout").first.inner_text()
    assert shown.startswith("h1-eth0 priority 3 paused: 30 us from 100.000 us; s1-eth1 priority 3 sends XOFF: 30 us")


def test_hostile_names_do_nothing(opened: Opener, tmp_path: Path) -> None:
    page = opened(hostile(tmp_path / "one"))
    page.evaluate("xoffReport.zoomTo(0, 1e9)")
    for canvas in page.locator("canvas").all():
        canvas.scroll_into_view_if_needed()
        canvas.hover()
    assert "owned" not in page.evaluate("document.title").split(" - ")[-1]
    assert page.evaluate("document.images.length") == 0
    assert page.evaluate("document.scripts.length") == 3, "the data, the trace and our own"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize(("scheme", "media"), [("light", "screen"), ("dark", "screen"), ("light", "print")])
def test_a_page_fits_its_width_and_every_panel_is_drawn(
    opened: Opener, tmp_path: Path, width: int, scheme: str, media: str
) -> None:
    page = opened(small(tmp_path / "one"), small(tmp_path / "two"), width=width, scheme=scheme)
    page.emulate_media(media=media, color_scheme=scheme)
    for canvas in page.locator("canvas").all():
        canvas.scroll_into_view_if_needed()
        drawn(page)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    inked = """[...document.querySelectorAll("canvas")].map((canvas) => {
        const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        return data.some((value) => value > 0);
    })"""
    assert all(page.evaluate(inked))
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(13, 17, 23)" if scheme == "dark" else "rgb(255, 255, 255)")


def test_the_first_screen_has_claims_network_and_panels_and_the_rest_is_folded(opened: Opener, tmp_path: Path) -> None:
    page = opened(small(tmp_path / "one"), folded=True)
    shown = [one for one in page.locator("figcaption").all() if one.is_visible()]
    assert [one.inner_text().split()[0] for one in shown] == ["Pauses", "Buffer", "Drops"]
    bottom = page.locator("#topology-0-1").bounding_box()
    assert bottom["y"] + bottom["height"] < 900, "without scrolling"
    assert page.locator("details[open]").count() == 0
    assert all(one.locator(".about").count() == 1 for one in page.locator("article > details > summary").all())
    page.locator("summary", has_text="of agents, DCBX").click()
    drawn(page)
    assert page.locator("figcaption", has_text="Events").is_visible()


def fills(document: bytes) -> Counter[str]:
    """Return how often a PDF fills an area with each colour. Canvases are in it as what was drawn, not as pictures."""
    found: Counter[str] = Counter()
    for body in re.findall(rb"stream\r?\n(.*?)endstream", document, re.DOTALL):
        with suppress(zlib.error):  # a font, or another stream that is not compressed
            for one in re.findall(rb"([\d.]+) ([\d.]+) ([\d.]+) rg", zlib.decompressobj().decompress(body)):
                found["#" + "".join(f"{round(float(part) * 255):02x}" for part in one)] += 1
    return found


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_pdf_made_at_once_has_all_panels_in_colours_of_paper(opened: Opener, tmp_path: Path, scheme: str) -> None:
    page = opened(small(tmp_path / "one"), folded=True, scheme=scheme)
    found = fills(page.pdf())
    assert page.locator("canvas").count() == 4
    assert found["#c4321f"] > 3 and found["#d98a00"] > 3, "the bars of three pauses, and swatches"
    assert found["#0969da"] > 2 and found["#bc4c00"] > 2, "dots of the buffer, and swatches of it and of drops"
    assert found["#444444"] > 8, "marks of events, and texts of axes"
    assert not {"#ff7b72", "#58a6ff", "#9da7b1", "#262c36"} & found.keys(), "nothing in the colours of a dark screen"
    assert page.locator("details[open]").count() == 0, "on the screen it is as it was"


def test_ticks_are_round_numbers_of_one_unit(opened: Opener, tmp_path: Path) -> None:
    """The lab is a thousand times slower than its hardware: 1.6 s are 1.6 ms."""
    page = opened(small(tmp_path / "one"))

    def time(start: int, end: int, count: int) -> tuple[str, list[str]]:
        found = page.evaluate(f"xoffReport.timeTicks({start}, {end}, {count})")
        return found["unit"], [one["text"] for one in found["ticks"]]

    assert time(0, 1600 * MS, 4) == ("ms", ["0.0", "0.5", "1.0", "1.5"])
    assert time(113 * MS, 900 * MS, 8) == ("us", ["200", "300", "400", "500", "600", "700", "800", "900"])
    assert time(100 * MS, 100 * MS + 40_000, 4) == ("us", ["100.00", "100.01", "100.02", "100.03", "100.04"])
    asked = "[[9.6e9, 'b/s'], [356, 'cells'], [0.9, ''], [2500, 'ns']]"
    values = page.evaluate(f"{asked}.map((one) => xoffReport.valueTicks(...one, 4))")
    assert [(one["unit"], [tick["text"] for tick in one["ticks"]]) for one in values] == [
        ("Gb/s", ["0", "5"]),
        ("cells", ["0", "100", "200", "300"]),
        ("", ["0.0", "0.5"]),
        ("us", ["0", "1", "2"]),
    ]


def test_no_line_falls_to_zero_where_a_network_ends(opened: Opener, tmp_path: Path) -> None:
    folder = small(tmp_path / "one")
    rows = f"t_ns,flow,rate_bps\n{100 * MS},h1,8000\n{600 * MS},h1,4000\n"
    (folder / "series-rates.csv").write_text(rows, encoding="utf-8")
    page = opened(folder)
    value = """(t) => {
        const track = xoffReport.reports[0].tracks.find((one) => one.unit === "b/s"), row = xoffReport.rowAt(track, t);
        return row < 0 ? null : track.v[row];
    }"""
    shown = [page.evaluate(value, t * MS) for t in (50, 100, 499, 505, 600, 989, 995)]
    assert shown == [None, 8000, 8000, None, 4000, 4000, None]


@pytest.mark.parametrize("width", [1280, 400])
def test_a_fabric_of_64_hosts_is_drawn_with_its_loads_and_zooms(opened: Opener, tmp_path: Path, width: int) -> None:
    page = opened(fabric(tmp_path / "one"), width=width)
    page.evaluate(f"xoffReport.setCursor({150 * MS})")
    kinds = page.evaluate("[...document.querySelectorAll('[data-load]')].map((one) => one.getAttribute('class'))")
    assert len(kinds) == 160 and {"load", "load load-2", "load load-3", "load load-4", "load load-5"} == set(kinds)
    boxes = page.evaluate(
        "[...document.querySelectorAll('.node[data-node^=h] rect')].map((one) => one.getBoundingClientRect().width)"
    )
    assert len(boxes) == 64 and min(boxes) > 8, "a host has a size that one sees"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    frame = page.locator("#topology-0-1")
    before = frame.get_attribute("viewBox")
    page.get_by_role("button", name="Enlarge the drawing").click()
    assert float(frame.get_attribute("viewBox").split()[2]) < 0.61 * float(before.split()[2])
    page.get_by_role("button", name="Whole network").click()
    assert frame.get_attribute("viewBox").split()[2:] == before.split()[2:]
    page.locator("figure", has_text="Load of links").scroll_into_view_if_needed()
    page.wait_for_timeout(100)
    drawn(page)
    (loads,) = [one for one in page.locator("figcaption").all_inner_texts() if one.startswith("Load of links")]
    assert "10 Gb/s" in loads
    rows = page.evaluate("xoffReport.panels.find((one) => one.view === 'heat').lanes.map((one) => one.label)")
    assert len(rows) == 128, "a link without load has no row"
    assert (rows[0], rows[-1]) == ("h2 to leaf1", "leaf4 to h64") and "spine4 to leaf4" in rows[51:77]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_violation(opened: Opener, tmp_path: Path, scheme: str) -> None:
    pytest.importorskip("axe_playwright_python", reason="the Python package axe-playwright-python is missing")
    page = opened(small(tmp_path / "one"), small(tmp_path / "two"), scheme=scheme)
    assert chromium.violations(page) == []
