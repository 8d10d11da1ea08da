"""The command line whose standard streams are closed, full, hung up or of few letters."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full here")


def xoff(*arguments: str, **settings: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "testbed", *arguments]
    environment = {**os.environ, **settings.pop("environment", {})}
    return subprocess.run(
        command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True, check=False, **settings
    )


def on_paper(manner: str, tmp_path: Path, before: str = "", after: str = "") -> subprocess.Popen[bytes]:
    """Run `xoff run hello` in a lab of paper, as a shell starts it, with results in `tmp_path`."""
    command = f"{before} {sys.executable} -m tests.unit.lab.lab_of_paper {manner} run hello --out {tmp_path} {after}"
    environment = {**os.environ, "XOFF_CACHE": str(tmp_path / "cache")}
    return subprocess.Popen(
        ["bash", "-c", f"exec {command}" if "|" not in after else command], cwd=ROOT, env=environment,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip


def result(tmp_path: Path) -> dict[str, Any]:
    folder = tmp_path / "hello-001"
    assert (folder / "kept.txt").read_text() == "kept"
    content: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return content


def without_note(err: bytes) -> bytes:
    """Return standard error without the note that a container, in which these tests may run, does not keep results."""
    return b"".join(line for line in err.splitlines(keepends=True) if b" is gone with this container; " not in line)


def test_a_reader_that_goes_away_ends_no_run(tmp_path: Path) -> None:
    process = on_paper("prints", tmp_path, after="| head -c 100; echo =${PIPESTATUS[0]}")
    out, err = process.communicate(timeout=60)
    assert out.decode().endswith("=0\n")
    assert without_note(err) == b""
    assert result(tmp_path)["figures"] == [{"name": "lines", "value": 2000, "unit": ""}]
    assert (tmp_path / "hello-001" / "output.log").read_bytes().count(b"\n") == 2000


@needs_full
def test_a_full_standard_output_ends_no_run_and_is_an_error_at_the_end(tmp_path: Path) -> None:
    process = on_paper("prints", tmp_path, after="> /dev/full")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 3
    assert without_note(err) == b"xoff: standard output cannot be written: No space left on device\n"
    assert result(tmp_path)["status"] == "ok"


@pytest.mark.parametrize("after", [">&-", "2>&-", ">&- 2>&- <&-"])
def test_a_stream_that_was_never_open_ends_no_run(after: str, tmp_path: Path) -> None:
    process = on_paper("prints", tmp_path, after=after)
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert result(tmp_path)["status"] == "ok"


@pytest.mark.parametrize(
    ("number", "code", "word"),
    [
        (signal.SIGHUP, 129, b"xoff: the terminal has gone\n"),
        (signal.SIGTERM, 143, b"xoff: terminated\n"),
        (signal.SIGINT, 130, b"xoff: interrupted\n"),
    ],
)
def test_a_run_that_is_terminated_keeps_what_it_had(
    number: signal.Signals, code: int, word: bytes, tmp_path: Path
) -> None:
    process = on_paper("waits", tmp_path, before="env --default-signal")
    assert process.stdout is not None
    assert process.stdout.readline() == b"begun\n"
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert err.endswith(word)
    assert result(tmp_path)["status"] == "interrupted"


def test_a_run_that_nohup_started_outlives_its_terminal(tmp_path: Path) -> None:
    process = on_paper("waits", tmp_path, before="env --default-signal nohup")
    assert process.stdout is not None
    assert process.stdout.readline() == b"begun\n"
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 143
    process.communicate()


def test_a_terminal_that_is_gone_keeps_no_run_from_ending_well(tmp_path: Path) -> None:
    """Output and messages meet EIO, as after a dropped connection."""
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "tests.unit.lab.lab_of_paper", "waits", "run", "hello", "--out", str(tmp_path)]
    environment = {**os.environ, "XOFF_CACHE": str(tmp_path / "cache"), "TERM": "xterm"}
    process = subprocess.Popen(
        ["setsid", "-c", "env", "--default-signal", *command],
        cwd=ROOT,
        env=environment,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    seen = b""
    while b"begun" not in seen:
        seen += os.read(ours, 4096)
    os.close(ours)  # the kernel sends SIGHUP to the terminal's session
    assert process.wait(60) == 129
    assert result(tmp_path)["status"] == "interrupted"


@needs_full
@pytest.mark.parametrize("arguments", [["list"], ["list", "--json"], ["--help"], ["run", "--help"], ["--version"]])
def test_what_cannot_be_printed_is_one_line_and_exit_code_3(arguments: list[str]) -> None:
    with FULL.open("w") as full:
        done = xoff(*arguments, stdout=full)
    assert done.returncode == 3
    assert done.stderr == "xoff: standard output cannot be written: No space left on device\n"


@pytest.mark.parametrize("arguments", ["list", "list --json", "--help", "switch headroom --rate 1Gb/s --length 5m"])
def test_a_reader_that_goes_away_gets_no_message(arguments: str) -> None:
    command = f"{sys.executable} -m testbed {arguments} | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("0\n", "")


@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
def test_few_letters_are_enough(encoding: str, tmp_path: Path) -> None:
    environment = {"PYTHONIOENCODING": encoding, "PYTHONPATH": str(ROOT)}
    program = """if True:
        from testbed.cli.screen import progress, streams
        from testbed.experiment.fidelity import Fidelity, Thresholds, Verdict
        from testbed.lab.results.result import *
        fidelity = Fidelity(Verdict.KEPT, (), 1, 50.0, 0, 0, Thresholds())
        claims = (Claim("\\u00b5s", {"equals": 1}, 1, True), Claim("\\u4e8c", {"equals": 1}, 2, False))
        came = Provenance(*[""] * 9)
        with streams.standard():
            progress.show(Result("mine", Status.OK, "", {}, 1, (), claims, fidelity, came, Times(1, 1.0, 0.1), {}))
        """
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **environment}, capture_output=True, check=False
    )
    assert b"Traceback" not in done.stderr
    lines = done.stdout.decode(encoding).splitlines()
    assert lines[1].startswith("+ ") and lines[2].startswith("- ?")


@pytest.mark.parametrize("place", ["/proc/x", "/dev/null/cache", "/dev/null"])
def test_a_cache_that_cannot_be_is_said_in_one_line(place: str) -> None:
    done = xoff("doctor", stdout=subprocess.PIPE, environment={"XOFF_CACHE": place})
    assert done.returncode == 3
    assert "Traceback" not in done.stderr
