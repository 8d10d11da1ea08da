"""Counters of flows and ports, in memory that processes share: one writes a tally, others read it. Sans-I/O."""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from testbed.subjects.snappi.config import FlowPlan
from testbed.subjects.snappi.packet import FCS, SIGNATURE, STAMPED

WINDOW_NS = 100_000_000
"""The window of rates, a tenth of a second of the lab's time. A rate is that of the last whole window."""
(_FRAMES, _OCTETS, _FIRST, _LAST, _WINDOW, _FRAMES_NOW, _OCTETS_NOW, _FRAMES_BEFORE, _OCTETS_BEFORE, _LATENCY_FRAMES,
 _LATENCY_LEAST, _LATENCY_MOST, _LATENCY_SUM, STATE) = range(14)  # fmt: skip
WORDS = 14
"""The words of a tally, each of 64 bits."""


class Tally:
    """The counters of one flow at one end, or of a port in one direction."""

    def __init__(self, words: memoryview) -> None:
        self.words = words

    def clear(self) -> None:
        for place in range(WORDS):
            self.words[place] = 0

    def count(self, t_ns: int, octets: int) -> None:
        """Count a frame with so many octets, including its FCS."""
        words = self.words
        if not words[_FRAMES]:
            words[_FIRST] = t_ns
        words[_FRAMES] += 1
        words[_OCTETS] += octets
        words[_LAST] = t_ns
        window = t_ns // WINDOW_NS
        if window != words[_WINDOW]:
            is_next = window == words[_WINDOW] + 1
            words[_FRAMES_BEFORE] = words[_FRAMES_NOW] if is_next else 0
            words[_OCTETS_BEFORE] = words[_OCTETS_NOW] if is_next else 0
            words[_FRAMES_NOW] = words[_OCTETS_NOW] = 0
            words[_WINDOW] = window
        words[_FRAMES_NOW] += 1
        words[_OCTETS_NOW] += octets

    def took(self, latency_ns: int) -> None:
        words = self.words
        if not words[_LATENCY_FRAMES]:
            words[_LATENCY_LEAST] = words[_LATENCY_MOST] = latency_ns
        words[_LATENCY_FRAMES] += 1
        words[_LATENCY_LEAST] = min(words[_LATENCY_LEAST], latency_ns)
        words[_LATENCY_MOST] = max(words[_LATENCY_MOST], latency_ns)
        words[_LATENCY_SUM] += latency_ns

    @property
    def frames(self) -> int:
        return self.words[_FRAMES]

    @property
    def octets(self) -> int:
        return self.words[_OCTETS]

    @property
    def first_ns(self) -> int:
        return self.words[_FIRST]

    @property
    def last_ns(self) -> int:
        return self.words[_LAST]

    def rates(self, now_ns: int) -> tuple[int, int]:
        """Return the frames and the octets in a second."""
        words, window = self.words, now_ns // WINDOW_NS - 1
        scale = 10**9 // WINDOW_NS
        if words[_WINDOW] == window:
            return words[_FRAMES_NOW] * scale, words[_OCTETS_NOW] * scale
        if words[_WINDOW] == window + 1:
            return words[_FRAMES_BEFORE] * scale, words[_OCTETS_BEFORE] * scale
        return 0, 0

    def latency_ns(self) -> tuple[int, int, float]:
        """Return the least, the largest and the average latency in ns."""
        words = self.words
        return words[_LATENCY_LEAST], words[_LATENCY_MOST], words[_LATENCY_SUM] / max(1, words[_LATENCY_FRAMES])


class Tallies:
    """Tallies by name, each for sending and for receiving."""

    def __init__(self, names: Sequence[str]) -> None:
        size = WORDS * 2 * len(names)
        self._memory = mmap.mmap(-1, 8 * (size + 1))
        every = memoryview(self._memory).cast("q")
        words, self._commands = every[:size], every[size:]
        parts = [Tally(words[place : place + WORDS]) for place in range(0, len(words), WORDS)]
        self.sent = dict(zip(names, parts[::2], strict=False))
        self.received = dict(zip(names, parts[1::2], strict=False))

    @property
    def commands(self) -> int:
        """The number of commands given to senders. To look at it costs them no system call."""
        return self._commands[0]

    def count_command(self) -> None:
        self._commands[0] += 1

    def clear(self) -> None:
        for tally in (*self.sent.values(), *self.received.values()):
            tally.clear()


@dataclass(frozen=True)
class _Counted:
    tally: Tally
    ports: frozenset[str]
    """The ports at which its frames are counted; empty for all ports."""
    serialises: bool
    """True if latency is counted from the last bit that is sent."""


class Receipts:
    """Finds the flow of each frame that comes in, by its signature."""

    def __init__(
        self, flows: Iterable[FlowPlan], tallies: Mapping[str, Tally], ps_per_octet: Mapping[str, int]
    ) -> None:
        """`ps_per_octet` is the time of an octet on the line of a port."""
        self._plain: dict[int, _Counted] = {}
        self._stamped: dict[int, _Counted] = {}
        self._octet_ps: dict[int, int] = {}
        for flow in flows:
            if flow.counting is None:
                continue
            tag = flow.packet.tag
            counted = _Counted(tallies[flow.name], frozenset(flow.rx_ports), flow.counting.latency == "store_forward")
            (self._stamped if flow.packet.is_stamped else self._plain)[tag] = counted
            self._octet_ps[tag] = ps_per_octet[flow.tx_port]

    def count(self, port: str, t_ns: int, length: int, frame: bytes) -> None:
        """Count a frame of `length` octets, without FCS, that came in by a port."""
        if len(frame) < STAMPED.size or len(frame) < length:
            return
        tag, _ = SIGNATURE.unpack_from(frame, length - SIGNATURE.size)
        counted = self._plain.get(tag)
        sent_ns = None
        if counted is None:
            tag, _, sent_ns = STAMPED.unpack_from(frame, length - STAMPED.size)
            counted = self._stamped.get(tag)
        if counted is None or (counted.ports and port not in counted.ports):
            return
        counted.tally.count(t_ns, length + FCS)
        if sent_ns is not None:
            serialised = (length + FCS) * self._octet_ps[tag] // 1000 if counted.serialises else 0
            counted.tally.took(t_ns - sent_ns - serialised)
