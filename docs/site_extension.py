"""Sphinx's extension for this site: what it has beside the pages as they are.

It makes the reference of the command line from the argument parsers and that of the REST services from the OpenAPI
document, and gives each page a place in a table of contents.
"""

from __future__ import annotations

import argparse
import html
import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
INDEX = "docs/index"
DECISIONS = "docs/decisions/README"
LESSONS = "lessons/README"
MADE = (INDEX, "docs/gallery", "docs/calculators", "docs/reference/cli")
"""The pages that programs of the repository make a part of: they are read anew each time."""
SAMPLES = "docs/sample"
"""The folder of the sample reports, as the page about them names it."""
REPORTS = "report"
"""The folder of the reports of the gallery's cards, as its page names it."""
PROGRESS = "XOFF_SITE_PROGRESS"
"""The variable with the descriptor for marks about the progress."""
_REPLAY = """```{raw} html
<figure class="replayed">
<iframe src="sample/replay.html" title="Replay of a run: two hosts send to one, PFC stops them" loading="lazy"></iframe>
<figcaption>A recorded run, in slow motion: two hosts send to one, the port to <i>r</i> fills, and PFC frames stop the
senders, so that nothing is lost. <a href="sample/replayed.html">Open its report</a>, or make it:
<code>./xoff run incast --capture --report</code></figcaption></figure>
```"""
"""The frame with the run that the first page replays."""
_GUIDES = "<!-- guides -->"
_FIGURE = re.compile(r'<p>(<img [^>]*src="[^"]*?([^"/]*)\.svg")')
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|])")


def setup(app: Any) -> dict[str, bool]:
    app.connect("env-get-outdated", lambda app, env, *_: [name for name in MADE if name in env.found_docs])
    app.connect("source-read", complete)
    app.connect("html-page-context", dress)
    app.connect("build-finished", finish)
    if PROGRESS in os.environ:
        app.connect("env-before-read-docs", lambda app, env, names: mark(b"t" * len(names)))
        app.connect("source-read", lambda app, name, source: mark(b"r"))
        app.connect("html-page-context", lambda app, name, *_: mark(b"w") if name in app.env.found_docs else None)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def dress(app: Any, name: str, template: str, context: dict[str, Any], *_: Any) -> None:
    """Give the page of the calculators its script, its style and its security policy."""
    from tools.calculators import page

    if name == page.PAGE:
        app.add_js_file("calculators/calculators.js", loading_method="defer")
        app.add_css_file("calculators/calculators.css")
        context["metatags"] = context.get("metatags", "") + page.policy()


def mark(marks: bytes) -> None:
    """Tell `xoff docs` what has been done (`testbed/cli/house/site.py`)."""
    os.write(int(os.environ[PROGRESS]), marks)


def complete(app: Any, name: str, source: list[str]) -> None:
    """Replace the marks of a page by the text that is generated for them."""
    text = source[0]
    if name == INDEX:
        text = text.replace(f"{_GUIDES}\n", "".join(f"{page}\n" for page in further_guides(text)))
    elif name in (DECISIONS, LESSONS):
        text += "\n```{toctree}\n:hidden:\n\n" + "".join(f"{page}\n" for page in below(name)) + "```\n"
    text = text.replace("<!-- the replay -->", _REPLAY)
    text = text.replace("<!-- the commands -->", command_line()) if "<!-- the commands -->" in text else text
    text = text.replace("<!-- the operations -->", rest()) if "<!-- the operations -->" in text else text
    text = text.replace("<!-- the cards -->", gallery()) if "<!-- the cards -->" in text else text
    if "<!-- calculator " in text:
        from tools.calculators import page

        text = page.filled(text)
    source[0] = text


def below(name: str) -> list[str]:
    """Return the pages below one, which links to them in its text."""
    if name == DECISIONS:
        records = (ROOT / "docs/decisions").glob("*/[0-9]*.md")
        return sorted(f"{path.parent.name}/{path.stem}" for path in records)
    from testbed.subjects.lessons.lesson import lessons

    return [f"{lesson.name}/{page}" for lesson in lessons() for page in ("page", "teacher")]


def finish(app: Any, error: Exception | None) -> None:
    """Write a first page where a browser looks for it, and make all pages usable with keyboards and screen readers."""
    if error is not None or app.builder.format != "html":
        return
    page = '<!doctype html><html lang="en"><meta charset="utf-8"><title>Xoff</title>'
    page += f'<meta http-equiv="refresh" content="0; url={INDEX}.html"><a href="{INDEX}.html">Xoff</a></html>\n'
    for path in Path(app.outdir).rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        path.write_text(accessible(text), encoding="utf-8")
    (Path(app.outdir) / "index.html").write_text(page)
    from tools import site_reports
    from tools.calculators import page as calculators
    from tools.gallery import sample_reports
    from tools.readme_pictures import replays

    calculators.put(Path(app.outdir) / "_static")
    (Path(app.outdir) / SAMPLES).mkdir(exist_ok=True)
    for name, text in (sample_reports(ROOT) | replays(ROOT)).items():
        (Path(app.outdir) / SAMPLES / f"{name}.html").write_text(text, encoding="utf-8")
    reports = Path(app.outdir) / "docs" / REPORTS
    shutil.rmtree(reports, ignore_errors=True)  # those of cards that have none any longer
    reports.mkdir()
    for name, path in site_reports.available(ROOT).items():
        shutil.copyfile(path, reports / f"{name}.html")


def accessible(page: str) -> str:
    """Return the page with a level for each caption, and with blocks that scroll within reach of the keyboard."""
    page = page.replace('role="heading">', 'role="heading" aria-level="2">')
    page = _FIGURE.sub(_framed, page)
    return page.replace('<div class="highlight"><pre>', '<div class="highlight"><pre tabindex="0">')


def _framed(match: re.Match[str]) -> str:
    """Return the begin of a picture's paragraph. A figure of the concepts is wide and may scroll; others fit."""
    if (ROOT / "docs/figures" / f"{match[2]}.svg").is_file():
        return f'<p class="figure" tabindex="0">{match[1]}'
    return f'<p class="picture">{match[1]} loading="lazy"'


def further_guides(index: str) -> list[str]:
    """Return the pages of `docs/` that no line of the index names."""
    named = set(index.split())
    return [path.stem for path in sorted((ROOT / "docs").glob("*.md")) if path.stem not in {*named, "index"}]


def command_line() -> str:
    """Return the reference of all commands with their options, in Markdown."""
    os.environ["COLUMNS"] = "100"  # how wide argparse makes its usage
    from testbed.cli import build_parser, commands
    from testbed.cli.house import help

    parts = []
    for group, members in commands.groups().items():
        parts += [f"## {group[0].upper()}{group[1:]}"]
        parts += ["\n".join(f"- [`xoff {name}`](#xoff-{name}): {_plain(one.summary)}" for name, one in members.items())]
        for name, command in members.items():
            words = [name, *command.parts]
            parts += _command(f"xoff {name}", _children(build_parser(*words))[name], 3)
    parts += ["## Exit codes", f"```text\n{help.EXIT_CODES}```"]
    return "\n\n".join(parts)


def _command(name: str, parser: argparse.ArgumentParser, depth: int) -> Iterator[str]:
    yield f"{'#' * depth} {name}"
    usage = parser.format_usage().removeprefix("usage: ").rstrip()
    if parser.description:
        yield _plain(" ".join(parser.description.split()))
    yield f"```text\n{usage}\n```"
    rows = [_option(action) for action in parser._actions if not _is_hidden(action)]
    if rows:
        yield "| argument | meaning |\n|---|---|\n" + "\n".join(rows)
    for word, child in _children(parser).items():
        yield from _command(f"{name} {word}", child, min(depth + 1, 5))


def _is_hidden(action: argparse.Action) -> bool:
    hidden = isinstance(action, (argparse._HelpAction, argparse._SubParsersAction))
    return hidden or action.help == argparse.SUPPRESS


def _option(action: argparse.Action) -> str:
    metavar = action.metavar if isinstance(action.metavar, str) else " ".join(action.metavar or ())
    if action.choices is not None and not metavar:
        metavar = "{" + ",".join(map(str, action.choices)) + "}"
    value = metavar or ("" if action.nargs == 0 else action.dest.upper())
    names = [f"{name} {value}".strip() for name in action.option_strings] or [value or action.dest]
    text = (action.help or "").replace("%(default)s", str(action.default)).replace("%%", "%")
    shown = ", ".join("`" + name.replace("|", "\\|") + "`" for name in names)
    return f"| {shown} | {_plain(' '.join(text.split()))} |"


def _children(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def gallery() -> str:
    """Return the cards of all experiments, conformance cases and lessons, in Markdown."""
    from testbed.lab.studies import costs
    from testbed.subjects.lessons.lesson import lessons
    from tools import gallery as of_gallery
    from tools import site_reports

    kept, listed, found = of_gallery.data(ROOT), of_gallery.cards(ROOT), of_gallery.sources()
    reported = {name: f"{REPORTS}/{name}.html" for name in site_reports.available(ROOT)}
    reported |= {name: f"{Path(SAMPLES).name}/{name}.html" for name in of_gallery.SAMPLES}
    seconds, guided = costs.known(), {f"{of_gallery.LESSON}{one.name}": one for one in lessons()}
    parts = []
    for group in of_gallery.groups(ROOT):
        parts += [f"## {group.title}", group.text, "::::{container} cards timed"]
        for card in (one for one in listed.values() if one.group == group.name and one.name in kept):
            if (lesson := guided.get(card.name)) is not None:
                title, source = f"Lesson {lesson.number}", f"../lessons/{lesson.name}/page.md"
                command, takes = f"./xoff lesson start {lesson.number}", f"{lesson.minutes} minutes of yours"
            else:
                source = os.path.relpath(found[card.name].source, ROOT / "docs")
                title, command = card.name, f"./xoff run {card.name} --report"
                takes = f"{seconds[card.name]:g} s of CPU time" if card.name in seconds else ""
            if (page := reported.get(card.name)) is not None:
                link = f'<a href="{page}" aria-label="Replay the report of {html.escape(title)}">Replay its report</a>'
                takes = f"{link} · {takes}" if takes else link
            words = of_gallery.in_words(kept[card.name]).replace("[", "(").replace("]", ")")
            parts += [
                ":::{container} card", f"![{_plain(words)}](gallery/{card.name}.svg)",
                f"**[{_plain(title)}]({source})**", _plain(card.question), f"`{command}`", takes, ":::",
            ]  # fmt: skip
        parts += ["::::"]
    return "\n\n".join(filter(None, parts))


def rest() -> str:
    """Return the reference of the operations and bodies of `controllers/openapi.json`, in Markdown."""
    document = json.loads((ROOT / "controllers/openapi.json").read_text())
    parts: list[str] = []
    for tag in document["tags"]:
        parts.append(f"## Service {tag['name']}")
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                if tag["name"] in operation["tags"]:
                    parts += _operation(method.upper(), path, operation)
    parts.append("## Bodies and answers")
    for name, schema in document["components"]["schemas"].items():
        parts.append(f"### {name}")
        if text := schema.get("description"):
            parts.append(_plain(" ".join(text.split())))
        rows = [_member(member, one, schema) for member, one in schema.get("properties", {}).items()]
        if rows:
            parts.append("| member | type | meaning |\n|---|---|---|\n" + "\n".join(rows))
        else:
            parts.append(f"Type: {_type(schema)}")
    return "\n\n".join(parts)


def _operation(method: str, path: str, operation: dict[str, Any]) -> Iterator[str]:
    yield f"### {method} {path.replace('{', chr(92) + '{')}"
    if text := operation.get("summary"):
        yield _plain(text) + "."
    if text := operation.get("description"):
        yield _plain(" ".join(text.split()))
    rows = [
        f"| `{one['name']}` | {one['in']} | {_type(one['schema'])} | {_plain(one.get('description', ''))} |"
        for one in operation.get("parameters", [])
    ]
    if rows:
        yield "| parameter | in | type | meaning |\n|---|---|---|---|\n" + "\n".join(rows)
    if body := operation.get("requestBody"):
        kinds = "; ".join(f"`{kind}`: {_type(one.get('schema', {}))}" for kind, one in body["content"].items())
        yield f"Body: {kinds}"
    answers = []
    for status, one in operation["responses"].items():
        kinds = ", ".join(_type(content.get("schema", {})) for content in one.get("content", {}).values())
        answers.append(f"| {status} | {_plain(one['description'])} | {kinds} |")
    yield "| status | meaning | body |\n|---|---|---|\n" + "\n".join(answers)


def _member(name: str, schema: dict[str, Any], of: dict[str, Any]) -> str:
    needed = " (required)" if name in of.get("required", []) else ""
    return f"| `{name}`{needed} | {_type(schema)} | {_plain(' '.join(schema.get('description', '').split()))} |"


def _type(schema: dict[str, Any]) -> str:
    """Return a schema in a few words."""
    if reference := schema.get("$ref"):
        name = str(reference).rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    for key in ("oneOf", "anyOf"):
        if key in schema:
            return " or ".join(dict.fromkeys(map(_type, schema[key])))
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    kind = schema.get("type", "any")
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if isinstance(kind, list):
        return " or ".join(kind)
    return str(kind)


def _plain(text: str) -> str:
    """Return the text so that Markdown shows it as it is."""
    return _SPECIAL.sub(r"\\\1", text)
