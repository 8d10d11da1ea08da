"""Pieces of HTML. All text of a result goes through `text` or `readable`, and has no markup or control characters
then.

The parts that reports and the live view share: assets, digests for the content security policy,
and data for scripts.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources
from typing import Any

from testbed.errors import plain

LONGEST = 600
"""The most characters of one text; a longer one is cut, and its length is shown."""


class Html(str):
    """Finished markup, which is not escaped again."""

    __slots__ = ()


def text(value: object, most: int = LONGEST) -> Html:
    """Return a value as text of a page; finished markup stays as it is."""
    return value if isinstance(value, Html) else Html(escape(readable(value, most)))


def readable(value: object, most: int = LONGEST) -> str:
    """Return a text without control characters that is not too long; it is not escaped yet."""
    whole = str(value)
    return plain(whole if len(whole) <= most else f"{whole[:most]}… ({len(whole)} characters)")


def table(
    title: str, head: Sequence[object], rows: Iterable[Sequence[object]], empty: str = "", most: int = 300
) -> Html:
    """Return a table that scrolls by itself where the page is narrow; numbers are aligned to the right."""
    found = list(itertools.islice(rows, most + 1))
    if not found:
        return Html(f'<p class="note">{text(empty)}</p>') if empty else Html("")
    cells = "".join(f'<th scope="col">{text(one)}</th>' for one in head)
    body = "".join(f"<tr>{_row(row)}</tr>\n" for row in found[:most])
    more = f'<p class="note">The first {most} of these rows.</p>' if len(found) > most else ""
    return Html(
        f'<div class="wide" tabindex="0" role="region" aria-label="{text(title)}"><table>'
        f"<thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table></div>{more}"
    )


def _row(row: Sequence[object]) -> str:
    first, *rest = row
    return f'<th scope="row">{text(first)}</th>' + "".join(_cell(one) for one in rest)


def _cell(value: Any) -> str:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        shown = f"{value:,}" if isinstance(value, int) and value.bit_length() < 128 else value
        return f'<td class="n">{text(shown)}</td>'
    return f"<td>{text(value)}</td>"


def heading(level: int, title: object) -> Html:
    return Html(f"<h{level}>{text(title)}</h{level}>")


def folded(title: object, content: str, about: object = "") -> Html:
    """Return an element that opens at a click; `about` says what is inside."""
    words = f' <span class="about">{text(about)}</span>' if about else ""
    return Html(f"<details><summary>{text(title)}{words}</summary>{content}</details>")


def verdict(passed: bool, good: str, bad: str) -> Html:
    mark, kind, word = ("✓", "good", good) if passed else ("✗", "bad", bad)
    return Html(f'<span class="{kind}">{mark} {text(word)}</span>')


def asset(package: str, name: str) -> Html:
    """Return the text of an asset of a package."""
    return Html((resources.files(package) / "assets" / name).read_text(encoding="utf-8"))


def digest(content: str) -> str:
    """Return the name of a script or style in a content security policy, which is its digest."""
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


def script_json(data: Any) -> str:
    """Return JSON that no reader of HTML takes for the end of a script, or for markup."""
    plain = json.dumps(data, separators=(",", ":"), ensure_ascii=True)
    return plain.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
