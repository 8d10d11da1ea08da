"""Results and sweeps in cells of real notebooks: run by JupyterLab on this machine, saved, trusted, converted."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.browser import chromium
from tests.report_folders import HOSTILE, MS, hostile, small

for _package in ("jupyterlab", "nbconvert", "anywidget", "ipykernel"):
    pytest.importorskip(_package, reason="the extra `notebook` is missing; ./xoff test test_notebook has it")
pytestmark = [
    pytest.mark.packages("chromium"),
    pytest.mark.skipif(bool(chromium.missing()), reason=chromium.missing()),
    pytest.mark.slow,
]
ROOT = Path(__file__).parents[2]
TOKEN = "only-for-this-test"
_KERNEL = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
_MADE_BY_HAND = """
from pathlib import Path
import xoff
from testbed.lab.results.result import Result
result = Result.__new__(Result)
for name, value in dict(experiment="incast", folder=Path({folder!r}), parameters={{}}, status="ok", claims=()).items():
    object.__setattr__(result, name, value)
Result.__repr__ = lambda self: "a result"
"""
"""A result of the folders of tests, whose result.json does not have all that a run writes."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium.started() as started:
        yield started


def environment(home: Path) -> dict[str, str]:
    own = {f"JUPYTER_{name}_DIR": str(home / name.lower()) for name in ("CONFIG", "DATA", "RUNTIME")}
    return {**os.environ, **own, "IPYTHONDIR": str(home / "ipython"), "PYTHONPATH": str(ROOT), "HOME": str(home)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that JupyterLab shows."""
    return tmp_path_factory.mktemp("notebooks")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the home folder of Jupyter's programs, which has their settings and the key of trusted notebooks."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def lab(folder: Path, home: Path) -> Iterator[str]:
    """Run JupyterLab on 127.0.0.1, and yield its address."""
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [
        sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--expose-app-in-browser",
        "--ServerApp.ip=127.0.0.1", f"--ServerApp.port={port}", "--ServerApp.port_retries=0",
        f"--IdentityProvider.token={TOKEN}", f"--ServerApp.root_dir={folder}", "--LabApp.news_url=",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    ]  # fmt: skip
    with (home / "log").open("w") as log:
        process = subprocess.Popen(command, env=environment(home), stdout=log, stderr=log, cwd=folder)
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(300):
            try:
                with urllib.request.urlopen(f"{address}/api?token={TOKEN}", timeout=5):
                    break
            except OSError:
                assert process.poll() is None, (home / "log").read_text()
                time.sleep(0.2)
        yield address
    finally:
        process.terminate()
        process.wait(60)


class Opened:
    """A page, what its console said, and what it asked for elsewhere."""

    def __init__(self, browser: Any, own: str, width: int = 1400, scheme: str = "light") -> None:
        self.context = browser.new_context(viewport={"width": width, "height": 1000}, color_scheme=scheme)
        self.page = self.context.new_page()
        self.errors: list[str] = []
        self.elsewhere: list[str] = []
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.errors.append(dialog.message), dialog.dismiss()))
        own_addresses = (own, own.replace("http", "ws"), "data:", "blob:", "about:", "file:")
        self.page.on("request", lambda asked: asked.url.startswith(own_addresses) or self.elsewhere.append(asked.url))

    def _hear(self, said: Any) -> None:
        # Chromium drops a connection when an interface of the machine comes or goes, as a lab's beside this test.
        if said.type == "error" and "ERR_NETWORK_CHANGED" not in said.text:
            self.errors.append(said.text)

    def run(self, command: str) -> None:
        self.page.evaluate(f"void jupyterapp.commands.execute({command!r})")

    def until(self, condition: Any, what: str) -> Any:
        for _ in range(300):
            if found := condition():
                return found
            self.page.wait_for_timeout(100)
        raise AssertionError(f"not within half a minute: {what}; the page said {self.errors}")

    def frames(self, many: int) -> list[Any]:
        """Return the frames of outputs once there are so many and each has drawn."""
        outputs = self.page.locator("iframe[sandbox='allow-scripts']")
        self.until(lambda: outputs.count() == many, f"{many} frames")
        found = [outputs.nth(at).element_handle().content_frame() for at in range(many)]
        for frame in found:
            self.until(lambda frame=frame: frame.evaluate("window.xoffReport?.draws > 0"), "a frame draws")
        return found


def notebook(path: Path, *cells: str) -> Path:
    import nbformat

    made = nbformat.v4.new_notebook(metadata=_KERNEL)
    made.cells = [nbformat.v4.new_code_cell(cell) for cell in cells]
    nbformat.write(made, path)
    return path


def executed(path: Path, home: Path) -> Path:
    """Run a notebook from its first cell to its last, without a browser, and return the saved one."""
    out = path.with_name(f"saved-{path.name}")
    command = [sys.executable, "-m", "nbconvert", "--to", "notebook", "--execute", "--output", out.name, path.name]
    subprocess.run(command, cwd=path.parent, env=environment(home), check=True, capture_output=True)
    return out


def state(frame: Any) -> str:
    return str(frame.locator("#state-0").inner_text())


def paused(frame: Any) -> list[str]:
    found: list[str] = frame.evaluate("[...document.querySelectorAll('.port.paused')].map((one) => one.dataset.port)")
    return found


def test_a_live_notebook_shows_a_result_and_its_widget_follows_python(
    browser: Any, lab: str, folder: Path, tmp_path: Path
) -> None:
    place = small(tmp_path / "incast-001")
    notebook(
        folder / "live.ipynb", _MADE_BY_HAND.format(folder=str(place)) + "result", "w = xoff.widget(result)\nw",
        "print('at', w.t_ns, w.words)", f"w.t_ns = {115 * MS // 1000}",
    )  # fmt: skip
    opened = Opened(browser, lab, scheme="dark")
    page = opened.page
    page.goto(f"{lab}/lab/tree/live.ipynb?reset&token={TOKEN}")
    opened.until(lambda: page.locator(".jp-Notebook .jp-CodeCell").count() == 4, "the notebook")
    opened.until(lambda: page.get_by_text("| Idle").count(), "a kernel")
    opened.run("notebook:run-all-cells")
    static, live = opened.frames(2)
    opened.until(lambda: "at 115.0 us" in state(live), "the time that Python has set")
    assert paused(live) == ["h1-eth0", "h2-eth0"] and "h1-eth0 priority 3 paused" in state(live)
    # The widget is as dark as the notebook, not as the desktop.
    background = "getComputedStyle(document.body).backgroundColor"
    assert live.evaluate(background) == "rgb(255, 255, 255)"
    # The slider by keys alone, in both; a result without a widget has it too.
    for frame in (static, live):
        slider = frame.locator("#cursor")
        slider.focus()
        slider.press("End")
        assert "no port is paused" in state(frame) and paused(frame) == []
    third = page.locator(".jp-Notebook .jp-CodeCell").nth(2)
    third.locator(".cm-content").click()
    page.keyboard.press("Control+Enter")
    opened.until(lambda: "no port is paused" in third.inner_text(), "the words of the slider in Python")
    assert page.locator(".jp-OutputArea-output table").first.locator("text=goodput").count() == 1
    assert opened.errors == [] and opened.elsewhere == []
    opened.context.close()


_SWEEP = """
from testbed.lab.studies.sweep import Sweep
from testbed.lab.studies.sweep_tables import Row
rows = tuple(
    Row({"senders": str(many), {name!r}: "1"}, seed, "ok", "", True, "", "", "", {"pauses": 10.0 * many + seed})
    for many in (2, 4, 8) for seed in (1, 2, 3)
)
Sweep(Path("sweep-incast"), rows, (), (), 9)
"""


@pytest.fixture(scope="module")
def saved(folder: Path, home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a notebook that was run without a browser: a result and a sweep with markup in every name."""
    place = hostile(tmp_path_factory.mktemp("results") / "incast-001")
    cells = [_MADE_BY_HAND.format(folder=str(place)) + "result", _SWEEP.replace("{name!r}", repr(HOSTILE))]
    return executed(notebook(folder / "kept.ipynb", *cells), home)


def nothing_of_the_result_has_run(opened: Opened) -> None:
    assert opened.errors == [] and opened.elsewhere == []
    assert "owned" not in opened.page.title()
    assert opened.page.locator("img[src='x']").count() == 0


@pytest.mark.parametrize(("width", "scheme"), [(500, "dark"), (1400, "light")])
def test_a_saved_notebook_that_was_converted_replays_without_a_kernel_and_a_network(
    browser: Any, saved: Path, tmp_path: Path, width: int, scheme: str
) -> None:
    command = [
        sys.executable, "-m", "nbconvert", "--to", "html", "--output-dir", str(tmp_path), "--output", "page.html",
        "--HTMLExporter.mathjax_url=", "--HTMLExporter.require_js_url=", str(saved),
    ]  # fmt: skip
    subprocess.run(command, env=environment(tmp_path), check=True, capture_output=True)
    opened = Opened(browser, "file:", width, scheme)
    opened.context.set_offline(True)
    opened.page.goto((tmp_path / "page.html").as_uri())
    result, sweep = opened.page.locator("iframe[sandbox='allow-scripts']").all()
    result.scroll_into_view_if_needed()
    frame = result.element_handle().content_frame()
    opened.until(lambda: frame.evaluate("window.xoffReport?.draws > 0"), "the drawing")
    before = state(frame)
    assert "priority 3 paused" in before and len(paused(frame)) == 2
    frame.locator("#cursor").focus()
    frame.locator("#cursor").press("End")
    assert state(frame) != before and paused(frame) == []
    assert frame.evaluate("document.documentElement.scrollWidth <= innerWidth"), "nothing is cut off"
    assert frame.evaluate("getComputedStyle(document.body).backgroundColor") == (
        "rgb(13, 17, 23)" if scheme == "dark" else "rgb(255, 255, 255)"
    )
    assert sweep.content_frame.locator("svg.curves").count() == 1
    assert opened.page.locator("text=senders").first.is_visible()
    nothing_of_the_result_has_run(opened)
    opened.context.close()


def test_jupyterlab_shows_the_table_alone_of_a_notebook_that_it_does_not_trust(
    browser: Any, lab: str, saved: Path, home: Path
) -> None:
    opened = Opened(browser, lab)
    opened.page.goto(f"{lab}/lab/tree/{saved.name}?reset&token={TOKEN}")
    goodput = opened.page.locator(".jp-OutputArea-output table").first
    opened.until(goodput.count, "the table of claims")
    assert opened.page.locator(".jp-OutputArea-output iframe").count() == 0
    nothing_of_the_result_has_run(opened)
    opened.context.close()
    trust = "from nbformat.sign import TrustNotebookApp; TrustNotebookApp.launch_instance()"
    subprocess.run([sys.executable, "-c", trust, str(saved)], env=environment(home), check=True, capture_output=True)
    opened = Opened(browser, lab)
    opened.page.goto(f"{lab}/lab/tree/{saved.name}?reset&token={TOKEN}")
    outputs = opened.page.locator("iframe[sandbox='allow-scripts']")
    opened.until(lambda: outputs.count() == 2, "frames of a trusted notebook")
    outputs.first.scroll_into_view_if_needed()
    frame = outputs.first.element_handle().content_frame()
    opened.until(lambda: frame.evaluate("window.xoffReport?.draws > 0"), "the drawing")
    assert len(paused(frame)) == 2
    with pytest.raises(Exception, match="cross-origin"):
        frame.evaluate("parent.document.title")
    nothing_of_the_result_has_run(opened)
    opened.context.close()
