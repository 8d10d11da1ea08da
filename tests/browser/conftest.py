"""A browser for the tests of a file, and reports that it opens."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed.report.pages.page import report
from tests.browser import chromium


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium.started() as found:
        yield found


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[chromium.Opener]:
    """Open the report of folders, offline; at the end the console has to be empty, and no request was made."""
    contexts, said, requests = [], [], []

    def open_(*folders: Path, width: int = 1280, folded: bool = False, moment: str = "", **media: str) -> Any:
        file = tmp_path / "report.html"
        file.write_text(report(list(folders)), encoding="utf-8")
        kept = {"color_scheme": media.get("scheme", "light"), "reduced_motion": media.get("motion", "no-preference")}
        context = browser.new_context(viewport={"width": width, "height": 900}, offline=True, **kept)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(file.as_uri() + moment)
        page.evaluate("xoffReport.loaded")
        if not folded:
            page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
            chromium.drawn(page)
        return page

    yield open_
    for context in contexts:
        context.close()
    # The browser advises those who read pixels often, as these tests do and the page does not.
    assert [one for one in said if not one.startswith("Canvas2D: Multiple readback operations")] == []
    assert all(url.startswith(("file:", "data:")) for url in requests), requests
