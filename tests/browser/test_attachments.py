"""A report hands its trace to Perfetto and its captures to a file at one click, and asks nobody for anything before."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed.frames import Mac, capture_file
from testbed.frames.mac_control import PfcFrame
from testbed.lab.results.folder import read
from testbed.report.exports import captures, perfetto
from testbed.report.pages.page import report
from tests.browser import chromium
from tests.report_folders import MS, small

pytestmark = [
    pytest.mark.packages("chromium"),
    pytest.mark.skipif(bool(chromium.missing()), reason=chromium.missing()),
    pytest.mark.slow,
]
_PERFETTO = """<!doctype html><title>Perfetto</title><script>
addEventListener("message", async (event) => {
  if (event.data === "PING") { if (performance.now() > 300) event.source.postMessage("PONG", "*"); return; }
  const { buffer, title } = event.data.perfetto, digest = await crypto.subtle.digest("SHA-256", buffer);
  window.got = { title, digest: [...new Uint8Array(digest)].map((one) => one.toString(16).padStart(2, "0")).join("") };
});
</script>"""
"""Perfetto's end of the conversation: it is ready some time after it was opened."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium.started() as started:
        yield started


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a result with a capture of one PFC frame."""
    place = small(tmp_path / "incast-001")
    (place / "captures" / "1").mkdir(parents=True)
    with (place / "captures" / "1" / "s1-eth1-to-h1-eth0.pcapng").open("wb") as out:
        writer = capture_file.Writer(out)
        number = writer.interface(capture_file.Interface("s1-eth1 > h1-eth0"))
        writer.frame(number, 120 * MS, PfcFrame.of(Mac.parse("02:00:00:00:00:01"), {3: 65535}).encode())
    return place


@pytest.fixture
def page(browser: Any, folder: Path, tmp_path: Path) -> Iterator[Any]:
    file = tmp_path / "report.html"
    file.write_text(report([folder]), encoding="utf-8")
    context = browser.new_context(viewport={"width": 500, "height": 900}, accept_downloads=True)
    said: list[str] = []
    opened = context.new_page()
    opened.on("console", lambda message: said.append(message.text))
    opened.on("pageerror", lambda error: said.append(str(error)))
    opened.goto(file.as_uri())
    opened.evaluate("xoffReport.loaded")
    yield opened
    context.close()
    assert said == []


def test_one_click_opens_perfetto_and_hands_it_the_trace(page: Any, folder: Path) -> None:
    asked: list[str] = []
    page.context.on("request", lambda request: asked.append(request.url))
    page.context.route("https://**", lambda route: route.fulfill(body=_PERFETTO, content_type="text/html"))
    button = page.get_by_role("button", name="Open in Perfetto")
    button.focus()
    assert asked == [], "the page itself fetches nothing"
    with page.expect_popup() as popup:
        page.keyboard.press("Enter")
    status = page.locator(".others [role=status]")
    for _ in range(300):
        if "is in Perfetto's window" in status.inner_text():
            break
        page.wait_for_timeout(100)
    trace = io.BytesIO()
    perfetto.write(read(folder), trace)
    popup.value.wait_for_function("window.got")
    assert popup.value.evaluate("got") == {
        "title": "incast-001.perfetto-trace", "digest": hashlib.sha256(trace.getvalue()).hexdigest(),
    }  # fmt: skip
    assert set(asked) == {"https://ui.perfetto.dev/"}


def test_without_a_network_the_trace_and_the_captures_are_files(page: Any, folder: Path, tmp_path: Path) -> None:
    page.context.set_offline(True)
    for name, write in (("Save the trace", perfetto.write), ("Save the captures", captures.write_merged)):
        with page.expect_download() as download:
            page.get_by_role("button", name=name).click()
        expected = io.BytesIO()
        write(read(folder), expected)
        saved = tmp_path / download.value.suggested_filename
        download.value.save_as(saved)
        assert saved.read_bytes() == expected.getvalue() and saved.stem == "incast-001"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "nothing is cut off"
