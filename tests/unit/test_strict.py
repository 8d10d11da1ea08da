"""Strict reading of users' files: tables whose every key must be known, and lists of problems."""

from __future__ import annotations

from itertools import product

import pytest

from testbed.errors import UsageError
from testbed.strict.problems import MOST, Position, Problem, Problems, ProblemsError, Severity, json_path, shown
from testbed.strict.tables import TomlTable, array, filled, flag, one_of, text, whole, within

SAMPLE = """
name = "s1"
count = 3
[inner]
on = true
[[inner.port]]
id = "a"
[[inner.port]]
"""


class FileError(UsageError):
    """A mistake in the file."""


def top(content: str = SAMPLE) -> TomlTable:
    return TomlTable.read(content, "f", FileError)


def test_keys_that_were_asked_for_are_known_whether_they_are_there_or_not() -> None:
    table = top()
    assert (table.need("name", text), table.take("count", whole, 1), table.take("rate", whole, 7)) == ("s1", 3, 7)
    assert table.unknown == ["inner"]
    with pytest.raises(FileError, match=r"^f: inner: unknown key; there are name, count, rate$"):
        table.close()


def test_a_mistake_is_named_with_its_place() -> None:
    inner = top().table("inner")
    assert inner is not None
    for key, read, message in (
        ("on", whole, "f: [inner] on: true is not a whole number"),
        ("off", flag, "f: [inner] off: is missing"),
    ):
        with pytest.raises(FileError) as caught:
            inner.need(key, read)
        assert str(caught.value) == message
    ports = inner.tables("port", named_by="id")
    assert [port.place for port in ports] == ["[[inner.port]] a", "[[inner.port]] number 2"]
    with pytest.raises(FileError, match=r"^f: \[\[inner.port\]\] number 2: no port without an id$"):
        ports[1].build(lambda: array(None) if ports[0] is None else _refuse())


def _refuse() -> None:
    raise UsageError("no port without an id")


@pytest.mark.parametrize(
    ("read", "value", "message"),
    [
        (flag, 1, "1 is neither true nor false"),
        (whole, True, "true is not a whole number"),
        (within(1, 8), 9, "9 is out of range; 1 to 8 is expected"),
        (text, 3, '3 is not text: write "3"'),
        (filled, " ", "is empty; say something"),
        (array, 3, "3 is not a list: write [3]"),
        (one_of(str, ("low", "high")), "hihg", "'hihg' is unknown; did you mean 'high'?"),
    ],
)
def test_a_value_of_the_wrong_kind_is_shown(read: object, value: object, message: str) -> None:
    assert callable(read)
    with pytest.raises(UsageError) as caught:
        read(value)
    assert str(caught.value) == message


def test_problems_of_each_severity_are_limited_for_themselves_and_the_same_one_counts_once() -> None:
    problems = Problems[Position]()
    for line, _ in product(range(MOST + 5), range(2)):
        problems.warning(Position(line, 1), "odd")
    problems.error(Position(1, 1), "wrong", "right")
    assert (len(problems.warnings), len(problems.errors)) == (MOST, 1)
    assert problems.left_out == 10  # those beyond the limit are not remembered, so they are not compared either
    assert str(problems.errors[0]) == "1:1: error: wrong; expected right"


def test_a_file_that_cannot_be_used_is_one_error_with_a_line_for_each_problem() -> None:
    place = json_path("PORT", "Ethernet0|3", "speed")
    found = Problem(place, Severity.ERROR, "no number", rule="invalid")
    assert str(ProblemsError("f", [found], 2)) == "f: $.PORT['Ethernet0|3'].speed: error: no number\nf: and 2 more"
    assert found.as_json() == {"path": place, "severity": "error", "message": "no number", "rule": "invalid"}


def test_a_shown_value_is_quoted_and_short_and_has_no_control_characters() -> None:
    assert shown("a\x1b") == "'a\\x1b'" and shown(False) == "false" and shown(["x"]) == "['x']"
    assert shown("x" * 100) == "'" + "x" * 60 + "...'"
