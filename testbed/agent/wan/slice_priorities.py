"""The local priorities that slices' priorities have at a router."""

from __future__ import annotations

from collections.abc import Iterable

from testbed.agent.plan import SliceQueues


class SlicePriorities:
    """The priorities of all slices at one router. A local priority that no slice has is of the traffic without a
    slice.
    """

    def __init__(self, slices: Iterable[SliceQueues]) -> None:
        self._of_local = {local: (one.id, priority) for one in slices for priority, local in one.queues.items()}
        self._local = {theirs: local for local, theirs in self._of_local.items()}

    def of_local(self, local: int) -> tuple[int | None, int]:
        """Return the slice of a local priority, and the slice's own priority."""
        return self._of_local.get(local, (None, local))

    def local(self, slice_id: int | None, priority: int) -> int | None:
        """Return the local priority of a slice's priority, or None if the slice is not known here."""
        if slice_id is None:
            return priority if priority not in self._of_local else None
        return self._local.get((slice_id, priority))
