"""A job that runs `attack.c`, which the test has built beside this file."""

import shutil
import signal
import subprocess
from pathlib import Path

from testbed.lab import Run, experiment


@experiment(timeout="60s", files=("attack",))
def attacks(run: Run, words: str = "", megabytes: int = 0, uid: int = 0) -> None:
    """Make each attempt by a program of its own, and note what it printed and how it ended."""
    program = Path("/tmp/attack")
    shutil.copy(Path(__file__).parent / "attack", program)
    program.chmod(0o755)
    print("begun", flush=True)
    for word in words.split(","):
        done = subprocess.run(
            [program, str(megabytes), word], capture_output=True, text=True, check=False, user=uid or None
        )
        lines = dict(line.split() for line in done.stdout.splitlines())
        run.claim(f"{word}: the instruction was found", lines.get("site"), equals="1")
        if "served" in lines:
            run.claim(f"{word}: the program served the kernel by itself", lines["served"], equals="1")
        run.figure(word, int(lines[word]) if word in lines else signal.Signals(-done.returncode).name)
