"""The command that a report shows under "Make it again" is run, word by word, and gives the same digest."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from html import unescape
from pathlib import Path

import pytest

from experiments.conformance._tables import default_json
from testbed.cli import main
from testbed.lab.engines.engine import PreparedEngine
from testbed.lab.results.result import RESULT

from ..switches.test_sonic import CONFIG

MINE = """
from testbed.lab import Run, experiment
from testbed.units import Duration

@experiment(files=("beside.txt",))
def one(run: Run) -> None:
    run.figure("one", 1)

@experiment(timeout="30s")
def two(run: Run, wait: Duration = Duration("1ms"), words: str = "a b", often: bool = False) -> None:
    run.figure("drawn", run.rng.random())
    run.claim("waits", wait, at_least=Duration("1ms"))
"""
WAYS = {
    "an experiment with options": ("run", "hello", "--set", "hosts=3", "--seed", "2", "--capture-octets", "64",
                                   "--series", "10ms", "--memory", "900", "--fidelity", "idle=2%", "--timeout", "25s"),
    "a file of the user's": ("run", "sub/mine.py:two", "--set", "words=it's 'so'", "--set", "wait=3ms", "--seed", "7"),
    "a lesson": ("lesson", "check", "1", "sub/lesson"),
    "switch run": ("switch", "run", "sub/leaf.json", "--workload", "incast,2", "--size", "40kB", "--seed", "3"),
    "a case on the user's switch": ("switch", "conformance", "sub/dut.json", "--case", "Y03", "-o", "results"),
    "a case on Xoff's own switch": ("switch", "conformance", "--buffer", "static", "--case", "Y03", "-o", "results"),
}  # fmt: skip
LONG = {"switch run", "a case on Xoff's own switch"}
"""These are made as two of the others are."""


@pytest.fixture(autouse=True)
def in_a_folder(ready: PreparedEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the user's, with files in another one below it."""
    sub = tmp_path / "sub"
    sub.mkdir()
    (sub / "mine.py").write_text(MINE)
    (sub / "beside.txt").write_text("beside")
    (sub / "leaf.json").write_text(json.dumps(CONFIG))
    (sub / "dut.json").write_text(json.dumps(default_json("100G", "static")))
    monkeypatch.chdir(tmp_path)
    assert main(["lesson", "start", "1", "sub/lesson"]) == 0
    return tmp_path


def results() -> set[Path]:
    return {path.parent for path in Path().rglob(RESULT)}


def made(words: list[str]) -> Path:
    """The one result folder that a command leaves."""
    before = results()
    main(words)
    (folder,) = results() - before
    return folder


def shown(folder: Path) -> list[str]:
    """Return the lines that the report of a result has under "Make it again"."""
    assert main(["report", str(folder)]) == 0
    page = (folder / "report.html").read_text(encoding="utf-8")
    (found,) = re.findall(r"<summary>Make it again.*?</summary><pre>(.*?)</pre>", page, re.DOTALL)
    return unescape(found).splitlines()


@pytest.mark.parametrize(
    "way",
    [pytest.param(way, id=way.replace(" ", "-"), marks=pytest.mark.long if way in LONG else ()) for way in WAYS],
)
def test_the_command_of_a_report_makes_the_result_again(way: str) -> None:
    first = made(list(WAYS[way]))
    program, *words = shlex.split(shown(first)[0])
    assert program == "./xoff"
    if words[1] == "conformance":
        words += ["-o", "results"]
    again = made(words)
    one, other = (json.loads((folder / RESULT).read_text()) for folder in (first, again))
    assert one["status"] == "ok" and one["digest"] == other["digest"]
    assert one["provenance"] == other["provenance"]
    assert main(["compare", str(first), str(again)]) == 0


def test_files_are_named_as_they_were_given_and_with_their_digests() -> None:
    folder = made(["run", "sub/mine.py:one"])
    command, *files = shown(folder)
    assert command == "./xoff run sub/mine.py:one --seed 1 --engine um"
    digests = {name: hashlib.sha256(Path(name).read_bytes()).hexdigest() for name in ("sub/mine.py", "sub/beside.txt")}
    assert files == [f"# {name!r}: SHA-256 {digest!r}" for name, digest in digests.items()]


def test_other_parameters_are_no_other_code() -> None:
    first, other = (made(["run", "sub/mine.py:two", "--set", f"wait={wait}"]) for wait in ("2ms", "3ms"))
    one, two = (json.loads((folder / RESULT).read_text())["provenance"]["code"] for folder in (first, other))
    assert one == two
    Path("sub/mine.py").write_text(MINE + "\n# changed\n")
    # This process has the module already; what counts are the file's octets.
    changed = made(["run", "sub/mine.py:two", "--set", "wait=2ms"])
    assert json.loads((changed / RESULT).read_text())["provenance"]["code"] != one
