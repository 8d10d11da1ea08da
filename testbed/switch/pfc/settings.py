"""Settings of PFC at a port, and the checks of their values.

The constructors raise PfcError, so settings that contradict themselves never come into being. What depends on the
speed of the port too, which is whether a pause is long enough to be repeated in time, is checked by `PfcPort`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

from testbed.errors import UsageError
from testbed.frames.mac_control import LONGEST_PAUSE, PRIORITIES
from testbed.switch.pfc import mask_of
from testbed.units import Duration


class PfcError(UsageError, ValueError):
    """Invalid settings, or a call that does not fit the state of the port."""


class Action(enum.StrEnum):
    """The treatment of a queue in a storm."""

    DROP = "drop"  # its frames are thrown away, so that buffers behind it drain
    FORWARD = "forward"  # it sends although it is paused
    ALERT = "alert"  # nothing: the storm is counted and logged, and the queue stays paused


class Kind(enum.StrEnum):
    """The ways in which a watchdog finds a storm, and its end (decision 0581)."""

    IDEAL = "ideal"  # it misses nothing: at the first poll at or after the time
    SONIC = "sonic"  # by what SONiC's scripts see at their polls
    HARDWARE = "hardware"  # by timers of the chip: a storm is over after the restoration time, whatever comes


@dataclass(frozen=True)
class WatchdogSettings:
    """The times after which a pause counts as a storm, and a storm is over; `kind` may be a word, such as "sonic"."""

    detection: Duration  # paused without a break for this long is a storm
    restoration: Duration  # no XOFF for this long ends it
    poll: Duration = Duration("100ms")  # both are looked at only at whole multiples of this
    action: Action = Action.DROP
    kind: Kind = Kind.IDEAL

    def __post_init__(self) -> None:
        if self.kind not in list(Kind):
            kinds = ", ".join(repr(kind.value) for kind in Kind)
            raise PfcError(f"the watchdog's kind is {_shown(self.kind)}; write one of {kinds}")
        object.__setattr__(self, "kind", Kind(self.kind))
        for name in ("detection", "restoration", "poll"):
            value = getattr(self, name)
            if not isinstance(value, Duration) or value.ps == 0:
                raise PfcError(f"the watchdog's {name} is {_shown(value)}; write a time above zero such as '200ms'")
        if not isinstance(self.action, Action):
            names = ", ".join(f"Action.{action.name}" for action in Action)
            raise PfcError(f"the watchdog's action is {_shown(self.action)}; write {names}")

    def times(self, change: Callable[[Duration], Duration]) -> WatchdogSettings:
        """Return the same settings with each of the times changed, for example by `Scale.lab`."""
        return replace(
            self, detection=change(self.detection), restoration=change(self.restoration), poll=change(self.poll)
        )


@dataclass(frozen=True)
class PfcSettings:
    """The settings of PFC at one port. The defaults are those of switches, but PFC is off until priorities are
    named.
    """

    enabled: frozenset[int] = frozenset()  # priorities with PFC on, in both directions
    pause_quanta: int = LONGEST_PAUSE  # the time in each XOFF
    refresh: Fraction = Fraction(1, 2)  # while congestion lasts, PAUSE is repeated after this part of its time
    send_xon: bool = True  # if not, the far end has to wait until its pause is over (decision 0132)
    watchdog: WatchdogSettings | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "enabled", frozenset(self.enabled))
        for priority in sorted(self.enabled, key=str):
            check_priority(priority)
        if type(self.pause_quanta) is not int or not 1 <= self.pause_quanta <= LONGEST_PAUSE:
            raise PfcError(
                f"pause_quanta is {_shown(self.pause_quanta)}; must be 1 to {LONGEST_PAUSE} quanta, and 0 would be XON"
            )
        if not isinstance(self.refresh, Fraction) or not 0 < self.refresh <= Fraction(1, 2):
            raise PfcError(
                f"refresh is {_shown(self.refresh)}; it is a part of the pause such as Fraction(1, 2), above 0 and at "
                "most 1/2, so that one lost PAUSE does not let the far end go"
            )
        if self.watchdog is not None and not isinstance(self.watchdog, WatchdogSettings):
            raise PfcError(f"watchdog is {_shown(self.watchdog)}; write WatchdogSettings(...), or None for no watchdog")

    @property
    def mask(self) -> int:
        """The enabled priorities as a bit mask."""
        return mask_of(self.enabled)


def check_priority(priority: object) -> None:
    if type(priority) is not int or priority not in PRIORITIES:
        raise PfcError(f"priority {_shown(priority)} does not exist; there are 0 to 7")


def _shown(value: object) -> str:
    """Return a value as an error message shows it, never long."""
    text = str(value) if isinstance(value, Fraction | Duration) else repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
