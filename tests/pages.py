"""The code blocks of README, CONTRIBUTING and docs, and how each of them is tried out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
_FOLDERS = (
    "docs",
    "docs/start",
    "docs/howto",
    "docs/concepts",
    "docs/reference",
    "docs/about",
    "docs/releases",
    "lessons",
    "lessons/*",
)
PAGES = (
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    *sorted(str(path.relative_to(ROOT)) for folder in _FOLDERS for path in ROOT.glob(f"{folder}/*.md")),
)
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_COMMAND = re.compile(r"^    (?:\./)?xoff (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    page: str
    number: int
    language: str
    text: str

    @property
    def is_experiment(self) -> bool:
        """True if it is a file for `xoff run`."""
        return self.language == "python" and "@experiment" in self.text

    def __str__(self) -> str:
        return f"{self.page}:{self.number}"


def blocks() -> list[Block]:
    found = []
    for page in PAGES:
        for number, (language, text) in enumerate(_BLOCK.findall((ROOT / page).read_text())):
            found.append(Block(page, number, language, text))
    return found


def commands() -> list[tuple[str, str]]:
    """Return the `xoff ...` lines of all pages, each without the remark in a column behind it."""
    return [
        (page, re.split(r"\s{2,}|\s+#|\s+>\s", line)[0].strip())
        for page in PAGES
        for line in _COMMAND.findall((ROOT / page).read_text())
    ]


JOBS = {
    "a BGP fabric with a failed link": "docs/howto/routing.md:0",
    "ib_write_bw, two to one, with PFC": "docs/howto/verbs.md:0",
    "an MPI all-reduce over eight hosts": "docs/howto/verbs.md:1",
    "NVMe over RDMA with fio beside a storm": "docs/howto/verbs.md:2",
    "nginx and wrk": "docs/applications.md:0",
    "redis": "docs/applications.md:1",
}
"""Programs of others in the lab: each is a file that a user can write in a few minutes."""
MOST_LINES = 30
"""The most lines of each of them."""
IN_LAB = {"docs/fabrics.md:1", "docs/network.md:0", "docs/network.md:1", "docs/headroom.md:0"}
"""Parts of experiments; the test makes an experiment around each of them."""
ON_THIS_MACHINE = {
    "docs/controller.md:2",
    "docs/fabrics.md:0",
    "docs/howto/notebooks.md:0",
    "docs/lab.md:0",
    "docs/partitions.md:0",
    "docs/plots.md:0",
    "docs/studies.md:0",
    "docs/studies.md:1",
    "docs/switch-rules.md:2",
    "docs/switch-rules.md:3",
    "docs/wan.md:1",
}
"""Programs for the user's own Python."""
AS_DATA = {
    "docs/controller.md:0", "docs/controller.md:1", "docs/controller.md:3", "docs/dcbx.md:0", "docs/extending.md:0",
}  # fmt: skip
"""Files that Xoff reads."""
A_TEST = {"CONTRIBUTING.md:0", "docs/howto/automate.md:0"}
"""Tests with the lab, which pytest runs."""
