"""Words that are not used in docstrings, comments, messages, names of tests and documentation.

Programs, devices and frames are not persons: an agent sends, reports or reads; it does not say, know or tell. Code in
backticks, code blocks of pages and identifiers (but names of tests) are left out.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator

WORDS = re.compile(
    r"\b((?<!user )nobody|somebody|tells|(is|are|was|were|be|been|being) told|wish(es|ed)?|forgets|says|knows|hears"
    r"|complains?|believes?|thinks?|talks?|remembers?|wants(?!=)|likes|unhappy|happy|lives? in|hang together"
    r"|is no number|it is not so that)\b",
    re.IGNORECASE,
)
_CODE = re.compile(r"```.*?```|``.+?``|`[^`\n]+`|\]\([^)]*\)|https?://\S+", re.DOTALL)


def in_python(source: str) -> Iterator[tuple[int, str]]:
    """Line and words, of comments, of strings that are prose (those with a space), and of names of tests."""
    if not WORDS.search(source.replace("_", " ")):
        return  # parsing takes most of the time
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield from _found(token.start[0], token.string)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield from _found(node.lineno, node.value)
        elif isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield from _found(node.lineno, node.name.replace("_", " "))


def in_page(text: str) -> Iterator[tuple[int, str]]:
    """Line and words, of a page in Markdown."""
    blank = re.sub(r"(?m)^(    |\t).*$", "", _CODE.sub(lambda code: "\n" * code[0].count("\n"), text))
    yield from _found(1, blank)


def _found(line: int, text: str) -> Iterator[tuple[int, str]]:
    prose = _CODE.sub(lambda code: "\n" * code[0].count("\n"), text)
    for word in WORDS.finditer(prose):
        yield line + prose[: word.start()].count("\n"), word[0]


EXAMPLES = [
    (in_python, "# nobody asks\n", [(1, "nobody")]),
    (in_python, 'x = 1\n"""One line.\n\nThe port says so."""\n', [(4, "says")]),
    (in_python, "def test_an_agent_is_told() -> None: ...\n", [(1, "is told")]),
    (in_python, "says = nobody = 'says'  # `says`\n", []),
    (in_page, "# A\n\nThe port\nknows it, see [x](says.md).\n\n    it says\n", [(4, "knows")]),
]
"""How words are looked for, text, and what is found."""
