"""Result folders from elsewhere: nothing outside of them is read or written, and nothing in them takes for ever."""

from __future__ import annotations

import ast
import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from testbed.cli import main
from testbed.errors import UsageError
from testbed.frames import capture_file
from testbed.lab.results.foreign import ForeignError, ForeignFolder, decoded, lines_of
from testbed.lab.results.result import Result
from testbed.lab.studies import sweep
from testbed.report.exports.captures import LARGEST
from tests.report_folders import lines, result, small
from tests.unit.lab.studies.test_sweep import answer, measured
from tests.unit.serve.scripted_lab import ScriptedEngine
from tests.unit.subjects.dcbx.dcbx_ladders import symmetric

ROOT = Path(__file__).parents[4]
MINE = "my own file\n"
SUMMARY = "a,figure,runs,mean,half width of 95 %,least,most\n1,pauses,2,1,0.5,0,2\n2,pauses,2,3,0.5,0,4\n"
MATRIX = {"switch": "", "columns": [], "cases": [], "cells": []}
OUTPUTS = {
    "report.html": ("report",),
    "events.csv": ("export", "--csv"),
    "events.parquet": ("export", "--parquet"),
    "trace.perfetto-trace": ("export", "--perfetto"),
    "captures.pcapng": ("export", "--pcapng"),
}
READ = {
    "result.json": [
        "report",
        "export --csv",
        "export --pcapng",
        "compare",
        "plot pauses",
        "serve",
    ],
    "networks.jsonl": ["report", "export --perfetto", "plot pauses"],
    "events.jsonl": ["report", "export --csv", "export --parquet", "export --perfetto", "plot pauses"],
    "flows.jsonl": ["plot cdf"],
    "dcbx.jsonl": ["report", "export --ladder host bridge"],
    "series-flows.csv": ["report", "export --perfetto"],
    "captures/1/s1-eth1-to-h1-eth0.pcapng": ["decode", "export --pcapng"],
    "captures": ["decode", "export --pcapng"],
    "summary.csv": ["report", "compare", "plot sweep"],
    "failed.csv": ["report"],
    "conformance.json": ["report"],
    "answers.toml": ["lesson check 1"],
}
"""The commands that read each file."""


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A result with everything that a run can leave."""
    folder = small(tmp_path / "result")
    (folder / "series-flows.csv").write_text("t_ns,flow,rate_bps\n1000,h1,10\n2000,h1,20\n")
    lines(folder / "dcbx.jsonl", [dict(record) for record in symmetric()])
    capture = folder / "captures" / "1" / "s1-eth1-to-h1-eth0.pcapng"
    capture.parent.mkdir(parents=True)
    with capture.open("wb") as file:
        capture_file.Writer(file).interface(capture_file.Interface("s1-eth1"))
    return folder


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    path = tmp_path / "home" / ".bashrc"
    path.parent.mkdir()
    path.write_text(MINE)
    return path


def prepared(folder: Path, name: str) -> None:
    """Make the folder one of the kind that has a file of this name."""
    if name in ("summary.csv", "failed.csv", "conformance.json"):
        (folder / "result.json").unlink()
        content = json.dumps(MATRIX) if name == "conformance.json" else SUMMARY
        (folder / ("summary.csv" if name == "failed.csv" else name)).write_text(content)
    if name == "answers.toml":
        assert main(["lesson", "start", "1", str(folder)]) == 0


def command(words: str, folder: Path) -> list[str]:
    name, *options = words.split()
    other = small(folder.parent / "other")
    if name == "compare":
        if (folder / "summary.csv").exists() or (folder / "summary.csv").is_symlink():
            (other / "result.json").unlink()
            (other / "summary.csv").write_text(SUMMARY)
        return [name, *options, str(folder), str(other)]
    more = ["-o", str(folder.parent / "x.svg")] if name == "plot" else []
    return [name, *options, str(folder), *more, *(["--port", "0"] if name == "serve" else [])]


def as_link(path: Path) -> None:
    target = path.parent / f"{path.name}.there"
    path.rename(target) if path.exists() else target.touch()
    path.symlink_to(target.name)


def as_link_to_zero(path: Path) -> None:
    removed(path)
    path.symlink_to("/dev/zero")


def as_pipe(path: Path) -> None:
    removed(path)
    os.mkfifo(path)


def as_sparse(path: Path) -> None:
    removed(path)
    with path.open("wb") as file:
        file.truncate(20 << 30)


def removed(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


@pytest.mark.parametrize("name", OUTPUTS)
def test_no_output_goes_where_a_link_in_the_folder_leads(foreign: Path, mine: Path, name: str) -> None:
    if name == "events.parquet":
        pytest.importorskip("pyarrow", reason="pyarrow is missing")
    for link in (name, f".{name}.draft"):
        (foreign / link).symlink_to(os.path.relpath(mine, foreign))
    word, *options = OUTPUTS[name]
    assert main([word, *options, str(foreign)]) == 0
    assert mine.read_text() == MINE
    assert not (foreign / name).is_symlink() and (foreign / name).stat().st_size > 90
    assert not [one for one in foreign.iterdir() if one.name.startswith(".xoff")], "no draft is left"


@pytest.mark.parametrize("words", ["plot pauses", "export --ladder host bridge", "export --csv"])
def test_no_output_that_the_user_names_in_the_folder_does(
    foreign: Path, mine: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    if words.startswith("plot"):
        pytest.importorskip("matplotlib", reason="matplotlib is missing")
    (foreign / "x.svg").symlink_to(mine)
    monkeypatch.chdir(foreign)
    assert main([*words.split(), ".", "-o", "x.svg"]) == 0
    assert mine.read_text() == MINE and not (foreign / "x.svg").is_symlink()


def test_a_lesson_is_not_written_where_a_link_leads(
    tmp_path: Path, mine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "lesson"
    folder.mkdir()
    (folder / "lesson.md").symlink_to(mine.parent / "authorized_keys")
    assert main(["lesson", "start", "1", str(folder)]) == 2
    assert "lesson.md is there already" in capsys.readouterr().err
    assert [one.name for one in mine.parent.iterdir()] == [mine.name]


def test_results_of_a_lesson_go_nowhere_else(tmp_path: Path, mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "lesson"
    assert main(["lesson", "start", "1", str(folder)]) == 0
    (folder / "results").symlink_to(mine.parent)
    assert main(["lesson", "check", "1", str(folder)]) == 2
    assert "results is a symbolic link, and none is followed" in capsys.readouterr().err
    assert [one.name for one in mine.parent.iterdir()] == [mine.name]


@pytest.mark.parametrize("spoil", [as_link, as_link_to_zero, as_pipe, as_sparse])
@pytest.mark.parametrize(("name", "words"), [(name, words) for name, all_ in READ.items() for words in all_])
def test_a_file_that_no_run_leaves_is_refused_at_once_with_one_message(
    foreign: Path, capsys: pytest.CaptureFixture[str], spoil: Callable[[Path], None], name: str, words: str
) -> None:
    if words.startswith("plot"):
        pytest.importorskip("matplotlib", reason="matplotlib is missing")
    prepared(foreign, name)
    arguments = command(words, foreign)
    if words == "export --parquet":
        pytest.importorskip("pyarrow", reason="pyarrow is missing")
    spoil(foreign / name)
    capsys.readouterr()
    began = time.monotonic()
    assert main(arguments) == 2
    assert time.monotonic() - began < 10, "a second on a machine that does nothing else"
    said = capsys.readouterr()
    message = said.err.strip()
    assert said.out == "" and message.startswith("xoff: ") and "Traceback" not in message
    assert message.count("xoff: ") == 1, "one message"
    assert f"{foreign / name} " in message.replace("\n", " ") or f"{foreign / name}: line 1 " in message


@pytest.mark.slow
def test_two_million_kinds_of_events_are_refused_at_once(foreign: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with (foreign / "events.jsonl").open("w") as log:
        log.writelines(f'{{"t": {t}, "event": "kind{t}"}}\n' for t in range(2_000_000))
    for arguments in (["report"], ["export", "--csv"], ["export", "--perfetto"]):
        began = time.monotonic()
        assert main([*arguments, str(foreign)]) == 2
        assert time.monotonic() - began < 10
        said = capsys.readouterr().err
        assert "events.jsonl: line 1001: there are more than 1000 kinds of events" in said


@pytest.mark.slow
def test_two_million_ports_or_fields_are_refused(foreign: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for event, said in (
        ('{{"t": {t}, "event": "xoff_received", "port": "p{t}", "priorities": [3]}}\n', "more than 100000 ports"),
        ('{{"t": {t}, "event": "mine", "field{t}": 1}}\n', "more than 1000 names of fields"),
    ):
        with (foreign / "events.jsonl").open("w") as log:
            log.writelines(event.format(t=t) for t in range(200_000))
        assert main(["report", str(foreign)]) == 2
        assert said in " ".join(capsys.readouterr().err.split())


def test_a_log_of_something_else_is_not_read_to_its_end(foreign: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (foreign / "events.jsonl").write_text("\n" * 1_000_000)
    assert main(["report", str(foreign)]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "events.jsonl: 10000 lines up to line 10001 are damaged; line 10001 is not JSON" in said


def test_a_sweep_in_a_folder_from_elsewhere_writes_nowhere_else(
    tmp_path: Path, mine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "sweep"
    folder.mkdir()
    for name in ("table.csv", "table.new", "table.parquet", "summary.csv", "summary.new"):
        (folder / name).symlink_to(mine)
    sweep.run(measured, {"load": ["1"]}, on=ScriptedEngine(answer=answer), out=folder).write_tables()
    assert mine.read_text() == MINE and not (folder / "summary.csv").is_symlink()
    (folder / ".lock").unlink()
    (folder / ".lock").symlink_to(mine)
    with pytest.raises(UsageError, match=r"\.lock is no file that can be locked"):
        sweep.run(measured, {"load": ["1"]}, on=ScriptedEngine(answer=answer), out=folder)
    (folder / ".lock").unlink()
    as_link(folder / "runs")
    with pytest.raises(UsageError, match="runs is a symbolic link, and none is followed"):
        sweep.run(measured, {"load": ["1"]}, on=ScriptedEngine(answer=answer), out=folder)
    assert mine.read_text() == MINE


def test_a_result_is_not_read_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "result.json").write_text(json.dumps(result()))
    (tmp_path / "result.json").symlink_to("there/result.json")
    with pytest.raises(UsageError, match="is a symbolic link, and none is followed"):
        Result.read(tmp_path)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "one").symlink_to("../there")
    with pytest.raises(UsageError, match="runs/one is a symbolic link"):
        Result.read(ForeignFolder(tmp_path).inside("runs/one"))


def test_a_folder_may_be_reached_by_links_of_its_user(foreign: Path, tmp_path: Path) -> None:
    (tmp_path / "latest").symlink_to(foreign)
    assert main(["report", str(tmp_path / "latest")]) == 0
    assert (foreign / "report.html").is_file()


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "", "a/../../x", "a\0b"])
def test_a_name_does_not_lead_out_of_the_folder(tmp_path: Path, name: str) -> None:
    for way in (ForeignFolder(tmp_path).open, ForeignFolder(tmp_path).has, ForeignFolder(tmp_path).inside):
        with pytest.raises(ForeignError, match="is no name of a file in a result folder"):
            way(name)


def test_what_grows_beyond_its_limit_is_not_opened(tmp_path: Path) -> None:
    with (tmp_path / "x").open("wb") as file:
        file.truncate(LARGEST + 1)
    with pytest.raises(ForeignError, match=f"x has {LARGEST + 1} octets; at most {LARGEST} are read"):
        ForeignFolder(tmp_path).open("x", LARGEST)


@pytest.mark.parametrize("indent", [None, 1, "\t"])
def test_lines_of_elements_are_those_on_which_they_begin(indent: int | str | None) -> None:
    content = {"a": [1, {"b": "}]\n,"}], "figures": [{"name": 1}, 2, [], "x"], "empty": [], "none": 3}
    text = "\n " + json.dumps(content, indent=indent)
    lines = text.splitlines()
    found = lines_of(text, "figures")
    if indent is None:
        assert found == [2] * 4
    else:
        starts = ["{", "2", "[]", '"x"']
        assert [lines[line - 1].strip().rstrip(",") for line in found] == starts
    assert lines_of(text, "empty") == lines_of(text, "none") == lines_of(text, "absent") == []
    assert lines_of('{"x": [1],\n"x": [\n2]}', "x") == [3], "the last one counts, as in Python"


def test_json_is_not_nested_deeper_than_code_can_walk(tmp_path: Path) -> None:
    assert decoded("[" * 60 + "]" * 60, tmp_path)
    with pytest.raises(ForeignError, match="nested deeper than 64 times"):
        decoded("[" * 200 + "]" * 200, tmp_path)
    with pytest.raises(ForeignError, match="is not JSON that can be read"):
        decoded("[" * 200_000 + "]" * 200_000, tmp_path)


READERS = [
    *sorted((ROOT / "testbed" / "report").rglob("*.py")),
    *(ROOT / "testbed" / "subjects" / "lessons" / name for name in ("check.py",)),
    *(ROOT / "testbed" / "lab" / f"{name}.py" for name in (
        "results/result", "studies/comparison", "results/series", "studies/conformance", "results/parquet"
    )),
    *(ROOT / "testbed" / "cli" / f"{name}.py" for name in ("first_steps/report", "look/export", "studies/compare")),
    ROOT / "testbed" / "subjects" / "dcbx" / "commands" / "ladder.py",
]  # fmt: skip
_BESIDE = {"open", "read_text", "read_bytes", "write_text", "write_bytes", "glob", "rglob", "iterdir", "is_file",
           "is_dir", "exists", "stat", "unlink", "replace_file", "mkdir"}  # fmt: skip


@pytest.mark.parametrize("path", READERS, ids=lambda path: str(path.relative_to(ROOT)))
def test_code_that_reads_results_opens_files_through_the_one_way(path: Path) -> None:
    # the report's own assets, and the source of an experiment that comes with Xoff
    allowed = {"markup.py": {"read_text"}, "claims.py": {"read_text"}}.get(path.name, set[str]())
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id != "open", f"{path}:{node.lineno}"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _BESIDE - allowed:
            assert ast.unparse(node.func.value) in ("files", "folder.files"), f"{path}:{node.lineno}: {node.func.attr}"


def test_a_document_that_is_missing_or_of_another_form_is_an_error_of_its_reader(tmp_path: Path) -> None:
    class Unreadable(UsageError):
        pass

    folder = ForeignFolder(tmp_path)
    with pytest.raises(Unreadable, match=r"it\.json: No such file"), folder.reading("it.json", "`xoff it`", Unreadable):
        pytest.fail("there is nothing to read")
    (tmp_path / "it.json").write_text('{"name": "x"}')
    with (
        pytest.raises(Unreadable, match=r"it\.json is no result of `xoff it`: 'other'"),
        folder.reading("it.json", "`xoff it`", Unreadable) as content,
    ):
        content["other"]
    with folder.reading("it.json", "`xoff it`", Unreadable) as content:
        assert content == {"name": "x"}
