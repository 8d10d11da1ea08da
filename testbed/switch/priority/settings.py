"""The settings by which a port finds a frame's priority: its trust mode and its tables.

It implements the settings in "priority and queue mapping" of the PFC/ECN article, by decision 0136. A frame first gets
a dot1p value, 0 to 7: PFC counts cells and sends PAUSE for this one. The dot1p value gives the local priority, which is
the number of the queue. Switches with traffic classes have more tables: PCP to class (our dot1p value), class to the
priority group that is charged (and for which PAUSE is sent), and priority of an arriving PAUSE to queue. On request the
forwarded frame's own PCP or DSCP is rewritten by the dot1p value. What a switch
does with these settings is `classify`, what a sending host does is `marking`.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from testbed.errors import UsageError

PRIORITIES = range(8)
DSCPS = range(64)

AS_DEFAULT: Mapping[int, int] = MappingProxyType({})
"""A table in which nothing differs from the default."""

UNCHANGED = 0xFF
"""The number in `PriorityMap.tables` for a frame that keeps what it has."""


class PriorityError(UsageError):
    """Invalid settings of a port."""


class Trust(enum.StrEnum):
    """The marking of an arriving frame that a port trusts."""

    NONE = "none"  # none: the port's own priority stands for it
    DOT1P = "dot1p"  # the PCP of its VLAN tag (802.1p)
    DSCP = "dscp"  # the DSCP of its IP header


@dataclass(frozen=True, init=False)
class PriorityMap:
    """The priority settings of one port; the defaults are the article's device before it was configured.

    A table may be given whole, or as {from: to} for what differs from the default: PriorityMap("dscp",
    dscp_to_dot1p={46: 5}). In the two tables of rewriting, what is not named, or None, is left as it is.
    """

    trust: Trust
    port_priority: int  # for frames whose own priority is not trusted, or that have none
    dscp_to_dot1p: tuple[int, ...]  # by default DSCP // 8, the class selector
    dot1p_to_local: tuple[int, ...]  # by default the same number
    rewrite_dot1p: tuple[int | None, ...]  # the PCP that a forwarded frame of this dot1p value gets
    rewrite_dscp: tuple[int | None, ...]  # the DSCP that a forwarded frame of this dot1p value gets
    pcp_to_dot1p: tuple[int, ...]  # by default the same number
    dei_to_dot1p: tuple[int, ...]  # the same for tags whose drop eligible indicator is set; by default as pcp_to_dot1p
    dot1p_to_group: tuple[int, ...]  # the priority group that a frame coming in is charged to; by default the same
    pause_to_local: tuple[int, ...]  # the queue that a PFC frame's priority stops; by default as dot1p_to_local

    def __init__(
        self,
        trust: Trust | str = Trust.NONE,
        port_priority: int = 0,
        *,
        dscp_to_dot1p: Mapping[int, int] | Sequence[int] = AS_DEFAULT,
        dot1p_to_local: Mapping[int, int] | Sequence[int] = AS_DEFAULT,
        rewrite_dot1p: Mapping[int, int | None] | Sequence[int | None] = AS_DEFAULT,
        rewrite_dscp: Mapping[int, int | None] | Sequence[int | None] = AS_DEFAULT,
        pcp_to_dot1p: Mapping[int, int] | Sequence[int] = AS_DEFAULT,
        dei_to_dot1p: Mapping[int, int] | Sequence[int] = AS_DEFAULT,
        dot1p_to_group: Mapping[int, int] | Sequence[int] = AS_DEFAULT,
        pause_to_local: Mapping[int, int] | Sequence[int] = AS_DEFAULT,
    ) -> None:
        if trust not in list(Trust):
            raise PriorityError(f"trust is {trust!r}; it is 'dot1p', 'dscp' or 'none'")
        _check("port_priority", port_priority, PRIORITIES)
        nothing = [None] * len(PRIORITIES)
        tables = {
            "dscp_to_dot1p": _table("dscp_to_dot1p", dscp_to_dot1p, [dscp // 8 for dscp in DSCPS], PRIORITIES),
            "dot1p_to_local": _table("dot1p_to_local", dot1p_to_local, PRIORITIES, PRIORITIES),
            "rewrite_dot1p": _table("rewrite_dot1p", rewrite_dot1p, nothing, PRIORITIES),
            "rewrite_dscp": _table("rewrite_dscp", rewrite_dscp, nothing, DSCPS),
            "pcp_to_dot1p": _table("pcp_to_dot1p", pcp_to_dot1p, PRIORITIES, PRIORITIES),
            "dot1p_to_group": _table("dot1p_to_group", dot1p_to_group, PRIORITIES, PRIORITIES),
        }
        plain, local = tables["pcp_to_dot1p"], tables["dot1p_to_local"]
        tables["dei_to_dot1p"] = _table("dei_to_dot1p", dei_to_dot1p, plain, PRIORITIES)
        tables["pause_to_local"] = _table("pause_to_local", pause_to_local, local, PRIORITIES)
        for name, value in {"trust": Trust(trust), "port_priority": port_priority, **tables}.items():
            object.__setattr__(self, name, value)

    def carrier(self, priority: int) -> int | None:
        """Return the DSCP that a host sets for a priority: its class selector if that maps to it, else the lowest that
        does.

        None if no DSCP maps to it: with trust dscp no IP packet has this priority.
        """
        selector = priority * 8
        if self.dscp_to_dot1p[selector] == priority:
            return selector
        return self.dscp_to_dot1p.index(priority) if priority in self.dscp_to_dot1p else None

    @property
    def looks_at_dei(self) -> bool:
        """True if the drop eligible indicator of a tag changes the priority of some frames."""
        return self.dei_to_dot1p != self.pcp_to_dot1p

    def tables(self) -> bytes:
        """Return everything but pause_to_local, which agents have, and dei_to_dot1p, which few networks have, as 114
        octets for the data plane; 0xFF is "unchanged", or "no DSCP" in the table of what a host sets.

        octet  0      trust: 0 none, 1 dot1p, 2 dscp
               1      port priority
               2-65   dot1p value by DSCP
               66-73  local priority by dot1p value
               74-81  PCP of the forwarded frame by dot1p value
               82-89  DSCP of the forwarded frame by dot1p value
               90-97  DSCP that a host sets, by priority (`carrier`)
               98-105 dot1p value by PCP
               106-113 priority group by dot1p value
        """
        carriers = [self.carrier(priority) for priority in PRIORITIES]
        optional = [*self.rewrite_dot1p, *self.rewrite_dscp, *carriers]
        return bytes(
            [
                list(Trust).index(self.trust),
                self.port_priority,
                *self.dscp_to_dot1p,
                *self.dot1p_to_local,
                *(UNCHANGED if value is None else value for value in optional),
                *self.pcp_to_dot1p,
                *self.dot1p_to_group,
            ]
        )


def require_trust(settings: PriorityMap, enabled: Iterable[int], port: str = "this port") -> None:
    """Refuse PFC on a port that trusts nothing: there the far end's priorities mean nothing."""
    priorities = check_priorities(enabled, port)
    if priorities and settings.trust is Trust.NONE:
        raise PriorityError(
            f"{port} has PFC on for {named(priorities)} and no trust mode, so the priority in a PFC frame would mean "
            "nothing to it; set its trust to dot1p or dscp, or switch PFC off there"
        )


def check_priorities(enabled: Iterable[int], port: str) -> frozenset[int]:
    """Return the priorities with PFC of a port, each from 0 to 7."""
    priorities = frozenset(enabled)
    for priority in priorities:
        if type(priority) is not int or priority not in PRIORITIES:
            raise PriorityError(f"{port} has PFC on for priority {priority!r}; there are 0 to 7")
    return priorities


def named(priorities: Iterable[int]) -> str:
    """Return priorities in order as text, as in "priority 3" and "priorities 3 and 4"."""
    numbers = [str(priority) for priority in sorted(priorities)]
    if len(numbers) == 1:
        return f"priority {numbers[0]}"
    return f"priorities {', '.join(numbers[:-1])} and {numbers[-1]}"


def _table(name: str, given: object, default: Sequence[int | None], values: range) -> tuple[int | None, ...]:
    """Return the whole table: what is given over the default, or given whole."""
    if isinstance(given, Mapping):
        changes = dict(given)
    elif isinstance(given, Sequence) and not isinstance(given, str | bytes) and len(given) == len(default):
        changes = dict(enumerate(given))
    else:
        raise PriorityError(f"{name} is {_shown(given)}; give {{from: to}}, or all {len(default)} numbers in order")
    table = list(default)
    for key, value in changes.items():
        _check(f"{name} names", key, range(len(default)))
        if value is not None or default[key] is not None:
            _check(f"{name} of {key}", value, values)
        table[key] = value
    return tuple(table)


def _check(what: str, value: object, values: range) -> None:
    if type(value) is not int or value not in values:
        verb = "" if what.endswith("names") else " is"
        raise PriorityError(f"{what}{verb} {_shown(value)}; there are 0 to {values[-1]}")


def _shown(value: object) -> str:
    """Return a value as an error message shows it, never long."""
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
