"""The documentation site: its references follow from the code, its figures from their program, and it builds."""

from __future__ import annotations

import importlib.util
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import IO, cast
from xml.etree import ElementTree

import pytest

from testbed import cli
from testbed.cli import commands
from testbed.cli.house import site
from testbed.cli.screen import amount
from testbed.errors import XoffError
from testbed.lab.runs import api
from testbed.lab.studies import costs
from tests import pages
from tests.pages import ROOT
from tools import concept_figures, gallery, site_reports

INLINE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)(?:#[^)]*)?\)")


def program(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


EXTENSION = program("site_extension")


@pytest.mark.parametrize("name", concept_figures.FIGURES)
def test_a_figure_is_the_one_that_its_program_draws(name: str) -> None:
    drawn = concept_figures.FIGURES[name]().svg()
    assert (ROOT / "docs" / "figures" / f"{name}.svg").read_text() == drawn, "xoff docs --figures draws it"
    root = ElementTree.fromstring(drawn)
    assert [child.tag.rpartition("}")[2] for child in root][:2] == ["title", "desc"]
    assert "prefers-color-scheme: dark" in drawn


def test_every_figure_is_on_a_page() -> None:
    text = "".join((ROOT / page).read_text() for page in pages.PAGES)
    assert all(f"figures/{name}.svg)" in text for name in concept_figures.FIGURES)
    assert {path.stem for path in (ROOT / "docs" / "figures").iterdir()} == set(concept_figures.FIGURES)


@pytest.mark.parametrize("page", pages.PAGES)
def test_links_between_pages_are_files(page: str) -> None:
    """Links work where the repository is browsed; the site's own build checks anchors too."""
    for name in LINK.findall(INLINE.sub("", (ROOT / page).read_text())):
        assert ((ROOT / page).parent / name).exists(), name


def test_the_reference_has_every_command_with_its_options() -> None:
    text = EXTENSION.command_line()
    for group, members in commands.groups().items():
        assert f"## {group[0].upper()}{group[1:]}\n" in text
        for name in members:
            assert f"\n### xoff {name}\n" in text
    assert (
        "| `--set K=V` |" in text
        and "#### xoff lesson check" in text
        and "#### xoff switch headroom" in text
        and "130  interrupted" in text
    )


def test_the_reference_has_every_operation_and_body() -> None:
    text = EXTENSION.rest()
    document = json.loads((ROOT / "controllers" / "openapi.json").read_text())
    for path, methods in document["paths"].items():
        for method in methods:
            assert f"\n### {method.upper()} {path}\n" in text.replace("\\{", "{")
    for name in document["components"]["schemas"]:
        assert f"\n### {name}\n" in text


def test_pages_that_no_line_names_are_guides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docs").mkdir()
    for name in ("index", "lab", "serve"):
        (tmp_path / "docs" / f"{name}.md").write_text("# A page\n")
    monkeypatch.setattr(EXTENSION, "ROOT", tmp_path)
    assert EXTENSION.further_guides("```{toctree}\nlab\n```\n") == ["serve"]


def test_text_of_help_is_shown_as_it_is() -> None:
    assert EXTENSION._plain("a*b <c> [d] e_f") == r"a\*b \<c\> \[d\] e\_f"


@pytest.mark.long  # the job for the documentation runs it
def test_the_site_builds_without_a_warning_or_a_network(tmp_path: Path) -> None:
    site.build(ROOT, tmp_path / "site")
    built = tmp_path / "site"
    assert 'url=docs/index.html"' in (built / "index.html").read_text()
    for name in pages.PAGES:
        assert (built / name).with_suffix(".html").is_file(), name
    reference = (built / "docs" / "reference" / "api.html").read_text()
    for name in ("experiment", "Cable", "Flow", "network", "LosslessSwitch", "Rate"):
        assert f'<span class="pre">{name}</span>' in reference
    first = (built / "docs" / "index.html").read_text()
    assert 'role="heading">' not in first and "<pre>" not in (built / "docs/lab.html").read_text()
    outside = re.findall(r'(?:src|href)="(https?://[^"]+\.(?:js|css|woff2?))"', first)
    assert outside == []


@pytest.mark.slow
def test_a_broken_link_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "conf.py").write_text('extensions = ["myst_parser"]\nroot_doc = "index"\n')
    (tmp_path / "index.md").write_text("# A page\n\n[there](nowhere.md)\n")
    with pytest.raises(XoffError, match=r"nowhere\.md"):
        site.build(tmp_path, tmp_path / "out")


def test_without_the_source_there_is_one_clear_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import testbed

    monkeypatch.setattr(testbed, "__path__", [str(tmp_path / "testbed")])
    assert cli.main(["docs"]) == 2
    assert "clone the repository" in capsys.readouterr().err


def test_the_progress_follows_the_marks_of_sphinx(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[tuple[float, str]] = []

    class Noted:
        def at(self, done: float, now: str) -> None:
            shown.append((round(done, 2), now))

    @contextmanager
    def noting(what: str, total: float) -> Iterator[Noted]:
        assert (what, total) == ("building the site", 1.0)
        yield Noted()

    class Marks:
        def __init__(self, *marks: bytes) -> None:
            self.left = [*marks, b""]

        def read(self, _: int) -> bytes:
            return self.left.pop(0)

    monkeypatch.setattr(amount, "shown", noting)
    site._follow(cast(IO[bytes], Marks(b"tttt", b"rr", b"rrw", b"www")))
    assert shown == [
        (0.0, "0 of 4 pages read"), (0.2, "2 of 4 pages read"), (0.55, "1 of 4 pages"), (1.0, "4 of 4 pages"),
    ]  # fmt: skip


def test_marks_go_where_the_command_says(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    monkeypatch.setenv(site.PROGRESS, str(writer))
    assert EXTENSION.PROGRESS == site.PROGRESS
    EXTENSION.mark(b"tr")
    os.close(writer)
    assert os.read(reader, 10) == b"tr"
    os.close(reader)


@pytest.mark.parametrize(
    ("image", "framed"),
    [
        ('<img src="../_images/pause.svg"', '<p class="figure" tabindex="0"><img src="../_images/pause.svg"'),
        ('<img src="../_images/incast.svg"', '<p class="picture"><img src="../_images/incast.svg" loading="lazy"'),
    ],
)  # fmt: skip
def test_wide_figures_scroll_and_other_pictures_do_not(image: str, framed: str) -> None:
    assert EXTENSION.accessible(f"<p>{image} /></p>") == f"{framed} /></p>"


def test_the_gallery_has_a_card_for_each_experiment() -> None:
    text = EXTENSION.gallery()
    for name in gallery.cards(ROOT):
        assert f"](gallery/{name}.svg)" in text
    for command in ("./xoff run incast --report", "./xoff lesson start 1"):
        assert f"`{command}`" in text
    assert "60 minutes of yours" in text
    for link in LINK.findall(text):
        assert (ROOT / "docs" / link).exists(), link


def test_a_card_that_is_not_there_is_named_before_anything_is_made(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["docs", "--figures", "incas"]) == 2
    assert "there is no card incas; did you mean incast" in capsys.readouterr().err


def test_pictures_that_are_up_to_date_are_not_made_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gallery, "stale", lambda root: {})
    before = {path: path.stat().st_mtime_ns for path in (ROOT / "docs/figures").iterdir()}
    assert cli.main(["docs", "--figures"]) == 0
    assert "all pictures of the gallery are those of their experiments" in capsys.readouterr().err
    assert {path: path.stat().st_mtime_ns for path in (ROOT / "docs/figures").iterdir()} == before


def test_stale_pictures_are_made_one_by_one_and_their_cost_is_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made: list[tuple[str, object]] = []
    monkeypatch.setattr(gallery, "stale", lambda root: {"incast": "it is old"})
    monkeypatch.setattr(
        gallery, "write", lambda root, results: made.extend((name, str(one)) for name, one in results.items())
    )
    monkeypatch.setattr(site, "ready", lambda engine: engine)
    monkeypatch.setattr(api, "run", lambda experiment, on, out: Passed(f"{experiment.name} on {on}"))
    reported: dict[str, object] = {}
    monkeypatch.setattr(site_reports, "keep", lambda root, results: reported.update(results))
    kept: dict[str, float] = {}
    monkeypatch.setattr(costs, "write", lambda root, found: kept.update(found))
    assert site.figures(ROOT, []) == 0
    assert made == [("incast", "incast on um")] and kept.keys() == {"incast"} and kept["incast"] >= 0
    assert reported == {"incast": "incast on um"}, "its report is kept too"


class Passed(str):
    """A result that has passed."""

    passed = True
