"""Debian's Chromium, without a window and without a network, for tests and measurements of pages."""

from __future__ import annotations

import importlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROGRAM = "chromium"
Opener = Callable[..., Any]
"""A function that opens the report of result folders, and returns the page."""
_SERIOUS = ("serious", "critical")


def missing() -> str:
    """Return the reason why there is no browser here, or an empty text if there is one."""
    try:
        import playwright.sync_api  # noqa: F401
    except ImportError:
        return "the Python package playwright is missing: pip install 'xoff[browser]'"
    return "" if shutil.which(PROGRAM) else f"{PROGRAM} is missing: apt install {PROGRAM}"


@contextmanager
def started() -> Iterator[Any]:
    """Yield a browser; root has no sandbox of Chromium's."""
    from playwright.sync_api import sync_playwright

    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which(PROGRAM), args=arguments)
        try:
            yield browser
        finally:
            browser.close()


def drawn(page: Any) -> None:
    """Wait until a page has been drawn anew."""
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def until(page: Any, expression: str) -> None:
    """Wait until a condition of the page holds; playwright's own way needs eval, which the page's policy forbids."""
    for _ in range(400):
        if page.evaluate(f"Boolean({expression})"):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"not within 20 s: {expression}")


def violations(page: Any) -> list[tuple[str, list[str]]]:
    """Return the serious violations of accessibility that axe finds, each with its elements."""
    # axe is no part of the page, whose policy would not admit it.
    axe = importlib.import_module("axe_playwright_python")
    page.evaluate((Path(str(axe.__file__)).parent / "axe.min.js").read_text(encoding="utf-8"))
    found = page.evaluate("axe.run()")["violations"]
    return [(one["id"], [node["html"] for node in one["nodes"]]) for one in found if one["impact"] in _SERIOUS]
