"""Reports of the gallery's cards: kept beside the site, on it while they are those of their pictures, and never a dead
link."""

from __future__ import annotations

import importlib.util
import re
from http.server import ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from testbed.cli import main
from testbed.cli.house import site
from testbed.errors import UsageError
from testbed.lab.results.result import Result
from tests.pages import ROOT
from tests.report_folders import small
from tools import gallery, readme_pictures, site_reports


def result(folder: Path | None, digest: str) -> Result:
    """Return what is looked at of a result."""
    return cast(Result, SimpleNamespace(folder=folder, digest=digest, passed=True))


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a checkout with two cards."""
    monkeypatch.setattr(gallery, "data", lambda root: {"mixed": {"digest": "a" * 64}, "hello": {"digest": "b" * 64}})
    return tmp_path


def test_a_report_with_the_digest_of_its_picture_is_on_the_site(root: Path) -> None:
    folder = small(root / "one")
    assert site_reports.missing(root) == {"mixed": "there is none", "hello": "there is none"}
    octets = site_reports.keep(root, {"mixed": result(folder, "a" * 64)})
    (path,) = site_reports.available(root).values()
    assert octets == {"mixed": path.stat().st_size} and "xoffReport" in path.read_text()
    assert site_reports.missing(root) == {"hello": "there is none"}


def test_one_of_another_result_is_old_and_not_on_the_site(root: Path) -> None:
    folder = small(root / "one")
    site_reports.keep(root, {"mixed": result(folder, "a" * 64)})
    site_reports.keep(root, {"mixed": result(folder, "c" * 64), "hello": result(None, "b" * 64)})
    assert site_reports.available(root) == {}
    assert site_reports.missing(root) == {"mixed": "it is old", "hello": "there is none"}
    assert len(list((root / site_reports.FOLDER).iterdir())) == 1, "the one before is gone"


def test_a_change_of_the_report_s_code_makes_reports_old(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site_reports.keep(root, {"mixed": result(small(root / "one"), "a" * 64)})
    monkeypatch.setattr(site_reports, "_code", lambda: "00000000")
    assert site_reports.missing(root)["mixed"] == "it is old"


def test_a_report_that_is_too_large_is_said_and_not_kept(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site_reports, "LARGEST", 1000)
    monkeypatch.setattr(gallery, "results", lambda wanted, run: ((name, run(name, None, "")) for name in wanted))
    said = site_reports.make(root, ["mixed"], lambda *_: result(small(root / "one"), "a" * 64))
    assert said == ["mixed: its report has 0 MB, and the site takes 0 MB at most"]
    assert site_reports.available(root) == {}


def test_a_result_that_is_not_the_picture_s_is_said(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gallery, "results", lambda wanted, run: ((name, run(name, None, "")) for name in wanted))
    (said,) = site_reports.make(root, ["mixed"], lambda *_: result(small(root / "one"), "c" * 64))
    assert said.startswith("mixed: its result is not that of its picture")


def test_a_card_links_to_a_report_that_there_is_and_else_says_how_to_make_it(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.spec_from_file_location("site_extension", ROOT / "docs/site_extension.py")
    assert spec and spec.loader
    extension: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(extension)
    monkeypatch.setattr(site_reports, "available", lambda root: {"mixed": root / "some.html"})
    text = extension.gallery()
    links = set(re.findall(r'href="([^"]+)"', text))
    assert links == {"report/mixed.html", *(f"sample/{name}.html" for name in gallery.SAMPLES)}
    commands = re.findall(r"`\./xoff run ([^`]+)`", text)
    assert len(commands) > 80 and all(command.endswith(" --report") for command in commands)


def test_the_run_of_the_first_page_is_replayed_with_its_frames_alone_and_in_its_report() -> None:
    found = readme_pictures.replays(ROOT)
    assert '<body class="alone">' in found["replay"] and "<body>" in found["replayed"]
    assert all('value="slow' in text for text in found.values()), "frames were captured"
    assert sum(map(len, found.values())) < 600_000
    assert readme_pictures.stale(ROOT).get(readme_pictures.RUN) is None


def test_a_run_is_packed_to_the_same_octets_with_the_digest_of_its_experiment(tmp_path: Path) -> None:
    folder = small(tmp_path / "one")
    for file in ("first.tar.xz", "second.tar.xz"):
        readme_pictures.pack(folder, "d" * 64, tmp_path / file)
    first, second = ((tmp_path / file).read_bytes() for file in ("first.tar.xz", "second.tar.xz"))
    assert first == second and readme_pictures._digest_of_run(first) == "d" * 64


def test_a_port_that_is_in_use_is_one_line(tmp_path: Path) -> None:
    said = r"port \d+ cannot be used: Address already in use; --serve takes another"
    with ThreadingHTTPServer(("127.0.0.1", 0), site._Pages) as taken, pytest.raises(UsageError, match=said):
        site.serve(tmp_path, taken.server_port)


def test_files_that_python_in_a_browser_needs_have_their_types() -> None:
    pages = site._Pages.__new__(site._Pages)
    guessed = [pages.guess_type(name) for name in ("a.wasm", "a.mjs", "a.js", "a.zip", "a.html")]
    assert guessed == ["application/wasm", "text/javascript", "text/javascript", "application/zip", "text/html"]


@pytest.mark.parametrize("further", ["--calculators", "--serve", "--reports", "--out=x"])
def test_an_option_that_would_have_no_effect_beside_figures_is_refused(
    further: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["docs", further, "--figures"]) == 2
    assert f"--figures builds no site, so {further.partition('=')[0]} has no effect" in capsys.readouterr().err
