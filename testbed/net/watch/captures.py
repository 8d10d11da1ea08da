"""Captures of all cables of a network: a pcapng file for each direction, with the frames that arrive at its end.

The kernel keeps the frames (`linux/sockets/packet_tap.py`) until the network ends; then a helper process writes them.
If the cables can carry more than the kernel has memory for, it writes in between, too, the more often the more they
carry. Times are those of the lab since the run began, as in the event log. A comment on a PFC frame gives its effect at
the port that obeys it.

A direction with errors or Link Layer Retry has a second file, with what was on its line: frames with their preambles,
replays, ordered sets, and what was lost (`linux/line_records.py`). A subject makes frames of that.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from testbed import subject
from testbed.experiment.output import CAPTURE_PROCESS, CAPTURES
from testbed.experiment.run import Run
from testbed.frames import Mac, ipv6, mac_control
from testbed.frames.capture_file import Interface, Writer
from testbed.linux.process import kernel
from testbed.linux.process.forked_helper import READY, PacketPipe
from testbed.linux.process.observing import Clock, Observer
from testbed.linux.sockets.packet_tap import LONGEST, PacketTap
from testbed.units import NEVER, Rate, Scale

MOST_OCTETS = 384 << 20
"""The most octets of frames in all files of a network; a run may leave 512 MB of files."""
_KEPT_BY_KERNEL = 256 << 20
_OVERHEAD = 4
"""The octets of memory for an octet on the wire: more for the smallest frames, fewer for the longest."""
_UNKNOWN_RATE = Rate("1Gb/s")
_SHORTEST_S, _LONGEST_S = 0.5, 3600.0
_GROUP_ADDRESS = mac_control.DESTINATION.octets


@dataclass(frozen=True)
class Line:
    """One direction of a cable with errors or LLR, as the kernel names it, and the addresses of its ends."""

    number: int
    source: Mac
    target: Mac


@dataclass(frozen=True)
class Direction:
    """One direction of a cable."""

    source: str
    """The name of the interface that sends."""
    target: str
    """The name of the interface at which frames are captured."""
    pid: int
    """A process in the target's network namespace."""
    rate: Rate | None = None
    scale: Scale = Scale(1)
    description: str = ""
    line: Line | None = None

    @property
    def file(self) -> str:
        """The name of the capture's file."""
        return f"{self.source}-to-{self.target}.pcapng"

    @property
    def line_file(self) -> str:
        """The name of the file with what was on the line."""
        return f"{self.source}-to-{self.target}.line.pcapng"


def directions(net: Any) -> list[Direction]:
    """Return both directions of each cable of a network, and of each of Mininet's own links.

    In a divided network they are those that end in this kernel.
    """
    ports = {port.name: port for port in net.fabric.ports.values()}
    both = []
    for link in net.links:
        for source, target in ((link.intf1, link.intf2), (link.intf2, link.intf1)):
            if not net.fabric.core.parts.has(target.node.name):
                continue
            port = ports.get(target.name)
            if port is None:
                both.append(Direction(source.name, target.name, target.node.pid))
            else:
                about = f"cable of {port.lab_cable}, seen where frames arrive"
                rate = port.lab_cable.rate
                line = _line(net, port)
                both.append(Direction(source.name, target.name, target.node.pid, rate, port.scale, about, line))
    return both


def _line(net: Any, port: Any) -> Line | None:
    number = net.fabric.core.cabling.line_of(port)
    return None if number is None else Line(number, net.fabric.far_end(port).mac, port.mac)


def capturing(net: Any, run: Run, comment: str) -> Observer:
    """Start the process that captures a network. `comment` goes into all files."""
    return Observer("capturing the cables failed", lambda pipe: _capture(net, run, comment, pipe), name=CAPTURE_PROCESS)


def pause_comments(octets: bytes, rate: Rate | None, scale: Scale = Scale(1)) -> Iterator[str]:
    """Yield what a PFC frame asks of the port that receives it, or of the port at the end of its tunnel."""
    if octets[12:14] == mac_control.ETHERTYPE.to_bytes(2, "big"):
        yield from _effects(octets, rate, scale)
    elif octets[12:14] == b"\x86\xdd" and _GROUP_ADDRESS in octets:
        with suppress(ipv6.PacketError):
            packet = ipv6.whole(octets[14:])
            for header in ipv6.headers(packet):
                if header.protocol == ipv6.ETHERNET:
                    for effect in _effects(packet[header.start : header.end], None, scale):
                        yield f"{effect}, in a tunnel"


def _effects(octets: bytes, rate: Rate | None, scale: Scale) -> Iterator[str]:
    try:
        frame = mac_control.parse(octets)
    except mac_control.MacControlError:
        return
    if isinstance(frame, mac_control.PauseFrame):
        yield f"PAUSE: {_quanta(frame.quanta, rate, scale)}"
        return
    by_quanta: dict[int, list[str]] = {}
    for priority, quanta in frame.changes():
        by_quanta.setdefault(quanta, []).append(str(priority))
    for quanta, priorities in by_quanta.items():
        listed = ", ".join(priorities)
        yield f"XOFF priorities {listed}: {_quanta(quanta, rate, scale)}" if quanta else f"XON priorities {listed}"


def _quanta(quanta: int, rate: Rate | None, scale: Scale) -> str:
    if rate is None or not quanta:
        return f"{quanta} quanta"
    ps = rate.time_for_quanta(quanta).ps
    real = f", {_rounded(ps / scale.k)} in hardware" if scale.k != 1 else ""
    return f"{quanta} quanta = {_rounded(ps)}{real}"


def _rounded(ps: float) -> str:
    """Return a time with four digits, which is more than a reader compares."""
    for unit, size in (("s", 1e12), ("ms", 1e9), ("us", 1e6)):
        if ps >= size:
            return f"{ps / size:.4g} {unit}"
    return f"{ps / 1e3:.4g} ns"


def _longest_wait_ns(cables: Sequence[Direction]) -> int:
    """Return how long the kernel has memory for all frames that the cables can carry."""
    octets_in_s = sum((cable.rate or _UNKNOWN_RATE).bps for cable in cables) / 8 * _OVERHEAD
    return int(1e9 * (min(max(_KEPT_BY_KERNEL / octets_in_s, _SHORTEST_S), _LONGEST_S) if cables else _LONGEST_S))


def _new_folder(parent: Path) -> Path:
    """Create the folder of the next network, and return it."""
    parent.mkdir(exist_ok=True)
    folder = parent / str(1 + sum(1 for _ in parent.iterdir()))
    folder.mkdir()
    return folder


class _Files:
    """The taps and files of a network, in the process that captures it."""

    def __init__(self, run: Run, cables: Sequence[Direction], comment: str) -> None:
        self._start_ns = run.start_ns
        self._offset_ns = self._start_ns + time.time_ns() - time.monotonic_ns()
        self._cables, self._octets, self._left = cables, min(run.capture_octets, LONGEST), MOST_OCTETS
        self._received, self._missed = [0] * len(cables), [0] * len(cables)
        self._taps: list[PacketTap] = []
        self._open: list[tuple[BinaryIO, Writer]] = []
        folder = _new_folder(run.directory / CAPTURES)
        for cable in cables:
            with kernel.in_network_of(cable.pid):
                self._taps.append(PacketTap(cable.target))
            file = (folder / cable.file).open("wb", buffering=1 << 20)
            writer = Writer(file, comment)
            writer.interface(
                Interface(
                    f"{cable.source} > {cable.target}",
                    snap=0 if self._octets == LONGEST else self._octets,
                    description=cable.description,
                    speed_bps=cable.rate.bps if cable.rate else 0,
                )
            )
            self._open.append((file, writer))
        self._lines = _Lines(folder, cables, comment, self._start_ns) if any(one.line for one in cables) else None

    def write(self) -> None:
        """Write the frames that arrived since the last call."""
        if self._lines is not None:
            self._left = self._lines.write(self._left)
        for place, (cable, tap, (_, writer)) in enumerate(zip(self._cables, self._taps, self._open, strict=True)):
            for frame in tap.fetch(self._octets):
                self._received[place] += 1
                octets = frame.octets[: self._octets]
                if self._left < len(octets):
                    self._missed[place] += 1
                    continue
                self._left -= len(octets)
                comments = tuple(pause_comments(frame.octets, cable.rate, cable.scale))
                writer.frame(0, frame.t_ns - self._offset_ns, octets, frame.length, comments)

    def end(self) -> int:
        """Complete the files, and return how many frames are in none of them."""
        now_ns = time.monotonic_ns() - self._start_ns
        for place, (tap, (file, writer)) in enumerate(zip(self._taps, self._open, strict=True)):
            missed = tap.missed()
            self._received[place] += missed
            self._missed[place] += missed
            writer.statistics(0, now_ns, self._received[place], self._missed[place])
            file.close()
        return sum(self._missed) + (self._lines.end(self._left) if self._lines is not None else 0)


class _Lines:
    """The files of what was on lines, beside those of frames."""

    def __init__(self, folder: Path, cables: Sequence[Direction], comment: str, start_ns: int) -> None:
        from testbed.linux.line_records import LineRecord, LineTap

        (self._encode,) = subject.loaded("line_frames")
        self._start_ns = start_ns
        self._tap = LineTap()
        self._tap.watch()
        self._waiting: list[LineRecord] = []
        """Those that come to the other end later than now."""
        self._missed = 0
        self._open: dict[int, tuple[Line, BinaryIO, Writer]] = {}
        for cable in cables:
            if cable.line is None:
                continue
            file = (folder / cable.line_file).open("wb", buffering=1 << 20)
            writer = Writer(file, comment)
            about = f"{cable.description}: preambles, replays and ordered sets, and what was lost"
            name = f"{cable.source} > {cable.target} line"
            writer.interface(Interface(name, description=about, speed_bps=cable.rate.bps if cable.rate else 0))
            self._open[cable.line.number] = cable.line, file, writer

    def write(self, left: int, until_ns: int | None = None) -> int:
        """Write what has come to the other end by now, in the order of time; return the octets that may follow."""
        until_ns = time.monotonic_ns() if until_ns is None else until_ns
        found = [*self._waiting, *self._tap.carried()]
        self._missed += self._tap.missed
        found.sort(key=lambda one: one.at_ns)
        self._waiting = [one for one in found if one.at_ns > until_ns]
        for one in found[: len(found) - len(self._waiting)]:
            line, _, writer = self._open.get(one.interface, (None, None, None))
            if line is None or writer is None:
                continue  # of a network before
            octets = self._encode(one, line.source, line.target)
            if left < len(octets):
                self._missed += 1
                continue
            left -= len(octets)
            writer.frame(0, one.at_ns - self._start_ns, octets, len(octets) + one.length - len(one.octets))
        return left

    def end(self, left: int) -> int:
        """Complete the files, and return how many records are in none of them."""
        self.write(left, NEVER)
        self._tap.close()
        for _, file, _ in self._open.values():
            file.close()
        return self._missed


def _capture(net: Any, run: Run, comment: str, pipe: PacketPipe) -> None:
    """Write before the kernel's memory can be full, and at the end, which a command or SIGTERM brings."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ended, ending = os.pipe()
    os.set_blocking(ending, False)
    signal.set_wakeup_fd(ending)
    signal.signal(signal.SIGTERM, lambda *_: None)
    cables = directions(net)
    files = _Files(run, cables, comment)
    pipe.send(READY)
    clock, ready = Clock(), list[int]()
    while pipe.fileno() not in ready and ended not in ready:
        clock.set(time.monotonic_ns() + _longest_wait_ns(cables))
        ready = kernel.wait_readable([clock.fd, pipe, ended])
        files.write()
    if missed := files.end():
        print(
            f"captures: {missed} frames are in no file, for {MOST_OCTETS >> 20} MB are kept of a network; "
            "--capture-octets 128 keeps the beginning of each frame only",
            file=sys.stderr,
            flush=True,
        )
    if ended in ready:
        os._exit(0)  # the experiment is being stopped, and does not read an answer
