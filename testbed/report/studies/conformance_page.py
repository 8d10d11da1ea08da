"""The report of `xoff switch conformance`: the matrix of cases and switches, with measured and expected values.

It reads `conformance.json`; what happened in a run is in the report of its result folder, which each cell names.
"""

from __future__ import annotations

from pathlib import Path

from testbed.lab.results.foreign import ForeignFolder
from testbed.lab.results.result import Claim, expectation
from testbed.lab.studies.conformance import FILE, Cell, Matrix
from testbed.report.pages.markup import Html, heading, table, text, verdict
from testbed.units import written


def is_conformance(path: Path) -> bool:
    return ForeignFolder(path).has(FILE)


def body(folder: Path) -> str:
    """Return the body of the report."""
    matrix = Matrix.read(folder)
    failed = [cell for cell in matrix.cells if not cell.passed]
    switch = f"The switch is that of {matrix.switch}." if matrix.switch else "The switch is Xoff's own, by speed."
    summary = (
        f"{len(failed)} of {len(matrix.cells)} runs failed." if failed else f"All {len(matrix.cells)} runs passed."
    )
    parts: list[str] = [
        f"<header>{heading(1, 'Conformance')}",
        f'<p class="note">Cases of SONiC&#39;s public test plans. {text(switch)} Times and rates are those of the '
        f"hardware. {text(summary)}</p></header><main>",
        heading(2, "Matrix"),
        table("Matrix", ("case", "measured", *matrix.columns), (_row(matrix, case) for case in matrix.summaries)),
    ]
    if matrix.tested:
        rows = ((one.column, one.in_words, one.remedy or "-") for one in matrix.tested)
        parts += [heading(2, "Ports"), table("Ports", ("switch", "ports under test", "remedy"), rows)]
    for case, about in matrix.summaries.items():
        parts += [heading(2, f"{case}: {about}"), _measured(matrix, case)]
    return "\n".join([*parts, "</main>"])


def _row(matrix: Matrix, case: str) -> list[object]:
    cells = [matrix.cell(case, column) for column in matrix.columns]
    name = next((cell.main.name for cell in cells if cell and cell.main), "")
    return [case, name, *map(_verdict, cells)]


def _verdict(cell: Cell | None) -> Html:
    if cell is None:
        return Html("-")
    if cell.reason or cell.main is None:
        return verdict(False, "", text(cell.reason or "no claim", 80))
    measured = text(cell.measured, 80)
    return verdict(cell.passed, measured, measured)


def _value(claim: Claim) -> Html:
    """Return a measured value, with its mark."""
    measured = text(written(claim.measured, claim.unit), 60)
    return verdict(claim.passed, measured, measured)


def _measured(matrix: Matrix, case: str) -> Html:
    """Return every claim of a case, with the measured value of each column."""
    cells = [(column, cell) for column in matrix.columns if (cell := matrix.cell(case, column)) is not None]
    names = dict.fromkeys(claim.name for _, cell in cells for claim in cell.claims)
    rows = []
    for name in names:
        found = {column: claim for column, cell in cells for claim in cell.claims if claim.name == name}
        expected = list(dict.fromkeys(map(expectation, found.values())))
        shown = [_value(claim) if (claim := found.get(column)) else Html("-") for column in matrix.columns]
        rows.append([name, " or ".join(expected), *shown])
    figures = dict.fromkeys(figure.name for _, cell in cells for figure in cell.figures)
    for name in figures:
        values = {column: one for column, cell in cells for one in cell.figures if one.name == name}
        rows.append([name, "", *(_figure(values.get(column)) for column in matrix.columns)])
    rows.append(
        ["result folder", "", *(next((c.folder for at, c in cells if at == one), "-") for one in matrix.columns)]
    )
    return table(f"Measured by {case}", ("claim or figure", "expected", *matrix.columns), rows)


def _figure(figure: object) -> Html:
    value, unit = getattr(figure, "value", None), getattr(figure, "unit", "")
    return text("-" if figure is None else written(value, unit), 60)
