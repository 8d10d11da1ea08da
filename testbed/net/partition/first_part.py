"""A process that a network has once, such as a controller: in part 0 of several, and everything that the script asks of
it there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from testbed.linux import parts_device
from testbed.net.fabric.core import FabricCore
from testbed.net.partition.cut import PartitionError
from testbed.net.partition.divided import Divided
from testbed.net.partition.management import doors

T = TypeVar("T")


class InFirstPart:
    """The place of such a process, as each part meets it."""

    def __init__(self, name: str, its_doors: Sequence[str]) -> None:
        """Give the process, which has a name as in "controller", its doors in the networks that follow."""
        if self._parts() is not None:
            raise PartitionError(
                f"the parts of a network that runs cannot reach a new {name}; make it before the network"
            )
        self._name, self._doors = name, its_doors
        self.is_divided = parts_device.is_there()
        self.is_here = Divided.own_number() == 0
        self.number = len(doors)
        """A number that processes of one run differ in, the same in all parts."""
        doors.extend(its_doors)

    def require_one_kernel(self, what: str) -> None:
        """Refuse what a network with parts has not."""
        if self.is_divided:
            raise PartitionError(f"{what}, or run it without --partitions")

    def close(self) -> None:
        """Give up the doors."""
        for door in self._doors:
            doors.remove(door)

    def do(self, what: str, do: Callable[[], T]) -> T | None:
        """Do something where the process is. In a network that runs, all parts get what comes of it."""
        parts = self._parts()
        if parts is not None:
            return parts.by_first(what, do)
        return do() if self.is_here else None

    def ask(self, what: str, do: Callable[[], T]) -> T | None:
        """Do something that all parts need an answer of."""
        if self.is_divided and self._parts() is None:
            raise PartitionError(
                f"{what}: the parts of a network ask its {self._name} while the network runs; move the request into "
                "its `with` block, or run it without --partitions"
            )
        return self.do(what, do)

    @staticmethod
    def _parts() -> Divided | None:
        core = FabricCore.running()
        return core.parts if core is not None and isinstance(core.parts, Divided) else None
