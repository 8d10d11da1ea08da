"""Mininet's own command with our file."""

import subprocess
import sys
from pathlib import Path

from testbed.lab import Run, experiment

_LOSSLESS = ["--link", "lossless", "--switch", "lossless"]


def _root() -> Path:
    import testbed

    return Path(testbed.__path__[0]).parent


def _mn(*arguments: str, typed: str = "") -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        ["mn", "--custom", "testbed/mn.py", *arguments],
        cwd=_root(),
        input=typed,
        text=True,
        capture_output=True,
        check=False,
    )
    print(done.stdout, done.stderr, sep="", file=sys.stdout)
    return done


@experiment(timeout="120s")
def lossless_test(run: Run) -> None:
    """The command of the docs: an incast of four that has to pause its senders."""
    done = _mn("--topo", "incast,4", *_LOSSLESS, "--test", "lossless")
    said = done.stdout + done.stderr
    run.figure("code", done.returncode)
    run.figure("said", said[-20_000:])


@experiment(timeout="120s")
def commands(run: Run, topo: str = "incast,2", typed: str = "") -> None:
    """Commands typed into Mininet's command line."""
    done = _mn("--topo", topo, *_LOSSLESS, typed=typed.replace(";", "\n") + "\nexit\n")
    run.figure("code", done.returncode)
    run.figure("said", (done.stdout + done.stderr)[-20_000:])
    run.figure("namespaces left", sum(map(_is_mininet, Path("/proc").glob("[0-9]*/cmdline"))))


def _is_mininet(command_line: Path) -> bool:
    try:
        return b"mininet:" in command_line.read_bytes()
    except OSError:
        return False
