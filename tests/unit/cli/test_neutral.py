"""Commands print names and texts of files so that a terminal gets no control characters."""

from __future__ import annotations

import ast
import io
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.table import Table

from testbed.cli import main
from testbed.cli.screen import console, streams
from testbed.errors import UsageError, plain
from testbed.frames import capture_file
from tests.report_folders import lines, small
from tests.unit.subjects.dcbx.dcbx_ladders import symmetric

ROOT = Path(__file__).parents[3]
DATA = ROOT / "tests" / "unit" / "data"
EVIL = "\x1b[2J\x1b]0;owned\x07\x9b31m\r\u202e"
EXAMPLES = ROOT / "docs" / "examples"
POLICY, FABRIC = EXAMPLES / "qos-policy.xml", EXAMPLES / "qos-fabric.toml"

EXPERIMENT = "from testbed.lab import experiment\n"
"""The beginning of a file that is no script for Mininet."""


def neutral(text: str) -> bool:
    return text.replace("\n", "").replace("\t", "").isprintable()


def test_a_newline_in_a_word_forges_no_message(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run\nxoff: incast: all claims hold"]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first == "xoff: there is no command run" and second.startswith("  xoff: incast: all claims hold")


def config_db(tmp_path: Path, source: str = "broken_values.json") -> Path:
    """Write a switch's file with evil names."""
    path = tmp_path / "config_db.json"
    text = (DATA / "sonic" / source).read_text()
    for word in ("broken1", "fast", "l1", "egress_lossy_pool"):
        text = text.replace(f'"{word}"', json.dumps(word + EVIL))
    path.write_text(text)
    return path


def result(tmp_path: Path) -> Path:
    """Make a result whose names and texts are all evil, with some damaged lines."""
    figures = [{"name": f"f{EVIL}", "value": f"v{EVIL}", "unit": EVIL}, {"name": "n", "value": 1, "unit": EVIL}]
    claims = [{"name": EVIL, "expected": {"equals": EVIL}, "measured": EVIL, "passed": True, "unit": EVIL}]
    made = {"engine": EVIL, "accelerator": "", "image": EVIL, "kernel": "", "kernel_digest": "", "qemu": "", "xoff": "",
            "commit": "", "code": ""}  # fmt: skip
    folder = small(
        tmp_path / f"result{EVIL}", experiment=EVIL, figures=figures, claims=claims, reason=EVIL, provenance=made
    )
    with (folder / "events.jsonl").open("a") as log:
        log.write(EVIL + "\n")
    records = [dict(record) for record in symmetric()]
    lines(folder / "dcbx.jsonl", [*records, {"t_ns": records[-1]["t_ns"], "what": EVIL, "port": "host", "x": EVIL}])
    (folder / "series-x.csv").write_text(f"t_ns,{EVIL}\n{EVIL},1\n")
    capture = folder / "captures" / "1" / "x.pcapng"
    capture.parent.mkdir(parents=True)
    with capture.open("wb") as file:
        writer = capture_file.Writer(file)
        writer.frame(writer.interface(capture_file.Interface(EVIL)), 1, bytes(60), comments=[EVIL])
    return folder


def other(tmp_path: Path) -> Path:
    folder = small(tmp_path / "other")
    content = json.loads((folder / "result.json").read_text())
    content["provenance"] = json.loads((result(tmp_path / "in") / "result.json").read_text())["provenance"]
    (folder / "result.json").write_text(json.dumps(content | {"experiment": EVIL}))
    return folder


def policy(tmp_path: Path) -> Path:
    """Make a policy file: XML cannot have most control characters, but it can have one that reverses the rest of a
    line."""
    return written(tmp_path, f"policy{EVIL}.xml", POLICY.read_text().replace("</name>", f"{EVIL[-1]}</name>"))


def fabric(tmp_path: Path) -> Path:
    return written(tmp_path, "fabric.toml", FABRIC.read_text().replace('"storage1"', '"sto\\u202erage"'))


def sweep_of(tmp_path: Path, mean: str) -> Path:
    folder = tmp_path / f"sweep{mean}"
    folder.mkdir(parents=True)
    head = "figure,runs,mean,half width of 95 %,least,most"
    (folder / "summary.csv").write_text(f'"{EVIL}",{head}\n"{EVIL}","{EVIL}",2,{mean},0.5,0,{mean}\n')
    return folder


def written(tmp_path: Path, name: str, text: str) -> Path:
    path = tmp_path / name
    path.write_bytes(text.encode())
    return path


def lesson(tmp_path: Path) -> Path:
    assert main(["lesson", "start", "1", str(tmp_path / "lesson")]) == 0
    (tmp_path / "lesson" / "answers.toml").write_text('"\\u001b[2J" = 1\n')
    return tmp_path / "lesson"


Words = list[object]
COMMANDS: dict[str, Callable[[Path], Words]] = {
    "switch check, wrong": lambda at: ["switch", "check", config_db(at)],
    "switch check, right": lambda at: ["switch", "check", config_db(at, "fabric_l1.json")],
    "switch check, no JSON": lambda at: ["switch", "check", written(at, EVIL, "x")],
    "switch run": lambda at: ["switch", "run", config_db(at)],
    "conformance": lambda at: ["switch", "conformance", config_db(at)],
    "policy check": lambda at: ["policy", "check", policy(at)],
    "policy check, no XML": lambda at: ["policy", "check", written(at, "x.xml", f"<{EVIL}>")],
    "policy show": lambda at: ["policy", "show", policy(at), "--fabric", fabric(at)],
    "policy convert": lambda at: ["policy", "convert", policy(at)],
    "policy check --fabric": lambda at: ["policy", "check", "--fabric", fabric(at), policy(at)],
    "policy query": lambda at: ["policy", "query", "--fabric", fabric(at), "--from", EVIL, "--to", "x", policy(at)],
    "report": lambda at: ["report", result(at)],
    "report of a sweep": lambda at: ["report", sweep_of(at, EVIL)],
    "export --csv": lambda at: ["export", "--csv", result(at)],
    "export --perfetto": lambda at: ["export", "--perfetto", result(at)],
    "export to a folder": lambda at: ["export", "--csv", result(at), "-o", at / EVIL / "x"],
    "plot": lambda at: ["plot", EVIL, result(at), "-o", at / "x.svg"],
    "plot, a case": lambda at: ["plot", "pauses", result(at), "--case", EVIL],
    "compare": lambda at: ["compare", result(at), small(at / "small")],
    "compare sweeps": lambda at: ["compare", sweep_of(at, "1"), sweep_of(at, "2")],
    "decode": lambda at: ["decode", result(at)],
    "decode, no capture": lambda at: ["decode", written(at, EVIL, "x" * 40)],
    "ladder": lambda at: ["export", result(at), "--ladder", "host", "bridge"],
    "ladder of a port that is not there": lambda at: ["export", result(at), "--ladder", "host", EVIL],
    "lesson check": lambda at: ["lesson", "check", "1", lesson(at)],
    "serve": lambda at: ["serve", written(at, EVIL, "").parent / EVIL],
    "run": lambda at: ["run", written(at, "x.py", f"{EXPERIMENT}raise ValueError('{EVIL[-1]}')"), "--out", at],
    "run, no Python": lambda at: ["run", written(at, f"x{EVIL}.py", f"{EXPERIMENT}'{EVIL[-1]}' )"), "--out", at],
    "sweep": lambda at: ["sweep", "hello", "--grid", f"{EVIL}=1"],
    "qos": lambda at: ["controller", "qos", "status", "--token-file", at / EVIL],
    "sr": lambda at: ["controller", "sr", "topology", "--token-file", at / EVIL],
    "image import": lambda at: ["image", "import", written(at, EVIL, "x")],
    "a command": lambda at: [EVIL],
    "an option": lambda at: ["report", "x", f"--{EVIL}"],
}  # fmt: skip


@pytest.mark.parametrize("name", COMMANDS)
def test_text_of_files_reaches_no_terminal_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    words = [str(word) for word in COMMANDS[name](tmp_path)]
    capsys.readouterr()
    monkeypatch.setenv("COLUMNS", "500")
    try:
        code = main(words)
    except SystemExit as end:
        code = int(end.code or 0)
    said = capsys.readouterr()
    assert code != 7, said.err
    assert neutral(said.out), said.out
    assert neutral(said.err), said.err
    assert re.search(r"\\x1b|\\u202e|\\x9b|\?\[2J", said.out + said.err), "the test prints something evil"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_however_something_is_printed_it_is_neutral(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    with streams.standard():
        print(EVIL)
        sys.stdout.write(EVIL)
        streams.write_data(EVIL)
        console.stdout.print(EVIL, markup=False)
        console.stdout.print(f"{console.shown(EVIL)}[red]{console.shown(EVIL)}[/red]", style="bold")
        table = Table("head", EVIL, title=EVIL)
        table.add_row("a", EVIL)
        console.stdout.print(table)
    assert terminal.getvalue().count("\\x1b[2J") >= 7
    assert neutral(re.sub(r"\x1b\[[0-9;]*m", "", terminal.getvalue())), "but for rich's colours"


def test_what_is_made_for_a_file_is_as_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    with streams.standard():
        streams.write_data(EVIL)
        print("\xa0", end="")
    assert out.getvalue() == f"{EVIL}\\xa0"


def test_an_error_is_neutral_before_there_is_rich(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "testbed.cli.screen.console", None)
    assert main([EVIL]) == 2
    assert neutral(capsys.readouterr().err)


def test_plain_text_is_not_copied() -> None:
    for text in ("", "plain", "two\nlines\tand a tab", "\u00e9"):
        assert plain(text) is text
    assert plain(UsageError(EVIL)) == "\\x1b[2J\\x1b]0;owned\\x07\\x9b31m\\r\\u202e"


def test_nothing_but_these_writes_past_the_neutral_streams() -> None:
    """The allowed ones are the meter of lab_file.py, rich, the streams, the agent's log, and a terminal that is the
    lab's."""
    allowed = {"lab_file.py": 1, "console.py": 1, "daemon.py": 1, "shell.py": 1}
    past = re.compile(r"(streams\.)?exact\(|os\.write\(|\w+\.(__std(out|err)__|std(out|err)\.buffer)\b")
    found: dict[str, int] = {}
    of_subjects = (ROOT / "testbed" / "subjects").glob("*/commands/*.py")
    for path in sorted([*(ROOT / "testbed" / "cli").rglob("*.py"), *of_subjects]):
        calls = [ast.unparse(node) for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        if path.name != "streams.py" and (count := sum(past.match(call) is not None for call in calls)):
            found[path.name] = count
    assert found == allowed
