"""A question about a marking curve, as people write it, and its answer: the share of packets that is marked.

Texts go in, as on the command line, by whose names errors call them. `xoff switch ecn` and the calculator of the
documentation site ask here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from testbed.errors import UsageError
from testbed.switch.ecn.curve import EcnCurve, EcnError
from testbed.units import Size

_STEPS = 4
"""The equal parts of the way from kmin to kmax for which the answer has a row."""


@dataclass(frozen=True)
class Asked:
    """A question in the words of the command line; None is what is not said."""

    kmin: str
    kmax: str
    pmax: str = "100%"
    queue: str | None = None
    xoff: str | None = None


@dataclass(frozen=True)
class Answer:
    """A curve, the share of packets that it marks at some queues, and what a reader has to know of it."""

    curve: EcnCurve
    points: tuple[tuple[int, Fraction], ...]
    """Queues in bytes with the share that is marked, the shortest first."""
    queue: int | None
    xoff: int | None
    notes: tuple[str, ...]


def answer(asked: Asked) -> Answer:
    """Return the curve and its points; UsageError names the option that is wrong."""
    sizes = {name: _size(f"--{name}", getattr(asked, name)) for name in ("kmin", "kmax")}
    queue, xoff = (None if text is None else _size(name, text).bytes for name, text in _further(asked))
    try:
        curve = EcnCurve(sizes["kmin"], sizes["kmax"], asked.pmax)
    except EcnError as error:
        raise UsageError(re.sub(r"\b(kmin|kmax|pmax)\b", r"--\1", str(error))) from None
    low, high = curve.kmin.bytes, curve.kmax.bytes
    queues = {low + (high - low) * step // _STEPS for step in range(_STEPS + 1)} | {max(low, high - 1)}
    queues |= {one for one in (queue, xoff) if one is not None}
    points = tuple((one, curve.fraction(one)) for one in sorted(queues))
    return Answer(curve, points, queue, xoff, tuple(_notes(curve, xoff)))


def as_json(found: Answer) -> dict[str, Any]:
    """Return an answer as plain data; shares are exact, as text."""
    curve = found.curve
    return {
        "kmin": curve.kmin.bytes,
        "kmax": curve.kmax.bytes,
        "pmax": str(curve.pmax),
        "xoff": found.xoff,
        "points": [{"queue": queue, "marked": str(share)} for queue, share in found.points],
        "notes": list(found.notes),
    }


def _further(asked: Asked) -> tuple[tuple[str, str | None], ...]:
    return ("--queue", asked.queue), ("--xoff", asked.xoff)


def _notes(curve: EcnCurve, xoff: int | None) -> list[str]:
    if xoff is None:
        return []
    if xoff <= curve.kmin.bytes:
        return [
            f"PAUSE is sent at {xoff} B and marking begins at {curve.kmin.bytes} B: the queue is paused before a "
            "packet is marked, so senders do not slow down; lower --kmin"
        ]
    if xoff <= curve.kmax.bytes:
        share = readable(curve.fraction(xoff))
        return [f"PAUSE is sent at {xoff} B, below kmax: up to there {share} of the packets are marked at most"]
    return []


def readable(share: Fraction) -> str:
    """Return a share in percent, with up to three decimals."""
    return f"{float(share * 100):.3f}".rstrip("0").rstrip(".") + " %"


def _size(name: str, text: str) -> Size:
    try:
        return Size(text)
    except UsageError as error:
        raise UsageError(f"{name}: {error}") from None
