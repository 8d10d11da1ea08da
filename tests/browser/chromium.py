"""Debian's Chromium, without a window and without a network, for tests and measurements of pages."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

PROGRAM = "chromium"


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
