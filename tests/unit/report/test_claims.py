"""Claims as an answer: cases side by side, failed ones first, with the digits that an eye takes in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from testbed.lab.results.folder import read
from testbed.lab.results.result import Claim
from testbed.report.pages.claims import answer, cases_of, shown
from tests.report_folders import HOSTILE, small


def claim(name: str, measured: Any, passed: bool = True, unit: str = "", **expected: Any) -> dict[str, Any]:
    return {"name": name, "expected": expected or {"equals": measured}, "measured": measured, "passed": passed,
            "unit": unit}  # fmt: skip


CASES = [
    claim("with PFC: frames sent", 1200),
    claim("with PFC: lost", 0),
    claim("without PFC: frames sent", 1200),
    claim("without PFC: lost", 476, at_least=452, at_most=499),
]


def test_cases_are_columns_if_they_have_claims_in_common() -> None:
    def of(*names: str) -> list[str]:
        return cases_of([Claim(name, {"equals": 1}, 1, True, "") for name in names])

    assert of("a: x", "b: x", "c: y") == ["a", "b"]
    assert of("a: x", "b: y") == [] and of("x", "y") == [] and of("a: x", "a: y") == []
    assert of(*(f"{n}: x" for n in range(6))) == [], "more columns than a screen has"


def test_what_differs_between_cases_comes_first(tmp_path: Path) -> None:
    page = str(answer(read(small(tmp_path / "one", claims=CASES))))
    assert page.index(">lost<") < page.index(">frames sent<")
    assert "(452 to 499)" in page and page.count("✓") == 4 and "<details>" not in page


def test_a_failed_claim_is_always_shown_and_first(tmp_path: Path) -> None:
    many = [claim(f"claim {number}", number) for number in range(30)]
    many[29] = claim("claim 29", 7, passed=False, at_least=8)
    page = str(answer(read(small(tmp_path / "one", claims=many))))
    first, _, folded = page.partition("<details>")
    assert "claim 29" in first and "✗ 7" in first and "(≥ 8)" in first
    assert "22 more claims, which all hold" in folded and folded.count("<tr>") == 23


def test_claims_of_the_whole_run_are_beside_those_of_cases(tmp_path: Path) -> None:
    page = str(answer(read(small(tmp_path / "one", claims=[*CASES, claim("lost, and in no counter", 0)]))))
    first, _, folded = page.partition("<details>")
    assert "in no counter" in folded and "in no counter" not in first
    failed = [*CASES, claim("lost, and in no counter", 3, passed=False)]
    page = str(answer(read(small(tmp_path / "two", claims=failed))))
    assert "in no counter" in page.partition("<details>")[0]


@pytest.mark.parametrize(
    ("value", "unit", "words"),
    [
        (10_000_135_000, "b/s", "10Gb/s"),
        (1_872_345_678, "b/s", "1872Mb/s"),
        (1200, "", "1200"),
        (0.999812, "", "0.9998"),
        (True, "", "yes"),
        ({"sent": 600, "lost": 0}, "", "sent 600, lost 0"),
        ([1, 2, 3, 4, 5, 6], "", "1, 2, 3, 4, and 2 more"),
        (float("nan"), "", "nan"),
    ],
)
def test_values_have_four_digits_and_no_brackets(value: Any, unit: str, words: str) -> None:
    assert shown(value, unit) == words


def test_hostile_claims_are_text(tmp_path: Path) -> None:
    page = str(answer(read(small(tmp_path / "one", claims=[claim(f"{HOSTILE}: a", HOSTILE), claim("b: a", 10**30)]))))
    assert "<img" not in page and "\x1b" not in page
