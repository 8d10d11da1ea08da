"""Data frames at every port of a network, as the kernel counts them, independently of PFC and buffers.

Not an experiment; only the lab can import it. It works where all frames are data of one size or MAC control, so the
network needs `autoStaticArp`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from testbed.errors import XoffError
from testbed.units import Size

_CONTROL = 60
"""Octets of a PFC frame without FCS."""


class CountError(XoffError):
    """Frames that are neither data nor PFC."""


class Traffic:
    """Data frames since it was made, by the names of ports: `inwards` and `outwards`."""

    def __init__(self, net: Any, frame: Size) -> None:
        self._ports = list(net.fabric.ports.values())
        self._frame = frame.bytes
        self._before = dict(self._counts())

    def count(self) -> tuple[dict[str, int], dict[str, int]]:
        """Data frames that came in by each port, and that went out."""
        inwards, outwards = {}, {}
        for name, counts in self._counts():
            frames_in, octets_in, frames_out, octets_out = (
                now - then for now, then in zip(counts, self._before[name], strict=True)
            )
            inwards[name] = self._data(name, frames_in, octets_in)
            outwards[name] = self._data(name, frames_out, octets_out)
        return inwards, outwards

    def _data(self, port: str, frames: int, octets: int) -> int:
        """The number of data frames: octets = frame x data + 60 x control, and frames = data + control."""
        data, rest = divmod(octets - _CONTROL * frames, self._frame - _CONTROL)
        if rest:
            raise CountError(f"{port}: {frames} frames with {octets} octets are not only data of {self._frame} and PFC")
        return data

    def _counts(self) -> Iterator[tuple[str, tuple[int, int, int, int]]]:
        for port in self._ports:
            for line in Path(f"/proc/{port.node.pid}/net/dev").read_text().splitlines():
                name, _, numbers = line.partition(":")
                if name.strip() == port.name:
                    fields = [int(number) for number in numbers.split()]
                    yield port.name, (fields[1], fields[0], fields[9], fields[8])
