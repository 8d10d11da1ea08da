"""`xoff docs`: the documentation site, built by Sphinx from `docs/`."""

from __future__ import annotations

import argparse
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import testbed
from testbed.errors import UsageError, XoffError
from testbed.lab.results.result import Exit


class SiteError(XoffError):
    """Raised if pages have an error or a broken link."""


def docs_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o", "--output", type=Path, metavar="DIR", help="where the site goes (default build/site in the source)"
    )


def docs(options: argparse.Namespace) -> int:
    """Build the documentation site. It needs no network; a broken link or reference is an error."""
    root = Path(testbed.__path__[0]).parent
    if not (root / "docs" / "conf.py").is_file():
        raise UsageError("the pages come with the source: clone the repository and use ./xoff docs there")
    if find_spec("sphinx") is None:
        raise UsageError(f"{sys.executable} has no Sphinx; ./xoff docs installs it, or pip install xoff[docs]")
    out = (options.output or root / "build" / "site").resolve()
    build(root, out)
    print(out / "index.html")
    return Exit.OK


def build(root: Path, out: Path) -> None:
    """Build the site of a checkout; warnings of Sphinx are the error."""
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-j", "auto", "-c", str(root / "docs")]
    command += ["-d", str(out.parent / f".{out.name}-doctrees"), str(root), str(out)]
    done = subprocess.run(command, cwd=root, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SiteError("the site was not built:\n" + (done.stderr or done.stdout).strip())
