"""`xoff plot`: figures of results for papers and slides."""

from __future__ import annotations

import argparse
from pathlib import Path

from testbed.cli.arguments import above_zero, one_of
from testbed.cli.output_file import whole_file
from testbed.cli.screen.console import say
from testbed.errors import UsageError, nearest
from testbed.lab.results.result import Exit
from testbed.plot.canvas import ENDINGS, require_ending
from testbed.plot.figure import KINDS, plot
from testbed.plot.style import SHIPPED_FONTS, SIZES
from testbed.units import Duration


def options(parser: argparse.ArgumentParser) -> None:
    kinds = ", ".join(KINDS)
    what = parser.add_argument("kind", metavar="FIGURE", help=f"{kinds} (xoff help plots says what each shows)")
    what.completer = lambda **_: list(KINDS)  # type: ignore[attr-defined]
    parser.add_argument(
        "result",
        nargs="+",
        type=Path,
        metavar="RESULT",
        help="result folders, compared in one figure; or sweeps' folders",
    )
    parser.add_argument(
        "--out", type=Path, metavar="FILE",
        help=f"a {', '.join(ENDINGS)} (default: FIGURE.pdf in the first folder)",
    )  # fmt: skip
    of = "; ".join(f"{name}: {kind.of}" for name, kind in KINDS.items() if kind.of)
    parser.add_argument("--of", default="", metavar="WHAT", help=f"what is drawn ({of})")
    parser.add_argument("--over", default="", metavar="PARAMETER", help="the parameter along a sweep's axis")
    parser.add_argument("--case", default="", metavar="PATTERN", help="networks by their titles, as in 'with*'")
    parser.add_argument("--only", default="", metavar="PATTERN", help="flows or ports, as in 'h1 to *' or 's1-*'")
    time = above_zero(Duration, "100us")
    parser.add_argument("--from", type=time, metavar="T", dest="begin", help="the time at which the figure begins")
    parser.add_argument("--to", type=time, metavar="T", dest="end", help="the time at which it ends")
    parser.add_argument("--pool-seeds", action="store_true", help="runs that differ in the seed alone are one curve")
    parser.add_argument(
        "--panels", default="", metavar="PARAMETER",
        help="a panel for each of its values, as in --panels load; also case and seed (cdf, slowdown, sweep)",
    )  # fmt: skip
    parser.add_argument(
        "--label", action="append", default=[], metavar="TEXT", help="of a result in the legend; once for each result"
    )
    sizes = ", ".join(SIZES)
    parser.add_argument(
        "--size", default="column", metavar="SIZE", help=f"{sizes}, or WIDTHxHEIGHT in mm (default: column)"
    )
    fonts = ", ".join(SHIPPED_FONTS)
    parser.add_argument(
        "--font", default="sans", metavar="NAME", help=f"{fonts}, or a font of this machine (default: sans)"
    )
    parser.add_argument("--points", type=float, metavar="N", help="the size of the text (default: 8, of a slide 18)")
    scale = one_of("scale", ("log", "linear"))
    parser.add_argument(
        "--scale", type=scale, metavar="log|linear", help="of the axes (default: as the values need it)"
    )
    parser.add_argument("--title", default="", metavar="TEXT", help="a title above the figure")
    parser.add_argument("--show-digest", action="store_true", help="small print with each result's digest")
    parser.add_argument(
        "--lab-time", action="store_true", help="rates and times of the lab, not of the modelled hardware"
    )


def draw(options: argparse.Namespace) -> int:
    """Draw a figure of results: a distribution, slowdown by size, curves over time, a heat map, a sweep."""
    if options.kind not in KINDS:
        raise UsageError(_unknown(options))
    path = options.out or options.result[0] / f"{options.kind}.pdf"
    ending = require_ending(path)
    drawn = plot(
        options.kind, *options.result, of=options.of, over=options.over, case=options.case, only=options.only,
        begin=options.begin, end=options.end, pool_seeds=options.pool_seeds,
        panels=options.panels, labels=options.label, size=options.size, font=options.font,
        points=options.points, log=None if options.scale is None else options.scale == "log", title=options.title,
        show_digest=options.show_digest, lab_time=options.lab_time,
    )  # fmt: skip
    with whole_file(path, options.result) as out:
        drawn.write(out, ending)
    print(path)
    for text in (*drawn.notes, *drawn.damage):
        say(text)
    return Exit.OK


def _unknown(options: argparse.Namespace) -> str:
    if str(options.result[-1]) in KINDS:
        return f"the figure comes first: xoff plot {options.result[-1]} {options.kind}"
    return f"there is no figure {options.kind}; {nearest(options.kind, KINDS)}"
