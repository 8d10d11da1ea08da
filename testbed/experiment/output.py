"""The records between the lab and the machine that runs it: one codec for both directions and engines.

A record is a 13-octet header (magic, kind, length, CRC-32 of kind, length and payload) and a payload. The
reader gets a byte stream in arbitrary pieces, and detects a stream that ends early or is damaged.
"""

from __future__ import annotations

import enum
import heapq
import json
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from testbed.errors import XoffError

EVENT_LOG = "events.jsonl"
"""All events of the run, a JSON line each."""
DCBX_LOG = "dcbx.jsonl"
"""Every LLDP frame and every change of DCBX, for `xoff export --ladder`."""
FLOW_LOG = "flows.jsonl"
"""Every flow that has ended, with its completion time and its counters."""
ROUTE_LOG = "routes.jsonl"
"""Every change of a route that routing daemons made."""
PUBLISHED_LOG = "published.jsonl"
"""Published values of others, beside what the run measured."""
CAPTURES = "captures"
"""A folder; in it a folder for each network, 1 for the first."""
RUN_SERIES = tuple(f"series-{name}.csv" for name in ("buffer", "queue", "links", "marks", "rates"))
"""The time series of a run with `--series`."""
CAPTURE_PROCESS = "xoff-capture"
"""The name of a process that writes captures. When a run is cut short the lab ends it by SIGTERM, before all else."""
PLACED_NS = 1
"""The time of change, since 1970, of files that the lab has put into the job's folder: what the job does not change of
them is not in its result."""


_HEADER = struct.Struct("<4sBII")
_MAGIC = b"Xoff"
_SAMPLE = struct.Struct("<qqqq")
LARGEST = 1 << 20


def merged(parts: Sequence[Iterable[bytes]]) -> Iterable[bytes]:
    """Return the rows of a time series of all parts of a network in the order of time, those of one moment in the order
    of the parts.
    """
    return heapq.merge(*parts, key=_lab_ns)


def _lab_ns(row: bytes) -> int:
    """Return the moment of a row, which is in its second column."""
    return int(row.split(b",", 2)[1])


class StreamError(XoffError):
    """The stream from the lab is damaged."""

    exit_code = 3


class RecordKind(enum.IntEnum):
    START = 1  # JSON: what the lab is, once, before the job's first instruction
    OUT = 2  # bytes of the job's standard output
    ERR = 3  # bytes of the job's standard error
    NOTE = 4  # JSON: a figure, a claim, a measuring phase: what the job reports through `Run`
    SAMPLE = 5  # `Sample`
    FILE = 6  # name, NUL, next piece of a file that the job left
    DEMAND = 9  # JSON: the work that running flows ask for, which went along with another record (`demand.py`)
    LIVE = 8  # lines of JSON: what networks do while they run, for a user who looks on
    END = 7  # JSON: how the job ended, once, last
    INPUT = 16  # towards the lab: bytes typed by the user
    RESIZE = 17  # towards the lab: JSON [rows, columns] of the user's terminal
    CONTINUE = 19  # towards the lab, empty: after a sample, the time of a shell's lab may run on
    ABORT = 18  # towards the lab: JSON [reason, is the job to show where it is]; end it and send what there is


@dataclass(frozen=True)
class Record:
    kind: RecordKind
    payload: bytes

    @classmethod
    def of(cls, kind: RecordKind, content: Any) -> Record:
        """Return a record whose payload is JSON."""
        return cls(kind, json.dumps(content, sort_keys=True).encode())

    def content(self) -> Any:
        """Return the payload, read as JSON."""
        try:
            return json.loads(self.payload)
        except ValueError as error:
            raise StreamError(f"the lab's stream is damaged: {self.payload[:40]!r} is not JSON") from error

    def encode(self) -> bytes:
        if len(self.payload) > LARGEST:
            raise StreamError(f"a record of {len(self.payload)} octets is over the limit of {LARGEST}")
        return _HEADER.pack(_MAGIC, self.kind, len(self.payload), _sum(self.kind, self.payload)) + self.payload


@dataclass(frozen=True)
class Sample:
    """One look at the lab's CPU, at a time that was due beforehand."""

    time_ns: int  # since the job's start
    late_ns: int  # how long after it was due the look was taken
    idle_ns: int  # idle CPU time so far
    tick_ns: int = 0  # how far apart the looks are by which the kernel counts it; 0: it is exact

    def encode(self) -> bytes:
        return _SAMPLE.pack(self.time_ns, self.late_ns, self.idle_ns, self.tick_ns)

    @classmethod
    def decode(cls, payload: bytes) -> Sample:
        if len(payload) != _SAMPLE.size:
            raise StreamError(f"the lab's stream is damaged: a sample has {len(payload)} octets")
        return cls(*_SAMPLE.unpack(payload))

    @staticmethod
    def size() -> int:
        return _SAMPLE.size


def file_records(name: str, content: Iterator[bytes]) -> Iterator[Record]:
    """Yield the records that carry one file; an empty file is one record."""
    head = name.encode(errors="surrogateescape") + b"\0"
    yield Record(RecordKind.FILE, head)
    for piece in content:
        yield Record(RecordKind.FILE, head + piece)


def file_piece(record: Record) -> tuple[str, bytes]:
    """Return the file name and the octets in a FILE record."""
    name, _, piece = record.payload.partition(b"\0")
    return name.decode(errors="surrogateescape"), piece


def _sum(kind: int, payload: bytes) -> int:
    return zlib.crc32(payload, zlib.crc32(struct.pack("<BI", kind, len(payload))))


class Decoder:
    """A decoder that makes records of octets, in whatever pieces they come."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> Iterator[Record]:
        self._rest += data
        while len(self._rest) >= _HEADER.size:
            magic, kind, length, crc = _HEADER.unpack_from(self._rest)
            if magic != _MAGIC or length > LARGEST:
                raise StreamError(f"the lab's stream is damaged: {bytes(self._rest[:13])!r} is not a record")
            if len(self._rest) < _HEADER.size + length:
                return
            payload = bytes(self._rest[_HEADER.size : _HEADER.size + length])
            del self._rest[: _HEADER.size + length]
            if _sum(kind, payload) != crc:
                raise StreamError(f"the lab's stream is damaged: a record of {length} octets has a wrong sum")
            try:
                yield Record(RecordKind(kind), payload)
            except ValueError:
                raise StreamError(f"the lab's stream is damaged: a record of unknown kind {kind}") from None

    @property
    def pending(self) -> int:
        """Return the number of octets of a record that has not arrived whole."""
        return len(self._rest)
