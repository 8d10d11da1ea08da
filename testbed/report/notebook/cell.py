"""A result or a sweep as the output of a notebook's cell: a table in plain HTML, and a page in a frame below it.

The page is that of a report, with its own scripts and its content security policy, in the attribute of an `iframe`. It
needs no kernel, no network and no package, so a saved notebook has it too. The frame has a sandbox: names in a result
that came from elsewhere reach nothing of the notebook, whose pages may run code. Where frames are taken out, as by
JupyterLab in a notebook that it does not trust, the table is left.
"""

from __future__ import annotations

from testbed.errors import XoffError
from testbed.lab.results.folder import Folder, read
from testbed.lab.results.foreign import ForeignFolder
from testbed.lab.results.result import Result
from testbed.lab.studies.sweep import Sweep
from testbed.lab.studies.sweep_tables import Row, summary
from testbed.report.pages import claims, page, tables
from testbed.report.pages.markup import Html, table, text
from testbed.report.studies import sweep_page
from testbed.report.studies.sweep_page import Mean, Study

_HEIGHT, _PICTURE_HEIGHT = 36, 24
"""The height of a frame, and of the pictures of one figure, in rem."""
_MOST_ROWS, _MOST_COLUMNS, _MOST_FIGURES = 20, 6, 6
_LIVE = "The time of the slider in Python, and back: xoff.widget(result)."
_WHOLE = "xoff report {} makes the whole report."


def result(shown: Result) -> Html:
    """Return a result for a cell: its outcome, its claims, and its networks over time."""
    if shown.folder is None or not ForeignFolder(shown.folder).is_there():
        return _note(f"{shown.experiment}: the result's folder is gone, and there is nothing to draw")
    try:
        folder = read(shown.folder)
        drawn = page.cell(folder) if folder.networks else ""
    except XoffError as error:
        return _note(str(error))
    parts = [
        f"<p><strong>{text(shown.experiment, 100)}</strong></p>",
        tables.facts(folder),
        claims.answer(folder),
        frame(drawn, f"{shown.experiment}: its networks over time") if drawn else "",
        _note(f"{_WHOLE.format(shown.folder)} {_LIVE if drawn else ''}"),
    ]
    return Html("\n".join(parts))


def page_of(shown: Result) -> tuple[Folder, str]:
    """Return the folder of a result, and the page that a cell has of it."""
    if shown.folder is None:
        raise XoffError(f"{shown.experiment} has no folder, and so nothing to show")
    folder = read(shown.folder)
    return folder, page.cell(folder)


def sweep(shown: Sweep) -> Html:
    """Return a sweep for a cell: a table of its runs, and its figures over the grid."""
    study = _study(shown)
    columns = study.varying[:_MOST_COLUMNS]
    head = [*study.parameters, "seed", "passed", *columns]
    rows = [_row(row, study, columns) for row in shown.rows[:_MOST_ROWS]]
    notes = []
    if len(shown.rows) > _MOST_ROWS or len(study.figures) > len(columns):
        notes.append(
            f"{len(rows)} of {len(shown.rows)} runs, and {len(columns)} of {len(study.figures)} figures, of those that "
            "are not the same in all runs; .table() has all."
        )
    for some, what in ((shown.failed, "Runs that did not end by themselves"), (shown.not_made, "Runs not made")):
        if some:
            notes.append(f"{what}: {len(some)}.")
    drawn = [name for name in study.varying[:_MOST_FIGURES] if any(sweep_page.pictures(study, name))]
    if len(study.varying) > _MOST_FIGURES:
        notes.append(
            f"Drawn are {_MOST_FIGURES} of {len(study.varying)} figures; xoff report {shown.folder} draws all."
        )
    pictures = [f"<h2>{text(name)}</h2>{''.join(sweep_page.pictures(study, name))}" for name in drawn]
    height = min(_HEIGHT, _PICTURE_HEIGHT * len(drawn))
    parts = [
        f"<p><strong>{text(study.name, 100)}</strong></p>",
        table("Runs", head, rows, "No run has ended."),
        _note(" ".join(notes)) if notes else "",
        frame(page.document(study.name, "".join(pictures), ()), f"{study.name}: its figures", height) if drawn else "",
    ]
    return Html("\n".join(part for part in parts if part))


def frame(content: str, title: str, height: int = _HEIGHT) -> Html:
    """Return a page in a frame that can reach nothing around it, and whose height a reader can change."""
    # Between single quotes the many double ones of the page stay one character.
    inside = content.replace("&", "&amp;").replace("'", "&#39;")
    style = f"width: 100%; height: {height}rem; border: 0; resize: vertical; overflow: auto; display: block"
    return Html(
        f'<iframe sandbox="allow-scripts" title="{text(title, 200)}" style="{style}" srcdoc=\'{inside}\'></iframe>'
    )


def _note(words: str) -> Html:
    return Html(f"<p><small>{text(words.strip())}</small></p>")


def _study(shown: Sweep) -> Study:
    figures: dict[str, list[Mean]] = {}
    for mean in summary(shown.rows):
        point = tuple(mean.parameters.values())
        figures.setdefault(mean.figure, []).append(
            Mean(point, mean.runs, mean.mean, mean.half_width, mean.least, mean.most)
        )
    parameters = tuple(shown.rows[0].parameters) if shown.rows else ()
    return Study(shown.folder.resolve().name, parameters, figures, len(shown.failed))


def _row(row: Row, study: Study, columns: list[str]) -> list[object]:
    figures = [sweep_page.value_text(row.figures[name], name) if name in row.figures else "-" for name in columns]
    return [
        *(row.parameters.get(name, "") for name in study.parameters),
        row.seed,
        "yes" if row.passed else "no",
        *figures,
    ]
