"""Damaged LLDP frames for the parser and for whole ports: no exception, nothing read that is not there, bounded memory.

    python -m tests.fuzz_lldp --count 1000000      a long run; a short one is in the unit tests
    python -m tests.fuzz_lldp --grow --count 50000 adds the frames that reach new code to the corpus

The corpus, `tests/unit/data/lldp_corpus.txt`, has a frame in hexadecimal on each line. `--grow` traces which steps from
line to line a frame takes through `testbed/frames` and `testbed/subjects/dcbx`, and keeps a frame that takes one no
other took. The mutations know what a TLV is, so that they get past the outer layers. The same seed gives the same
frames.
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from testbed.frames import Mac, lldp
from testbed.frames.dcbx.values import DcbxVersion, Ets
from testbed.frames.lldp_tlvs import Capabilities, ManagementAddress, Organisational, Text, Tlv, Unknown
from testbed.subjects.dcbx import tlvs as dcbx
from testbed.subjects.dcbx.port import DcbxPort
from testbed.subjects.dcbx.settings import (
    ApplicationAdmin,
    CnAdmin,
    DcbxSettings,
    EtsAdmin,
    PfcAdmin,
    PortIdentity,
    Shares,
)

CORPUS = Path(__file__).parent / "unit" / "data" / "lldp_corpus.txt"
MOST_MEMORY = 1_000_000
"""The most octets that reading one frame may take. A frame has 1518 at most, and 750 TLVs."""
MOST_GROWTH_KIB = 20_000
"""The most that a run may add to the memory of the process, however long it is."""

_PARSER = tuple(str(Path(str(module.__file__)).parent) for module in (lldp, dcbx))
Arc = tuple[str, int, int]


def load_corpus() -> list[bytes]:
    return [bytes.fromhex(line) for line in CORPUS.read_text().splitlines() if not line.startswith("#")]


class Mutator:
    """A source of frames that are made from others."""

    def __init__(self, corpus: list[bytes], seed: int) -> None:
        self._corpus = corpus
        self._dice = random.Random(seed)
        self._ways: list[Callable[[bytearray], object]] = [
            self._flip,
            self._set,
            self._insert,
            self._delete,
            self._cut,
            self._length,
            self._length,
            self._kind,
            self._double,
            self._move,
            self._borrow,
            self._borrow,
        ]

    def frame(self) -> bytes:
        frame = bytearray(self._dice.choice(self._corpus))
        for _ in range(self._dice.choice((1, 1, 2, 3, 5, 8))):
            if len(frame) > 16:
                self._dice.choice(self._ways)(frame)
        return bytes(frame[: self._dice.choice((600, 1514, 1600))])  # some are too long, but not for the corpus

    def _begin(self, frame: bytearray) -> int:
        """Return where damage may begin: seldom in the Ethernet header or a mandatory TLV, after which nothing else is
        read.
        """
        chance = self._dice.random()
        if chance < 0.02:
            return 0
        starts = [start for start, _, _ in walk(bytes(frame[14:]))]
        return 14 + starts[3] if chance > 0.15 and len(starts) > 3 else 14

    def _place(self, frame: bytearray) -> int:
        return self._dice.randrange(self._begin(frame), len(frame))

    def _tlv(self, frame: bytearray) -> tuple[int, int]:
        """Return where one of the TLVs begins, and where the next one does."""
        begin = self._begin(frame) - 14
        starts = [start for start, _, _ in walk(bytes(frame[14:])) if start >= begin]
        if not starts:
            return 14, len(frame)
        chosen = self._dice.randrange(len(starts))
        after = starts[chosen + 1] if chosen + 1 < len(starts) else len(frame) - 14
        return 14 + starts[chosen], 14 + after

    def _flip(self, frame: bytearray) -> None:
        frame[self._place(frame)] ^= 1 << self._dice.randrange(8)

    def _set(self, frame: bytearray) -> None:
        values = (0, 1, 2, 4, 6, 8, 9, 15, 16, 31, 32, 33, 100, 127, 128, 161, 254, 255, self._dice.randrange(256))
        frame[self._place(frame)] = self._dice.choice(values)

    def _insert(self, frame: bytearray) -> None:
        place = self._place(frame)
        frame[place:place] = self._dice.randbytes(self._dice.choice((1, 1, 2, 3, 8, 40)))

    def _delete(self, frame: bytearray) -> None:
        place = self._place(frame)
        del frame[place : place + self._dice.choice((1, 1, 2, 3, 8, 40))]

    def _cut(self, frame: bytearray) -> None:
        del frame[self._place(frame) :]

    def _length(self, frame: bytearray) -> None:
        """Give a TLV another length, sometimes with octets to match."""
        start, end = self._tlv(frame)
        if start + 2 > len(frame):
            return
        length = max(0, min(511, end - start - 2 + self._dice.choice((-9, -4, -3, -2, -1, 1, 2, 3, 4, 9, 255))))
        if self._dice.random() < 0.7:
            frame[start + 2 : end] = frame[start + 2 : end][:length].ljust(length, self._dice.randbytes(1))
        frame[start] = frame[start] & 0xFE | length >> 8
        frame[start + 1] = length & 0xFF

    def _kind(self, frame: bytearray) -> None:
        start, _ = self._tlv(frame)
        if start < len(frame):
            frame[start] = self._dice.choice((0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 126, 127)) << 1 | frame[start] & 1

    def _double(self, frame: bytearray) -> None:
        start, end = self._tlv(frame)
        frame[end:end] = frame[start:end] * (self._dice.choice((1, 1, 2, 30)) if len(frame) < 2000 else 1)

    def _move(self, frame: bytearray) -> None:
        start, end = self._tlv(frame)
        tlv = frame[start:end]
        del frame[start:end]
        place, _ = self._tlv(frame)
        frame[place:place] = tlv

    def _borrow(self, frame: bytearray) -> None:
        """Return a TLV of another frame."""
        other = bytearray(self._dice.choice(self._corpus))
        start, end = self._tlv(other)
        place, _ = self._tlv(frame)
        frame[place:place] = other[start:end]


def walk(octets: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield the TLVs of an LLDPDU (start, type, information string), found by nothing but their lengths."""
    at = 0
    while at + 2 <= len(octets):
        head = octets[at] << 8 | octets[at + 1]
        end = at + 2 + head % 512
        if end > len(octets):
            return
        yield at, head // 512, octets[at + 2 : end]
        if head // 512 == 0:
            return
        at = end


class Target:
    """The target of the frames: the codecs, and a port of each format."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self._ports = [self._port(version) for version in DcbxVersion]
        self._now = 0

    @staticmethod
    def _port(version: DcbxVersion) -> DcbxPort:
        mac = Mac.parse("02:00:00:00:00:01")
        is_draft = version is DcbxVersion.DRAFT
        table = Ets((0, 1, 2, 3, 4, 5, 6, 7), (100, *[0] * 7), None if is_draft else (2,) * 8)
        shares = Shares((30, 10, 10, 10, 10, 10, 10, 10)) if is_draft else None
        ets = EtsAdmin(table, willing=True, recommend=shares)
        pfc, cn = PfcAdmin(0x08, True, defense=True, headroom=True), CnAdmin(0x10, is_draft)
        port = DcbxPort(
            PortIdentity.of(mac, "fuzzed"), DcbxSettings(version, None, 8, ets, pfc, ApplicationAdmin((), True), cn)
        )
        port.start(0)
        return port

    def try_frame(self, frame: bytes) -> None:
        """Give a frame to all decoders; whatever goes wrong is raised."""
        try:
            found = lldp.parse(frame)
        except lldp.LldpError as error:
            self.outcomes[f"refused: {error.reason}"] += 1
        else:
            self.outcomes["read"] += 1
            self._check(frame, found)
        self._now += 1_000_000_000  # more often, and most of them would be held and not read
        for port in self._ports:
            port.receive(frame, self._now)
            if port.deadline_ns is not None and port.deadline_ns <= self._now:
                port.expire(self._now)
            port.take_events()
            for sent in port.take_frames():
                assert not lldp.parse(sent).pdu.flaws
            assert len(port.neighbours) <= 8
            assert len(port.counters) < 100

    def _check(self, frame: bytes, found: lldp.LldpFrame) -> None:
        pdu = found.pdu
        there = [(kind, info) for _, kind, info in walk(frame[14:]) if kind]
        assert [kind for kind, _ in there[:3]] == [1, 2, 3]
        assert (pdu.chassis_id.value, pdu.port_id.value) == (there[0][1][1:], there[1][1][1:])
        infos = iter(there[3:])
        for tlv in pdu.tlvs:  # each is there, in this order, and has not an octet more
            assert any(is_from(tlv, kind, info) for kind, info in infos)
        whole = sum(flaw.counter not in {"tlv.cut_short", "end.not_empty"} for flaw in pdu.flaws)
        assert len(pdu.tlvs) + whole == len(there) - 3
        if len(frame) < 14 + lldp.LONGEST_PDU - 2:  # with an End, which it may not have had, it fits again
            assert lldp.parse_pdu(pdu.encode()) == pdu
        for version in DcbxVersion:
            reading = dcbx.read(version, pdu.tlvs)
            for flaw in reading.flaws:
                self.outcomes[f"{version}: {flaw.counter}"] += 1
            if reading.mismatch:
                self.outcomes[f"{version}: mismatch"] += 1
            again = dcbx.read(version, dcbx.encode(version, reading.tlvs))
            assert again.tlvs == reading.tlvs
        for flaw in pdu.flaws:
            self.outcomes[f"flaw: {flaw.counter}"] += 1


def is_from(tlv: Tlv, kind: int, info: bytes) -> bool:
    """Return True if a TLV that was read can be this one of the frame."""
    match tlv:
        case Organisational():
            return (kind, info) == (127, tlv.oui + bytes([tlv.subtype]) + tlv.info)
        case Text():
            return (kind, info) == (tlv.kind, tlv.value)
        case Unknown():
            return (kind, info) == (tlv.type, tlv.info)
        case Capabilities():
            return kind == 7 and info.startswith(tlv.present.to_bytes(2, "big") + tlv.enabled.to_bytes(2, "big"))
        case ManagementAddress():
            middle = bytes([tlv.numbering]) + tlv.interface.to_bytes(4, "big")
            octets = bytes([len(tlv.address) + 1, tlv.family]) + tlv.address + middle + bytes([len(tlv.oid)]) + tlv.oid
            return kind == 8 and info.startswith(octets)


def memory_of(frame: bytes) -> int:
    """Return the most octets that were in use while one frame was read; tracemalloc has to be running."""
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    try:
        found = lldp.parse(frame)
    except lldp.LldpError:
        pass
    else:
        for version in DcbxVersion:
            dcbx.read(version, found.pdu.tlvs)
    return tracemalloc.get_traced_memory()[1] - before


def arcs_of(frame: bytes) -> set[Arc]:
    """Return the steps from line to line that the parser takes."""
    seen: set[Arc] = set()
    last: dict[int, int] = {}

    def trace(where: FrameType, event: str, _: Any) -> Any:
        file = where.f_code.co_filename
        if not file.startswith(_PARSER):
            return None
        seen.add((file, last.get(id(where), 0), where.f_lineno))
        last[id(where)] = where.f_lineno
        if event == "return":
            last.pop(id(where), None)
        return trace

    sys.settrace(trace)
    try:
        found = lldp.parse(frame)
        for version in DcbxVersion:
            dcbx.read(version, found.pdu.tlvs)
    except lldp.LldpError:
        pass
    finally:
        sys.settrace(None)
    return seen


def grow(count: int, seed: int) -> int:
    """Look for frames that reach what the corpus does not, and return how many were added to it."""
    corpus = load_corpus()
    known: set[Arc] = set().union(*map(arcs_of, corpus))
    mutator, added = Mutator(corpus, seed), []
    for _ in range(count):
        frame = mutator.frame()
        new = arcs_of(frame) - known
        if new:
            known |= new
            corpus.append(frame)  # the mutator's own list: it builds on what was found
            added.append(frame)
    with CORPUS.open("a") as file:
        file.writelines(f"{frame.hex()}\n" for frame in added)
    return len(added)


def run(count: int, seed: int) -> Target:
    target, mutator = Target(), Mutator(load_corpus(), seed)
    for _ in range(count):
        frame = mutator.frame()
        try:
            target.try_frame(frame)
        except Exception:
            print(f"this frame did it: {frame.hex()}", file=sys.stderr)
            raise
    return target


def main() -> None:
    parser = argparse.ArgumentParser(description="Fuzz the LLDP and DCBX parsers.")
    parser.add_argument("--count", type=int, default=1_000_000, metavar="N", help="frames to try")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--grow", action="store_true", help="add frames that reach new code to the corpus")
    options = parser.parse_args()
    if options.grow:
        print(f"{grow(options.count, options.seed)} frames added to {CORPUS}")
        return
    begin, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    target = run(options.count, options.seed)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    for outcome, times in sorted(target.outcomes.items()):
        print(f"{times:10} {outcome}")
    print(f"{options.count} frames in {time.monotonic() - begin:.0f} s; no exception; memory grew by {grown} KiB")
    if grown > MOST_GROWTH_KIB:
        sys.exit(f"that is more than {MOST_GROWTH_KIB} KiB: something is kept of every frame")


if __name__ == "__main__":
    main()
