"""The text of a policy file: decoded, limited in size, with positions for messages, and what is wrong with it."""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cached_property

from testbed.strict import problems as strict
from testbed.strict.problems import Position, Problem, Severity

START = Position(1, 1)
_TOO_MANY = 1000

LARGEST = 16_000_000
"""The most bytes of a file. Ten thousand rules take three million."""

_DECLARED = re.compile(rb"""<\?xml[^>]{0,200}?encoding\s*=\s*["']([A-Za-z0-9._-]{1,40})["']""")
_ENCODINGS = {"utf-8": "utf-8", "iso-8859-1": "iso-8859-1", "us-ascii": "ascii"}
_NO_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufffe\uffff]")


class Problems(strict.Problems[Position]):
    """The problems of a policy file, in the order of the file; a thousand more than are kept are enough."""

    @property
    def exhausted(self) -> bool:
        """True if there are so many that nothing more is to be learned: the reader of the file stops."""
        return self.left_out >= _TOO_MANY

    def with_severity(self, severity: Severity) -> list[Problem[Position]]:
        return sorted(super().with_severity(severity), key=lambda problem: problem.place)


class PolicyError(strict.ProblemsError):
    """A policy that cannot be used, with everything that is wrong with it."""

    before_place = ":"


class Source:
    """The text of one file."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *(match.end() for match in re.finditer("\n", self.text))]

    def position(self, offset: int) -> Position:
        line = bisect_right(self._line_starts, offset)
        return Position(line, offset - self._line_starts[line - 1] + 1)


def decode(content: bytes, problems: Problems) -> Source:
    """Return the text as far as it can be read, with an error for each reason why it may not be the one that
    was meant.
    """
    if len(content) > LARGEST:
        problems.error(START, f"the file has {len(content)} bytes", f"at most {LARGEST}")
        return Source("")
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        problems.error(START, "the file is in UTF-16", "UTF-8, ISO-8859-1 or US-ASCII")
        return Source("")
    content = content.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    encoding = "utf-8"
    if declared := _DECLARED.match(content):
        name = declared[1].decode()
        if (known := _ENCODINGS.get(name.lower())) is None:
            problems.error(Source(content[:200].decode("ascii", "replace")).position(declared.start(1)),
                           f"unknown encoding {name}", "UTF-8, ISO-8859-1 or US-ASCII")  # fmt: skip
        encoding = known or "utf-8"
    if encoding == "iso-8859-1" and not content.isascii() and _is_utf8(content):
        problems.warning(START, "the file declares ISO-8859-1 and is in UTF-8; it is read as UTF-8")
        encoding = "utf-8"
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        text = content.decode(encoding, "replace")
        before = Source(content[: error.start].decode(encoding, "replace"))
        problems.error(before.position(len(before.text)), f"byte 0x{content[error.start]:02x} is not {encoding}",
                       "a declaration with the file's encoding, or UTF-8")  # fmt: skip
    source = Source(text)
    if (place := text.find("\u00a0")) >= 0:  # what a web page has for indentation
        problems.warning(source.position(place), "no-break spaces, as copied from a web page, are read as spaces")
        source = Source(text := text.replace("\u00a0", " "))
    if bad := _NO_TEXT.search(text):
        problems.error(source.position(bad.start()), f"control character U+{ord(bad[0]):04X}", "text")
        source = Source(_NO_TEXT.sub(" ", text))
    return source


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True
