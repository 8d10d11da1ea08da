"""The forms of the calculators in HTML, with their first answers, and what the page's script needs beside them."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

from tools.calculators import credits, headroom, replay, runtime
from tools.calculators.bundle import ROOT, archive
from tools.calculators.calculator import FILES, Calculator, Field, joined
from tools.calculators.table import CALCULATORS, answered

PAGE = "docs/calculators"
SAMPLE = Path("tests/unit/data/sonic/risky_long_cable.json")
"""The file of a switch that the form has at first."""
CODE = "xoff.zip"
FOLDER = "calculators"
"""The folder of the code and of Python, below the site's `_static`."""
_TABLES = {"headroom": headroom.reference, "replay": replay.reference, "credits": credits.reference}
_MARK = re.compile(r"<!-- (calculator|table) (\w+) -->")


def filled(text: str) -> str:
    """Return the page's text with a form in place of each mark."""
    return _MARK.sub(
        lambda match: _raw(reference(match[2]) if match[1] == "table" else form(CALCULATORS[match[2]])), text
    )


def reference(name: str) -> str:
    """Return the table of the page with this name."""
    return f'<div class="calculated">{_TABLES[name]()}</div>'


def policy() -> str:
    """Return what the page's security policy lets a browser fetch: files of the site, and nothing else."""
    rules = "connect-src 'self'; worker-src 'self'; form-action 'none'; img-src 'self' data:; object-src 'none'"
    return f'<meta http-equiv="Content-Security-Policy" content="{rules}"><link rel="icon" href="data:,">'


def put(static: Path) -> None:
    """Put Xoff's code, and Python if it is in the cache, beside the page."""
    (static / FOLDER).mkdir(parents=True, exist_ok=True)
    (static / FOLDER / CODE).write_bytes(archive())
    runtime.copy(static / FOLDER / "pyodide")


def first_values(calculator: Calculator) -> dict[str, str]:
    """Return the values that a form has at first."""
    if any(one.kind == FILES for one in calculator.fields):
        return calculator.values({FILES: joined({"config_db.json": (ROOT / SAMPLE).read_text(encoding="utf-8")})})
    return calculator.values(calculator.example)


def form(calculator: Calculator) -> str:
    """Return a form with the answer to its first values."""
    values = first_values(calculator)
    found = answered(calculator.name, values)
    shown = "".join(_field(calculator, one, values) for one in calculator.fields if not one.further)
    more = "".join(_field(calculator, one, values) for one in calculator.fields if one.further)
    folded = f'<details class="more"><summary>More</summary><div class="fields">{more}</div></details>' if more else ""
    name = escape(calculator.name)
    return (
        f'<form class="calculator" data-calculator="{name}" id="form-{name}" autocomplete="off" novalidate>'
        f'<div class="fields">{shown}</div>{folded}'
        '<p class="buttons"><button type="submit">Compute</button> '
        '<button type="button" class="link" hidden>Copy a link to this</button>'
        '<span class="status" role="status"></span></p>'
        '<p class="error" role="alert" hidden></p>'
        f'<div class="answer" id="answer-{name}">{found["html"]}</div>'
        '<p class="same">The same by command: '
        f'<code class="command" tabindex="0">{escape(found["command"])}</code></p>'
        f'<details class="data"><summary>JSON, as --json prints it</summary><pre tabindex="0">{escape(found["json"])}'
        "</pre></details></form>"
    )


def _field(calculator: Calculator, one: Field, values: dict[str, str]) -> str:
    identity = f"{calculator.name}-{one.name}"
    value, common = values[one.name], f'id="{identity}" name="{one.name}"'
    hint = f'<span class="hint" id="{identity}-hint">{escape(one.hint)}</span>' if one.hint else ""
    described = f' aria-describedby="{identity}-hint"' if one.hint else ""
    label = f'<label for="{identity}">{escape(one.label)}</label>'
    default = f' data-default="{escape(one.default)}"'
    if one.kind == "choice":
        options = ""
        for each in one.choices:
            chosen = " selected" if each == value else ""
            options += f'<option value="{escape(each)}"{chosen}>{escape(each or "by the rate")}</option>'
        return f'<div class="field">{label}<select {common}{default}>{options}</select>{hint}</div>'
    if one.kind == "check":
        return f'<div class="field check"><input type="checkbox" {common}>{label}</div>'
    if one.kind == "hex":
        return (
            f'<div class="field wide-field">{label}<textarea {common}{default}{described} rows="7" spellcheck="false">'
            f"{escape(value)}</textarea>{hint}</div>"
        )
    if one.kind == FILES:
        sample = escape((ROOT / SAMPLE).read_text(encoding="utf-8"))
        return (
            f'<div class="field wide-field">{label}<input type="file" {common}{described} accept=".json" multiple>'
            f'{hint}</div><div class="field wide-field"><label for="{identity}-text">or its text</label>'
            f'<textarea id="{identity}-text" data-text-of="{one.name}" rows="9" spellcheck="false">{sample}</textarea>'
            '<span class="hint">This is a sample with a fault. Files and text stay on this machine.</span></div>'
        )
    return (
        f'<div class="field">{label}<input type="text" {common}{default}{described} value="{escape(value)}" '
        f'spellcheck="false">{hint}</div>'
    )


def _raw(html: str) -> str:
    """Return HTML as a block of Markdown that passes it on."""
    return f"````{{raw}} html\n{html}\n````"
