"""The search for deadlocks in a network over several kernels.

Each part looks at its own nodes, and keeps what it has seen. When the event log is read, all parts get what each has
seen, and search it (decision 0712).
"""

from __future__ import annotations

import mmap
import os
import pickle
from collections.abc import Iterator, Sequence
from io import BytesIO

from testbed.agent.event_log import Record
from testbed.linux.process.forked_helper import ForkedHelper, PacketPipe
from testbed.net.fabric.deadlocks import Look, Search, Seen, helper, moments
from testbed.units import Duration


class DeadlockNotes:
    """The findings of one part of a network at each look, and the search in those of all parts.

    A part's process notes what it has seen if it is not what it has seen before, first all of it, then its end and the
    moment of the look.
    """

    def __init__(self) -> None:
        self._log = os.memfd_create("xoff-deadlocks", os.MFD_CLOEXEC)
        self._memory = memoryview(mmap.mmap(-1, 16)).cast("q")
        """The end of what is noted, and the moment of the last look."""
        self._given = 0
        self._pending: list[list[tuple[int, Seen]]] = []
        """The findings of each part that have not been searched yet, as another part has not come to their moment."""
        self._latest: list[Seen] = []
        self._search = Search()
        self._records: list[Record] = []

    def watching(self, look: Look, poll: Duration) -> ForkedHelper[PacketPipe]:
        """Start the process that notes what is seen in this part."""

        def note(pipe: PacketPipe) -> None:
            before = _NOTHING
            for due_ns in moments(poll.ns, pipe):
                if (seen := look.seen()) != before:
                    self._memory[0] += os.write(self._log, pickle.dumps((due_ns, seen)))
                    before = seen
                self._memory[1] = due_ns

        return helper(note)

    def close(self) -> None:
        os.close(self._log)

    def noted(self) -> tuple[int, bytes]:
        """Return the moment of the last look here, and what was noted since the last call."""
        looked_ns, end = self._memory[1], self._memory[0]  # in this order: the end may be of a later look
        new = os.pread(self._log, end - self._given, self._given)
        self._given = end
        return looked_ns, new

    def found(self, of_parts: Sequence[tuple[int, bytes]]) -> list[Record]:
        """Return the records of all deadlocks so far, with what each part has noted since the last call."""
        self._pending = self._pending or [[] for _ in of_parts]
        self._latest = self._latest or [_NOTHING for _ in of_parts]
        for pending, (_, noted) in zip(self._pending, of_parts, strict=True):
            pending.extend(_unpacked(noted))
        until_ns = min(looked_ns for looked_ns, _ in of_parts)
        moments = {due_ns for pending in self._pending for due_ns, _ in pending if due_ns <= until_ns}
        for due_ns in sorted(moments):
            for part, pending in enumerate(self._pending):
                if pending and pending[0][0] == due_ns:
                    self._latest[part] = pending.pop(0)[1]
            first, *others = self._latest
            self._records += self._search.records(first.joined(others), due_ns)
        return self._records


_NOTHING = Seen({}, {}, {})


def _unpacked(noted: bytes) -> Iterator[tuple[int, Seen]]:
    file = BytesIO(noted)
    while file.tell() < len(noted):
        yield pickle.load(file)
