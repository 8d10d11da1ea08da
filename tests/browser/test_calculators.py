"""The calculators of the site in a browser: Xoff's own code under Pyodide says what the command line says."""

from __future__ import annotations

import io
import json
import shlex
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from testbed.cli import main
from testbed.cli.house import site
from tests.browser import chromium
from tests.pages import ROOT
from tools.calculators import page as pages
from tools.calculators import runtime
from tools.calculators.table import CALCULATORS

pytestmark = [
    pytest.mark.packages("chromium"),
    pytest.mark.skipif(bool(chromium.missing()), reason=chromium.missing()),
    pytest.mark.slow,
]
needs_python = pytest.mark.skipif(
    runtime.kept() is None, reason="Python for browsers is not in the cache: xoff docs --calculators"
)
SWITCHES = ROOT / "tests/unit/data/sonic"
SECONDS = 120_000
"""What Python may take to begin on a busy machine, in ms."""
_HEAD = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Calculators</title>
<meta name="viewport" content="width=device-width, initial-scale=1">{policy}
<link rel="stylesheet" href="../_static/theme.css"><link rel="stylesheet" href="../_static/calculators/calculators.css">
<script defer src="../_static/calculators/calculators.js"></script></head><body><article><h1>Calculators</h1>{body}
</article></body></html>"""
_LIGHT = {
    "background-primary": "#fff", "background-secondary": "#f8f9fb", "background-border": "#eeebee",
    "foreground-primary": "#000", "foreground-secondary": "#5a5c63", "foreground-muted": "#6b6f76",
    "brand-content": "#2757dd", "brand-primary": "#0a4bff", "code-background": "#f2f2f2", "code-foreground": "#1e1e1e",
}  # fmt: skip
_DARK = {
    "background-primary": "#131416", "background-secondary": "#1a1c1e", "background-border": "#303335",
    "foreground-primary": "#cfd0d0", "foreground-secondary": "#9ca0a5", "foreground-muted": "#81868d",
    "brand-content": "#5ca5ff", "brand-primary": "#3d94ff", "code-background": "#202224", "code-foreground": "#d0d0d0",
}  # fmt: skip
"""The colours of the site's theme."""


def theme() -> str:
    light, dark = (
        ":root { " + "".join(f"--color-{name}: {value}; " for name, value in colours.items()) + "}"
        for colours in (_LIGHT, _DARK)
    )
    body = "background: var(--color-background-primary); color: var(--color-foreground-primary)"
    return f"{light} @media (prefers-color-scheme: dark) {{ {dark} }} body {{ margin: 1rem; {body} }}"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Serve the forms of all calculators, without the site around them, which takes minutes to build."""
    folder = tmp_path_factory.mktemp("calculators")
    static, docs = folder / "_static", folder / "docs"
    shutil.copytree(ROOT / "docs/_static/calculators", static / pages.FOLDER)
    pages.put(static)
    docs.mkdir()
    (static / "theme.css").write_text(theme())
    forms = "".join(f"<section><h2>{name}</h2>{pages.form(one)}</section>" for name, one in CALCULATORS.items())
    (docs / "calculators.html").write_text(_HEAD.format(policy=pages.policy(), body=forms), encoding="utf-8")
    with serving(folder) as address:
        yield address, folder


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(site._Pages, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium.started() as found:
        yield found


class Page:
    """The calculators' page, and what it asked for and said."""

    def __init__(self, browser: Any, address: str, width: int = 1400, scheme: str = "light") -> None:
        self.context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.page = self.context.new_page()
        self.page.set_default_timeout(SECONDS)
        self.requests: list[str] = []
        self.said: list[str] = []
        self.context.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.goto(address)

    def form(self, name: str) -> Any:
        return self.page.locator(f"#form-{name}")

    def answer(self, name: str, given: dict[str, str]) -> dict[str, str]:
        """Fill in a form, press Enter or the button, and return what it says."""
        form = self.form(name)
        before = form.get_attribute("data-answered")
        for details in form.locator("details.more").all():
            details.evaluate("(one) => (one.open = true)")
        for field, value in given.items():
            place = form.locator(f"[name={field}]")
            kind = place.evaluate("(one) => one.type")
            if kind == "file":
                place.set_input_files([str(SWITCHES / file) for file in value.split()])
            elif kind == "checkbox":
                place.set_checked(bool(value))
            elif kind == "select-one":
                place.select_option(value)
            else:
                place.fill(value)
        self.page.wait_for_timeout(500)  # what is typed is computed by itself a little later
        form.get_by_role("button", name="Compute").click()
        self.page.wait_for_function(
            "([form, before]) => Number(document.querySelector(form).dataset.answered) > Number(before) && "
            "!document.querySelector(form).getAttribute('aria-busy')",
            arg=[f"#form-{name}", before],
        )
        error = form.locator(".error")
        return {
            "command": form.locator(".command").inner_text(),
            "json": form.locator(".data pre").evaluate("(one) => one.textContent"),
            "error": error.inner_text() if error.is_visible() else "",
            "html": form.locator(".answer").inner_text(),
        }


@pytest.fixture(scope="module")
def opened(browser: Any, served: tuple[str, Path]) -> Iterator[Page]:
    """The page with Python loaded, for all tests that ask it something."""
    page = Page(browser, f"{served[0]}/docs/calculators.html")
    yield page
    page.context.close()
    assert page.said == []
    assert all(url.startswith((served[0], "data:")) for url in page.requests), page.requests


def by_command(line: str) -> str:
    """Return what a command line prints with --json."""
    said = io.StringIO()
    with redirect_stdout(said):
        main([*shlex.split(line)[1:], "--json"])
    return said.getvalue()


QUESTIONS: list[tuple[str, dict[str, str]]] = [
    ("headroom", {}),
    ("headroom", {"rate": "400Gb/s", "length": "10km", "fec": "rs"}),
    ("headroom", {"rate": "10Gb/s", "length": "100m", "medium": "cat6", "cell": "144", "max_frame": "9216"}),
    ("headroom", {"rate": "25Gb/s", "length": "", "rtt": "500us", "alpha": "11/10"}),
    ("headroom", {"rate": "800Gb/s", "macsec": "yes", "optics": "5us", "response": "1us"}),
    ("thresholds", {}),
    ("thresholds", {"buffer": "64MiB", "ports": "64", "alpha": "1", "headroom_pool": "4MB", "xon_offset": "20kB"}),
    ("thresholds", {"alpha": "", "static": "200kB", "lossless": "1"}),
    ("ecn", {}),
    ("ecn", {"kmin": "1MB", "kmax": "1MB", "pmax": "1/3", "xoff": "", "queue": "130kB"}),
    ("replay", {}),
    ("replay", {"rate": "400Gb/s", "length": "5m", "mtu": "9216", "response": "1us"}),
    ("credits", {}),
    ("credits", {"rate": "100Gb/s", "length": "2km", "frame": "9018", "overhead": "8", "whole": "yes"}),
    ("decode", {}),
    ("decode", {"hex": "0180c2000001 001122334455 8808 0101 00ff " + "ffff" * 8}),
    ("decode", {"hex": "fe 06 00 80 c2 0b 08"}),
]


@needs_python
@pytest.mark.parametrize(("name", "given"), QUESTIONS)
def test_the_page_says_what_the_command_line_says(opened: Page, name: str, given: dict[str, str]) -> None:
    first = {one.name: one.default for one in CALCULATORS[name].fields}
    found = opened.answer(name, first | given)
    assert found["error"] == ""
    assert found["json"].rstrip("\n") == by_command(found["command"]).rstrip("\n")


@needs_python
@pytest.mark.parametrize("names", ["risky_long_cable.json", "broken_values.json", "fabric_l1.json fabric_sp1.json"])
def test_files_of_switches_are_checked_as_by_the_command(
    opened: Page, names: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(SWITCHES)
    found = opened.answer("check", {"files": names})
    assert found["command"] == f"./xoff switch check {names}"
    assert found["json"] == by_command(found["command"]).rstrip("\n")


@needs_python
@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("headroom", {"rate": "100", "rtt": "", "length": "2km"}, "--rate: '100' is not a rate"),
        ("headroom", {"rate": "100Gb/s", "rtt": "1us", "length": "2km"}, "give one of them"),
        ("thresholds", {"buffer": "1kB"}, "cells are missing"),
        ("ecn", {"kmin": "9MB", "kmax": "1MB"}, "--kmin cannot be the larger"),
        ("decode", {"hex": "<img src=x onerror=alert(1)>"}, "is not hexadecimal"),
    ],
)
def test_an_error_is_the_command_line_s_and_the_old_answer_is_dimmed(
    opened: Page, name: str, given: dict[str, str], said: str
) -> None:
    assert said in opened.answer(name, given)["error"]
    assert opened.form(name).locator(".answer.old").count() == 1


@needs_python
def test_names_of_a_file_do_nothing_to_the_page(opened: Page, tmp_path: Path) -> None:
    bad = '<img src=x onerror="document.title=1">'
    hostile = {"DEVICE_METADATA": {"localhost": {"hostname": bad}}, "PORT": {bad: {"speed": bad}}}
    form = opened.form("check")
    form.locator("textarea").fill(json.dumps(hostile))
    opened.page.wait_for_timeout(500)
    opened.page.wait_for_function("!document.querySelector('#form-check').getAttribute('aria-busy')")
    assert form.locator(".answer img").count() == 0 and opened.page.title() == "Calculators"


@needs_python
def test_a_link_opens_the_same_computation(browser: Any, served: tuple[str, Path]) -> None:
    parts = urlencode({"calculator": "headroom", "length": "50km", "cell": "144"}, quote_via=quote)
    page = Page(browser, f"{served[0]}/docs/calculators.html#{parts}")
    page.page.wait_for_selector("#form-headroom[data-answered]")
    assert page.form("headroom").locator("[name=length]").input_value() == "50km"
    content = json.loads(page.form("headroom").locator(".data pre").evaluate("(one) => one.textContent"))
    assert (content["length_mm"], content["cell"]) == (50_000_000, 144)
    page.answer("ecn", {"kmin": "50kB"})
    assert page.page.evaluate("location.hash") == "#calculator=ecn&kmin=50kB"
    page.context.close()


@needs_python
def test_a_form_is_used_by_keyboard_alone(browser: Any, served: tuple[str, Path]) -> None:
    page = Page(browser, f"{served[0]}/docs/calculators.html")
    keyboard = page.page.keyboard
    keyboard.press("Tab")
    assert page.page.evaluate("document.activeElement.name") == "rate"
    keyboard.press("Control+a")
    keyboard.type("25Gb/s")
    keyboard.press("Enter")
    page.page.wait_for_selector("#form-headroom[data-answered]")
    content = json.loads(page.form("headroom").locator(".data pre").evaluate("(one) => one.textContent"))
    assert content["rate_bps"] == 25 * 10**9
    assert page.page.evaluate("location.hash") == "#calculator=headroom&rate=25Gb%2Fs"
    page.context.close()


@needs_python
def test_python_has_no_way_out_once_it_is_loaded(opened: Page) -> None:
    opened.answer("headroom", {"rate": "100Gb/s", "rtt": "", "length": "3km"})
    before = len(opened.requests)
    (worker,) = opened.page.workers
    assert worker.evaluate("[typeof fetch, typeof XMLHttpRequest, typeof WebSocket]") == ["undefined"] * 3
    opened.answer("check", {"files": "tor_25g.json"})
    assert len([url for url in opened.requests[before:] if not url.startswith("data:")]) == 0


def test_first_answers_are_there_without_python_and_it_is_not_loaded_before_it_is_used(
    browser: Any, served: tuple[str, Path]
) -> None:
    page = Page(browser, f"{served[0]}/docs/calculators.html")
    for name in CALCULATORS:
        assert page.form(name).locator(".answer").inner_text()
        assert page.form(name).locator(".answer img").evaluate_all("(all) => all.every((one) => one.naturalWidth > 0)")
    assert not [url for url in page.requests if "pyodide" in url or url.endswith("worker.js")]
    page.context.close()


def test_without_any_script_the_first_answers_and_their_commands_are_there(
    browser: Any, served: tuple[str, Path]
) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{served[0]}/docs/calculators.html")
    for name, calculator in CALCULATORS.items():
        form = page.locator(f"#form-{name}")
        assert form.locator(".answer").inner_text() and f"./xoff {calculator.command}" in form.inner_text()
    context.close()


def test_a_page_that_was_opened_as_a_file_says_how_to_serve_it(browser: Any, served: tuple[str, Path]) -> None:
    page = Page(browser, (served[1] / "docs/calculators.html").as_uri())
    page.form("ecn").get_by_role("button", name="Compute").click()
    said = page.form("ecn").locator(".error").inner_text()
    assert said.startswith(
        "A browser lets no page that was opened as a file load Python. Serve the folder: ./xoff docs"
    )
    page.context.close()


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("delete globalThis.WebAssembly", "This browser has no WebAssembly, in which Python runs."),
        ("", "Python cannot be loaded (this site has none, ./xoff docs --calculators puts it there)"),
    ],
)
def test_without_webassembly_or_python_one_line_says_so(
    browser: Any, served: tuple[str, Path], tmp_path: Path, how: str, said: str
) -> None:
    folder = tmp_path / "site"
    shutil.copytree(served[1], folder, ignore=shutil.ignore_patterns("pyodide"))
    with serving(folder) as address:
        context = browser.new_context()
        context.add_init_script(how)
        page = context.new_page()
        page.goto(f"{address}/docs/calculators.html")
        page.locator("#form-headroom [name=rate]").focus()
        page.locator("#form-headroom").get_by_role("button", name="Compute").click()
        error = page.locator("#form-headroom .error")
        error.wait_for()
        assert error.inner_text().startswith(said)
        assert error.inner_text().endswith("The commands below the answers give the same.")
        context.close()


@pytest.mark.parametrize("width", [500, 1400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_and_nothing_goes_sideways(
    browser: Any, served: tuple[str, Path], width: int, scheme: str
) -> None:
    axe = pytest.importorskip("axe_playwright_python", reason="the Python package axe-playwright-python is missing")
    page = Page(browser, f"{served[0]}/docs/calculators.html", width, scheme)
    page.page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    assert page.page.evaluate("document.documentElement.scrollWidth") <= width
    page.page.evaluate((Path(axe.__file__).parent / "axe.min.js").read_text(encoding="utf-8"))
    found = page.page.evaluate("axe.run('article', { preload: false })")["violations"]
    assert [(one["id"], [node["html"] for node in one["nodes"]]) for one in found] == []
    page.context.close()
