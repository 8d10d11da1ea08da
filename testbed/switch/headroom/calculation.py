"""The headroom that a port needs: the headroom proposal's sum, exact and explained term by term.

    X        = rate x ((T4 - T1) - (T3 - T2))     what comes in while PAUSE travels, is obeyed, and the last bit travels
    DV       = X + 2 MaxFrame + PFC               the delay value: plus what can be on its way out at either end
    headroom = DV x alpha, rounded up to cells    alpha: cells are filled worse than the line is

Bits are whole: a term that is not is rounded up, and after that only bytes and cells are, once (decision 0110). No
float gets in. The two other ways to come to a headroom, Annex N's worst case and a vendor's default, are in `annex_n`
and `vendor`; all three give the same kind of sum, so that they can be compared.

Not here: the frame that makes a buffer send PAUSE. It came before the delay begins; a
switch's buffer adds it (`Buffer.measured_headroom`, decision 0115).
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any

from testbed.errors import UsageError
from testbed.units import Duration, Rate

CELL_BYTES = 208
MAX_FRAME_BYTES = 2000
"""The longest frame of IEEE 802.3 with its envelope, without preamble and gap: Annex N's MaxFrame."""
SHORTEST_FRAME_BYTES = 64
LINE_OVERHEAD_BYTES = 20
"""The bytes that a frame takes of the line and not of the buffer: preamble 8 and gap 12."""
PFC_FRAME_BITS = (64 + LINE_OVERHEAD_BYTES) * 8
LARGEST_FRAME_BYTES = 65535

_MOST_ALPHA = 1000
_MOST_PLACES = 9
_ALPHA = re.compile(r"(?P<above>[0-9]{1,9}(\.[0-9]{1,9})?)(/(?P<below>[0-9]{1,9}))?", re.ASCII)


class HeadroomError(UsageError):
    """Invalid parameters, or a headroom that cannot be computed from them."""


class Model(enum.StrEnum):
    """The ways to come to a headroom."""

    ADAPTIVE = "adaptive"  # from a measured round trip
    WORST_CASE = "worst case"  # from Annex N's maxima
    VENDOR = "vendor default"  # from a table in the switch
    DRIVER = "mlx5 driver"  # from the formula in an adapter's driver


@dataclass(frozen=True)
class HeadroomPort:
    """The properties of a port and its lossless priority that go into the sum. Lengths are with FCS, without preamble
    and gap.
    """

    rate: Rate
    max_frame: int = MAX_FRAME_BYTES  # on any priority: whatever is on its way out, PAUSE waits for it
    shortest_frame: int = SHORTEST_FRAME_BYTES  # on the lossless priority, for alpha
    cell_bytes: int = CELL_BYTES
    given_alpha: Fraction | None = None  # None: computed from cell and frames (decision 0112)
    not_kept: int = 0  # what of a frame is on the line and not in the buffer: 4 where that is the FCS

    def __post_init__(self) -> None:
        if self.rate.bps == 0:
            raise HeadroomError("a port of 0b/s needs no headroom; give a rate above zero")
        for name, value, least, most in (
            ("max_frame", self.max_frame, SHORTEST_FRAME_BYTES, LARGEST_FRAME_BYTES),
            ("shortest_frame", self.shortest_frame, 1, LARGEST_FRAME_BYTES),
            ("cell_bytes", self.cell_bytes, 1, LARGEST_FRAME_BYTES),
            ("not_kept", self.not_kept, 0, self.shortest_frame - 1),
        ):
            if type(value) is not int or not least <= value <= most:
                raise HeadroomError(f"{name} is {value!r}; it is a whole number of bytes, {least} to {most}")
        if self.shortest_frame > self.max_frame:
            raise HeadroomError(
                f"shortest_frame is {self.shortest_frame} bytes, more than max_frame, {self.max_frame}; "
                "lower shortest_frame or raise max_frame"
            )
        if self.given_alpha is not None:
            _check_alpha(self.given_alpha)

    @property
    def alpha(self) -> Fraction:
        """The most bytes of buffer that a byte of line can take (decision 0112)."""
        return self._worst_fill()[0] if self.given_alpha is None else self.given_alpha

    @property
    def alpha_how(self) -> str:
        return "given" if self.given_alpha is not None else self._worst_fill_text()

    @property
    def alpha_warning(self) -> str:
        """The reason why the alpha that was given may be too small; empty if it is not."""
        needed = self._worst_fill()[0]
        if self.alpha >= needed:
            return ""
        return f"{self._worst_fill_text()} need an alpha of {readable(needed)}"

    @property
    def max_frame_bits(self) -> int:
        """The bits of the longest frame on the line, with preamble and gap."""
        return (self.max_frame + LINE_OVERHEAD_BYTES) * 8

    def bits_in(self, duration: Duration) -> int:
        """Return the bit times in `duration`, rounded up."""
        return ceil(self.rate.bits_in(duration))

    def _worst_fill(self) -> tuple[Fraction, int]:
        """Return the largest ratio of buffer to line, and a frame length that has it.

        Within one number of cells the shortest frame is worst, and from one number to the next that ratio only falls
        (cells of 22 bytes and more) or only rises; so it is enough to try the ends.
        """
        cell, less = self.cell_bytes, self.not_kept
        first = -(-(self.shortest_frame - less) // cell) * cell + 1 + less
        last = (self.max_frame - less - 1) // cell * cell + 1 + less
        lengths = {self.shortest_frame, *(length for length in (first, last) if first <= length <= self.max_frame)}
        return max(
            (Fraction(-(-(length - less) // cell) * cell, length + LINE_OVERHEAD_BYTES), length) for length in lengths
        )

    def _worst_fill_text(self) -> str:
        return f"{self._worst_fill()[1]} B frames in {self.cell_bytes} B cells"


@dataclass(frozen=True)
class Term:
    """One summand of a delay value, and how it came about."""

    name: str
    bits: int
    how: str

    @property
    def bytes(self) -> int:
        """The term in this unit, rounded up; for people, as the sum is rounded once."""
        return -(-self.bits // 8)

    def cells(self, cell_bytes: int) -> int:
        """The term in this unit, rounded up; for people, as the sum is rounded once."""
        return -(-self.bits // (8 * cell_bytes))


@dataclass(frozen=True)
class Headroom:
    """A headroom with the sum that led to it."""

    model: Model
    terms: tuple[Term, ...]
    alpha: Fraction
    alpha_how: str
    cell_bytes: int
    warning: str = ""  # why it may be too small, if it may be

    @property
    def delay_value(self) -> int:
        """The delay value DV in bits."""
        return sum(term.bits for term in self.terms)

    @property
    def bytes(self) -> int:
        """The headroom in bytes: DV x alpha, rounded up."""
        return ceil(self.delay_value * self.alpha / 8)

    @property
    def cells(self) -> int:
        """The headroom in cells: the value to configure in a switch."""
        return -(-self.bytes // self.cell_bytes)

    def as_json(self) -> dict[str, Any]:
        """Return the sum as plain data; alpha is exact, as text."""
        total = Term("delay value", self.delay_value, "")
        return {
            "model": str(self.model),
            "terms": [_term_as_json(term, self.cell_bytes) | {"how": term.how} for term in self.terms],
            "delay_value": _term_as_json(total, self.cell_bytes),
            "alpha": str(self.alpha),
            "alpha_how": self.alpha_how,
            "bytes": self.bytes,
            "cells": self.cells,
            "warning": self.warning,
        }


def round_trip(t1_ns: int, t2_ns: int, t3_ns: int, t4_ns: int) -> Duration:
    """Return (T4 - T1) - (T3 - T2); T1 and T4 are from one station's clock, T2 and T3 from the other's."""
    ns = (t4_ns - t1_ns) - (t3_ns - t2_ns)
    if t3_ns < t2_ns or ns < 0:
        raise HeadroomError(
            f"T1 to T4 are {t1_ns}, {t2_ns}, {t3_ns}, {t4_ns} ns, and no exchange can have been like that: "
            f"{t4_ns - t1_ns} ns passed at one station and {t3_ns - t2_ns} ns of them at the other; "
            "a clock was set meanwhile, measure again"
        )
    return Duration.from_ns(ns)


def adaptive(
    port: HeadroomPort, measured: Duration, missing: Duration | None = None, further: Iterable[Term] = ()
) -> Headroom:
    """Return the proposal's headroom for a measured round trip.

    `missing` is what the timestamp points leave out: with those of time synchronisation, the stations' interfaces and
    reaction, from configuration. With the points of PFC it is nothing (decision 0111). `further` are terms of what else
    is on the link (`extras.py`).
    """
    terms = [Term("round trip X", port.bits_in(measured), f"{port.rate} x {measured}")]
    if missing is not None and missing.ps:
        terms.append(Term("stations", port.bits_in(missing), f"{port.rate} x {missing}, not in X"))
    return total(Model.ADAPTIVE, port, [*terms, *frames(port), *further])


def frames(port: HeadroomPort) -> tuple[Term, ...]:
    """Return the terms that the proposal and Annex N have in common.

    PAUSE can have to wait for a frame at one end, and take effect when the next has just begun at the other.
    """
    return (
        Term("2 MaxFrame", 2 * port.max_frame_bits, f"2 x ({port.max_frame} + {LINE_OVERHEAD_BYTES}) B"),
        Term("PFC frame", PFC_FRAME_BITS, f"64 + {LINE_OVERHEAD_BYTES} B"),
    )


def total(model: Model, port: HeadroomPort, terms: Iterable[Term]) -> Headroom:
    return Headroom(model, tuple(terms), port.alpha, port.alpha_how, port.cell_bytes, port.alpha_warning)


def read_alpha(text: str) -> Fraction:
    """Read alpha as people write it, "1.1" or "11/10", exactly."""
    match = _ALPHA.fullmatch(text)
    if match is None or not int(match["below"] or 1):
        shown = text if len(text) <= 40 else f"{text[:37]}..."
        raise HeadroomError(f"{shown!r} is not an alpha; write a number such as '1.1' or '11/10'")
    alpha = Fraction(match["above"]) / int(match["below"] or 1)
    _check_alpha(alpha)
    return alpha


def readable(alpha: Fraction) -> str:
    """Return a number for people: exact if some decimals are enough, else rounded up to hundredths, or to two digits
    that are not 0.
    """
    places = next((n for n in range(_MOST_PLACES + 1) if 10**n % alpha.denominator == 0), None)
    if places is None:
        places = 2
        while alpha * 10**places < 10:
            places += 1
    value = ceil(alpha * 10**places)
    digits = f"{value:0{places + 1}}"
    return f"{digits[: len(digits) - places]}.{digits[len(digits) - places :]}".rstrip("0").rstrip(".")


def _check_alpha(alpha: Fraction) -> None:
    if not isinstance(alpha, Fraction) or not 0 < alpha <= _MOST_ALPHA:
        raise HeadroomError(f"alpha is {alpha}; it is an exact fraction above 0, up to {_MOST_ALPHA}")


def _term_as_json(term: Term, cell_bytes: int) -> dict[str, Any]:
    return {"name": term.name, "bits": term.bits, "bytes": term.bytes, "cells": term.cells(cell_bytes)}
