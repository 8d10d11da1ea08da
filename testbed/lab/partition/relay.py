"""The relay between kernels of several machines: it keeps a copy of their shared memory on each machine.

Kernels of one machine meet in memory (`um/linux/xoff_cable.h`). Each machine of a network has such memory for all
parts. A relay on each gives to the others what its own parts have changed in it, and puts there what comes from them.
To a kernel a part elsewhere is like one here that is slow to answer.

What a kernel knows of a part elsewhere may be old, and still bounds what that part can send: a part that waited until a
moment does nothing before it, unless a frame comes to it earlier; and the sender of that frame has told all machines of
its arrival before it told them that it went on. So a relay counts a frame until the part that it is for has said that
it took it. Where two messages overtake each other on different ways, the order in which they come does not matter.

A kernel that finds that a part may go on rings that part's bell. Where the part is elsewhere, the relay waits for the
bell, and sends what has changed. It also does so when something comes, for the one that sent it did not know.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import struct
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from testbed.lab.partition import memory
from testbed.lab.partition.link import Channel, LinkError

LOST = "the connection to another machine of the network was lost"

_PART_AT, _PART = 4096, 256
_RINGS_AT = memory.HEAD
_RING, _RING_HEAD, _RING_OCTETS = memory.RING, 4096, memory.RING - 4096
_TAIL_AT, _VISIBLE_AT, _WANTS_ROOM_AT = 128, 256, 264
_BOX = memory.BOX
_LOCK_AT = 8
_BELL_AT, _SLEEPS_AT, _FIELDS_AT, _FIELDS = 0, 4, 8, struct.Struct("=II2QQQQ2QQ2Q2II")
_FRAMES_AT = 48
_OUT, _JOINING, _RUNS, _WAITS = range(4)
_STATE, _BASE, _NEXT, _FRAMES, _GIVEN = 0, 4, 5, 6, 9
_NEVER = (1 << 63) - 1
_FRAME_HEAD = 32
_RECORD = struct.Struct("=BBBxIQQ")
"""A record of a message: its kind, two parts, a count of octets that follow, and two numbers."""
_STATE_OF, _SENT, _TAKEN, _GAVE, _WANTS = range(1, 6)

_SYS_FUTEX, _FUTEX_WAIT, _FUTEX_WAKE = 202, 0, 1
_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


@dataclass(frozen=True)
class Peer:
    """Another machine, and the parts that it has."""

    name: str
    channel: Channel
    parts: Sequence[int]


class Relay:
    """The relay of one machine."""

    def __init__(self, descriptor: int, parts: int, own: Sequence[int]) -> None:
        """Take memory in which no kernel is yet, for `parts` parts of which those of `own` are here."""
        self._parts, self._own = parts, tuple(own)
        self._elsewhere = tuple(part for part in range(parts) if part not in own)
        self._memory = mmap.mmap(descriptor, memory.size(parts))
        self._octets = memoryview(self._memory)
        self._words, self._longs = self._octets.cast("I"), self._octets.cast("Q")
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._mutex = ctypes.c_void_p(self._address + _LOCK_AT)
        self._make_lock()
        self._turn = threading.Lock()
        """Held by the thread that reads or changes the memory, or sends."""
        self._peers: Sequence[Peer] = ()
        self._said = dict.fromkeys(own, b"")
        self._given = dict.fromkeys(own, 0)
        ways = [(one, other) for one in own for other in self._elsewhere]
        self._shown = dict.fromkeys(ways, 0)
        self._asked: dict[tuple[int, int], int] = {}
        """The tails of the rings in which a part here wants room, when that was said."""
        self._taken = {(other, one): 0 for one, other in ways}
        self._under_way: dict[int, dict[int, list[tuple[int, int]]]] = {part: {} for part in self._elsewhere}
        """For each part elsewhere and each sender: up to where frames are sent, and the earliest of their arrivals."""
        self._unsent: list[tuple[int, int, int, int, int]] = []
        """Frames that were noted, and not sent yet: the parts, where they begin and end, the earliest arrival."""
        self._tails: dict[tuple[int, int], int] = {}
        """Up to where a part elsewhere has taken what another one has sent to it."""
        self._known_frames = dict.fromkeys(self._elsewhere, _NEVER)
        self._failure: str | None = None
        self._is_closing = False
        for part in self._elsewhere:
            self._words[self._part(part) + _SLEEPS_AT >> 2] = 1

    def begin(self, peers: Sequence[Peer]) -> None:
        """Go on by itself from now on, with connections to all other machines."""
        sys.setswitchinterval(2e-5)  # a thread that is woken has to run at once
        self._peers = peers
        work = [(peer.name, functools.partial(self._receive, peer)) for peer in peers]
        work += [(f"part {part}", functools.partial(self._wait_for_bell, part)) for part in self._elsewhere]
        for what, one in work:
            threading.Thread(target=self._work, args=(what, one), daemon=True).start()

    def lost(self) -> str | None:
        """Return the reason for which it has ended, or None."""
        return self._failure

    def close(self) -> None:
        """Close the connections. The memory goes with the process, as threads may still look at it."""
        self._is_closing = True
        for peer in self._peers:
            peer.channel.close()

    # Threads

    def _work(self, what: str, work: Callable[[], None]) -> None:
        """Do a thread's work; whatever ends it ends the relay, with the reason, for kernels would wait for ever."""
        try:
            work()
        except (LinkError, OSError) as error:
            self._fail(f"{LOST} ({what}): {error}")
        except Exception as error:
            self._fail(f"the relay to {what} failed: {type(error).__name__}: {error}")

    def _fail(self, why: str) -> None:
        if not self._is_closing:
            self._failure = self._failure or why

    def _wait_for_bell(self, part: int) -> None:
        place, seen = self._part(part) + _BELL_AT, 0
        while not self._is_closing:
            _libc.syscall(_SYS_FUTEX, ctypes.c_void_p(self._address + place), _FUTEX_WAIT, seen, None, None, 0)
            now = self._words[place >> 2]
            if now == seen:
                continue
            seen = now
            with self._turn:
                self._send(self._changes(everything=True))

    def _receive(self, peer: Peer) -> None:
        while True:
            message = peer.channel.receive()
            with self._turn:
                self._lock()
                try:
                    self._put(peer, message)
                finally:
                    self._unlock()
                self._send(self._changes(everything=False))

    def _send(self, messages: Iterable[tuple[Peer, bytes]]) -> None:
        for peer, message in messages:
            peer.channel.send(message)

    # What has changed here

    def _changes(self, *, everything: bool) -> list[tuple[Peer, bytes]]:
        """Return what to send to each machine. If not `everything` is wanted, changes of parts that run can wait until
        they wait."""
        self._lock()
        try:
            changed = []
            for part in self._own:
                at = self._part(part) + _FIELDS_AT
                if (fields := bytes(self._octets[at : at + _FIELDS.size])) != self._said[part]:
                    changed.append((part, fields))
            if not everything and all(fields[0] == _RUNS for _, fields in changed):
                return []
            for_one = self._frames_shown()
            for_all = self._frames_taken()
            for part, fields in changed:
                for_all += self._boxes(part, fields)
        finally:
            self._unlock()
        for part, fields in changed:
            self._said[part] = fields
            for_all.append(_RECORD.pack(_STATE_OF, part, 0, len(fields), 0, 0))
            for_all.append(fields)
        common = b"".join(for_all)
        found = [(peer, b"".join(for_one[id(peer)]) + common) for peer in self._peers]
        return [(peer, message) for peer, message in found if message]

    def _frames_shown(self) -> dict[int, list[bytes]]:
        """Return what parts here have shown to parts elsewhere, for each machine: the frames, if it has their part, or
        when they arrive.
        """
        frames: dict[int, list[bytes]] = {id(peer): [] for peer in self._peers}
        self._note_shown()
        for one, other, begin, visible, first in self._unsent:
            for peer in self._peers:
                octets = self._copied(self._ring(one, other), begin, visible) if other in peer.parts else b""
                frames[id(peer)] += [_RECORD.pack(_SENT, one, other, len(octets), visible, first), octets]
        self._unsent.clear()
        for one, other in self._shown:
            ring = self._ring(one, other)
            tail = self._longs[ring + _TAIL_AT >> 3]
            if self._words[ring + _WANTS_ROOM_AT >> 2] and self._asked.get((one, other)) != tail:
                self._asked[one, other] = tail
                for peer in self._peers:
                    if other in peer.parts:
                        frames[id(peer)].append(_RECORD.pack(_WANTS, one, other, 0, 0, 0))
        return frames

    def _note_shown(self) -> None:
        """Note the frames that parts here have shown to parts elsewhere since the last call."""
        for (one, other), shown in self._shown.items():
            ring = self._ring(one, other)
            visible = self._longs[ring + _VISIBLE_AT >> 3]
            if visible != shown:
                if not 0 < visible - shown <= _RING_OCTETS:
                    raise ValueError(f"part {one} has shown what is no frame")
                first = self._first(ring, shown, visible)
                self._shown[one, other] = visible
                self._under_way[other].setdefault(one, []).append((visible, first))
                self._unsent.append((one, other, shown, visible, first))

    def _first(self, ring: int, at: int, end: int) -> int:
        """Return the earliest arrival of the frames between two places of a ring."""
        longs, base, first = self._longs, ring + _RING_HEAD >> 3, _NEVER
        while at != end:
            first = min(first, longs[base + (at % _RING_OCTETS >> 3)])
            length = longs[base + ((at + 16) % _RING_OCTETS >> 3)] & 0xFFFFFFFF
            at += _FRAME_HEAD + (length + 7 & ~7)
            if at > end:
                raise ValueError("a kernel has shown half of a frame")
        return first

    def _copied(self, ring: int, begin: int, end: int) -> bytes:
        base, first = ring + _RING_HEAD, begin % _RING_OCTETS
        last = first + end - begin
        if last <= _RING_OCTETS:
            return bytes(self._octets[base + first : base + last])
        return bytes(self._octets[base + first : base + _RING_OCTETS]) + bytes(
            self._octets[base : base + last - _RING_OCTETS]
        )

    def _frames_taken(self) -> list[bytes]:
        found = []
        for (other, one), taken in self._taken.items():
            tail = self._longs[self._ring(other, one) + _TAIL_AT >> 3]
            if tail != taken:
                self._taken[other, one] = tail
                found.append(_RECORD.pack(_TAKEN, other, one, 0, tail, 0))
        return found

    def _boxes(self, part: int, fields: bytes) -> list[bytes]:
        """Return what a part has given to all since it was last looked at; the last two are still there."""
        values = _FIELDS.unpack(fields)
        given, found = values[_GIVEN], []
        for number in range(max(self._given[part], given - 2) + 1, given + 1):
            at, octets = self._box(part, number), values[12 + (number & 1)]
            if octets > _BOX:
                raise ValueError(f"part {part} gives more than a box holds")
            found += [_RECORD.pack(_GAVE, part, 0, octets, number, 0), bytes(self._octets[at : at + octets])]
        self._given[part] = given
        return found

    # What has come

    def _put(self, peer: Peer, message: bytes) -> None:
        """Put what another machine says into the memory, and wake the parts that are here."""
        self._note_shown()  # what is known of parts elsewhere is about to change
        place, size = 0, _RECORD.size
        states: list[tuple[int, bytes]] = []
        touched = set()
        while place < len(message):
            kind, one, other, octets, number, further = _RECORD.unpack_from(message, place)
            content = message[place + size : place + size + octets]
            place += size + octets
            if kind == _STATE_OF:
                states.append((self._of(peer, one), content))
            elif kind == _SENT:
                self._of(peer, one)
                if other in self._said:
                    self._frames_came(one, other, content, number, further)
                else:
                    if number > self._tails.get((one, other), 0):  # else the part that takes them was faster to say so
                        self._under_way[other].setdefault(one, []).append((number, further))
                    touched.add(other)
            elif kind == _TAKEN:
                self._frames_were_taken(one, self._of(peer, other), number)
                touched.add(other)
            elif kind == _GAVE:
                at = self._box(self._of(peer, one), number)
                if octets > _BOX:
                    raise ValueError("it gives more than a box holds")
                self._octets[at : at + octets] = content
            elif kind == _WANTS:
                self._words[self._ring(self._of(peer, one), other) + _WANTS_ROOM_AT >> 2] = 1
            else:
                raise ValueError(f"it says {kind}, which means nothing")
        for part in touched:
            self._put_frames(part)
        for part, fields in states:
            self._put_state(part, fields)
        for part in self._own:
            self._ring_bell(part)

    def _of(self, peer: Peer, part: int) -> int:
        if part not in peer.parts:
            raise ValueError(f"it speaks for part {part}, which is not there")
        return part

    def _frames_came(self, one: int, other: int, octets: bytes, visible: int, first: int) -> None:
        ring = self._ring(one, other)
        begin = self._longs[ring + _VISIBLE_AT >> 3]
        tail = self._longs[ring + _TAIL_AT >> 3]
        if visible - begin != len(octets) or visible - tail > _RING_OCTETS:
            raise ValueError("it sends more frames than there is room for")
        base, at = ring + _RING_HEAD, begin % _RING_OCTETS
        head = min(len(octets), _RING_OCTETS - at)
        self._octets[base + at : base + at + head] = octets[:head]
        self._octets[base : base + len(octets) - head] = octets[head:]
        self._longs[ring + _VISIBLE_AT >> 3] = visible
        frames = self._part(other) + _FRAMES_AT >> 3
        self._longs[frames] = min(self._longs[frames], first)

    def _frames_were_taken(self, one: int, other: int, tail: int) -> None:
        if one in self._said:
            ring = self._ring(one, other)
            if not self._longs[ring + _TAIL_AT >> 3] <= tail <= self._longs[ring + _VISIBLE_AT >> 3]:
                raise ValueError("it has taken frames that were not sent")
            self._longs[ring + _TAIL_AT >> 3] = tail
            self._words[ring + _WANTS_ROOM_AT >> 2] = 0
            self._asked.pop((one, other), None)
        self._tails[one, other] = tail
        noted = self._under_way[other].setdefault(one, [])
        while noted and noted[0][0] <= tail:
            noted.pop(0)

    def _put_frames(self, part: int) -> None:
        """Put the earliest arrival of what a part elsewhere has not taken yet."""
        first = self._known_frames[part]
        for noted in self._under_way[part].values():
            for _, arrival in noted:
                first = min(first, arrival)
        self._longs[self._part(part) + _FRAMES_AT >> 3] = first

    def _put_state(self, part: int, fields: bytes) -> None:
        values = list(_FIELDS.unpack(fields))
        self._known_frames[part] = values[_FRAMES]
        if values[_STATE] in (_RUNS, _JOINING):
            # As one that waits for the moment at which it began, its bell is rung, so that it hears of what it needs.
            values[_STATE], values[_NEXT] = _WAITS, values[_BASE]
        at = self._part(part) + _FIELDS_AT
        self._put_frames(part)
        values[_FRAMES] = self._longs[self._part(part) + _FRAMES_AT >> 3]
        _FIELDS.pack_into(self._octets, at, *values)

    # The memory

    def _part(self, part: int) -> int:
        return _PART_AT + part * _PART

    def _ring(self, one: int, other: int) -> int:
        if not (one < self._parts and other < self._parts):
            raise ValueError("it speaks of a part that there is not")
        return _RINGS_AT + (one * self._parts + other) * _RING

    def _box(self, part: int, number: int) -> int:
        return _RINGS_AT + self._parts * self._parts * _RING + (2 * part + (number & 1)) * _BOX

    def _ring_bell(self, part: int) -> None:
        at = self._part(part)
        self._words[at >> 2] = self._words[at >> 2] + 1 & 0xFFFFFFFF
        if self._words[at + _SLEEPS_AT >> 2]:
            _libc.syscall(_SYS_FUTEX, ctypes.c_void_p(self._address + at), _FUTEX_WAKE, 1, None, None, 0)

    def _make_lock(self) -> None:
        """Make the memory's lock a mutex of the C library, whose words mean the same as those of the kernels' lock."""
        attributes = ctypes.create_string_buffer(64)
        _libc.pthread_mutexattr_init(attributes)
        _libc.pthread_mutexattr_setpshared(attributes, 1)
        _libc.pthread_mutex_init(self._mutex, attributes)
        self._lock()
        held = self._words[_LOCK_AT >> 2]
        self._unlock()
        if (held, self._words[_LOCK_AT >> 2]) != (1, 0):
            raise LinkError("the C library of this machine is not glibc, whose locks the lab's kernels understand")

    def _lock(self) -> None:
        _libc.pthread_mutex_lock(self._mutex)

    def _unlock(self) -> None:
        _libc.pthread_mutex_unlock(self._mutex)
