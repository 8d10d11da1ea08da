"""A BibTeX entry for a result: the version of Xoff, the command, and the digest by which a reader knows it again."""

from __future__ import annotations

import re
import shlex

from testbed.errors import plain
from testbed.lab.results.result import Result

FILE = "citation.bib"
"""The name of the entry in a result folder."""
_SPECIAL = re.compile(r"[\\{}$&#_%~^]")
_WORDS = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}


def bibtex(result: Result, year: int) -> str:
    """Return the entry. Characters that LaTeX gives a meaning are written as LaTeX has them."""
    made_with = result.provenance
    command = f"xoff {shlex.join(result.again.command)}" if result.again else f"xoff run {result.experiment}"
    version = f"{made_with.xoff}{f', commit {made_with.commit[:12]}' if made_with.commit else ''}"
    return (
        f"@misc{{xoff-{result.digest[:12]},\n"
        "  author       = {{The Xoff contributors}},\n"
        "  title        = {{Xoff: a lossless-Ethernet lab in virtual time}},\n"
        f"  year         = {{{year}}},\n"
        f"  howpublished = {{Software, version {_latex(version)}}},\n"
        f"  note         = {{Result of \\texttt{{{_latex(command)}}}, digest \\texttt{{{result.digest}}}}},\n"
        "}\n"
    )


def _latex(text: str) -> str:
    line = plain(text).replace("\n", " ")
    return _SPECIAL.sub(lambda match: _WORDS.get(match[0], f"\\{match[0]}"), line)
