"""Frames on cables in a browser: where they are at a time, keys and buttons, links to a moment, and nothing foreign."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from testbed.lab.results.folder import read
from testbed.report.replay.window import Replay, replays
from testbed.report.timeline.tracks import tracks
from tests.browser import chromium
from tests.browser.chromium import Opener, drawn, until
from tests.report_folders import DELAY_NS, HOSTILE, LINE_NS, MS, PFC_LINE_NS, captured, small, star_of_frames

pytestmark = [
    pytest.mark.packages("chromium"),
    pytest.mark.skipif(bool(chromium.missing()), reason=chromium.missing()),
    pytest.mark.slow,
]
XOFF_LEAVES, XOFF_DONE = 112 * MS, 112 * MS + DELAY_NS + PFC_LINE_NS


def replay_of(folder: Path) -> Replay:
    result = read(folder)
    return replays(result, tracks(result)).found[0]


def shown(page: Any, selector: str) -> int:
    """Return how many elements of the drawing can be seen."""
    found: int = page.locator(f".frames {selector}").evaluate_all(
        "(all) => all.filter((one) => one.getAttribute('visibility') === 'visible').length"
    )
    return found


def event(page: Any) -> str:
    words: str = page.locator("#state-0-event").inner_text()
    return words


def press(page: Any, *keys: str) -> None:
    page.locator(".map").focus()
    for key in keys:
        page.keyboard.press(key)


def test_frames_and_queues_of_a_time_are_those_that_the_captures_have(opened: Opener, tmp_path: Path) -> None:
    folder = captured(tmp_path / "one")
    page, replay = opened(folder), replay_of(folder)
    for t_ns in range(replay.start_ns, replay.end_ns, LINE_NS * 3 // 7):
        page.evaluate(f"xoffReport.setCursor({t_ns})")
        moving = sum(hop.part(t_ns) is not None for hop in replay.hops)
        waiting = sum(hop.ready_ns is not None and hop.ready_ns <= t_ns < hop.leaves_ns for hop in replay.hops)
        assert (shown(page, "g.frame"), shown(page, "rect.slice")) == (moving, waiting), t_ns


def test_a_frame_moves_evenly_from_port_to_port(opened: Opener, tmp_path: Path) -> None:
    page = opened(captured(tmp_path / "one"))

    def middle(part: float) -> tuple[float, float]:
        page.evaluate(f"xoffReport.setCursor({XOFF_LEAVES} + {part} * {XOFF_DONE - XOFF_LEAVES})")
        box = page.locator(".frames g.frame.xoff >> visible=true").locator("path").first.bounding_box()
        return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    places = [middle(part) for part in (0, 0.25, 0.5, 0.75)]
    steps = [b[0] - a[0] for a, b in pairwise(places)]
    assert all(step < -5 for step in steps), "from s1 on the right to h1 on the left"
    assert max(steps) - min(steps) < 1, "by the same in the same time"
    page.evaluate(f"xoffReport.setCursor({XOFF_DONE})")
    assert shown(page, "g.frame.xoff") == 0


def test_it_begins_with_a_pause_frame_half_way_and_says_the_time_exactly(opened: Opener, tmp_path: Path) -> None:
    page = opened(captured(tmp_path / "one"))
    assert page.evaluate("xoffReport.cursor") == (XOFF_LEAVES + XOFF_DONE) // 2
    assert page.locator("#exact").inner_text() == "112,036.100 ns", "of the hardware, to the nanosecond of the lab"
    assert page.locator("#moment").get_attribute("href") == "#t=112036.100ns"
    assert (
        page.locator("#state-0-frames")
        .inner_text()
        .startswith("On cables: 2 frames and 1 PFC frame. Waiting: s1-eth3 5")
    )
    assert shown(page, "g.frame.xoff") == 1 and page.locator(".frames g.frame.xoff text").first.text_content() == "3"


def test_buttons_and_keys_go_from_event_to_event(opened: Opener, tmp_path: Path) -> None:
    page = opened(captured(tmp_path / "one"))
    page.get_by_role("button", name="Previous pause event").click()
    assert page.evaluate("xoffReport.cursor") == XOFF_LEAVES
    assert event(page) == "112,000.000 ns: s1-eth1 begins to send XOFF for priority 3, 65535 quanta."
    page.get_by_role("button", name="Next pause event").click()
    assert page.evaluate("xoffReport.cursor") == XOFF_DONE, "as in the log of events"
    assert event(page) == (
        "112,072.200 ns: h1-eth0 stops: priority 3 is paused; h1-eth0 has XOFF for priority 3, 65535 quanta."
    )
    assert shown(page, "path.gate") == 1
    press(page, "Shift+ArrowRight")
    assert page.evaluate("xoffReport.cursor") == XOFF_LEAVES + 5 * MS and "begins to send XON" in event(page)
    press(page, "Shift+ArrowLeft")
    press(page, "ArrowRight")
    later = page.evaluate("xoffReport.cursor")
    assert XOFF_DONE < later < XOFF_DONE + LINE_NS and "a frame" in event(page)
    press(page, "ArrowLeft")
    assert page.evaluate("xoffReport.cursor") == XOFF_DONE
    press(page, *["Shift+ArrowLeft"] * 9)
    assert "and it is in no later capture" in event(page) or "drops it: threshold" in event(page)


def test_what_is_dropped_and_lost_is_named(opened: Opener, tmp_path: Path) -> None:
    page = opened(captured(tmp_path / "one"))
    for number, words in ((3, "and its buffer drops it: threshold"), (5, "and it is in no later capture")):
        page.evaluate(f"xoffReport.setCursor({100 * MS + number * LINE_NS + DELAY_NS + LINE_NS} - 1)")
        press(page, "ArrowRight")
        assert shown(page, "path.cross") == 1
        assert f"s1-eth2 has a frame b of h2 to h3, priority 3, 1,514 octets, {words}" in event(page)


def test_a_link_leads_to_a_moment_and_a_wrong_one_says_so(opened: Opener, tmp_path: Path) -> None:
    page = opened(captured(tmp_path / "one"), moment="#t=112us")
    assert page.evaluate("xoffReport.cursor") == XOFF_LEAVES and "XOFF for priority 3" in event(page)
    assert page.evaluate("[xoffReport.view.start, xoffReport.view.end]") == [100 * MS + DELAY_NS, 120_926_800]
    page.evaluate("location.hash = '#t=112036.1'")
    until(page, "xoffReport.cursor === 112036100")
    page.evaluate("location.hash = '#t=5s'")
    page.locator("#problem >> visible=true").wait_for()
    assert page.locator("#problem").inner_text() == (
        "The time of the link, 5s, is after the end of the run, 1,000,000.000 ns."
    )
    page.evaluate("location.hash = '#t=<img src=x onerror=alert(1)>'")
    until(page, "document.getElementById('problem').textContent.includes('is none')")
    assert page.evaluate("document.images.length") == 0 and page.evaluate("xoffReport.cursor") == 112_036_100
    page.locator("#moment").click()
    page.locator("#problem").wait_for(state="hidden")


def test_play_moves_frames_in_slow_motion_and_space_stops(opened: Opener, tmp_path: Path) -> None:
    page = opened(captured(tmp_path / "one"))
    begun = page.evaluate("[xoffReport.cursor, performance.now()]")
    press(page, " ")
    until(page, f"xoffReport.cursor > {begun[0]} + 200000")
    press(page, " ")
    ended = page.evaluate("[xoffReport.cursor, performance.now()]")
    assert ended[0] - begun[0] <= (ended[1] - begun[1]) * LINE_NS / 900 * 1.01, "a frame takes 0.9 s on a cable"
    page.wait_for_timeout(100)
    assert page.evaluate("xoffReport.cursor") == ended[0]


def test_less_motion_is_steps(opened: Opener, tmp_path: Path) -> None:
    folder = captured(tmp_path / "one")
    page = opened(folder, motion="reduce")
    begun = page.evaluate("xoffReport.cursor")
    page.get_by_role("button", name="Play").click()
    page.wait_for_timeout(400)
    assert page.evaluate("xoffReport.cursor") == begun, "nothing moves between two steps"
    until(page, f"xoffReport.cursor > {begun}")
    assert event(page), "a step ends where something happens"
    page.get_by_role("button", name="Stop").click()


def test_a_flow_is_followed(opened: Opener, tmp_path: Path) -> None:
    page = opened(captured(tmp_path / "one"))
    button = page.get_by_role("button", name="b h2 to h3, priority 3")
    button.click()
    assert button.get_attribute("aria-pressed") == "true"
    assert shown(page, ".other") == 3, "a frame of h1 is on a cable, and two wait"
    button.click()
    assert shown(page, ".other") == 0


def test_a_time_without_frames_says_so(opened: Opener, tmp_path: Path) -> None:
    page = opened(captured(tmp_path / "one"))
    page.evaluate(f"xoffReport.setCursor({400 * MS})")
    assert page.locator("#state-0-frames").inner_text() == "No frames of this time are in this report."
    assert shown(page, "g.frame") == 0
    page.get_by_role("button", name="Play").click()
    until(page, f"xoffReport.cursor < {400 * MS}")  # slow motion begins where frames are
    page.get_by_role("button", name="Frames", exact=True).click()
    assert page.evaluate("xoffReport.view.start") == 100 * MS + DELAY_NS


def test_markup_in_names_of_ports_is_text(opened: Opener, tmp_path: Path) -> None:
    folder = captured(tmp_path / "one")
    for name in ("networks.jsonl", "events.jsonl"):
        file = folder / name
        text = file.read_text(encoding="utf-8").replace("s1-eth1", "s1-eth1<img src=x onerror=alert(1)>")
        file.write_text(text, encoding="utf-8")
    captures = folder / "captures" / "1"
    for file in captures.iterdir():
        octets = file.read_bytes().replace(b"s1-eth1", HOSTILE.encode()[:7])
        file.write_bytes(octets)
    page = opened(folder)
    press(page, "ArrowRight", "ArrowLeft")
    assert page.evaluate("document.images.length") == 0
    assert page.evaluate("[...document.scripts].filter((one) => !one.type).length") == 1, "ours; the others are data"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_violation_where_frames_are(opened: Opener, tmp_path: Path, scheme: str) -> None:
    pytest.importorskip("axe_playwright_python", reason="the Python package axe-playwright-python is missing")
    page = opened(captured(tmp_path / "one"), small(tmp_path / "two"), scheme=scheme)
    assert chromium.violations(page) == []


@pytest.mark.parametrize("width", [500, 1400])
def test_a_page_with_frames_fits_its_width(opened: Opener, tmp_path: Path, width: int) -> None:
    page = opened(captured(tmp_path / "one"), width=width)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    drawing = page.locator(".topology").bounding_box()
    assert 400 < drawing["width"] <= width, "a small network is seen whole"


def test_a_link_scrolls_a_wide_drawing_to_the_pause_frame(opened: Opener, tmp_path: Path) -> None:
    folder = captured(tmp_path / "one", hosts=9)
    page = opened(folder, width=420, moment="#t=112036.1ns")
    frame, token = (page.locator(one).bounding_box() for one in (".map", ".frames g.frame.xoff"))
    assert page.evaluate("document.querySelector('.map').scrollWidth > document.querySelector('.map').clientWidth")
    assert frame["x"] < token["x"] and token["x"] + token["width"] < frame["x"] + frame["width"]


def test_a_step_with_300_frames_between_20_nodes_is_quick(opened: Opener, tmp_path: Path) -> None:
    page = opened(star_of_frames(tmp_path / "one"))
    middle = page.evaluate(
        "(xoffReport.reports[0].networks[0].replay.start_ns + xoffReport.reports[0].networks[0].replay.end_ns) / 2"
    )
    page.evaluate(f"xoffReport.setCursor({middle})")
    assert shown(page, "g.frame") >= 300
    times = page.evaluate(
        """(t) => Array.from({ length: 60 }, (_, step) => {
            xoffReport.setCursor(t + step * 20000);
            return xoffReport.frameMs;
        }).sort((a, b) => a - b)""",
        middle,
    )
    drawn(page)
    print(f"a step takes {times[30]:.1f} ms, of 20 nodes and 300 frames")
    assert times[30] < 100, "a generous limit: some milliseconds where nothing else runs"
