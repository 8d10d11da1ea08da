"""The kernels that a network is in, as the script of an experiment meets them.

Every kernel runs the whole script, on the nodes that it has. Most networks are in one kernel, `Whole`, which has all
nodes and agrees with itself. What one does that several have together is in `net/partition`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

T = TypeVar("T")


class Parts(Protocol):
    """The part of a network that this kernel has, and its way to agree with the others."""

    @property
    def number(self) -> int:
        """The number of this part."""

    @property
    def many(self) -> int:
        """The number of all parts."""

    def part_of(self, node: str) -> int:
        """Return the part that has a node; of one that is not of the topology, 0."""

    def has(self, node: str) -> bool:
        """Return True if a node is in this part. A node that is not of the topology is in each part."""

    def exchange(self, what: str, value: T) -> list[T]:
        """Give a value to all parts, and return that of each. `what` says what for, and has to be the same in all."""

    def of(self, node: str, what: str, read: Callable[[], T]) -> T:
        """Have the part that has a node read something of it, and return that in all parts; an error is one in all."""

    def by_first(self, what: str, do: Callable[[], T]) -> T:
        """Have part 0 do something, and return what comes of it in all parts; an error is one in all."""

    def meet(self, what: str) -> int:
        """Wait until all parts have come here, and return a moment, the same in all, at which all know of it."""

    def bring_flow_counts(
        self, ends: Sequence[tuple[str, str]], sent: memoryview[int], received: memoryview[int]
    ) -> None:
        """Put what other parts have counted of flows into `sent` and `received`, by the flows' sources and targets."""

    def first_sample(self, now_ns: int, run_ns: int, every_ns: int, *, of_run: bool) -> tuple[int, int]:
        """Return the moment of the first sample of a series, and that at which the run began, the same in all parts.

        A series of the run itself (`of_run`) begins by what they agreed on before: to agree takes the lab's time.
        """

    def wait_for_samples(self, first_ns: int, every_ns: int) -> None:
        """Wait until all parts have made the same number of samples."""

    def gather_rows(self, files: Mapping[Path, int]) -> None:
        """Have the rows of all parts in the files of series, from an octet on, in the order of time."""


class Whole:
    """A network in one kernel."""

    number, many = 0, 1

    def part_of(self, node: str) -> int:
        return 0

    def has(self, node: str) -> bool:
        return True

    def exchange(self, what: str, value: T) -> list[T]:
        return [value]

    def of(self, node: str, what: str, read: Callable[[], T]) -> T:
        return read()

    def by_first(self, what: str, do: Callable[[], T]) -> T:
        return do()

    def meet(self, what: str) -> int:
        return time.monotonic_ns()

    def bring_flow_counts(
        self, ends: Sequence[tuple[str, str]], sent: memoryview[int], received: memoryview[int]
    ) -> None: ...

    def first_sample(self, now_ns: int, run_ns: int, every_ns: int, *, of_run: bool) -> tuple[int, int]:
        return now_ns, run_ns

    def wait_for_samples(self, first_ns: int, every_ns: int) -> None: ...

    def gather_rows(self, files: Mapping[Path, int]) -> None: ...
