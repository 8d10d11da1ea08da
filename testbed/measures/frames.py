"""Data frames at every port of a network, as the kernel counts them, independently of PFC and buffers.

It works where all frames are data of one size or MAC control, so the network needs static neighbours, which are the
default of lossless topologies.
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
    """A port had frames that are neither data nor PFC."""


class FrameCounts:
    """The data frames at every port of `net` since the object was made; each has `frame` octets without FCS."""

    def __init__(self, net: Any, frame: Size | str) -> None:
        self._ports = list(net.fabric.ports.values())
        self._frame = Size(frame).bytes
        self._before = dict(self._counts())

    def count(self) -> tuple[dict[str, int], dict[str, int]]:
        """Return the data frames that came in by each port, and those that went out, by the port's name."""
        inwards, outwards = {}, {}
        for name, counts in self._counts():
            frames_in, octets_in, frames_out, octets_out = (
                now - then for now, then in zip(counts, self._before[name], strict=True)
            )
            inwards[name] = self._data(name, frames_in, octets_in)
            outwards[name] = self._data(name, frames_out, octets_out)
        return inwards, outwards

    def _data(self, port: str, frames: int, octets: int) -> int:
        """Return the number of data frames: octets = frame x data + 60 x control, and frames = data + control."""
        data, rest = divmod(octets - _CONTROL * frames, self._frame - _CONTROL)
        if rest:
            raise CountError(f"{port}: {frames} frames with {octets} octets are not only data of {self._frame} and PFC")
        return data

    def _counts(self) -> Iterator[tuple[str, tuple[int, int, int, int]]]:
        """Yield each port's name, and the frames and octets that the kernel counted inwards and outwards."""
        for port in self._ports:
            for line in Path(f"/proc/{port.node.pid}/net/dev").read_text().splitlines():
                name, _, numbers = line.partition(":")
                if name.strip() == port.name:
                    fields = [int(number) for number in numbers.split()]
                    yield port.name, (fields[1], fields[0], fields[9], fields[8])
