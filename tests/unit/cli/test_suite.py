"""`xoff test`: its needs are known before anything is set up, and failures are shown at once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from testbed.cli import machine, main
from testbed.cli.house import tests as suite
from testbed.errors import UsageError

ROOT = Path(__file__).parents[3]
PYTEST = [
    sys.executable,
    "-m",
    "pytest",
    "-p",
    "tests.at_once",
    "-p",
    "no:cacheprovider",
    "-c",
    os.devnull,
    "--rootdir",
]


def selected(*arguments: str, **environment: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.selection", *arguments], cwd=ROOT, env={**os.environ, **environment},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    content: dict[str, Any] = json.loads(done.stdout)
    return content


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "engines", "packages"),
    [
        (["tests/unit/test_units.py"], [], []),
        (["tests/unit/linux/test_messages.py"], [], ["clang-14", "libbpf-dev", "llvm-14"]),
        (["tests/lab/commands/test_topologies.py"], ["um"], []),
        (["tests/lab/engines/test_um.py"], ["um"], []),
        (["tests/lab/engines/test_misbehaviour.py"], ["um", "vm"], []),
        (["tests/lab/pfc/test_captures.py"], ["um"], ["tshark"]),
        (["tests/lab/engines/test_vagrantfile.py", "-k", "finds_the_file_valid"], [], ["vagrant"]),
    ],
)
def test_what_some_tests_need_is_what_they_ask_for(
    arguments: list[str], engines: list[str], packages: list[str]
) -> None:
    need = selected(*arguments)
    assert need["chosen"] > 0
    assert (need["engines"], need["packages"]) == (engines, packages)


@pytest.mark.slow
def test_the_engine_of_the_environment_is_what_is_set_up() -> None:
    assert selected("tests/lab/commands/test_topologies.py", XOFF_TEST_ENGINE="vm")["engines"] == ["vm"]


@pytest.fixture
def set_up(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Record what would be installed or made."""
    asked: list[object] = []
    monkeypatch.setattr(machine, "require", lambda packages, report: asked.extend(p.name for p in packages))
    monkeypatch.setattr(suite, "ready", asked.append)
    monkeypatch.setattr(suite, "_run", lambda command, root: 0)
    return asked


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pattern", "wanted"),
    [
        ("tests/unit/test_units.py", []),
        ("tests/lab/engines/test_vagrantfile.py", ["vagrant"]),
    ],
)
def test_one_test_has_installed_what_it_needs_only(pattern: str, wanted: list[str], set_up: list[object]) -> None:
    assert main(["test", pattern]) == 0
    assert set_up == wanted


@pytest.mark.slow
def test_a_word_that_no_test_has_is_named_with_near_ones_and_nothing_is_set_up(
    set_up: list[object], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        suite, "_PLACES", ("tests/lab/pfc/test_experiments_pfc.py",)
    )  # all tests take seconds to collect
    assert main(["test", "incats"]) == 2
    assert "there is no test incats; did you mean incast or " in capsys.readouterr().err
    assert main(["test", "two words"]) == 2
    assert "Wrong expression passed to '-k': two words" in capsys.readouterr().err
    assert set_up == []


@pytest.fixture
def failing(tmp_path: Path) -> Callable[..., list[str]]:
    """Return a command that runs a test that fails and one that takes a minute."""
    (tmp_path / "test_both.py").write_text(
        "import time\n\ndef test_bad():\n    print('seen')\n    assert 1 == 2\n\ndef test_long():\n    time.sleep(60)\n"
    )

    def command(*options: str) -> list[str]:
        return [*PYTEST, str(tmp_path), *options, str(tmp_path)]

    return command


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "number"),
    [
        pytest.param([], signal.SIGINT, id="alone, interrupted"),
        pytest.param(["-n", "2"], signal.SIGTERM, id="side by side, terminated"),
        pytest.param([], signal.SIGTERM, marks=pytest.mark.long, id="alone, terminated"),
        pytest.param(["-n", "2"], signal.SIGINT, marks=pytest.mark.long, id="side by side, interrupted"),
    ],
)
def test_a_failure_is_shown_at_once_and_an_interruption_gets_a_summary(
    failing: Callable[..., list[str]], options: list[str], number: signal.Signals
) -> None:
    program = (
        "import sys, pathlib; from testbed import cli; from testbed.cli.house import tests as suite;"
        f"suite.test = lambda options: suite._run({failing(*options)!r}, pathlib.Path({str(ROOT)!r}));"
        "sys.exit(cli.main(['test']))"
    )
    process = subprocess.Popen(
        ["env", "--default-signal", sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    assert process.stdout is not None
    said = ""
    for line in process.stdout:  # the second test is still at work
        said += line
        if line == "seen\n":
            break
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == (130 if number is signal.SIGINT else 143)
    assert "KeyboardInterrupt" in out
    assert out.count("1 failed") == 1
    assert (said + out).count("E       assert 1 == 2") == 1
    assert err.endswith("interrupted\n" if number is signal.SIGINT else "terminated\n")


def test_a_pattern_that_python_cannot_read_is_no_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)  # as ./xoff has it, all of Xoff is found from everywhere
    with pytest.raises(UsageError, match=r"xoff test x: the tests cannot be read:\n  .*No module named .tests"):
        suite._need(tmp_path, "x", ["-k", "x"])


def test_what_tests_have_compiled_is_in_the_cache_and_taken_by_the_next(
    xoff_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONPYCACHEPREFIX", raising=False)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    for checkout in ("one", "other"):
        (tmp_path / checkout).mkdir()
        (tmp_path / checkout / "tested.py").write_text("size = 1\n")
    command = [sys.executable, "-c", "import tested"]
    times = []
    for checkout in ("one", "one", "other"):
        assert suite._run(command, tmp_path / checkout) == 0
        found = list(xoff_cache.glob("bytecode-*/**/tested.*.pyc"))
        times.append({path.stat().st_mtime_ns for path in found})
    assert times[0] == times[1]
    assert len(times[2]) == 2
    assert [path.name for path in tmp_path.glob("o*/*")] == ["tested.py"] * 2


def test_the_next_has_no_more_of_what_tests_have_made_elsewhere(
    xoff_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suite.tempfile, "gettempdir", lambda: str(tmp_path / "temporary"))  # type: ignore[attr-defined]
    place = suite._bytecode(tmp_path / "checkout")
    made = [place / (tmp_path / name / "module.pyc").relative_to("/") for name in ("temporary", "checkout")]
    for path in made:
        path.parent.mkdir(parents=True)
        path.touch()
    assert suite._bytecode(tmp_path / "checkout") == place
    assert [path.exists() for path in made] == [False, True]
