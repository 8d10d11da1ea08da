"""A saved notebook in VS Code: its server `code-server`, of the same sources, serves it to Chromium.

It is an npm package: `npm install --global code-server`, tried with 4.100.3, which has VS Code 1.100. Its notebooks are
those of VS Code without an extension: they show what is saved and have no kernel, so a live widget is not tested here.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from testbed.lab.results.result import Result
from testbed.report.notebook import cell
from tests.browser import chromium
from tests.report_folders import hostile, small

PROGRAM = "code-server"
pytestmark = [
    pytest.mark.packages("chromium"),
    pytest.mark.skipif(bool(chromium.missing()), reason=chromium.missing()),
    pytest.mark.skipif(
        shutil.which(PROGRAM) is None, reason="code-server is missing: npm install --global code-server"
    ),
    pytest.mark.slow,
]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """Run VS Code on 127.0.0.1, and yield its address and the folder that it shows."""
    folder = tmp_path / "notebooks"
    folder.mkdir()
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    command = [
        PROGRAM, "--auth", "none", "--bind-addr", address, "--user-data-dir", str(tmp_path / "user"),
        "--extensions-dir", str(tmp_path / "extensions"), "--config", str(tmp_path / "config.yaml"),
        "--disable-telemetry", "--disable-update-check", "--disable-workspace-trust",
        "--disable-getting-started-override", str(folder),
    ]  # fmt: skip
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
    try:
        for _ in range(300):
            try:
                with urllib.request.urlopen(f"http://{address}/healthz", timeout=5):
                    break
            except OSError:
                assert process.poll() is None, (tmp_path / "log").read_text()
                time.sleep(0.2)
        yield f"http://{address}/?folder={folder}", folder
    finally:
        process.terminate()
        process.wait(60)


def saved(path: Path, *folders: Path) -> None:
    """Write a notebook whose cells have these results as outputs, as one that was run has them."""
    cells = []
    for folder in folders:
        result = Result.__new__(Result)
        for name, value in {"experiment": "incast", "folder": folder}.items():
            object.__setattr__(result, name, value)
        data = {"text/html": str(cell.result(result)), "text/plain": "a result"}
        output = {"output_type": "execute_result", "execution_count": 1, "metadata": {}, "data": data}
        cells.append(
            {"cell_type": "code", "execution_count": 1, "metadata": {}, "source": "result", "outputs": [output]}
        )
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    content = {"nbformat": 4, "nbformat_minor": 4, "metadata": {"kernelspec": kernel}, "cells": cells}
    path.write_text(json.dumps(content), encoding="utf-8")


def until(page: Any, condition: Any, what: str) -> Any:
    for _ in range(600):
        if found := condition():
            return found
        page.wait_for_timeout(100)
    raise AssertionError(f"not within a minute: {what}")


def open_notebook(page: Any, name: str) -> None:
    """Open a file of the folder; as long as VS Code has not looked at its own extensions, it is shown as text."""
    listed = page.locator(".explorer-folders-view").get_by_text(name).first
    until(page, listed.count, "the folder")
    for _ in range(12):
        listed.dblclick()
        page.wait_for_timeout(5000)
        if page.locator(".notebookOverlay").count():
            return
        page.locator(".tab .codicon-close").first.click()
    raise AssertionError(f"VS Code shows {name} as text for a minute")


def reports(page: Any) -> list[Any]:
    """Return the frames of reports that have drawn."""
    inner = [frame for frame in page.frames if frame.url.startswith("about:srcdoc")]
    return [frame for frame in inner if frame.evaluate("Boolean(window.xoffReport?.draws > 0)")]


def test_a_saved_notebook_replays_in_vs_code(served: tuple[str, Path], tmp_path: Path) -> None:
    address, folder = served
    saved(folder / "kept.ipynb", small(tmp_path / "incast-001"), hostile(tmp_path / "incast-002"))
    elsewhere: list[str] = []
    # VS Code's own files have an address there, which its service worker answers from its server.
    own = (address.partition("?")[0], "data:", "blob:", "about:", "https://vscode-remote+127-002e0-002e0-002e1-")
    with chromium.started() as browser:
        page = browser.new_context(viewport={"width": 1400, "height": 2400}).new_page()
        page.on("request", lambda asked: asked.url.startswith(own) or elsewhere.append(asked.url))
        page.on("dialog", lambda dialog: (elsewhere.append(dialog.message), dialog.dismiss()))
        page.goto(address, timeout=120_000)
        open_notebook(page, "kept.ipynb")
        first = until(page, lambda: len(found := reports(page)) == 2 and found, "both reports")[0]
        assert "h1-eth0 priority 3 paused" in first.locator("#state-0").inner_text()
        first.locator("#cursor").focus()
        first.locator("#cursor").press("End")
        assert "no port is paused" in first.locator("#state-0").inner_text()
        with pytest.raises(Exception, match="cross-origin"):
            first.evaluate("parent.document.title")
        assert "owned" not in page.title()
        assert elsewhere == []
