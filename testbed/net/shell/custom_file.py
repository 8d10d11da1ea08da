"""The `--custom` argument of Mininet's own command."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import testbed


def with_our_file(words: Sequence[str]) -> list[str]:
    """Return the arguments of Mininet's own command with --custom naming Xoff's file where it is in the lab.

    The documentation names that file from Xoff's folder, in which the shell does not run.
    """
    ours, others, files = str(Path(testbed.__path__[0]) / "mn.py"), [], []
    given = iter(words)
    for word in given:
        if word == "--custom" or word.startswith("--custom="):
            name = next(given, "") if word == "--custom" else word.partition("=")[2]
            files += [
                one for one in name.split(",") if one and (Path(one).exists() or not one.endswith("testbed/mn.py"))
            ]
        else:
            others.append(word)
    return ["--custom", ",".join([ours, *(one for one in files if Path(one).resolve() != Path(ours))]), *others]
