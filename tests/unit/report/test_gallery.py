"""The gallery: each experiment has a card, whose picture is that of the result that the repository has a digest of."""

from __future__ import annotations

import dataclasses
import json
import re
import shlex
import struct
import zlib
from pathlib import Path
from xml.etree import ElementTree

import pytest

from testbed.cli import build_parser, commands
from testbed.experiment import definition
from testbed.experiment.fidelity import Fidelity
from testbed.lab.results import folder as result_folder
from testbed.lab.results.result import Claim, Figure, Provenance, Result, Times
from testbed.lab.studies import costs, references
from testbed.linux.port_program import records
from testbed.net.traffic.report import Report
from testbed.net.traffic.roce import RoceReport
from testbed.net.traffic.tcp import TcpReport
from testbed.subjects.lessons.lesson import lessons
from tests.pages import ROOT
from tests.report_folders import small
from tools import badges, charts, gallery, readme_pictures, terminal_recording
from tools.charts import Chart
from tools.gallery import Card, GalleryError

CARDS, DATA = gallery.cards(ROOT), gallery.data(ROOT)
REMEDY = "./xoff docs --figures makes it"


def test_every_experiment_case_and_lesson_has_a_card_and_nothing_else_has() -> None:
    assert CARDS.keys() == gallery.sources().keys()
    assert {card.group for card in CARDS.values()} == {group.name for group in gallery.groups(ROOT)}
    cases = {case.name for case in definition.conformance()}
    guided = {f"{gallery.LESSON}{one.name}" for one in lessons()}
    for name, card in CARDS.items():
        assert (card.group == "conformance") is (name in cases), name
        assert (card.group == "lessons") is (name in guided), name


@pytest.mark.parametrize("name", CARDS)
def test_a_question_is_one_sentence(name: str) -> None:
    question = CARDS[name].question
    assert len(question) <= 100 and "?" in question and question[0].isupper(), question


def test_no_picture_is_older_than_its_experiment() -> None:
    assert gallery.stale(ROOT) == {}, REMEDY


@pytest.mark.parametrize("name", DATA)
def test_a_picture_is_the_one_that_is_drawn_of_what_is_kept(name: str) -> None:
    drawn = gallery.picture(name, DATA[name])
    assert (ROOT / gallery.FOLDER / f"{name}.svg").read_text() == drawn, REMEDY
    assert charts.problems(Chart.from_json(DATA[name]["chart"])) == []
    width, height = map(int, re.findall(r'(?:width|height)="(\d+)"', drawn)[:2])
    for one in ElementTree.fromstring(drawn).iter():
        assert 0 <= float(one.get("x", 0)) <= width and 0 <= float(one.get("y", 0)) <= height, ElementTree.tostring(one)


def test_there_are_no_other_files_and_few_octets() -> None:
    files = {path.name for path in (ROOT / gallery.FOLDER).iterdir()}
    assert files == {f"{name}.svg" for name in DATA} | {
        gallery.DATA.name,
        gallery.ARCHIVE.name,
        readme_pictures.RUN.name,
    }
    assert sum(path.stat().st_size for path in (ROOT / gallery.FOLDER).iterdir()) < 1_000_000


def test_costs_are_of_experiments_and_foretell() -> None:
    assert costs.known().keys() <= gallery.sources().keys()
    assert costs.expected_of(["no such experiment", *costs.known()]) == {"no such experiment": 10.0, **costs.known()}


def test_small_differences_of_costs_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("testbed.__path__", [str(tmp_path / "testbed")])
    (tmp_path / "experiments").mkdir()
    costs.write(tmp_path, {"one": 4.04, "two": 10.0})
    costs.write(tmp_path, {"one": 5.0, "two": 16.0})
    assert costs.known() == {"one": 4.0, "two": 16.0}


# The sample reports


def test_samples_are_results_that_the_repository_has_the_digests_of() -> None:
    found = gallery.samples(ROOT)
    assert tuple(found) == gallery.SAMPLES, REMEDY
    known = references.read(ROOT)[gallery.ENGINE].digests
    for name, files in found.items():
        assert json.loads(files["result.json"])["digest"] == known[name], REMEDY


@pytest.mark.slow
def test_each_sample_has_a_report_that_its_page_opens() -> None:
    page = (ROOT / "docs/sample-report.md").read_text()
    for name, html in gallery.sample_reports(ROOT).items():
        assert f'href="sample/{name}.html"' in page and "<html" in html and name in html


# What a picture shows


def card(**picture: object) -> Card:
    return Card("mine", "pfc", "What?", {"title": "Lost", **picture})


def test_values_are_found_by_name_number_and_part(tmp_path: Path) -> None:
    folder = result_folder.read(small(tmp_path / "one"))
    folder.figures = [Figure("a", [1, 2.5, 4], ""), Figure("b", {"x": 1, "y": [7, 9]}, ""), Figure("b", 3, "")]
    folder.claims = [Claim("c | d", {"equals": 1}, "12.5%", True, ""), Claim("e", {"equals": True}, True, True, "")]
    for place, expected in (
        ("a|0", 1), ("a|sum", 7.5), ("a|mean", 2.5), ("a|len", 3), ("a|max", 4), ("b|y|1", 9), ("b#2", 3), ("e", 1),
    ):  # fmt: skip
        assert gallery.value(folder, place) == expected, place
    for place, why in (("z", "KeyError: \"the result has no figure or claim 'z'"), ("a|7", "IndexError")):
        with pytest.raises(GalleryError, match=re.escape(why)):
            gallery.chart_of(card(kind="bars", rows=[["one", place, "red"]]), folder)


def test_lanes_show_when_ports_were_paused(tmp_path: Path) -> None:
    folder = result_folder.read(small(tmp_path / "one"))
    chart = gallery.chart_of(card(kind="lanes"), folder)
    label, tone, values = chart.rows[0]
    assert (label, tone) == ("h1-eth0", "red")
    assert values[0] == 0 and values[-1] == 1000 and list(values) == sorted(values)


def test_what_cannot_be_read_in_a_picture_is_refused(tmp_path: Path) -> None:
    folder = result_folder.read(small(tmp_path / "one"))
    folder.figures = [Figure("a", 1, "")]
    with pytest.raises(GalleryError, match=r"longer than its place.*'pink' is no tone"):
        gallery.chart_of(card(kind="bars", rows=[["x" * 40, "a", "pink"]]), folder)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0, "b/s", "0 b/s"), (10_000_135_000, "b/s", "10 Gb/s"), (999_960, "b/s", "1 Mb/s"), (483.6, "ns", "484 ns"),
        (335_542.5, "ns", "336 us"), (265_022_000, "ns", "265 ms"), (2_400_000_000_000, "ns", "2400 s"),
        (129_792, "B", "130 kB"), (476, "", "476"), (1231, "", "1\N{NO-BREAK SPACE}231"), (0.03, "%", "0.03 %"),
        (19.99, "%", "20 %"),
    ],
)  # fmt: skip
def test_numbers_are_short_and_have_their_unit(value: float, unit: str, text: str) -> None:
    assert charts.written(value, unit) == text


# The README


@pytest.mark.parametrize("name", badges.facts(ROOT))
def test_a_badge_says_what_is_so(name: str) -> None:
    what, fact = badges.facts(ROOT)[name]
    assert (ROOT / badges.FOLDER / f"{name}.svg").read_text() == badges.svg(what, fact), REMEDY
    alternative = re.search(rf"!\[([^]]+)\]\(docs/badges/{name}\.svg\)", (ROOT / "README.md").read_text())
    assert alternative is not None and alternative[1] in (what, f"{what}: {fact}")


def test_pictures_of_the_readme_are_of_results_as_they_are() -> None:
    assert readme_pictures.stale(ROOT) == {}, REMEDY


def test_a_png_names_the_digest_of_its_result(tmp_path: Path) -> None:
    png, digest = (ROOT / readme_pictures.REPORT).read_bytes(), "0123456789abcdef" * 4
    chunk = readme_pictures.with_digest(b"\x89PNG" + struct.pack("!I", 0) + b"IEND" + png[-4:], digest)
    assert readme_pictures.digest_of_png(chunk) == digest
    length, kind, content, check = struct.unpack("!I4s76sI", chunk[4:92])
    assert (length, kind) == (76, b"tEXt") and check == zlib.crc32(kind + content)
    assert chunk[92:] == struct.pack("!I", 0) + b"IEND" + png[-4:]
    assert readme_pictures.digest_of_png(b"\x89PNG") == ""


def test_the_recording_is_of_the_demo_as_it_is() -> None:
    text = (ROOT / "docs/demo.svg").read_text()
    assert len(text) < 300_000 and "./xoff demo" in text
    assert "prefers-color-scheme: dark" in text and "prefers-reduced-motion" in text
    shown = "".join(ElementTree.fromstring(text).itertext())
    found = [int(lost) for lost in re.findall(r"a1 has lost (\d+) of ", shown)]
    without = DATA["cross_dc"]["chart"]["rows"][0][2]
    assert sorted(set(found))[0] == 0 and max(found) == without, REMEDY


@pytest.mark.parametrize("page", ["README.md", "docs/index.md", "docs/sample-report.md", "docs/gallery.md"])
def test_commands_within_a_page_are_commands_of_xoff(page: str) -> None:
    lines = re.findall(r"`\./xoff ([^`]+)`", (ROOT / page).read_text())
    assert lines
    for line in lines:
        words = shlex.split(line)
        if words[0] in ("--help", "help") or words[-1].isupper() or "NAME" in words:
            continue
        assert words[0] in commands.by_name(), line
        if "--help" not in words:
            build_parser(*words).parse_args(words)


# The recording of a terminal


def lines_of(*written: str) -> list[str]:
    screen = terminal_recording.Screen(20, 4)
    for text in written:
        screen.feed(text)
    return ["".join(c for c, _ in row).rstrip() for row in screen.cells]


def test_a_screen_follows_what_xoff_draws() -> None:
    assert lines_of("one\r\ntwo\r\n\x1b[1A\x1b[2Kthree") == ["one", "three", "", ""]
    assert lines_of("a\r\nb\r\nc\r\nd\r\ne") == ["b", "c", "d", "e"]
    assert lines_of("x" * 25) == ["x" * 20, "x" * 5, "", ""]
    assert lines_of("\x1b]0;title\x07ab\rc\x1b[K") == ["c", "", "", ""]
    screen = terminal_recording.Screen(20, 2)
    screen.feed("\x1b[1;31mred\x1b[0m \x1b[2mdim")
    red, dim = re.findall(r"<tspan[^>]*>\w+</tspan>", screen.lines()[0])
    assert 'class="b" fill="var(--red)">red<' in red and 'class="d">dim<' in dim


def test_waits_of_a_recording_are_short_and_its_end_stays() -> None:
    found = list(terminal_recording.frames("x", [(0.0, "a"), (0.05, "b"), (60.0, "c")]))
    assert [round(lasts_s, 2) for lasts_s, _ in found[-2:]] == [0.5, 8.0]
    text = terminal_recording.svg("A terminal", found)
    assert text.count('<g transform="translate(') == len(found)
    shown = re.search(r'<g class="film" transform="translate\((-\d+)\)">', text)
    last = re.findall(r'<g transform="translate\((\d+)\)">', text)[-1]
    assert shown is not None and shown[1] == f"-{last}", "without animation the last frame is shown"


# The page about counters

FIELDS = (
    Report, RoceReport, TcpReport, records.GroupCounters, records.GroupLimits, records.BufferCounters,
    records.QueueCounters, records.PortCounters, Result, Claim, Figure, Times, Fidelity, Provenance,
)  # fmt: skip


@pytest.mark.parametrize("kind", FIELDS, ids=lambda kind: kind.__name__)
def test_the_page_about_counters_has_every_field(kind: type) -> None:
    page = (ROOT / "docs/reference/counters.md").read_text()
    names = [field.name for field in dataclasses.fields(kind)]
    assert [name for name in names if f"`{name}`" not in page] == []


def test_the_page_about_counters_has_all_of_a_port() -> None:
    from testbed.switch.pfc.record import Ignored, PfcCounters

    page = (ROOT / "docs/reference/counters.md").read_text()
    counters = PfcCounters()
    names = [*counters.priority(0, 0), *(reason.name.lower() for reason in Ignored), *records.Deaths._fields]
    assert [name for name in names if f"`{name}`" not in page] == []
