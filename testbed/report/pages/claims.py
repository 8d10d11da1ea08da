"""The claims of a result as an answer: one row for each quantity, one column for each case of the experiment.

An experiment that compares cases names its claims "with PFC: goodput" and "without PFC: goodput". Side by side they say
what the experiment is about. Claims that fail come first, then those that are not the same in all cases.

The subject of an experiment that comes with Xoff: its docstring.

The experiment's file is parsed and not imported, and only files of this installation are read: the name in a result may
be anybody's. A result of a user's own file says nothing here.
"""

from __future__ import annotations

import ast
import math
from functools import cache
from typing import Any

from testbed import shipped_packages
from testbed.lab.results.folder import Folder
from testbed.lab.results.result import Claim, expectation
from testbed.report.pages.markup import Html, folded, table, text, verdict
from testbed.units import written


def question(folder: Folder) -> Html:
    """Return what the experiment of a result is about: its first line, and the rest; or an empty text."""
    name = folder.result["experiment"]
    match folder.result.get("again"):
        case {"command": ["run", str(asked), *_]} if asked != name:
            return Html("")  # a file of the user's, which may have an experiment of the same name
    first, _, rest = _docstring(name).partition("\n\n") if name.isidentifier() else ("", "", "")
    lead = f'<p class="lead">{text(" ".join(first.split()))}</p>' if first else ""
    return Html(lead + (f'<p class="note">{text(" ".join(rest.split()), 1200)}</p>' if rest else ""))


@cache
def _docstring(name: str) -> str:
    for package in (shipped_packages.EXPERIMENTS, shipped_packages.CONFORMANCE, shipped_packages.PUBLISHED):
        path = shipped_packages.files(package).get(name)
        if path is None:
            continue
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name == name:
                return ast.get_docstring(node) or ""
    return ""


_MOST = 8
"""The most rows before anything is opened; failed claims are always shown."""
_DIGITS = 4
_LONGEST = 60
_FEW = 4


def answer(folder: Folder) -> Html:
    """Return the table that answers the experiment's question, and the rest of it folded."""
    claims = folder.claims
    if not claims:
        return Html('<p class="note">The experiment claims nothing.</p>')
    cases = cases_of(claims)
    whole = [one for one in claims if not _case(one, cases)] if cases else []
    claims = [one for one in claims if one not in whole]
    rows = _by_case(claims, cases) if cases else [(_failed([one]), False, one.name, [one]) for one in claims]
    rows.sort(key=lambda row: (not row[0], not row[1]))
    head = ["", *(cases or ["measured"])]
    shown = max(_MOST, sum(row[0] for row in rows))
    if len(rows) <= shown + 2:
        shown = len(rows)
    out = table("Claims", head, [[name, *map(_cell, of_case)] for _, _, name, of_case in rows[:shown]], most=1000)
    rest = rows[shown:]
    more = table("Further claims", head, [[name, *map(_cell, of_case)] for _, _, name, of_case in rest], most=1000)
    of_run = table("Claims of the whole run", ["", "whole run"], [[one.name, _cell(one)] for one in whole], most=1000)
    if _failed(whole):
        out, of_run = Html(out + of_run), Html("")
    many = sum(one is not None for _, _, _, of_case in rest for one in of_case) + (len(whole) if of_run else 0)
    return Html(out + (folded(f"{many} more claims, which all hold", more + of_run) if many else ""))


def cases_of(claims: list[Claim]) -> list[str]:
    """Return the cases that claims are named after, if there are two or more with claims in common; else none."""
    by_case: dict[str, set[str]] = {}
    for claim in claims:
        case, colon, name = claim.name.partition(": ")
        if colon and len(case) <= _LONGEST:
            by_case.setdefault(case, set()).add(name)
    common = [
        case
        for case, names in by_case.items()
        if any(names & others for other, others in by_case.items() if other != case)
    ]
    return common if 2 <= len(common) <= 5 else []


def _by_case(claims: list[Claim], cases: list[str]) -> list[tuple[bool, bool, str, list[Claim | None]]]:
    """Return for each quantity: whether one fails, whether cases differ, its name, and the claim of each case."""
    found: dict[str, list[Claim | None]] = {}
    for claim in claims:
        case = _case(claim, cases)
        name = claim.name.removeprefix(f"{case}: ") if case else claim.name
        found.setdefault(name, [None] * len(cases))[cases.index(case)] = claim
    rows = []
    for name, row in found.items():
        values = {shown(one.measured, one.unit) for one in row if one is not None}
        is_one = all(not isinstance(one.measured, (list, dict)) for one in row if one is not None)
        rows.append((_failed(row), len(values) > 1 and is_one, name, row))
    return rows


def _case(claim: Claim, cases: list[str]) -> str:
    """Return the case that a claim is named after, or an empty text if it is about the whole run."""
    case, colon, _ = claim.name.partition(": ")
    return case if colon and case in cases else ""


def _failed(row: list[Any]) -> bool:
    return any(one is not None and not one.passed for one in row)


def _cell(claim: Claim | None) -> Html:
    if claim is None:
        return Html('<span class="note">-</span>')
    value = shown(claim.measured, claim.unit)
    expected = expectation(claim)
    wanted = f" ({_bounds(claim)})" if not claim.passed or "equals" not in claim.expected else ""
    exact = text(f"{written(claim.measured, claim.unit)}; expected: {expected}")
    found = verdict(claim.passed, value, value)
    return Html(f'<span title="{exact}">{found}<span class="note">{text(wanted, 80)}</span></span>')


def _bounds(claim: Claim) -> str:
    """Return what a claim expects, in few letters."""
    match claim.expected:
        case {"at_least": low, "at_most": high}:
            return f"{written(low, claim.unit)} to {written(high, claim.unit)}"
        case {"at_least": low}:
            return f"≥ {written(low, claim.unit)}"
        case {"at_most": high}:
            return f"≤ {written(high, claim.unit)}"
    return expectation(claim)


def shown(value: Any, unit: str) -> str:
    """Return a value with as many digits as an eye takes in, and without the brackets of Python."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    if isinstance(value, dict):
        return ", ".join(f"{name} {shown(one, unit)}" for name, one in list(value.items())[:_FEW]) + _more(value)
    if isinstance(value, list):
        return ", ".join(shown(one, unit) for one in value[:_FEW]) + _more(value)
    if (isinstance(value, float) and math.isfinite(value)) or (isinstance(value, int) and unit and abs(value) < 2**63):
        rounded = float(f"{value:.{_DIGITS}g}")
        return written(int(rounded) if rounded == int(rounded) else rounded, unit)
    return written(value, unit)


def _more(value: Any) -> str:
    return f", and {len(value) - _FEW} more" if len(value) > _FEW else ""
