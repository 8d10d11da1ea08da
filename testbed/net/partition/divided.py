"""The parts of a divided network while it runs: `Parts` of `net/fabric/parts.py` over several kernels.

What only one part knows, it gives to all (`of`), what each knows a piece of, all get (`exchange`), and each of these is
also the moment at which all parts go on together. It takes the lab's time of a frame between the parts that are
farthest from each other.
"""

from __future__ import annotations

import errno
import os
import pickle
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from testbed.errors import XoffError
from testbed.experiment.output import merged
from testbed.linux import parts_device
from testbed.linux.parts_device import PartsDevice
from testbed.linux.process.observing import observing
from testbed.net.partition.cut import PartGoneError, PartitionError, cut
from testbed.net.partition.management import Management, doors

T = TypeVar("T")
_SAMPLING_BEGINS_NS = 1_000_000
"""The lab's time from an agreement to the first sample, in which a process starts."""


class Divided:
    """This part of the running network, and its link to the others."""

    _device: PartsDevice | None = None

    def __init__(self, topo: Any) -> None:
        """Divide a network, and wait for the other parts."""
        self.device = self._opened()
        self.number, self.many = self.device.number, self.device.many
        self.cut = cut(topo, self.many)
        if doors:
            self.cut = self.cut.managed()
        self._pid = os.getpid()
        self._management: Management | None = None
        self.started: list[tuple[int, int]] = []
        """The moments at which the network had started in each part, and its run before; empty until then."""
        self._laid: dict[tuple[str, str], int] = {}
        """How many cables between two nodes have been laid."""
        try:
            self.device.join([(*one.parts, one.delay_ns) for one in self.cut.cables])
        except OSError as error:
            raise PartitionError(f"the parts have made different networks of {type(topo).__name__} ({error})") from None
        try:
            self._manage()
        except BaseException:
            self.leave()
            raise

    @classmethod
    def own_number(cls) -> int:
        """Return the number of this kernel's part, also while there is no network; 0 if each network is whole."""
        return cls._opened().number if parts_device.is_there() else 0

    @classmethod
    def _opened(cls) -> PartsDevice:
        cls._device = cls._device or PartsDevice()  # it stays open: to close one leaves the network
        return cls._device

    def _manage(self) -> None:
        if self.cut.management is not None:
            cables = list(enumerate(self.cut.cables))[self.cut.management :]
            self._management = Management(self.number, [(number, cable.parts[1]) for number, cable in cables])

    def leave(self) -> None:
        """Leave the network."""
        try:
            if self._management is not None:
                self._management.stop()
        finally:
            self.device.leave()

    @property
    def is_asked(self) -> bool:
        """True in the process of the script, which agrees with other parts; its other processes read what is here."""
        return self._pid == os.getpid()

    def part_of(self, node: str) -> int:
        return self.cut.part_of.get(node, 0)

    def has(self, node: str) -> bool:
        return self.cut.part_of.get(node, self.number) == self.number

    def lay(self, one: str, other: str) -> int | None:
        """Return the number of the next cable that is laid between two nodes; None if it is not between parts."""
        if self.cut.part_of[one] == self.cut.part_of[other]:
            return None
        key = (min(one, other), max(one, other))
        place = self._laid[key] = self._laid.get(key, 0) + 1
        for number, cable in enumerate(self.cut.cables):
            if {one, other} == set(cable.nodes):
                place -= 1
                if not place:
                    return number
        raise PartitionError(f"the cable of {one} and {other} is not of the topology, and leads to another part")

    def exchange(self, what: str, value: T) -> list[T]:
        if not self.is_asked:
            raise PartitionError(f"{what}: only the experiment itself can ask other parts, not a process of it")
        try:
            given = self.device.exchange(pickle.dumps((what, value)))
        except OSError as error:
            if error.errno != errno.EPIPE:
                raise
            raise PartGoneError(
                f"another part has ended the network when part {self.number} came to {what!r}; an experiment with "
                "partitions must do the same in all of them"
            ) from None
        answers = [pickle.loads(one) for one in given]
        if len({asked for asked, _ in answers}) > 1:
            where = ", ".join(f"part {part} at {asked!r}" for part, (asked, _) in enumerate(answers))
            raise PartitionError(
                f"the parts went different ways: {where}; an experiment with partitions must do the same in all of them"
            )
        return [one for _, one in answers]

    def of(self, node: str, what: str, read: Callable[[], T]) -> T:
        return self._by(self.part_of(node), self.has(node), f"{what} of {node}", read)

    def by_first(self, what: str, do: Callable[[], T]) -> T:
        return self._by(0, self.number == 0, what, do)

    def meet(self, what: str) -> int:
        return max(self.exchange(what, time.monotonic_ns())) + self.cut.farthest_ns

    def bring_flow_counts(
        self, ends: Sequence[tuple[str, str]], sent: memoryview[int], received: memoryview[int]
    ) -> None:
        own = list(sent[: len(ends)]), list(received[: len(ends)])
        found = self.exchange("counts of flows", own)
        for place, (source, target) in enumerate(ends):  # what is counted here goes on meanwhile, and stays
            if not self.has(source):
                sent[place] = found[self.part_of(source)][0][place]
            if not self.has(target):
                received[place] = found[self.part_of(target)][1][place]

    def first_sample(self, now_ns: int, run_ns: int, every_ns: int, *, of_run: bool) -> tuple[int, int]:
        agreed = self.started if of_run else self.exchange("series begin", (now_ns, run_ns))
        first_ns = max(then_ns for then_ns, _ in agreed) + self.cut.farthest_ns + _SAMPLING_BEGINS_NS
        return first_ns + max(0, -(-(now_ns - first_ns) // every_ns)) * every_ns, agreed[0][1]

    def wait_for_samples(self, first_ns: int, every_ns: int) -> None:
        samples = max(0, self.meet("series end") - first_ns) // every_ns + 1
        end_ns = first_ns + samples * every_ns + every_ns // 2  # the middle between two of them
        time.sleep(max(0, end_ns - time.monotonic_ns()) / 1e9)

    def gather_rows(self, files: Mapping[Path, int]) -> None:
        with observing():
            own = [zlib.compress(path.read_bytes()[begin:]) for path, begin in files.items()]
        of_all = self.exchange("series", own)
        with observing():
            for place, (path, begin) in enumerate(files.items()):
                rows = [zlib.decompress(one[place]).splitlines(keepends=True) for one in of_all]
                with path.open("r+b") as file:
                    file.seek(begin)
                    file.writelines(merged(rows))

    def _by(self, part: int, does: bool, what: str, do: Callable[[], T]) -> T:
        own: tuple[Any, XoffError | None] = (None, None)
        if does:
            try:
                own = do(), None
            except XoffError as error:
                own = None, error
        value, failure = self.exchange(what, own)[part]
        if failure is not None:
            raise failure
        found: T = value
        return found
