"""Figures of a result for papers, by matplotlib: pauses, buffers and drops over time, and claims beside bounds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from testbed.errors import nearest, plain
from testbed.lab.results.folder import Folder, ReportError
from testbed.lab.results.result import Claim
from testbed.report.pages.tables import INTERVALS
from testbed.report.timeline.tracks import ASSERTED, DROPS, OCCUPANCY, PAUSED, Shape, Track, Tracks, tracks

_COLOURS = {PAUSED: "#c4321f", ASSERTED: "#d98a00"}
_OTHER = "#8250df"
_WIDTH_IN, _LANE_IN, _CHART_IN = 6.5, 0.22, 2.6
_MOST_LANES = 120
ENDINGS = (".pdf", ".png", ".svg")


def require_ending(path: Path) -> str:
    """Return the ending of a path, which is the format of its figure."""
    if path.suffix not in ENDINGS:
        raise ReportError(f"{path}: the ending gives the format, one of {', '.join(ENDINGS)}")
    return path.suffix


def plot(folder: Folder, figure: str, out: BinaryIO, ending: str) -> None:
    """Write one figure, in the format of an ending. The same result gives the same file."""
    if figure not in FIGURES:
        raise ReportError(f"there is no figure {figure}; {nearest(figure, FIGURES)}")
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise ReportError(
            "xoff export --figure takes matplotlib: pip install 'xoff[plot]', or pip install matplotlib"
        ) from None
    # Names of results are text: $ begins no formula.
    settings = {"svg.hashsalt": "xoff", "pdf.fonttype": 42, "font.size": 8, "text.parse_math": False}
    with matplotlib.rc_context(settings):
        drawn = Figure(layout="constrained")
        FIGURES[figure](folder, drawn)
        undated: dict[str, dict[str, Any]] = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}}
        drawn.savefig(out, format=ending.removeprefix("."), metadata=undated.get(ending), dpi=200)


def _pauses(folder: Folder, drawn: Any) -> None:
    found = [track for track in tracks(folder).tracks if track.panel in INTERVALS]
    _require(found, folder, "no port was paused")
    lanes = list(dict.fromkeys((track.port, track.label) for track in found))[:_MOST_LANES]
    drawn.set_size_inches(_WIDTH_IN, 0.9 + _LANE_IN * len(lanes))
    axes = drawn.subplots()
    label, unit_ns = _time_axis(folder)
    for track in found:
        if (track.port, track.label) in lanes:
            lane = lanes.index((track.port, track.label))
            bars = [(start / unit_ns, (end - start) / unit_ns)
                    for start, end in zip(track.t_ns, track.values, strict=True)]  # fmt: skip
            axes.broken_barh(bars, (lane - 0.4, 0.8), facecolors=_COLOURS.get(track.panel, _OTHER), linewidth=0)
    axes.set_yticks(range(len(lanes)), [_name(f"{port} {label}") for port, label in lanes])
    axes.invert_yaxis()
    axes.set_xlabel(label)


def _buffer(folder: Folder, drawn: Any) -> None:
    found = tracks(folder)
    _require(found.of(OCCUPANCY), folder, "no threshold was crossed")
    axes = _chart(folder, drawn, found.of(OCCUPANCY))
    axes.set_ylabel("cells at a crossing of XOFF or XON")
    axes.set_ylim(bottom=0)


def _drops(folder: Folder, drawn: Any) -> None:
    found: Tracks = tracks(folder)
    _require(found.of(DROPS), folder, "no buffer dropped a frame")
    _chart(folder, drawn, found.of(DROPS)).set_ylabel("frames dropped")


def _time_axis(folder: Folder) -> tuple[str, float]:
    """Return the label of the axis of time, and how many ns of the logs its unit has."""
    k = folder.units.k
    return ("time, s", 1e9) if k == 1 else ("time, ms", 1e6 * k)


def _chart(folder: Folder, drawn: Any, found: list[Track]) -> Any:
    drawn.set_size_inches(_WIDTH_IN, _CHART_IN)
    axes = drawn.subplots()
    label, unit_ns = _time_axis(folder)
    for track in found:
        times = [t / unit_ns for t in track.t_ns]
        if track.shape is Shape.STEPS:
            values = [value / track.parts for value in track.values]
            axes.step(times, values, where="post", label=_name(track.name), linewidth=1)
        else:
            axes.plot(times, track.values, ".", markersize=2.5, label=_name(track.name))
    axes.set_xlabel(label)
    if len(found) <= 12:
        axes.legend(fontsize=7, frameon=False)
    return axes


def _claims(folder: Folder, drawn: Any) -> None:
    """Draw the measured value and the bounds of each claim about a number, as parts of the measured value."""
    found = [claim for claim in folder.claims if _is_number(claim.measured) and claim.measured]
    _require(found, folder, "no claim is about a number above zero")
    drawn.set_size_inches(_WIDTH_IN, 0.9 + 0.26 * len(found))
    axes = drawn.subplots()
    for row, claim in enumerate(found):
        low, high = _bounds(claim)
        for bound, mark in ((low, "|"), (high, "|")):
            if bound is not None:
                axes.plot(bound / claim.measured, row, mark, color="#57606a", markersize=9)
        axes.plot(1, row, "o", color="#116329" if claim.passed else "#b42318", markersize=4)
    axes.set_yticks(range(len(found)), [_name(claim.name) for claim in found])
    axes.invert_yaxis()
    axes.set_xlabel("bounds, as a part of what was measured")


def _bounds(claim: Claim) -> tuple[float | None, float | None]:
    exact = claim.expected.get("equals")
    found = [claim.expected.get(key, exact) for key in ("at_least", "at_most")]
    low, high = (value if _is_number(value) else None for value in found)
    return low, high


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 2**63


def _require(found: list[Any], folder: Folder, why: str) -> None:
    if not found:
        raise ReportError(f"{folder.path} has nothing to draw here: {why}")


def _name(text: str) -> str:
    return plain(text if len(text) <= 60 else f"{text[:59]}…").replace("\n", " ")


FIGURES: dict[str, Callable[[Folder, Any], None]] = {
    "pauses": _pauses,
    "buffer": _buffer,
    "drops": _drops,
    "claims": _claims,
}
"""The figures by the names that `xoff export --figure` takes."""
