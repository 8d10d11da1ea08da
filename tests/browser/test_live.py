"""The live view of a real lab in a browser: it shows what happens, and each control acts."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed.lab.engines import table
from testbed.lab.engines.engine import PreparedEngine
from tests.browser import chromium
from tests.report_folders import hostile, small

pytest.importorskip("uvicorn", reason="the Python packages of the extra `serve` are missing")
pytestmark = [
    pytest.mark.packages("chromium"),
    pytest.mark.skipif(bool(chromium.missing()), reason=chromium.missing()),
    pytest.mark.slow,
]
ROOT = Path(__file__).parents[2]
_SERIOUS = ("serious", "critical")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium.started() as found:
        yield found


@pytest.fixture(scope="module")
def ready() -> PreparedEngine:
    """Set up the lab, which `xoff serve` would do while a test waits."""
    return table.prepare("um", print)


class View:
    """A page of `xoff serve`, and the messages of its console."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.said: list[str] = []
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("dialog", lambda dialog: (self.said.append(dialog.message), dialog.dismiss()))

    def press(self, name: str) -> None:
        self.page.get_by_role("button", name=name, exact=True).click()

    def until(self, expression: str) -> None:
        """Wait until a condition of the page holds."""
        for _ in range(400):  # playwright's own way needs eval, which the page's policy forbids
            if self.page.evaluate(f"Boolean({expression})"):
                return
            self.page.wait_for_timeout(50)
        shown = self.page.locator("#answer").all_inner_texts()
        raise AssertionError(f"not within 20 s: {expression}; the last answer is {shown}")

    def answered(self, words: str) -> None:
        self.until(f"document.getElementById('answer').textContent.includes({words!r})")

    def choose(self, port: str) -> None:
        self.page.locator("#port").select_option(port)


def served(*arguments: str) -> tuple[subprocess.Popen[str], str]:
    """Run `xoff serve`, and yield it with its address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "testbed", "serve", *arguments, "--port", "0"],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    if not address:
        raise AssertionError(process.communicate()[1])
    return process, address


def ended(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130 and "Traceback" not in said, said


def axe_finds_nothing(page: Any) -> None:
    axe = pytest.importorskip("axe_playwright_python", reason="the Python package axe-playwright-python is missing")
    page.evaluate((Path(axe.__file__).parent / "axe.min.js").read_text(encoding="utf-8"))
    found = page.evaluate("axe.run()")["violations"]
    assert [(one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in _SERIOUS] == []


def test_what_a_lesson_does_acts_in_the_lab_and_is_seen(browser: Any, ready: PreparedEngine) -> None:
    process, address = served("incast,2", "--speed", "1")
    try:
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        view = View(context.new_page())
        page = view.page
        page.goto(address)
        assert "token" not in page.url
        view.until("xoffLive.state.ports")

        page.locator("[name=source]").select_option(["h1", "h2"])
        page.locator("[name=ecn]").check()
        view.press("Start")
        view.answered("h1, h2 to r on priority 3: started")
        view.until("document.getElementById('state').textContent.includes('paused')")
        view.until("document.querySelector('[data-load=s1-eth3]')?.classList.contains('load-5')")
        view.until("Number(document.querySelector('.use[data-node=s1]').getAttribute('width')) > 0")
        axe_finds_nothing(page)

        view.choose("s1-eth3")
        view.press("ECN of priority 3")
        view.answered("ECN of priority 3 at s1-eth3 is on")
        view.until("[...xoffLive.panels.keys()].includes('ECN marks')")

        view.choose("s1-eth1")
        view.press("PFC of priority 3")
        view.answered("PFC of priority 3 at s1-eth1 is off")
        view.until("xoffLive.state.ports['s1-eth1'].pfc.length === 0")
        view.until("[...xoffLive.panels.keys()].includes('Drops')")
        view.press("PFC of priority 3")
        view.answered("PFC of priority 3 at s1-eth1 is on")

        before = page.evaluate("xoffLive.state.agents.s1.agent")
        page.locator("#node").select_option("s1")
        view.press("Kill its agent")
        view.answered("was killed")
        view.until(f"xoffLive.state.agents.s1.agent && xoffLive.state.agents.s1.agent !== {before}")
        view.until("xoffLive.marks.includes('agent_died')")

        view.choose("s1-eth2")
        view.press("Pull")
        view.answered("the cable of s1-eth2 is out")
        view.until("document.querySelector('[data-load=h2-eth0]').getAttribute('class') === 'load'")
        view.until("document.querySelector('[data-load=h2-eth0]').parentNode.classList.contains('pulled')")
        view.until("document.getElementById('state').textContent.includes('without a cable: h2-eth0, s1-eth2')")
        view.press("Plug in")
        view.answered("the cable of s1-eth2 is in")
        view.until("!document.querySelector('.pulled')")

        view.press("Pause")
        view.until("xoffLive.paused")
        page.wait_for_timeout(300)
        stood = page.evaluate("xoffLive.newest")
        page.wait_for_timeout(300)
        assert page.evaluate("xoffLive.newest") == stood
        view.press("Step 100 us")
        view.until(f"xoffLive.newest > {stood}")
        page.wait_for_timeout(200)
        assert page.evaluate("xoffLive.newest") - stood <= 200e6
        view.press("Go on")

        view.press("Stop all")
        view.answered("sent")
        view.until("document.querySelectorAll('#flows li').length === 0")
        context.close()
        assert view.said == []
    finally:
        ended(process)


def test_64_hosts_can_be_used_and_the_session_is_saved(browser: Any, ready: PreparedEngine, tmp_path: Path) -> None:
    """On a wide page first, and then the same lab on a narrow one."""
    process, address = served("leaf-spine,4,4,16", "--speed", "1")
    try:
        view, page = of_64_hosts(browser, address, 1280)
        page.locator("#sets").select_option(label="hosts of leaf2")
        page.locator("[name=target]").select_option("h1")
        view.press("Start")
        view.answered("16 hosts to h1 on priority 3: started")
        view.until("xoffLive.actions.length === 1")
        acts_on_a_cable(view, "Pull", "out", 2)
        page.context.close()
        assert view.said == []

        view, page = of_64_hosts(browser, address, 400)
        acts_on_a_cable(view, "Plug in", "in", 3)
        with page.expect_download() as waiting:
            page.get_by_role("link", name="Save the session").click()
        file = tmp_path / waiting.value.suggested_filename
        waiting.value.save_as(file)
        page.context.close()
        assert view.said == []
    finally:
        ended(process)
    assert file.name == "session.py" and "'source': 'h17,h18" in file.read_text()
    ran = subprocess.run(
        [sys.executable, "-m", "testbed", "run", str(file), "--out", str(tmp_path / "out"), "--json"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    (result,) = json.loads(ran.stdout)
    answers = [one["value"] for one in result["figures"]]
    assert answers[:3] == [
        "16 hosts to h1 on priority 3: started",
        "the cable of leaf2-eth1 is out",
        "the cable of leaf2-eth1 is in",
    ]


def of_64_hosts(browser: Any, address: str, width: int) -> tuple[View, Any]:
    view = View(browser.new_context(viewport={"width": width, "height": 900}).new_page())
    view.page.goto(address)
    view.until("xoffLive.state.ports")
    boxes = view.page.evaluate(
        "[...document.querySelectorAll('.node[data-node^=h] rect')].map((one) => one.getBoundingClientRect().width)"
    )
    assert len(boxes) == 64 and min(boxes) > 8
    return view, view.page


def acts_on_a_cable(view: View, button: str, becomes: str, action: int) -> None:
    """Pull or plug in a cable, which is in the list of actions and in the panels, on a page without a fault."""
    page = view.page
    page.get_by_role("button", name="Enlarge the drawing").click()
    view.choose("leaf2-eth1")
    view.press(button)
    view.answered(f"the cable of leaf2-eth1 is {becomes}")
    view.until(f"xoffLive.actions.length === {action}")
    assert page.locator("#actions li").nth(action - 1).inner_text().endswith(f"the cable of leaf2-eth1 is {becomes}")
    drawn = """() => {
        const panel = [...xoffLive.panels.values()].find((one) => one.first && one.size), { size, canvas } = panel;
        const { data } = canvas.getContext("2d").getImageData(0, 3, canvas.width, 1);
        return [...Array(canvas.width).keys()].filter((x) => data[4 * x] === 138 && data[4 * x + 1] === 43).length;
    }"""
    page.evaluate("document.querySelector('#panels canvas').scrollIntoView({ block: 'center' })")
    page.wait_for_timeout(200)
    assert page.evaluate(drawn) >= 2, "a line for an action, in the colour of actions"
    axe_finds_nothing(page)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_clicks_in_the_drawing_act_and_are_undone(browser: Any, ready: PreparedEngine) -> None:
    process, address = served("incast,2", "--speed", "1")
    try:
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        view = View(context.new_page())
        page = view.page
        page.goto(address)
        view.until("xoffLive.state.ports")

        page.locator(".node[data-node=h1]").click()
        view.press("Send from here: then click the receiver")
        page.locator(".node[data-node=r]").click()
        view.answered("h1 to r on priority 3: started")

        page.locator(".port[data-port=r-eth0]").click()
        axe_finds_nothing(page)
        view.press("Storm: pause priority 3 of the peer for good")
        view.until("document.getElementById('state').textContent.includes('s1-eth3 priority 3 paused')")
        assert page.locator("#here").is_hidden()
        page.locator("h1").click()
        page.keyboard.press("Control+z")
        view.answered("undone: r-eth0 pauses no longer priority 3 of its peer")
        view.until("!document.getElementById('state').textContent.includes('s1-eth3 priority 3 paused')")

        page.locator(".node[data-node=s1]").click()
        view.press("XOFF above 25% of the free cells")
        view.answered("s1 sends XOFF above 25%")
        view.until("xoffLive.state.thresholds.s1 === '25%' && document.getElementById('xoff').value === '25%'")
        page.locator("#xoff").fill("many")
        view.press("Set the threshold")
        view.answered("xoff is 'many'; write a number of cells, a part of the free cells as in '50%'")

        page.locator("[data-load=h2-eth0]").first.click(force=True)
        view.press("Pull the cable")
        view.answered("the cable of h2-eth0 is out")
        view.until("document.getElementById('undo-what').textContent === 'takes back: the cable of h2-eth0 is out'")
        view.press("Undo")
        view.answered("undone: the cable of h2-eth0 is in")
        view.press("Undo")
        view.answered("undone: s1 sends XOFF above 50%")

        page.locator(".node[data-node=h2]").click()
        page.keyboard.press("Escape")
        assert page.locator("#here").is_hidden()
        assert page.locator("#actions li").count() == 7
        context.close()
        assert view.said == []
    finally:
        ended(process)


def test_a_long_cable_changes_its_delay_and_wrong_fields_get_an_answer(browser: Any, ready: PreparedEngine) -> None:
    process, address = served("three-links")
    try:
        context = browser.new_context(viewport={"width": 400, "height": 900}, color_scheme="dark")
        view = View(context.new_page())
        page = view.page
        page.goto(address)
        view.until("xoffLive.state.ports")
        port = page.evaluate("Object.keys(xoffLive.state.ports).find((one) => xoffLive.state.ports[one].can_delay)")
        view.choose(port)
        page.locator("#delay").fill("7us")
        view.press("Set")
        view.until(f"xoffLive.state.ports['{port}'].delay_lab_ns === 7e6")
        page.locator("#delay").fill("<b>far</b>")
        view.press("Set")
        view.until("document.getElementById('answer').className === 'bad'")
        assert page.locator("#answer b").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        axe_finds_nothing(page)
        context.close()
        assert view.said == []
    finally:
        ended(process)


def test_results_are_replayed_and_hostile_ones_do_nothing(browser: Any, tmp_path: Path) -> None:
    process, address = served(str(small(tmp_path / "one")), str(hostile(tmp_path / "two")))
    try:
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        view = View(context.new_page())
        page = view.page
        page.goto(address)
        page.get_by_role("link", name="one").click()
        page.wait_for_url("**/result/1")
        page.evaluate("xoffReport.loaded")
        page.evaluate("xoffReport.setCursor(0)")
        page.locator("#pace").select_option("0.1")
        view.press("Play")
        view.until("document.getElementById('state-0').textContent.includes('h1-eth0 priority 3 paused')")
        view.press("Stop")
        page.goto(re.sub(r"/\?.*", "/result/2", address))
        page.evaluate("xoffReport.loaded")
        assert page.evaluate("document.images.length") == 0
        assert page.title().startswith("<") and "owned" not in page.title().split(" - ")[-1]
        context.close()
        assert view.said == []
    finally:
        ended(process)
