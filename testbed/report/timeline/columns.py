"""The compressed form of tracks: columns of variable-length integers, and envelopes where they are too large.

A column holds differences, zigzag-coded, seven bits an octet, low ones first. All columns of a result are one stream of
raw deflate, which browsers decompress by themselves. Up to `BUDGET` octets of it every track is exact. Beyond, the
largest tracks become envelopes: for each of `BINS` equal bins of the run the lowest and highest value, or for intervals
the time they cover and their number. An envelope has every extreme and every total of the run; nothing is left out by
chance, and the report names the tracks that are envelopes.
"""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from testbed.report.timeline.tracks import Shape, Track

BUDGET = 3_300_000
"""The most octets of compressed columns in one report; base64 makes 4.4 MB of them."""
BINS = 1 << 14


@dataclass(frozen=True)
class Coded:
    """A coded track: its columns, and their description for the page."""

    description: dict[str, Any]
    octets: bytes


def packed(
    tracks: list[Track], end_ns: int, budget: int = BUDGET, ends: Sequence[int] = (), bins: int = BINS
) -> tuple[list[dict[str, Any]], bytes]:
    """Return the descriptions of all tracks, and their columns, compressed. `ends` are those of networks, in order.
    An envelope has `bins` parts."""
    coded = [_exact(track) for track in tracks]
    stream = deflated(one.octets for one in coded)
    for _ in range(8):
        if len(stream) <= budget:
            break
        # What an envelope may take at most is known; the largest tracks go first, as many as the surplus needs.
        ratio = len(stream) / max(1, sum(len(one.octets) for one in coded))
        surplus = (len(stream) - budget) / ratio
        for at in sorted(range(len(coded)), key=lambda at: -len(coded[at].octets)):
            if surplus <= 0:
                break
            if "bin_ns" not in coded[at].description:
                envelope = _envelope(tracks[at], end_ns, ends, bins)
                if len(envelope.octets) < len(coded[at].octets):
                    surplus -= len(coded[at].octets) - len(envelope.octets)
                    coded[at] = envelope
        stream = deflated(one.octets for one in coded)
    return [one.description for one in coded], stream


def _exact(track: Track) -> Coded:
    second: Iterable[int] = track.values
    if track.shape is Shape.INTERVALS:  # lengths are smaller than ends
        lengths = array("q", (end - start for start, end in zip(track.t_ns, track.values, strict=True)))
        return Coded(_described(track, len(track.t_ns), 2), column(track.t_ns) + plain(lengths))
    return Coded(_described(track, len(track.t_ns), 2), column(track.t_ns) + column(second))


def _envelope(track: Track, end_ns: int, ends: Sequence[int], bins: int) -> Coded:
    width = max(1, -(-end_ns // bins))
    low: dict[int, int] = {}
    high: dict[int, int] = {}
    if track.shape is Shape.INTERVALS:  # covered time, and intervals that begin in the bin
        for start, end in zip(track.t_ns, track.values, strict=True):
            first, last = start // width, end // width
            high[first] = high.get(first, 0) + 1
            for number in range(first, last + 1):
                covered = min(end, (number + 1) * width) - max(start, number * width)
                low[number] = low.get(number, 0) + covered
    else:
        before: int | None = None
        left = list(ends)
        for t_ns, value in zip(track.t_ns, track.values, strict=True):
            number = t_ns // width
            while left and left[0] < t_ns:  # a value ends with its network
                before = None
                left.pop(0)
            known = [low[number], high[number]] if number in low else []
            # What held when the bin began belongs to it.
            held = [before] if before is not None and track.shape is Shape.STEPS and not known else []
            all_of_it = (value, *known, *held)
            low[number], high[number] = min(all_of_it), max(all_of_it)
            before = value
    known_bins = sorted(low)
    description = _described(track, len(known_bins), 3) | {"bin_ns": width, "count": len(track.t_ns)}
    columns = (known_bins, [low[number] for number in known_bins], [high.get(number, 0) for number in known_bins])
    return Coded(description, b"".join(column(values) for values in columns))


def _described(track: Track, rows: int, columns: int) -> dict[str, Any]:
    return {
        "panel": track.panel,
        "port": track.port,
        "label": track.label,
        "shape": str(track.shape),
        "unit": track.unit,
        "parts": track.parts,
        "rows": rows,
        "columns": columns,
    }


def column(values: Iterable[int]) -> bytes:
    """Return the differences between neighbours; the first is the difference from zero."""

    def differences() -> Iterator[int]:
        before = 0
        for value in values:
            yield value - before
            before = value

    return plain(differences())


def plain(values: Iterable[int]) -> bytes:
    """Return numbers in zigzag code, with seven bits an octet."""
    out = bytearray()
    append = out.append
    for value in values:
        number = value << 1 if value >= 0 else (-value << 1) - 1
        while number > 127:
            append(number & 127 | 128)
            number >>= 7
        append(number)
    return bytes(out)


def deflated(pieces: Iterable[bytes]) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return b"".join([*map(packer.compress, pieces), packer.flush()])
