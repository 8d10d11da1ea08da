"""Artifacts: what is packed, the commands as a reviewer calls them, what `rerun.py` says, and what is refused."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from testbed.cli import main
from testbed.errors import UsageError
from testbed.experiment.fidelity import Fidelity, Thresholds, Verdict
from testbed.lab.results.result import Again, Provenance, Result, Status, Times
from testbed.lab.studies import artifact

CODE = {"xoff": b"import sys\n", "testbed/a.py": b"1\n"}


def made(folder: Path, *words: str, seed: int = 1, status: Status = Status.OK, files: Any = None) -> Result:
    """Write a result folder of a run that a command made."""
    folder.mkdir(parents=True)
    fidelity = Fidelity(Verdict.KEPT, (), 1, 50.0, 0, 0, Thresholds())
    result = Result(
        "incast", status, "", {}, seed, (), (), fidelity,
        Provenance("um", "", "i" * 64, "7.3", "k" * 64, "", "0.1.0", "abc", ""), Times(1, 30.0, None), {},
        again=Again(words or ("run", "incast", "--seed", str(seed)), files or {}),
    )  # fmt: skip
    result.write(folder)
    return result


@pytest.fixture(autouse=True)
def _code(monkeypatch: pytest.MonkeyPatch) -> None:
    """The code of these artifacts is two files."""
    monkeypatch.setattr(artifact, "_checkout", lambda: CODE)


def test_each_command_is_a_row_with_its_digest_and_minutes(tmp_path: Path) -> None:
    results = [made(tmp_path / "study" / "runs" / name, seed=seed) for seed, name in enumerate("ab", 1)]
    (tmp_path / "study" / "summary.csv").write_text("figure\n")
    out = tmp_path / "out"
    packed = artifact.pack(tmp_path / "study", out, {tmp_path / "study/runs/b": "Figure 3"})
    assert [one.digests for one in packed.commands] == [(result.digest,) for result in results]
    assert [one.figure for one in packed.commands] == ["", "Figure 3"] and packed.commands[0].minutes == 0.5
    readme = (out / "README.md").read_text()
    assert f"| Figure 3 | `./xoff run incast --seed 2` | `{results[1].digest[:16]}` | 0.5 |" in readme
    assert (out / "results/runs-b/result.json").is_file() and (out / "results/summary.csv").is_file()
    assert (out / "xoff/testbed/a.py").read_bytes() == b"1\n"
    listed = subprocess.run([sys.executable, out / "rerun.py", "--list"], capture_output=True, text=True, check=True)
    assert results[1].digest in listed.stdout and "2  Figure 3  ./xoff run incast --seed 2" in listed.stdout


def test_a_command_of_several_runs_is_one_row(tmp_path: Path) -> None:
    words = ("benchmark", "incast,3")
    results = [made(tmp_path / "b" / "runs" / name, *words, seed=seed) for seed, name in enumerate("ab", 1)]
    (one,) = artifact.pack(tmp_path / "b", tmp_path / "out", {}).commands
    assert one.digests == tuple(sorted(result.digest for result in results)) and one.out == "--out" and one.minutes == 1


def test_files_of_the_user_s_travel_and_commands_name_their_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text("x = 1\n")
    digest = hashlib.sha256(b"x = 1\n").hexdigest()
    made(tmp_path / "r", "run", "mine.py:two", "--set", "table=mine.py", files={"mine.py": digest})
    (one,) = artifact.pack(tmp_path / "r", tmp_path / "out", {}).commands
    assert one.words == ("run", "../files/mine.py:two", "--set", "table=../files/mine.py")
    assert (tmp_path / "out/files/mine.py").read_text() == "x = 1\n"
    Path("mine.py").write_text("x = 2\n")
    with pytest.raises(UsageError, match=r"made with mine.py, which is not there now or not the same"):
        artifact.pack(tmp_path / "r", tmp_path / "other", {})


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (("run", "incast"), Status.LOST, "the run ended with lost; an artifact has runs that came to their end"),
        (("switch", "incident"), Status.OK, "made by `xoff switch`, and an artifact takes results of run, workload"),
    ],
)
def test_what_cannot_be_made_again_is_refused(
    tmp_path: Path, words: tuple[str, ...], status: Status, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    made(tmp_path / "r", *words, status=status)
    assert main(["artifact", str(tmp_path / "r")]) == 2
    assert message in capsys.readouterr().err and not (tmp_path / "r-artifact").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("none", "none: there is no such folder"),
        (".", "has no results: neither result.json nor folders with one"),
        ("r --figure r", "--figure r: NAME=RESULT is expected"),
        ("r --figure 3=none", "--figure 3=none: that is no result folder in r"),
        ("r --lab none.tar", "--lab none.tar: there is no such file; ./xoff image export none.tar writes it"),
        ("r -o r/out", "r/out is in r, which it is to have a copy of"),
        ("r -o full", "full is there already; name an empty or new folder with -o"),
    ],
)
def test_a_mistake_is_one_line_with_the_way_out(
    words: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    if words != ".":
        made(tmp_path / "r")
        (tmp_path / "full").mkdir()
        (tmp_path / "full/a").write_text("")
    assert main(["artifact", *words.split()]) == 2
    assert message in capsys.readouterr().err


def test_files_of_one_name_in_two_folders_both_travel_and_lie_to_each_other_as_they_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    of_runs = {"mine.py": ("mine.py", "sub/x", "other/x"), "second/mine.py": ("second/mine.py", "second/sub/x")}
    of_runs["/".join(("..", tmp_path.name, "third", "deep.py"))] = ("third/deep.py",)
    for place in sum(of_runs.values(), ()):
        Path(place).parent.mkdir(parents=True, exist_ok=True)
        Path(place).write_text(f"# {place}\n")
    for number, (script, names) in enumerate(of_runs.items()):
        digests = {name: hashlib.sha256(f"# {name}\n".encode()).hexdigest() for name in names[1:]}
        digests[script] = hashlib.sha256(f"# {names[0]}\n".encode()).hexdigest()
        made(tmp_path / "r" / str(number), "run", script, files=digests)
    packed = artifact.pack(tmp_path / "r", tmp_path / "out", {})
    files = tmp_path / "out/files"
    assert {str(path.relative_to(files)): path.read_text() for path in files.rglob("*") if path.is_file()} == {
        name: f"# {name}\n" for name in sum(of_runs.values(), ())
    }
    assert [one.words[1] for one in packed.commands] == [f"../files/{one[0]}" for one in of_runs.values()]


def test_a_second_folder_with_the_same_names_has_a_folder_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for number, folder in enumerate(("a/study", "b/study", "c/study")):
        (tmp_path / folder / "sub").mkdir(parents=True)
        digests = {}
        for name in ("mine.py", "sub/x"):
            (tmp_path / folder / name).write_text(folder)
            digests[f"{folder}/{name}"] = hashlib.sha256(folder.encode()).hexdigest()
        made(tmp_path / "r" / str(number), "run", f"{folder}/mine.py", files=digests)
    packed = artifact.pack(tmp_path / "r", tmp_path / "out", {})
    placed = ("", "study/", "study-3/")
    assert [one.words[1] for one in packed.commands] == [f"../files/{place}mine.py" for place in placed]
    for place, folder in zip(placed, "abc", strict=True):
        assert (tmp_path / "out/files" / place / "sub/x").read_text() == f"{folder}/study"
    rerun = [sys.executable, str(tmp_path / "out/rerun.py"), "--list"]
    assert subprocess.run(rerun, capture_output=True, check=True).stdout.count(b"mine.py") == 3


def test_who_packs_sees_what_will_run_and_which_files_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text("x = 1\n")
    made(tmp_path / "r", "run", "mine.py", files={"mine.py": hashlib.sha256(b"x = 1\n").hexdigest()})
    assert main(["artifact", "r"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[:2] == ["runs: ./xoff run ../files/mine.py", "takes: files/mine.py, from mine.py"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("run", "../results/r/evil.py"), "../results/r/evil.py is not among the files whose digests it has"),
        (("run", "r/evil.py:two"), "r/evil.py is not among the files whose digests it has"),
        (("run", "evil.py"), "evil.py is not among the files whose digests it has"),
        (("run", "incast", "--set", "table=/etc/passwd"), "/etc/passwd is not among the files"),
        (("workload", "--topo", "../results/r/evil.py:ring,4"), "../results/r/evil.py is not among the files"),
        (("benchmark", "x.json,../results/r/a.json"), "../results/r/a.json is not among the files"),
        (("run", "incast", "--engine", "host"), "--engine has no place in an artifact's command"),
        (("run", "incast", "--engine=host"), "--engine has no place in an artifact's command"),
        (("run", "incast", "--scheduler", "tcp://there:1"), "--scheduler has no place in an artifact's command"),
        (("run", "incast", "--out=../../x"), "--out has no place in an artifact's command"),
        (("run", 1), "cannot be read (its command is no list of words)"),
    ],
)
def test_a_command_that_runs_anything_but_xoff_and_files_with_digests_is_refused(
    words: Any, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    made(tmp_path / "r", *words)
    (tmp_path / "r/evil.py").write_text("import os\n")
    (tmp_path / "evil.py").write_text("import os\n")
    assert main(["artifact", "r"]) == 2
    assert message in capsys.readouterr().err and not (tmp_path / "r-artifact").exists()


@pytest.mark.parametrize("wall_s", ["1e999", "NaN", "-1", "9" * 400, "9" * 5000], ids=lambda text: str(text[:6]))
def test_a_result_whose_time_is_none_is_refused(
    wall_s: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made(tmp_path / "r")
    file = tmp_path / "r/result.json"
    file.write_text(re.sub(r'"wall_s": [0-9.]+', f'"wall_s": {wall_s}', file.read_text()))
    assert main(["artifact", str(tmp_path / "r")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "result.json" in line and len(line) < 500


def test_only_what_a_run_leaves_is_copied_of_a_folder_from_elsewhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study, runs, secret = tmp_path / "s", tmp_path / "s" / "runs", tmp_path / "secret"
    for seed, name in enumerate("ab", 1):
        made(runs / name, seed=seed)
    secret.mkdir()
    made(secret / "c")
    (secret / "key").write_text("secret")
    (runs / "c").symlink_to(secret / "c")
    (study / "summary.csv").symlink_to(secret / "key")
    odd = runs / "a"
    (odd / "events.jsonl").write_text("{}\n")
    (odd / "captures").mkdir()
    (odd / "captures/x.pcapng").write_bytes(b"whole" * 1000)
    with (odd / "sparse").open("wb") as file:
        file.truncate(3 << 30)
    (odd / "link").symlink_to(secret / "key")
    (odd / "folder").symlink_to(secret)
    os.mkfifo(odd / "pipe")
    (odd / "program").write_text("")
    (odd / "program").chmod(0o4755)
    assert main(["artifact", str(study), "-o", str(tmp_path / "out")]) == 0
    copied = {str(path.relative_to(tmp_path / "out/results")) for path in (tmp_path / "out/results").rglob("*")}
    assert copied == {
        "runs-a", "runs-b", "runs-a/result.json", "runs-b/result.json", "runs-a/events.jsonl", "runs-a/captures",
        "runs-a/captures/x.pcapng",
    }  # fmt: skip
    assert (tmp_path / "out/results/runs-a/captures/x.pcapng").read_bytes() == b"whole" * 1000
    left = [line for line in capsys.readouterr().err.splitlines() if line.startswith("xoff: left out: ")]
    assert len(left) == 6
    for part in ("sparse has holes", "link is a symbolic link", "folder is a symbolic link", "pipe is a pipe",
                 "program has setuid", "summary.csv is a symbolic link"):  # fmt: skip
        assert any(part in line for line in left), part


def test_rerun_compares_digests_and_says_which_differ(tmp_path: Path) -> None:
    result = made(tmp_path / "r")
    out = tmp_path / "out"
    artifact.pack(tmp_path / "r", out, {})
    # A front door that gives the expected digest for seed 1 and nothing else.
    (out / "xoff/xoff").write_text(
        "import json, pathlib, sys\nout = pathlib.Path(sys.argv[-1], 'incast-001')\nout.mkdir(parents=True)\n"
        "import os\nassert os.environ['XOFF_READ_IN_LAB'] == '1'\n"
        f"digest = {result.digest!r} if sys.argv[1:5] == ['run', 'incast', '--seed', '1'] else 'none'\n"
        "(out / 'result.json').write_text(json.dumps({'digest': digest}))\n"
    )

    def rerun() -> tuple[int, str]:
        done = subprocess.run([sys.executable, out / "rerun.py"], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout

    code, said = rerun()
    assert code == 0 and "1  same digests" in said and "1 of 1 commands" in said
    content = json.loads((out / "artifact.json").read_text())
    content["commands"][0]["words"][-1] = "2"
    (out / "artifact.json").write_text(json.dumps(content))
    subprocess.run(["rm", "-r", out / "rerun"], check=True)
    code, said = rerun()
    assert code == 1 and "1  DIFFERENT" in said and result.digest in said


def test_the_metadata_names_every_part_and_the_library_reads_it(tmp_path: Path) -> None:
    made(tmp_path / "r")
    out = tmp_path / "out"
    artifact.pack(tmp_path / "r", out, {})
    graph = {one["@id"]: one for one in json.loads((out / "ro-crate-metadata.json").read_text())["@graph"]}
    assert graph["ro-crate-metadata.json"]["conformsTo"] == {"@id": "https://w3id.org/ro/crate/1.1"}
    parts = [one["@id"] for one in graph["./"]["hasPart"]]
    assert parts == ["README.md", "artifact.json", "rerun.py", "xoff/", "results/r/"]
    assert all((out / part).exists() and part in graph for part in parts)
    assert graph["#command-1"]["result"] == [{"@id": "results/r/"}]
    rocrate = pytest.importorskip("rocrate.rocrate", reason="rocrate is missing")
    read = rocrate.ROCrate(out)
    assert {one.id for one in read.data_entities} == set(parts)
