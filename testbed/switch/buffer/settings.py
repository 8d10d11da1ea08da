"""Settings of a switch's buffer, and the checks of their values.

The names are those of the PFC/ECN article and of switch command lines. The unit is the cell everywhere. A "group"
is one priority of one ingress port (802.1Qaz calls something else a priority group; chips call this one so).

    buffer = guaranteed of every group + headroom pool + shared pool (decision 0114)

A buffer has one total; guaranteed cells and the headroom pool come off it, and what is left is shared. Devices with
numbered pools have several such buffers, `Pool`s, and each group belongs to one. Beside them there may be egress pools:
what waits in a queue, whichever port it came in by, is limited a second time (`QueueSettings`).

A device whose thresholds are bytes has cells of 1 byte, or cells to which its driver rounds: `Static.of_bytes`.
Settings that contradict themselves never come into being: the constructors raise BufferModelError.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from types import MappingProxyType

from testbed.errors import UsageError
from testbed.switch.buffer.headroom import PER_GROUP, HeadroomPolicy

CELL_BYTES = 208
"""The size of a cell: the PFC/ECN article's example, and that of common chips."""

PRIORITIES = range(8)

MOST_CELLS = 2**31 - 1
MOST_POOLS = 4
"""The most pools in each direction."""
ALPHA_POWERS = range(-8, 9)
"""The powers n for which chips have an alpha of 2^n."""
LARGEST_TERM = 2**16 - 1
"""The limit of a total and of alpha's numerator and denominator: their product then fits 64 bits, in any language."""


class BufferModelError(UsageError):
    """Invalid settings, or a call that does not fit the buffer's content."""


class BufferBusyError(BufferModelError):
    """Valid settings that cannot apply yet, because frames lie where a pool has to shrink. Nothing was changed."""


@dataclass(frozen=True)
class Static:
    """A static threshold: PAUSE above a fixed number of cells of the shared pool. Zero pauses whatever guaranteed does
    not hold.
    """

    cells: int

    def __post_init__(self) -> None:
        _check_cells("static threshold", self.cells)

    @classmethod
    def of_bytes(cls, size: int, cell_bytes: int) -> Static:
        """Return a threshold in bytes, rounded down to cells: PAUSE is never later than that."""
        return cls(size // cell_bytes)

    @classmethod
    def part(cls, part: Fraction | str, buffer_cells: int) -> Static:
        """Return a fraction of a stated buffer, such as "3/4" of 1000 cells: converted here, once, and rounded down."""
        share = _fraction("part of a buffer", part)
        _check_cells("buffer", buffer_cells)
        return cls(share.numerator * buffer_cells // share.denominator)

    def limit(self, free: int) -> int:
        """Return the threshold, or 0 while the pool is exhausted: then every threshold counts as passed (decision
        0133).
        """
        return self.cells if free > 0 else 0


@dataclass(frozen=True)
class Dynamic:
    """A dynamic threshold: PAUSE above alpha times the free part of the shared pool; alpha may be above 1 (decision
    0131).
    """

    alpha: Fraction

    def __init__(self, alpha: Fraction | int | str) -> None:
        object.__setattr__(self, "alpha", _fraction("alpha", alpha))

    @classmethod
    def power(cls, exponent: int) -> Dynamic:
        """Return an alpha of 2^n, as chips have it: n from -8 to 8."""
        if type(exponent) is not int or exponent not in ALPHA_POWERS:
            raise BufferModelError(f"2^{exponent!r} is not an alpha of a chip; the power is -8 to 8")
        return cls(Fraction(2) ** exponent)

    @property
    def exponent(self) -> int | None:
        """The n for which alpha is 2^n and chips have it, or None."""
        return next((n for n in ALPHA_POWERS if Fraction(2) ** n == self.alpha), None)

    @classmethod
    def percent(cls, percent: Fraction | int | str) -> Dynamic:
        """Return the alpha of a number in the article's notation: 50 is an alpha of 1/2, exactly."""
        return cls(_fraction("percentage", percent) / 100)

    def limit(self, free: int) -> int:
        """Return alpha x free, rounded down."""
        return self.alpha.numerator * free // self.alpha.denominator


Threshold = Static | Dynamic


@dataclass(frozen=True)
class GroupSettings:
    """The settings of one priority of one ingress port. The defaults are a lossy priority that shares evenly."""

    lossless: bool = False  # PFC is on: over the threshold means PAUSE and headroom, not drop
    guaranteed: int = 0  # the reserve threshold; no other group gets these cells, used or not
    threshold: Threshold = field(default_factory=lambda: Dynamic(1))  # of cells in the shared pool
    xon_offset: int = 0  # how far below the threshold XON is
    headroom: int = 0  # the most headroom cells, for what arrives after XOFF
    xon: int = 0  # XON too when the group holds no more than this outside headroom, whatever the threshold is
    pool: int = 0  # which ingress pool it belongs to

    def __post_init__(self) -> None:
        for name in ("guaranteed", "xon_offset", "headroom", "xon"):
            _check_cells(name, getattr(self, name))
        _check_pool(self.pool)
        if not isinstance(self.threshold, Static | Dynamic):
            raise BufferModelError(f"{self.threshold!r} is not a threshold; write Static(cells) or Dynamic(alpha)")
        if self.headroom and not self.lossless:
            raise BufferModelError(
                f"headroom is {self.headroom} cells, but the priority is lossy and never uses any; "
                "make it lossless, or leave headroom at 0"
            )
        if isinstance(self.threshold, Static) and self.lossless and self.xon_offset > self.threshold.cells:
            raise BufferModelError(
                f"xon_offset is {self.xon_offset} cells, more than the static threshold of {self.threshold.cells}; "
                "use can never fall that far below it"
            )


@dataclass(frozen=True)
class QueueSettings:
    """The settings of one queue of one egress port: the cells that may wait in it. A frame beyond them is dropped,
    lossless or not.
    """

    reserved: int = 0  # no other queue gets these cells of the egress pool
    threshold: Threshold = field(default_factory=lambda: Dynamic(1))  # of cells in the shared part of the egress pool
    pool: int = 0

    def __post_init__(self) -> None:
        _check_cells("reserved", self.reserved)
        _check_pool(self.pool)
        if not isinstance(self.threshold, Static | Dynamic):
            raise BufferModelError(f"{self.threshold!r} is not a threshold; write Static(cells) or Dynamic(alpha)")


@dataclass(frozen=True)
class Pool:
    """An ingress pool: guaranteed cells and headroom of its groups come off `total`, the rest is shared."""

    total: int
    headroom_pool: int | None = None

    def __post_init__(self) -> None:
        _check_cells("total", self.total)
        if self.headroom_pool is not None:
            _check_cells("headroom_pool", self.headroom_pool)


@dataclass(frozen=True)
class BufferSettings:
    """The settings of a whole switch: the ports share one buffer, and each has eight priorities.

    `policy` says who may use how much headroom (`testbed.switch.buffer.headroom`).

    `priorities` is for all ports; `groups`, by (port, priority), goes before it (a long cable needs more headroom);
    what neither names is lossy. `headroom_pool` is a number of cells, or None for what the policy has.

    `total` and `headroom_pool` are ingress pool 0; `more_pools` are 1 and up. `egress_pools` are numbers of cells, and
    `queues`, by (port, queue), what waits in them; a queue that is not named is not limited.
    """

    ports: tuple[int, ...]
    total: int
    headroom_pool: int | None
    priorities: Mapping[int, GroupSettings] = field(default_factory=dict)
    groups: Mapping[tuple[int, int], GroupSettings] = field(default_factory=dict)
    cell_bytes: int = CELL_BYTES
    overbook_headroom: bool = False  # as chips allow: the pool may be less than the sum of the headrooms
    more_pools: tuple[Pool, ...] = ()
    egress_pools: tuple[int, ...] = ()
    queues: Mapping[tuple[int, int], QueueSettings] = field(default_factory=dict)
    policy: HeadroomPolicy = PER_GROUP

    def __post_init__(self) -> None:
        for name in ("more_pools", "egress_pools"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        for pool in self.pools:
            if not isinstance(pool, Pool):
                raise BufferModelError(f"{pool!r} is not an ingress pool; write Pool(total, headroom_pool)")
        for size in self.egress_pools:
            _check_cells("egress pool", size)
        if type(self.cell_bytes) is not int or not 1 <= self.cell_bytes <= 65535:
            raise BufferModelError(f"cell_bytes is {self.cell_bytes!r}; a cell has 1 to 65535 bytes")
        object.__setattr__(self, "ports", tuple(self.ports))
        if (
            not self.ports
            or len(set(self.ports)) < len(self.ports)
            or any(type(port) is not int for port in self.ports)
        ):
            raise BufferModelError(f"ports are {self.ports!r}; name at least one, each by a number of its own")
        for name in ("priorities", "groups", "queues"):  # a copy: what was checked stays as it was
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))
        for priority in [*self.priorities, *(priority for _, priority in [*self.groups, *self.queues])]:
            if type(priority) is not int or priority not in PRIORITIES:
                raise BufferModelError(f"priority {priority!r} does not exist; there are 0 to 7")
        for port, _ in [*self.groups, *self.queues]:
            self.check_port(port)
        self._check_pools()
        for number in range(len(self.pools)):
            self._check_sums(number)
        self._check_egress()

    def check_port(self, port: int) -> None:
        if port not in self.ports:
            raise BufferModelError(f"port {port!r} is not one of this buffer's: {', '.join(map(str, self.ports))}")

    def group(self, port: int, priority: int) -> GroupSettings:
        return self.groups.get((port, priority)) or self.priorities.get(priority) or LOSSY

    def all_groups(self) -> dict[tuple[int, int], GroupSettings]:
        return {(port, priority): self.group(port, priority) for port in self.ports for priority in PRIORITIES}

    @property
    def pools(self) -> tuple[Pool, ...]:
        """The ingress pools."""
        return Pool(self.total, self.headroom_pool), *self.more_pools

    def without_effect(self) -> list[str]:
        """Return a warning for each static threshold of a lossless group that its pool cannot reach."""
        shared_cells = [self.pool_cells(number)[1] for number in range(len(self.pools))]
        too_high: dict[tuple[int, int], None] = {}
        for group in self.all_groups().values():
            shared = shared_cells[group.pool]
            if group.lossless and isinstance(group.threshold, Static) and group.threshold.cells > shared:
                too_high[group.threshold.cells, shared] = None
        return [
            f"Static({cells}) is never passed, since the groups share {shared} cells: PAUSE is sent only when all of "
            "them are in use; use a lower threshold or a larger buffer"
            for cells, shared in too_high
        ]

    def pool_cells(self, pool: int) -> tuple[int, int, int]:
        """Return the guaranteed, shared and headroom cells of an ingress pool."""
        guaranteed, headroom = self._sum("guaranteed", pool), self._headroom_of(pool)
        return guaranteed, self.pools[pool].total - guaranteed - headroom, headroom

    def egress_cells(self, pool: int) -> tuple[int, int]:
        """Return the reserved and shared cells of an egress pool."""
        reserved = sum(queue.reserved for queue in self.queues.values() if queue.pool == pool)
        return reserved, self.egress_pools[pool] - reserved

    @property
    def guaranteed_cells(self) -> int:
        """The guaranteed cells of pool 0, of which the next ones are too."""
        return self.pool_cells(0)[0]

    @property
    def headroom_cells(self) -> int:
        """The headroom pool in cells, as given, or as the policy has it."""
        return self._headroom_of(0)

    @property
    def shared_cells(self) -> int:
        return self.pool_cells(0)[1]

    @property
    def missing_headroom(self) -> int:
        """The cells by which headroom is overbooked, in all pools. Above 0 no priority may be called lossless (decision
        0114).
        """
        return sum(self._missing_in(pool) for pool in range(len(self.pools)))

    def _missing_in(self, pool: int) -> int:
        return max(0, sum(self.policy.promised(self._headrooms(pool)).values()) - self._headroom_of(pool))

    def _headroom_of(self, pool: int) -> int:
        given = self.pools[pool].headroom_pool
        return self.policy.pool(self._headrooms(pool)) if given is None else given

    def _headrooms(self, pool: int) -> dict[tuple[int, int], int]:
        return {key: group.headroom for key, group in self.all_groups().items() if group.pool == pool}

    def _sum(self, name: str, pool: int) -> int:
        return sum(getattr(group, name) for group in self.all_groups().values() if group.pool == pool)

    def cells(self, length: int) -> int:
        """Return the cells for a frame of `length` bytes, rounded up. The caller decides which bytes count (FCS or
        not).
        """
        if type(length) is not int or length < 1:
            raise BufferModelError(f"a frame of {length!r} bytes is invalid; it has at least 1")
        return -(-length // self.cell_bytes)

    def _check_pools(self) -> None:
        for name, pools in (("ingress", self.pools), ("egress", self.egress_pools)):
            if len(pools) > MOST_POOLS:
                raise BufferModelError(f"there are {len(pools)} {name} pools; at most {MOST_POOLS} are possible")
        for (port, priority), group in self.all_groups().items():
            if group.pool >= len(self.pools):
                raise BufferModelError(
                    f"port {port} priority {priority}: there is no ingress pool {group.pool}; the last is "
                    f"{len(self.pools) - 1}"
                )
        if not self.policy.pauses_ports:
            return
        pool_of: dict[int, int] = {}
        for (port, priority), group in self.all_groups().items():
            if group.lossless and pool_of.setdefault(port, group.pool) != group.pool:
                raise BufferModelError(
                    f"port {port} priority {priority} is in pool {group.pool}, and another lossless group of the port "
                    f"in pool {pool_of[port]}; with headroom {self.policy.name!r} a port has all of them in one pool"
                )

    def _check_sums(self, number: int) -> None:
        guaranteed, shared, pool = self.pool_cells(number)
        name = f" of pool {number}" if self.more_pools else ""
        for (port, priority), group in self.all_groups().items():
            if group.pool == number and group.headroom > pool:
                raise BufferModelError(
                    f"port {port} priority {priority}: headroom is {group.headroom} cells and the headroom pool{name} "
                    f"has {pool}: {group.headroom - pool} cells are missing"
                )
        missing = self._missing_in(number)
        if missing and not self.overbook_headroom and not self.policy.overbooks:
            raise BufferModelError(
                f"headroom of all groups{name} is {pool + missing} cells and the headroom pool has "
                f"{pool}: {missing} cells are missing; enlarge the pool, or set "
                "overbook_headroom, without a guarantee of no loss"
            )
        if shared < 0:
            raise BufferModelError(
                f"guaranteed cells of all groups{name} are {guaranteed}, the headroom pool is "
                f"{pool}, and the buffer has {self.pools[number].total}: {-shared} cells are missing"
            )

    def _check_egress(self) -> None:
        for (port, queue), settings in self.queues.items():
            if settings.pool >= len(self.egress_pools):
                raise BufferModelError(f"port {port} queue {queue}: there is no egress pool {settings.pool}")
        for number, size in enumerate(self.egress_pools):
            reserved, shared = self.egress_cells(number)
            if shared < 0:
                raise BufferModelError(
                    f"reserved cells of all queues of egress pool {number} are {reserved}, and it has {size}: "
                    f"{-shared} cells are missing"
                )


def split_evenly(reserve: int, ports: tuple[int, ...]) -> int:
    """Return a priority's reserve for the whole switch as `guaranteed` of each port (article, guaranteed space).

    Rounded down: the few cells that do not divide stay in the shared pool.
    """
    _check_cells("reserve", reserve)
    if not ports:
        raise BufferModelError("a reserve cannot be split over no ports; name at least one")
    return reserve // len(ports)


def _check_cells(name: str, value: int) -> None:
    if type(value) is not int or not 0 <= value <= MOST_CELLS:
        raise BufferModelError(f"{name} is {value!r}; it is a whole number of cells, 0 to {MOST_CELLS}")


def _check_pool(pool: int) -> None:
    if type(pool) is not int or not 0 <= pool < MOST_POOLS:
        raise BufferModelError(f"pool is {pool!r}; pools have the numbers 0 to {MOST_POOLS - 1}")


def _fraction(name: str, value: Fraction | int | str) -> Fraction:
    """Return an exact fraction above 0. A float is refused: 0.1 is not one tenth."""
    exact = None
    if isinstance(value, Fraction | str) or type(value) is int:
        try:
            exact = Fraction(value)
        except (ValueError, ZeroDivisionError):
            exact = None
    if exact is None or exact <= 0 or max(exact.numerator, exact.denominator) > LARGEST_TERM:
        shown = str(value) if isinstance(value, Fraction) else repr(value)
        raise BufferModelError(
            f"{name} is {shown}; it is a fraction above 0 such as '1/8', with terms up to {LARGEST_TERM}"
        )
    return exact


LOSSY = GroupSettings()
"""The settings of a priority that nobody has set."""
