"""The parts of a network while it runs, as the script of an experiment meets them.

Every part runs the same script. What only one part knows, it gives to all (`of`), what each knows a piece of, all get
(`exchange`), and each of these is also the moment at which all parts go on together. It takes the lab's time of a
frame between the parts that are farthest from each other.
"""

from __future__ import annotations

import errno
import os
import pickle
from collections.abc import Callable
from typing import Any, TypeVar

from testbed.errors import XoffError
from testbed.linux import parts_device
from testbed.linux.parts_device import PartsDevice
from testbed.net.partition.cut import Cut, PartGoneError, PartitionError, cut
from testbed.net.partition.management import Management, doors

T = TypeVar("T")


class Parts:
    """This part of the running network, and its link to the others."""

    _current: Parts | None = None
    _device: PartsDevice | None = None

    def __init__(self, device: PartsDevice, divided: Cut) -> None:
        self._link, self.cut = device, divided
        self.number, self.many = device.number, device.many
        self._pid = os.getpid()
        self._management: Management | None = None
        self.started: list[tuple[int, int]] = []
        """The moments at which the network had started in each part, and its run before; empty until then."""
        self._laid: dict[tuple[str, str], int] = {}
        """How many cables between two nodes have been laid."""

    @classmethod
    def current(cls) -> Parts | None:
        """Return the parts of the network that is being built, or runs; None if it is whole."""
        return cls._current

    @classmethod
    def asked(cls) -> Parts | None:
        """Return the same in the process of the script, which is the one that agrees with other parts; None in its
        other processes, which read what is here.
        """
        return cls._current if cls._current is not None and cls._current._pid == os.getpid() else None

    @classmethod
    def begin(cls, topo: Any, check: Callable[[], None]) -> Parts | None:
        """Divide a network if this kernel has a part of it, and wait for the others; None if it has all.

        `check` raises an error if a network of these options cannot have parts.
        """
        if not parts_device.is_there():
            return None
        check()
        device = cls._device = cls._device or PartsDevice()
        divided = cut(topo, device.many)
        if doors:
            divided = divided.managed()
        parts = cls._current = cls(device, divided)
        try:
            device.join([(*one.parts, one.delay_ns) for one in divided.cables])
        except OSError as error:
            cls._current = None
            raise PartitionError(f"the parts have made different networks of {type(topo).__name__} ({error})") from None
        try:
            parts._manage()
        except BaseException:
            parts.end()
            raise
        return parts

    @classmethod
    def own_number(cls) -> int:
        """Return the number of this kernel's part, also while there is no network; 0 if each network is whole."""
        if not parts_device.is_there():
            return 0
        cls._device = cls._device or PartsDevice()  # it stays open: to close one leaves the network
        return cls._device.number

    def _manage(self) -> None:
        if self.cut.management is not None:
            cables = list(enumerate(self.cut.cables))[self.cut.management :]
            self._management = Management(self.number, [(number, cable.parts[1]) for number, cable in cables])

    def end(self) -> None:
        """Leave the network."""
        Parts._current = None
        try:
            if self._management is not None:
                self._management.stop()
        finally:
            self._link.leave()

    @property
    def device(self) -> PartsDevice:
        """The link to the other parts."""
        return self._link

    def has(self, node: str) -> bool:
        """Return True if a node is in this part. A node that is not of the topology is in each part."""
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
        """Give a value to all parts, and return that of each. `what` says what for, and has to be the same in all."""
        if self._pid != os.getpid():
            raise PartitionError(f"{what}: only the experiment itself can ask other parts, not a process of it")
        try:
            given = self._link.exchange(pickle.dumps((what, value)))
        except OSError as error:
            if error.errno != errno.EPIPE:
                raise
            raise PartGoneError(
                f"another part has ended the network when part {self.number} came to {what!r}; an experiment with "
                "partitions must do the same in all of them"
            ) from None
        found = [pickle.loads(one) for one in given]
        if len({asked for asked, _ in found}) > 1:
            where = ", ".join(f"part {part} at {asked!r}" for part, (asked, _) in enumerate(found))
            raise PartitionError(
                f"the parts went different ways: {where}; an experiment with partitions must do the same in all of them"
            )
        return [one for _, one in found]

    def of(self, node: str, what: str, read: Callable[[], T]) -> T:
        """Have the part that has a node read something of it, and return that in all parts; an error is one in all."""
        return self._by(self.cut.part_of.get(node, 0), self.has(node), f"{what} of {node}", read)

    def by_first(self, what: str, do: Callable[[], T]) -> T:
        """Have part 0 do something, and return what comes of it in all parts; an error is one in all."""
        return self._by(0, self.number == 0, what, do)

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
