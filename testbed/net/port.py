"""What a user says about ports and switch buffers, in words of switch command lines.

`Port` is one port: which priorities are lossless, how a frame's priority is found, shares of the line, ECN. `Buffer` is
a switch: one buffer over all its ports. Both have defaults that make a lossless network out of any topology.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from testbed.buffer.settings import BufferSettings, Dynamic, GroupSettings, Threshold
from testbed.ecn.curve import EcnCurve
from testbed.errors import UsageError
from testbed.pfc.settings import PfcSettings
from testbed.priority.settings import PriorityMap, Trust, require_trust
from testbed.units import Duration, Rate, Size

ROCE = 3
"""The priority that data centres commonly make lossless."""


class PortError(UsageError):
    """Settings of a port that contradict themselves."""


@dataclass(frozen=True)
class Port:
    """The settings of one port.

    `shares` are parts of the line for priorities that share it (ETS), in percent of what the strict ones leave; all
    that are not named have equal shares of what the named ones leave. `strict` priorities are served first.
    """

    pfc: PfcSettings = field(default_factory=lambda: PfcSettings(enabled=frozenset({ROCE})))
    priorities: PriorityMap = field(default_factory=lambda: PriorityMap(Trust.DSCP))
    shares: Mapping[int, int] = field(default_factory=dict)
    strict: frozenset[int] = frozenset()
    ecn: Mapping[int, EcnCurve] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "strict", frozenset(self.strict))
        for name in ("shares", "ecn"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))
        require_trust(self.priorities, self.pfc.enabled)
        for priority in [*self.shares, *self.strict, *self.ecn]:
            if priority not in range(8):
                raise PortError(f"priority {priority!r} does not exist; there are 0 to 7")
        if both := sorted(self.strict & self.shares.keys()):
            raise PortError(f"priority {both[0]} is strict and has a share; it can have one of them")
        if any(type(share) is not int or share < 1 for share in self.shares.values()):
            raise PortError(f"shares are {dict(self.shares)}; each is a whole number of percent, 1 to 100")
        unnamed = 8 - len(self.strict) - len(self.shares)
        if sum(self.shares.values()) > 100 - unnamed:
            raise PortError(
                f"shares sum up to {sum(self.shares.values())} %, and {unnamed} priorities that are not named need "
                f"1 % each; lower the shares, or name them"
            )

    def with_pfc(self, *priorities: int) -> Port:
        """The same port with these priorities lossless; none: PFC is off."""
        return replace(self, pfc=replace(self.pfc, enabled=frozenset(priorities)))

    def weights(self) -> dict[int, int]:
        """The share of each priority that is not strict, in hundredths of a percent."""
        shared = [priority for priority in range(8) if priority not in self.strict]
        unnamed = [priority for priority in shared if priority not in self.shares]
        left = (100 - sum(self.shares.values())) * 100
        return {
            priority: self.shares[priority] * 100 if priority in self.shares else left // len(unnamed)
            for priority in shared
        }


@dataclass(frozen=True)
class Buffer:
    """A switch's buffer, shared by all its ports.

    Cells of `cell` octets, `total` of them. The thresholds of a lossless priority of each port: `guaranteed`, `xoff`
    (of the shared pool: Static(cells), or Dynamic(alpha)), `xon_offset` and `headroom`. Without `headroom` each port
    gets what its cable needs: one round trip, a frame each way, the PFC frame, and `response` at both ends. `lossy`
    are the others. `groups`, by (port number, priority), go before all of this.
    """

    total: int = 5_000
    cell: int = 208
    guaranteed: int = 0
    xoff: Threshold = field(default_factory=lambda: Dynamic("1/2"))
    xon_offset: int = 96
    headroom: int | None = None
    headroom_pool: int | None = None
    lossy: GroupSettings = field(default_factory=GroupSettings)
    groups: Mapping[tuple[int, int], GroupSettings] = field(default_factory=dict)
    response: Duration = field(default_factory=lambda: Duration("150us"))
    overbook_headroom: bool = False

    def settings(self, ports: Mapping[int, PortNeeds]) -> BufferSettings:
        """The buffer of a switch that has these ports."""
        groups = {
            (number, priority): GroupSettings(
                lossless=True,
                guaranteed=self.guaranteed,
                threshold=self.xoff,
                xon_offset=self.xon_offset,
                headroom=needs.headroom_cells(self) if self.headroom is None else self.headroom,
            )
            for number, needs in ports.items()
            for priority in needs.lossless
        }
        return BufferSettings(
            ports=tuple(ports),
            total=self.total,
            headroom_pool=self.headroom_pool,
            priorities=dict.fromkeys(range(8), self.lossy),
            groups=groups | dict(self.groups),
            cell_bytes=self.cell,
            overbook_headroom=self.overbook_headroom,
        )


@dataclass(frozen=True)
class PortNeeds:
    """What decides how much headroom a port of a switch needs, on the lab's scale."""

    lossless: frozenset[int]
    rate: Rate
    delay: Duration
    mtu: int = 1500

    def headroom_cells(self, buffer: Buffer) -> int:
        """Cells for everything that still arrives after XOFF was due.

        In octets on the wire: the round trip and both ends' response at line rate, two of the longest frame (one that
        stands before the PFC frame, one that the far end has begun), and the PFC frame. All of it in the frames
        that waste most of their cells, which are the smallest: 84 octets on the wire take a cell.
        """
        longest = Size.from_bytes(self.mtu + 18 + 20)
        flight = self.rate.size_in(self.delay * 2 + buffer.response * 2)
        octets = (flight + longest * 2 + Size.from_bytes(84)).bytes
        return max(-(-octets // 84) * -(-60 // buffer.cell), -(-octets // buffer.cell))
