"""The documentation site in a browser: it says nothing on the console, and is readable for all and on a phone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed.cli.house import site
from tests.browser import chromium
from tests.pages import ROOT

pytestmark = [
    pytest.mark.packages("chromium"),
    pytest.mark.skipif(bool(chromium.missing()), reason=chromium.missing()),
    pytest.mark.long,  # the site takes minutes to build
]
PAGES = (
    "README", "docs/index", "docs/gallery", "docs/sample-report", "docs/calculators", "docs/glossary", "docs/events",
    "docs/concepts/pause", "docs/concepts/two-runs", "docs/howto/make-a-run-faster", "docs/about/sizes",
    "docs/reference/counters", "docs/reference/cli", "lessons/README", "lessons/pfc_basics/page",
)  # fmt: skip
_SERIOUS = ("serious", "critical")
BUILT = "XOFF_BUILT_SITE"
"""The variable of the environment with a site that was built already, for those who work on these tests."""

# A thing is cut off if it goes beyond the window and nothing around it scrolls.
_CUT_OFF = """(mayScroll) => {
    const scrolls = (one) => {
        for (let each = one; each && each.tagName !== "ARTICLE"; each = each.parentElement) {
            if (["auto", "scroll"].includes(getComputedStyle(each).overflowX)) return true;
        }
        return false;
    };
    const wide = document.documentElement.clientWidth + 1;
    return [...document.querySelectorAll("article *")]
        .filter((one) => one.getClientRects().length && one.getBoundingClientRect().right > wide)
        .filter((one) => !mayScroll || !scrolls(one))
        .map((one) => one.outerHTML.slice(0, 120));
}"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if given := os.environ.get(BUILT):
        return Path(given).resolve()
    out = tmp_path_factory.mktemp("docs") / "site"
    site.build(ROOT, out)
    return out


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium.started() as found:
        yield found


@pytest.fixture
def opened(browser: Any, built: Path) -> Iterator[Any]:
    """Open a page of the site, offline; at the end nothing was said on the console, and only files were read."""
    contexts, said, requests = [], [], []

    def open_(name: str, width: int, scheme: str) -> Any:
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto((built / f"{name}.html").as_uri())
        return page

    yield open_
    for context in contexts:
        context.close()
    assert said == []
    assert all(url.startswith(("file:", "data:")) for url in requests), requests


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_no_serious_violation(opened: Any, name: str, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python", reason="the Python package axe-playwright-python is missing")
    page = opened(name, 1400, scheme)
    page.evaluate((Path(axe.__file__).parent / "axe.min.js").read_text(encoding="utf-8"))
    # Without preloading: it would ask for style sheets, which a page that was opened as a file may not, nor for frames.
    found = page.evaluate("axe.run('article', { preload: false, iframes: false })")["violations"]
    serious = [(one["id"], [node["html"] for node in one["nodes"]]) for one in found if one["impact"] in _SERIOUS]
    assert serious == []


@pytest.mark.parametrize("name", PAGES)
def test_on_a_phone_nothing_is_cut_off_and_the_page_does_not_go_sideways(opened: Any, name: str) -> None:
    page = opened(name, 400, "light")
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    assert page.evaluate(_CUT_OFF, True) == []


def test_what_is_cut_off_is_found(opened: Any) -> None:
    page = opened("docs/glossary", 400, "light")
    page.evaluate("document.querySelector('article p').style.width = '900px'")
    assert page.evaluate(_CUT_OFF, True)


@pytest.mark.parametrize("name", PAGES)
def test_on_paper_nothing_is_cut_off(opened: Any, name: str) -> None:
    page = opened(name, 794, "light")
    page.emulate_media(media="print")
    assert page.evaluate("document.documentElement.scrollWidth") <= 794
    assert page.evaluate(_CUT_OFF, False) == [], "paper does not scroll"


def test_every_picture_is_there(opened: Any) -> None:
    page = opened("docs/gallery", 1400, "light")
    missing = """async () => {
        const all = [...document.querySelectorAll("article img")];
        all.forEach((one) => (one.loading = "eager"));
        await Promise.all(all.map((one) => one.decode().catch(() => 0)));
        return [all.length, all.filter((one) => !one.naturalWidth).map((one) => one.src)];
    }"""
    count, broken = page.evaluate(missing)
    assert count > 80 and broken == []


@pytest.mark.parametrize("width", [360, 735])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_replay_is_for_all_and_fits_its_frame(opened: Any, width: int, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python", reason="the Python package axe-playwright-python is missing")
    page = opened("docs/sample/replay", width, scheme)
    page.evaluate("xoffReport.loaded")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert [one.inner_text() for one in page.get_by_role("heading").all() if one.is_visible()] == []
    page.evaluate((Path(axe.__file__).parent / "axe.min.js").read_text(encoding="utf-8"))
    found = page.evaluate("axe.run('main', { preload: false })")["violations"]
    assert [(one["id"], [node["html"] for node in one["nodes"]]) for one in found] == []


def test_nothing_plays_for_those_who_asked_for_no_motion(opened: Any) -> None:
    page = opened("docs/sample/replay", 735, "light")
    page.emulate_media(reduced_motion="reduce")
    page.reload()
    page.evaluate("xoffReport.loaded")
    assert page.get_by_role("button", name="Play").is_visible()


def test_the_run_of_the_first_page_plays(opened: Any) -> None:
    page = opened("docs/index", 1400, "light")
    replay = page.frame_locator("iframe")
    time = replay.locator("#exact")
    replay.get_by_role("button", name="Stop").wait_for()
    before = time.inner_text()
    page.wait_for_timeout(500)
    assert time.inner_text() != before
    page.get_by_role("link", name="Open its report").click()
    page.wait_for_url("**/sample/replayed.html")


@pytest.mark.parametrize("name", ["incast", "victim", "deadlock", "cross_dc"])
def test_a_sample_report_opens(opened: Any, name: str) -> None:
    page = opened("docs/sample-report", 1200, "light")
    page.get_by_role("link", name=f"Open {name}").click()
    page.wait_for_url(f"**/sample/{name}.html")
    page.evaluate("xoffReport.loaded")
    assert name in page.title() or name in page.locator("h1").first.inner_text()
