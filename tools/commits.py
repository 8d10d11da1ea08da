"""Check the messages of commits: `python tools/commits.py RANGE`, as in `main..HEAD`; without one the newest commit.

CONTRIBUTING.md says what a message has. Merges are passed over: their texts are git's.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

LONGEST_SUBJECT = 72
MOST_LINES_WITHOUT_BODY = 300
_ROOT = Path(__file__).resolve().parents[1]
_SIGNED = re.compile(r"^Signed-off-by: .+ <\S+@\S+>$", re.MULTILINE)
_END, _FIELD = "\x1e", "\x1f"


@dataclass(frozen=True)
class Commit:
    """A commit's message, and how many lines it adds and takes away; files that it only moves count nothing."""

    name: str
    message: str
    lines: int


def faults(commit: Commit) -> list[str]:
    """Return what is wrong with a commit's message, a line each."""
    subject, _, rest = commit.message.strip().partition("\n")
    body = "\n".join(line for line in rest.splitlines() if not re.match(r"[A-Z][A-Za-z-]+: ", line)).strip()
    wrong = []
    if len(subject) > LONGEST_SUBJECT:
        wrong.append(f"its subject has {len(subject)} characters; {LONGEST_SUBJECT} are the most")
    if not _SIGNED.search(rest):
        wrong.append("it is not signed off; `git commit -s` does that")
    if commit.lines > MOST_LINES_WITHOUT_BODY and not body:
        wrong.append(f"it changes {commit.lines} lines, and no body says why")
    return [f"commit {commit.name} ({subject[:LONGEST_SUBJECT]}): {one}" for one in wrong]


def read(revisions: Sequence[str]) -> list[Commit]:
    """Return the commits that `git log` has for these revisions."""
    form = f"--format={_END}%h{_FIELD}%B{_FIELD}"
    command = ["git", "log", "--no-merges", "-M", "--numstat", form, *revisions]
    text = subprocess.run(command, cwd=_ROOT, check=True, capture_output=True, text=True).stdout
    found = []
    for one in text.split(_END)[1:]:
        name, message, counts = one.split(_FIELD)
        numbers = re.findall(r"^(\d+)\t(\d+)\t", counts, re.MULTILINE)
        found.append(Commit(name, message, sum(int(added) + int(taken) for added, taken in numbers)))
    return found


def main(arguments: Sequence[str]) -> int:
    """Print what is wrong with the commits; return the exit code."""
    wrong = [line for commit in read(arguments or ["-1"]) for line in faults(commit)]
    print("\n".join(wrong) or "all commits have their form")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
