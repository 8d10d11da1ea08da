"""What ends a command while it imports: one line and an exit code, whenever the signal comes."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from testbed import early_end
from testbed.cli import bootstrap

ROOT = Path(__file__).parents[3]
CODES = {number: 128 + number for number in early_end.WORDS}


def started(program: str, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program, *words], cwd=ROOT, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


@pytest.mark.parametrize("number", early_end.WORDS)
def test_a_signal_while_a_command_begins_is_one_line(number: signal.Signals) -> None:
    program = "import sys; from testbed import early_end; early_end.begin(); print('up', flush=True); sys.stdin.read()"
    with started(program) as process:
        assert process.stdout is not None and process.stdout.readline() == "up\n"
        process.send_signal(number)
        assert process.wait(60) == CODES[number]
        assert process.stderr is not None and process.stderr.read() == f"xoff: {early_end.WORDS[number]}\n"


@pytest.mark.parametrize("number", early_end.WORDS)
def test_a_signal_while_the_front_door_becomes_the_command_is_one_line(number: signal.Signals) -> None:
    program = (
        "import os, sys; from testbed import early_end; early_end.begin(); early_end.hold(); "
        f"os.kill(os.getpid(), {int(number)}); os.execv(sys.executable, [sys.executable, '-m', 'testbed', 'list'])"
    )
    with started(program) as process:
        out, said = process.communicate(timeout=60)
    assert (process.returncode, out, said) == (CODES[number], "", f"xoff: {early_end.WORDS[number]}\n")


def test_what_is_ignored_as_under_nohup_stays_so() -> None:
    program = (
        "import os, signal; from testbed import early_end; signal.signal(signal.SIGHUP, signal.SIG_IGN); "
        "early_end.begin(); os.kill(os.getpid(), signal.SIGHUP); print('lives')"
    )
    with started(program) as process:
        assert process.communicate(timeout=60)[0] == "lives\n"


@pytest.mark.parametrize("number", early_end.WORDS)
def test_a_signal_at_work_is_one_line(number: signal.Signals) -> None:
    program = (
        "import sys, time; from testbed import cli; "
        "cli._perform = lambda words: (print('up', flush=True), time.sleep(60)); sys.exit(cli.main([]))"
    )
    with started(program) as process:
        assert process.stdout is not None and process.stdout.readline() == "up\n"
        process.send_signal(number)
        assert process.wait(60) == CODES[number]
        assert process.stderr is not None and process.stderr.read() == f"xoff: {early_end.WORDS[number]}\n"


def test_a_cache_that_may_not_be_entered_is_one_line(
    xoff_cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(path: Path) -> bool:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(Path, "exists", refused)
    monkeypatch.setattr(sys, "argv", ["xoff", "list"])
    assert bootstrap.main() == 3
    (line,) = capsys.readouterr().err.splitlines()
    assert "Permission denied; the cache needs it: set XOFF_CACHE to a folder that you can write to" in line
