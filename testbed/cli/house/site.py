"""`xoff docs`: the documentation site, built by Sphinx from `docs/`, Python for its calculators, its pictures, and a
server to look at it."""

from __future__ import annotations

import argparse
import functools
import importlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

import testbed
from testbed.cli.arguments import whole_number
from testbed.cli.engine_setup import ready
from testbed.cli.screen import amount
from testbed.cli.screen.console import say
from testbed.errors import UsageError, XoffError
from testbed.experiment.definition import Experiment
from testbed.lab.results.result import Exit, Result
from testbed.lab.runs import api
from testbed.lab.studies import costs

RunCard = Callable[[str, Experiment, str], Result]
"""Runs the experiment of a card, by its name, into a folder."""
FETCH = Path()
"""The value of `--calculators` without a file."""
PORT = 8000
PROGRESS = "XOFF_SITE_PROGRESS"
"""The variable of the environment with the descriptor to which Sphinx's extension writes its marks."""
_READING = 0.4
"""The part of the time that goes into reading pages."""


def docs_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="where the site goes (default build/site in the source)"
    )
    parser.add_argument(
        "--calculators",
        nargs="?",
        type=Path,
        const=FETCH,
        metavar="FILE",
        help="fetch Python for browsers (Pyodide, 6.5 MB, by npm, verified) once, so that the calculators compute; "
        "from then on it is on each site. With FILE, npm's archive, it comes from there",
    )
    parser.add_argument(
        "--serve",
        nargs="?",
        type=whole_number(1, PORT),
        const=PORT,
        metavar="PORT",
        help=f"after that, serve the site to this machine (default port {PORT}), until Ctrl-C",
    )
    parser.add_argument(
        "--reports",
        nargs="*",
        metavar="CARD",
        help="before that, run the experiments of the gallery's cards that have no report, or of those named here, so "
        "that the reports are on the site; it runs them on um, and keeps the reports in build/reports",
    )
    parser.add_argument(
        "--figures",
        nargs="*",
        metavar="CARD",
        help="do not build the site, but make the pictures in docs/: figures of the concepts, and cards of the gallery "
        "that are missing or older than their experiment, or those named here, and the README's; it runs their "
        "experiments on um",
    )


def docs(options: argparse.Namespace) -> int:
    """Build the documentation site, or make its pictures. It takes no network, but for --calculators, once; a broken
    link is an error."""
    root = Path(testbed.__path__[0]).parent
    if not (root / "docs" / "conf.py").is_file():
        raise UsageError("the pages come with the source: clone the repository and use ./xoff docs there")
    if options.figures is not None:
        for name in ("calculators", "reports", "serve", "out"):
            if getattr(options, name) is not None:
                raise UsageError(f"--figures builds no site, so --{name} has no effect; give them one after the other")
        return figures(root, options.figures)
    if find_spec("sphinx") is None:
        raise UsageError(f"{sys.executable} has no Sphinx; ./xoff docs installs it, or pip install xoff[docs]")
    if options.calculators is not None:
        runtime = importlib.import_module("tools.calculators.runtime")
        runtime.take(None if options.calculators == FETCH else options.calculators, say)
    if options.reports is not None:
        reports(root, options.reports)
    out = (options.out or root / "build" / "site").resolve()
    build(root, out)
    print(out / "index.html", flush=True)
    if options.serve is not None:
        serve(out, options.serve)
    return Exit.OK


def serve(folder: Path, port: int) -> None:
    """Serve a folder to this machine until Ctrl-C."""
    handler = functools.partial(_Pages, directory=str(folder))
    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    except OSError as error:
        raise UsageError(f"port {port} cannot be used: {error.strerror}; --serve takes another one") from None
    with server:
        say(f"http://127.0.0.1:{port}/ has the site; Ctrl-C ends it")
        with suppress(KeyboardInterrupt):
            server.serve_forever()


class _Pages(SimpleHTTPRequestHandler):
    """Serves files, quietly. The types are named: those of a machine may lack WebAssembly."""

    extensions_map = SimpleHTTPRequestHandler.extensions_map | {
        ".js": "text/javascript", ".mjs": "text/javascript", ".wasm": "application/wasm", ".zip": "application/zip",
    }  # fmt: skip

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing about a request."""


def figures(root: Path, named: Sequence[str]) -> int:
    """Make the pictures of a checkout: those named, or all that are missing or old."""
    concepts, badges, gallery, readme = (
        importlib.import_module(f"tools.{name}") for name in ("concept_figures", "badges", "gallery", "readme_pictures")
    )
    gallery.require(root, named)
    for file in [*concepts.write(root), *badges.write(root)]:
        say(f"drawn: {file}")
    wanted: dict[str, str] = dict.fromkeys(named, "it was named") if named else gallery.stale(root)
    gallery.write(root, {})  # those that are kept, in case that a chart is drawn otherwise now
    if not wanted:
        say("all pictures of the gallery are those of their experiments")
    else:
        _draw_gallery(root, gallery, wanted)
    for file, why in () if named else readme.stale(root).items():
        if lacks := readme.PICTURES[file].lacks():
            say(f"{file} stays as it is, though {why}: {lacks}")
            continue
        readme.PICTURES[file].make(root, root / file)
        say(f"made: {file}, as {why}")
    return Exit.OK


def reports(root: Path, named: Sequence[str]) -> None:
    """Make the reports of cards of the gallery: those named, or all that are missing or old."""
    gallery, made = (importlib.import_module(f"tools.{name}") for name in ("gallery", "site_reports"))
    gallery.require(root, named)
    wanted: dict[str, str] = dict.fromkeys(named, "it was named") if named else made.missing(root)
    if not wanted:
        return say("all cards of the gallery have their reports")
    said: list[str] = []
    _run_cards(root, gallery, wanted, "reports", lambda run: said.extend(made.make(root, wanted, run)))
    for text in said:
        say(text)


def _draw_gallery(root: Path, gallery: Any, wanted: Mapping[str, str]) -> None:
    """Run the experiments of these cards, and make their pictures."""
    _run_cards(root, gallery, wanted, "pictures", lambda run: gallery.make(root, wanted, run))


def _run_cards(root: Path, gallery: Any, wanted: Mapping[str, str], what: str, make: Callable[[RunCard], None]) -> None:
    """Have `make` run the experiments of cards, show how far it is, and keep what they cost."""
    engine = ready(gallery.ENGINE)
    took: dict[str, float] = {}
    expected = costs.expected_of(wanted)
    with amount.shown(what, sum(expected.values())) as all_:

        def run(name: str, experiment: Experiment, out: str) -> Result:
            all_.at(sum(expected[one] for one in took), f"{len(took)} of {len(wanted)}, {name}: {wanted[name]}")
            before_s = amount.cpu_time()
            result = api.run(experiment, on=engine, out=out)
            took[name] = amount.cpu_time() - before_s
            if what == "pictures":
                costs.write(root, {name: took[name]})
            return result

        make(run)
    say(f"made: {', '.join(took)}")


def build(root: Path, out: Path) -> None:
    """Build the site of a checkout, and show how far it is; warnings of Sphinx are the error."""
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-j", "auto", "-c", str(root / "docs")]
    command += ["-d", str(out.parent / f".{out.name}-doctrees"), str(root), str(out)]
    marks, theirs = os.pipe()
    with tempfile.TemporaryFile("w+") as said, open(marks, "rb", buffering=0) as reader:
        try:
            sphinx = subprocess.Popen(
                command, cwd=root, stdin=subprocess.DEVNULL, stdout=said, stderr=said,
                pass_fds=[theirs], env=os.environ | {PROGRESS: str(theirs)},
            )  # fmt: skip
        finally:
            os.close(theirs)
        with sphinx:
            _follow(reader)
        said.seek(0)
        text = said.read().strip()
    if sphinx.returncode:
        raise XoffError("the site was not built:\n" + text)


def _follow(marks: IO[bytes]) -> None:
    """Show the progress by the marks of `docs/site_extension.py`: a `t` for each page to be made, `r` for one that was
    read, `w` for one that was written.
    """
    pages = read = written = 0
    with amount.shown("building the site", 1.0) as all_:
        while data := marks.read(4096):
            pages += data.count(b"t")
            read += data.count(b"r")
            written += data.count(b"w")
            part = (_READING * read + (1 - _READING) * written) / pages if pages else 0.0
            all_.at(part, f"{written} of {pages} pages" if written else f"{read} of {pages} pages read")
