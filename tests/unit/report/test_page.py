"""The page of a report: one file that needs nothing, shows what result.json has, and runs nothing else."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from testbed.cli import main
from testbed.experiment.fidelity import Fidelity, Thresholds, Verdict
from testbed.lab.results.result import Provenance, Result, Status, Times
from testbed.lab.studies import batch
from testbed.report.pages.page import report
from tests.report_folders import HOSTILE, MS, hostile, large, lines, network, small
from tests.unit.subjects.dcbx.dcbx_ladders import symmetric


class Page(HTMLParser):
    """The elements of a page, and the text outside scripts."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self.feed(source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        inside = self.elements[-1][0] if self.elements else ""
        (self.scripts if inside in ("script", "style") and data.strip() else self.texts).append(data)

    @property
    def text(self) -> str:
        return " ".join(self.texts)


def data_of(source: str) -> list[dict[str, Any]]:
    found = re.findall(r'<script type="application/json" class="data">(.*?)</script>', source, re.DOTALL)
    return [json.loads(one) for one in found]


def test_the_page_has_claims_figures_topology_panels_and_the_command(tmp_path: Path) -> None:
    page = Page(report([small(tmp_path / "incast-001")]))
    for expected in ("goodput", "10.000135Mb/s", "at least 9.9Mb/s", "[2, 1]", "XOFF 300", "with PFC", "7.3.4"):
        assert expected in page.text or expected in " ".join(page.scripts), expected
    assert "./xoff run incast --set senders=2 --seed 1 --engine um" in page.text
    again = {"command": ["run", "my file.py", "--seed", "2"], "files": {"my\nfile.py": "ab"}}
    page = Page(report([small(tmp_path / "mine-001", again=again)]))
    assert "./xoff run 'my file.py' --seed 2\n# 'my\\nfile.py': SHA-256 'ab'" in page.text, "one line for each"
    drawn = [attributes["data-port"] for tag, attributes in page.elements if "data-port" in attributes]
    assert drawn == ["h1-eth0", "s1-eth1", "h2-eth0", "s1-eth2"], "one drawing, since both networks are the same"
    assert sum(tag == "canvas" for tag, _ in page.elements) == 4, "pauses, the buffer of s1, drops, events"


def test_numbers_of_the_panels_are_those_of_the_event_log_and_of_the_result(tmp_path: Path) -> None:
    (data,) = data_of(report([small(tmp_path / "one")]))
    intervals = {(one["panel"], one["port"]): one["rows"] for one in data["tracks"]}
    assert [intervals["paused", f"h{number}-eth0"] for number in (1, 2)] == [2, 1], "as in the figure of the result"
    assert data["panels"][1]["lines"] == [["XOFF 300", 300], ["XON 204", 204]]
    assert [one["id"] for one in data["networks"]] == ["network-0-1"] * 2
    assert data["cursor"] == 120 * MS + 20, "the middle of the time in which both hosts are paused"
    assert (data["start"], data["stop"]) == (100 * MS - 510 * MS // 40, 610 * MS + 510 * MS // 40)


def test_only_the_two_texts_named_by_digest_may_style_and_run(tmp_path: Path) -> None:
    source = report([small(tmp_path / "one")])
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', source)
    assert policy is not None and policy[1].startswith("default-src 'none'; ") and "unsafe" not in policy[1]
    for tag in ("style", "script"):
        (content,) = re.findall(rf"<{tag}>(.*?)</{tag}>", source, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy[1]
    for tag, attributes in Page(source).elements:
        assert "style" not in attributes and not any(name.startswith("on") for name in attributes)
        addresses = [attributes[name] for name in ("src", "href", "action", "data") if name in attributes]
        assert all(str(one).startswith(("data:image/svg+xml;base64,", "#t=")) for one in addresses), (tag, addresses)


def test_markup_and_escapes_in_names_figures_and_logs_are_text(tmp_path: Path) -> None:
    source = report([hostile(tmp_path / "one"), small(tmp_path / HOSTILE.replace("/", "_"))])
    page = Page(source)
    assert "\x1b" not in source and "\u202e" not in source
    assert sum(tag == "script" for tag, _ in page.elements) == 5, "the data and traces of two results, and our own"
    assert all(attributes.get("src") != "x" for _, attributes in page.elements)
    assert page.text.count("document.title='owned'") > 10, "it can be read, as text"
    assert len(source) < 400_000, "a name of 200000 characters is cut"


def test_lines_that_cannot_be_read_are_mentioned(tmp_path: Path) -> None:
    page = report([hostile(tmp_path / "one")])
    assert "line 5 of networks.jsonl is not JSON, line 6 of networks.jsonl is no start or end of a network" in page
    assert "and 3 more are damaged; the rest is read without them" in page
    assert "is read without" not in report([small(tmp_path / "two")])


def test_several_results_stand_side_by_side(tmp_path: Path) -> None:
    other = small(tmp_path / "two", figures=[{"name": "pauses of each sender", "value": [7, 9], "unit": ""}])
    page = Page(report([small(tmp_path / "one"), other]))
    assert "Side by side" in page.text and "[2, 1]" in page.text and "[7, 9]" in page.text
    assert sum(tag == "article" for tag, _ in page.elements) == 2


def test_what_differs_between_results_is_before_what_is_the_same(tmp_path: Path) -> None:
    same = [{"name": f"figure {number}", "value": number, "unit": ""} for number in range(30)]
    folders = [
        small(tmp_path / name, figures=[*same, {"name": "differs", "value": value, "unit": ""}])
        for name, value in (("one", 7), ("two", 8))
    ]
    shown, _, rest = report(folders).partition("Side by side</h2>")[2].partition("<details>")
    assert "differs" in shown and "figure 3" not in shown
    assert "31 more values" in rest and "figure 3" in rest


def test_a_result_without_networks_and_events_has_its_tables(tmp_path: Path) -> None:
    folder = small(tmp_path / "one")
    (folder / "networks.jsonl").unlink()
    (folder / "events.jsonl").unlink()
    page = Page(report([folder]))
    assert "goodput" in page.text and "No port was paused." in page.text


def test_dcbx_ladders_are_images_for_each_cable_with_a_log(tmp_path: Path) -> None:
    folder, log = small(tmp_path / "one", times={"virtual_ns": 10**12, "wall_s": 1}), symmetric()
    one, other = sorted({record["port"] for record in log})
    cable = {"ends": [one, other], "nodes": ["h1", "s1"]}
    lines(folder / "networks.jsonl", [network(0, "dcbx") | {"cables": [cable]}])
    first_ns = log[0]["t_ns"]
    lines(folder / "dcbx.jsonl", [record | {"t_ns": record["t_ns"] - first_ns} for record in log])
    images = [attributes for tag, attributes in Page(report([folder])).elements if tag == "img"]
    assert [image["alt"] for image in images] == [f"DCBX ladder of dcbx: {one} and {other}"]
    picture = base64.b64decode(str(images[0]["src"]).partition(",")[2]).decode()
    assert picture.startswith("<svg") and one in picture and other in picture


@pytest.mark.slow
@pytest.mark.parametrize("events", [250_000, pytest.param(1_000_000, marks=pytest.mark.long)])
def test_events_of_60_seconds_take_less_than_5_octets_each(tmp_path: Path, events: int) -> None:
    """So a million events are less than 5 MB."""
    source = report([large(tmp_path / "large", events)])
    assert len(source.encode()) < 5 * events
    (data,) = data_of(source)
    counted = sum(one.get("count", one["rows"]) for one in data["tracks"] if one["panel"] == "paused")
    assert counted == events // (9 * 16) * 16, "every pause is in it"


def test_the_command_writes_the_report_beside_the_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = small(tmp_path / "one")
    assert main(["report", str(folder)]) == 0
    assert capsys.readouterr().out.strip() == str(folder / "report.html")
    assert (folder / "report.html").read_text(encoding="utf-8") == report([folder])
    assert main(["report", str(folder), "-o", str(tmp_path / "no" / "x.html")]) == 2
    assert main(["report", str(tmp_path / "none")]) == 2
    assert "there is no result folder" in capsys.readouterr().err


def test_a_network_of_too_many_nodes_is_not_drawn(tmp_path: Path) -> None:
    folder = small(tmp_path / "one")
    lines(folder / "networks.jsonl", [network(0, "large", hosts=700)])
    assert "701 nodes are too many to draw" in Page(report([folder])).text


def test_the_demo_and_run_with_report_end_with_the_path_of_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from testbed.cli.first_steps import running

    fidelity = Fidelity(Verdict.KEPT, (), 1, 100.0, 1, 1, Thresholds())
    provenance = Provenance("um", "none", "", "", "", "", "0.1.0", "", "")
    folder = small(tmp_path / "one")
    done = Result("incast", Status.OK, "", {}, 1, (), (), fidelity, provenance, Times(1, 1.0, None), {}, folder)
    monkeypatch.setattr(running, "ready", lambda kind: kind)
    monkeypatch.setattr(running, "soonest", lambda: "um")
    monkeypatch.setattr(running, "with_packages", lambda engine, packages, experiment: engine)
    monkeypatch.setattr(batch, "run", lambda tasks, **_: batch.Batch((batch.TaskOutcome(tasks[0], done),)))
    for command in (["demo"], ["run", "incast", "--report"]):
        (folder / "report.html").unlink(missing_ok=True)
        assert main(command) == 0
        assert capsys.readouterr().out.splitlines()[-1] == f"report: {folder / 'report.html'}"
        assert (folder / "report.html").is_file()
    assert main(["run", "incast"]) == 0
    assert "report:" not in capsys.readouterr().out
    assert main(["run", "incast", "--report", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["experiment"] == "incast"


CLAIMS = [
    {"name": f"claim {number}", "expected": {"equals": 0}, "measured": number, "passed": not number, "unit": ""}
    for number in range(3)
]


def test_a_failed_result_says_how_many_claims_failed(tmp_path: Path) -> None:
    failed = Page(report([small(tmp_path / "one", claims=CLAIMS, passed=False)])).text
    assert "failed: 2 of 3 claims" in failed and "(ok)" not in failed
    ended = Page(report([small(tmp_path / "two", claims=CLAIMS[:1], passed=False, status="timeout")])).text
    assert "not at its end: timeout" in ended and "1 of 1 claim hold" in ended


def test_ports_have_the_names_of_their_switches_own_system_everywhere(tmp_path: Path) -> None:
    folder = small(tmp_path / "one")
    (folder / "series-links.csv").write_text(f"t_ns,port,load_bps\n{100 * MS},s1-eth1,7\n{200 * MS},s1-eth2,8\n")
    log = (folder / "networks.jsonl").read_text()
    named = [json.loads(line) for line in log.splitlines()]
    for one in named:
        for number in range(1, 3) if "ports" in one else ():
            one["ports"][f"s1-eth{number}"]["name"] = f"Ethernet{number * 4}"
    lines(folder / "networks.jsonl", named)
    source = report([folder])
    assert "s1-eth" not in source and source.count("s1-Ethernet4") > 3
    ports = {one["port"] for one in data_of(source)[0]["tracks"]}
    assert {"s1-Ethernet4", "s1-Ethernet8", "h1-eth0"} <= ports


def test_what_to_change_is_before_the_claims(tmp_path: Path) -> None:
    remedy = {"name": "remedy for leaf1 Ethernet0", "value": "set xoff of profile p to 7", "unit": ""}
    source = report([small(tmp_path / "one", figures=[remedy])])
    assert source.index("set xoff of profile p to 7") < source.index('aria-label="Claims"')
