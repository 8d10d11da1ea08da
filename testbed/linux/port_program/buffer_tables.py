"""Buffers, groups and queues in the port program's tables: settings that go in, counters that come out."""

from __future__ import annotations

import mmap
import struct
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from testbed.linux import bpf
from testbed.linux.port_program.records import (
    BUFFER,
    GROUP,
    GROUP_SETTINGS,
    NO_QUEUE,
    OF_GROUP,
    OF_POOL,
    OF_QUEUE,
    POOL,
    POOLS,
    PRIORITIES,
    QUEUE,
    QUEUE_SETTINGS,
    REASONS,
    REQUEST,
    RULED,
    SIZES,
    TRIMMED,
    WATERMARK,
    WHOLE,
    WHOLE_SETTINGS,
    WITH_PORT,
    XOFF_AT,
    BufferCounters,
    EventKind,
    GroupCounters,
    GroupLimits,
    QueueCounters,
    QueueLimits,
    Sizes,
    Watermark,
    WholePort,
)

_HEADROOM_AT = struct.Struct("=10I").size
"""The position of the cells that a group holds in its headroom; whether it is lossless is at its beginning."""


class BufferTables:
    """The buffers, groups and queues of all nodes of a network."""

    def __init__(
        self,
        groups: mmap.mmap | bytearray,
        queues: mmap.mmap | bytearray,
        wholes: mmap.mmap | bytearray,
        pools: bpf.Map | dict[int, bytes],
        requests: Mapping[str, int],
    ) -> None:
        self.group_memory, self.queue_memory, self.whole_memory = groups, queues, wholes
        self._buffers, self._requests = pools, requests

    def set_group(self, slot: int, priority: int, limits: GroupLimits) -> None:
        """Set the limits of a group before frames arrive; `configure` changes them later."""
        start = (slot * PRIORITIES + priority) * GROUP.size
        self.group_memory[start : start + GROUP_SETTINGS.size] = limits.encode()
        if limits.with_port:
            self._sum_up(slot)

    def _sum_up(self, slot: int) -> None:
        """Set what the lossless groups of a port have together: their number, and the headroom of the neediest."""
        members = [group for priority in range(PRIORITIES) if (group := self.limits(slot, priority)).with_port]
        most = max((group.headroom for group in members), default=0)
        start = slot * WHOLE.size
        self.whole_memory[start : start + WHOLE_SETTINGS.size] = WHOLE_SETTINGS.pack(len(members), most)

    def whole_port(self, slot: int) -> WholePort:
        """Return what the lossless groups of a port have together; zeros if the port is not paused as a whole."""
        groups, headroom, shared, held, most_shared, most_headroom, paused, _, pauses, resumes = WHOLE.unpack_from(
            self.whole_memory, slot * WHOLE.size
        )
        return WholePort(groups, headroom, shared, held, most_shared, most_headroom, bool(paused), pauses, resumes)

    def limits(self, slot: int, priority: int) -> GroupLimits:
        """Return the limits of a group."""
        start = (slot * PRIORITIES + priority) * GROUP.size
        fields = GROUP_SETTINGS.unpack_from(self.group_memory, start)
        lossless, guaranteed, above, below, offset, headroom, xon, pool = fields
        alpha = Fraction(above, below) if below else None
        static, with_port = 0 if below else above, lossless == WITH_PORT
        return GroupLimits(bool(lossless), guaranteed, static, alpha, offset, headroom, xon, pool, with_port)

    def set_buffer(self, buffer: int, cell_bytes: int, ingress: Sequence[Sizes], egress: Sequence[Sizes] = ()) -> None:
        """Set the pools of a node, which are empty then."""
        pools = bytearray(2 * POOLS * POOL.size)
        for start, sizes in ((0, ingress), (POOLS, egress)):
            for number, size in enumerate(sizes, start):
                POOL.pack_into(pools, number * POOL.size, *size, *[0] * 7)
        self._buffers[buffer] = BUFFER.pack(0, cell_bytes, bytes(pools))

    def set_queue(self, slot: int, queue: int, limits: QueueLimits) -> None:
        """Set the limits of a queue of the port `slot`, whose tables have to be `counted`."""
        start = (slot * PRIORITIES + queue) * QUEUE.size
        self.queue_memory[start : start + QUEUE_SETTINGS.size] = limits.encode()

    def configure(
        self, buffer: int, pools: Sequence[Sizes], limits: Mapping[tuple[int, int], GroupLimits]
    ) -> list[tuple[int, int]]:
        """Change the ingress pools, and the limits of groups by (slot, priority), while frames are in the buffer.

        Returns the groups that resume. A pool that holds more than its new size would admit nothing until it has
        drained; the caller asks `busy` before.
        """
        for number, (pool, size) in enumerate(zip(self.pools(buffer), pools, strict=False)):
            self._run("resize", SIZES.pack(buffer, number, *map(max, pool.size, size)))
        for (slot, priority), group in limits.items():
            if group != self.limits(slot, priority):
                self._run("limit", struct.pack("=2I", slot, priority) + group.encode()[: 7 * 4])
                self._sum_up(slot)
        for number, size in enumerate(pools):
            self._run("resize", SIZES.pack(buffer, number, *size))
        return [key for key in limits if self.is_congested(*key) and self.recheck(*key)]

    def give_up(self, buffer: int, limits: Mapping[tuple[int, int], GroupLimits]) -> list[tuple[int, int]]:
        """Apply only those of new limits that take headroom from a group, for a buffer that is `busy`.

        Such a group admits no more frames, so the cells beyond its new limit drain. Returns the groups that resume.
        """
        losers = {
            key: replace(group, guaranteed=old.guaranteed)
            for key, group in limits.items()
            if group.headroom < (old := self.limits(*key)).headroom
        }
        return self.configure(buffer, [pool.size for pool in self.pools(buffer)[:POOLS]], losers)

    def busy(self, buffer: int, pools: Sequence[Sizes], limits: Mapping[tuple[int, int], GroupLimits]) -> int:
        """Return how many cells have to drain before `configure` can apply these settings, as BufferModel.configure."""
        most = 0
        for number, size in enumerate(pools):
            shared = 0
            # What shares headroom is a group by itself, or the groups of a port.
            held: defaultdict[tuple[int, ...], int] = defaultdict(int)
            promised: defaultdict[tuple[int, ...], int] = defaultdict(int)
            for (slot, priority), group in limits.items():
                if group.pool != number:
                    continue
                used = self.group(slot, priority).used
                shared += max(0, used[0] + used[1] - group.guaranteed)
                sharing = (slot,) if group.with_port else (slot, priority)
                held[sharing] += used[2]
                promised[sharing] = max(promised[sharing], group.headroom)
            overbooked = sum(promised.values()) > size[2]
            headroom = sum(held.values())
            owed = sum(max(held[sharing], cells) for sharing, cells in promised.items())
            most = max(most, shared - size[1], (headroom if overbooked else owed) - size[2])
        return most

    def recheck(self, slot: int, priority: int) -> bool:
        """Return True if the group was congested and resumes now, because others have made room."""
        return self._request("recheck", slot, priority)[0] == EventKind.XON

    def has_room(self, slot: int, priority: int) -> bool:
        """Return True if the group is not congested now; it is rechecked if others may have made room for it."""
        if not self.is_congested(slot, priority):
            return True
        # Frames of its own have to leave its headroom first, and the program looks at the group when they do.
        return not self._holds_headroom(slot, priority) and self.recheck(slot, priority)

    def _holds_headroom(self, slot: int, priority: int) -> bool:
        """Return True if the group is lossless and frames lie in its headroom."""
        start = (slot * PRIORITIES + priority) * GROUP.size
        return any(self.group_memory[start : start + 4]) and any(
            self.group_memory[start + _HEADROOM_AT : start + _HEADROOM_AT + 4]
        )

    def admit(self, slot: int, priority: int, cells: int, queue: tuple[int, int] | None = None) -> tuple[int, int]:
        """Charge cells as a frame that waits in `queue` (slot, number) would; for tests.

        Returns the event and the reason of a drop, which is one more than the last reason if nothing was dropped.
        """
        return self._request("admit_cells", slot, priority, cells, queue)

    def release(self, slot: int, priority: int, cells: int, queue: tuple[int, int] | None = None) -> tuple[int, int]:
        """Give cells back as a frame that leaves would; for tests."""
        return self._request("release_cells", slot, priority, cells, queue)

    def _run(self, name: str, context: bytes) -> None:
        if bpf.run(self._requests[name], bytearray(context)):
            raise bpf.BpfError(f"{name}: no such port or buffer in this network")

    def _request(
        self, name: str, slot: int, priority: int, cells: int = 0, queue: tuple[int, int] | None = None
    ) -> tuple[int, int]:
        waits = NO_QUEUE if queue is None else queue[0] * PRIORITIES + queue[1]
        context = bytearray(REQUEST.pack(slot, priority, cells, waits, 0, 0))
        if bpf.run(self._requests[name], context):
            raise bpf.BpfError(f"slot {slot} priority {priority} is not a group of this network")
        *_, signal, result = REQUEST.unpack(context)
        return signal, result

    def is_congested(self, slot: int, priority: int) -> bool:
        """Return True if the group is congested now. It reads one octet, since agents ask at every event."""
        return bool(self.group_memory[(slot * PRIORITIES + priority) * GROUP.size + XOFF_AT])

    def groups_of(self, slot: int) -> bytes:
        """Return the memory of all groups of a port; if it is equal to an earlier one, no counter has changed."""
        start = slot * PRIORITIES * GROUP.size
        return bytes(self.group_memory[start : start + PRIORITIES * GROUP.size])

    def group(self, slot: int, priority: int) -> GroupCounters:
        """Return the counters of a group."""
        fields = GROUP.unpack_from(self.group_memory, (slot * PRIORITIES + priority) * GROUP.size)[8:]
        return GroupCounters(
            used=fields[0:3],
            high_water=fields[3:6],
            most_cells=fields[6],
            xoff=bool(fields[7]),
            xoffs=fields[8],
            xons=fields[9],
            admitted_frames=fields[10],
            admitted_cells=fields[11],
            released_frames=fields[12],
            released_cells=fields[13],
            dropped_frames=fields[14 : 14 + REASONS],
            dropped_cells=fields[22 : 22 + REASONS],
            impossible_releases=fields[30],
            trimmed_frames=fields[14 + TRIMMED],
            trimmed_cells=fields[22 + TRIMMED],
            ruled_frames=fields[14 + RULED],
            ruled_cells=fields[22 + RULED],
        )

    def queue(self, slot: int, queue: int) -> QueueCounters:
        """Return the counters of a queue with limits."""
        fields = QUEUE.unpack_from(self.queue_memory, (slot * PRIORITIES + queue) * QUEUE.size)[5:]
        return QueueCounters(fields[0:2], fields[2:4], *fields[4:9])

    def pools(self, buffer: int) -> list[BufferCounters]:
        """Return the POOLS ingress pools of a node, then as many egress pools; one that it does not have is empty."""
        _, _, pools = BUFFER.unpack(self._buffers[buffer])
        return [BufferCounters(each[0:3], each[3:6], each[6:9], each[9]) for each in POOL.iter_unpack(pools)]

    def octets(self, buffer: int) -> bytes:
        """Return the entry of a node, as `put_octets` takes it in another kernel."""
        return bytes(self._buffers[buffer])

    def put_octets(self, buffer: int, octets: bytes) -> None:
        """Set the entry of a node that is in another kernel."""
        self._buffers[buffer] = octets

    def buffer(self, buffer: int) -> BufferCounters:
        """Return ingress pool 0 of a node."""
        return self.pools(buffer)[0]

    def clear_group(self, buffer: int, slot: int, priority: int) -> Watermark:
        """Reset the watermarks of a group to the cells in use now, and return the old ones."""
        return self._clear(OF_GROUP, buffer, slot * PRIORITIES + priority)

    def clear_queue(self, buffer: int, slot: int, queue: int) -> Watermark:
        """Reset the watermarks of a queue, and return the old ones."""
        return self._clear(OF_QUEUE, buffer, slot * PRIORITIES + queue)

    def clear_pool(self, buffer: int, pool: int) -> Watermark:
        """Reset the watermarks of a pool, and return the old ones. The egress pools have the numbers from POOLS on."""
        return self._clear(OF_POOL, buffer, pool)

    def _clear(self, of: int, buffer: int, number: int) -> Watermark:
        context = bytearray(WATERMARK.pack(of, buffer, number, 0, 0, 0, 0))
        if bpf.run(self._requests["clear_watermark"], context):
            raise bpf.BpfError("clear_watermark: no such group, queue or buffer in this network")
        found = WATERMARK.unpack(context)
        return Watermark(found[3:6], found[6])
