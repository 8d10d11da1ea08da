"""The interface of rate controls, and the registry of those that have a name."""

from __future__ import annotations

import enum
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from testbed import plugins
from testbed.bytecode import sources
from testbed.errors import UsageError, nearest
from testbed.frames import telemetry
from testbed.frames.telemetry import Stamp
from testbed.units import NEVER, Line


class RateControlError(UsageError):
    """A rate control that does not exist, or parameters that it cannot have."""


class KernelRate(enum.IntEnum):
    """The rate controls that the kernel of the engine `um` has (testbed/lab/um/linux/xoff_roce.h)."""

    FIXED = 0
    DCQCN = 1
    TIMELY = 2
    OWN = 3
    """One that is code (`testbed.roce.control`), or that its caller tells of each event."""


@dataclass(frozen=True)
class Acknowledgement:
    """The content of an acknowledgement, for a rate control that counts them."""

    packets: int
    """The packets that it acknowledges and none before did."""
    until: int
    """The number of the first packet that is not acknowledged; packets have numbers in a row."""
    next: int
    """The number of the packet that is sent next."""
    round_trip_lab_ns: int | None = None
    """The time since the newest acknowledged packet was sent; None if that was sent more than once."""
    stamps: tuple[Stamp, ...] = ()
    """The stamps that ports with `Port(telemetry=True)` wrote into the newest packet, in the order of its way."""


class RateControl:
    """The rate of one queue pair. It is called when something happens; `now_lab_ns` never goes backwards.

    It counts in the lab's units, and the names say so; `Line` turns the hardware's into them. A subclass sets
    `rate_lab_bps`, and has those of the methods that it needs.
    """

    needs_marks: ClassVar[bool] = False
    """True if it slows down by CNPs alone; where no port on a flow's way marks, the run then has a warning."""
    counts_acknowledgements: ClassVar[bool] = False
    """True if every packet asks for an acknowledgement, and `on_acknowledged` is called for each. Reads have none."""
    needs_telemetry: ClassVar[bool] = False
    """True if packets collect stamps of ports, which acknowledgements bring back."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        sources.keep(getattr(sys.modules.get(cls.__module__), "__file__", None))

    def __init__(self, line: Line) -> None:
        self.line = line
        self.rate_lab_bps: float = float(line.rate.bps)
        """Bits on the wire per second."""
        self.window: int | None = None
        """The most packets that may be under way; None: those of `Settings.window`."""

    def on_sent(self, now_lab_ns: int, octets: int) -> None:
        """A packet of the queue pair was sent, with so many octets on the wire."""

    def on_sent_run(self, now_lab_ns: int, octets: int, many: int) -> None:
        """Packets were sent together, with so many octets each."""
        for _ in range(many):
            self.on_sent(now_lab_ns, octets)

    def on_cnp(self, now_lab_ns: int) -> None:
        """A congestion notification packet came."""

    def on_round_trip(self, now_lab_ns: int, round_trip_lab_ns: int) -> None:
        """A packet was acknowledged so long after it was sent."""

    def on_acknowledged(self, now_lab_ns: int, acknowledged: Acknowledgement) -> None:
        """An acknowledgement came; only with `counts_acknowledgements`."""

    def on_loss(self, now_lab_ns: int) -> None:
        """The queue pair goes back to a packet that was sent before."""

    @property
    def deadline_lab_ns(self) -> int:
        """The moment at which `on_deadline` has to be called, by the same clock."""
        return NEVER

    def on_deadline(self, now_lab_ns: int) -> None:
        """The deadline has come."""

    def in_kernel(self) -> tuple[KernelRate, dict[str, float]] | None:
        """Return what the lab's kernel has to know to be this rate control, or None if it cannot: a rate control of
        one's own runs in Python, and so does a subclass of one of Xoff's.
        """
        return None

    def settle(self, now_lab_ns: int) -> None:
        """Do what is due until a moment, for those who look at the state then: to a copy, so that looking changes
        nothing.
        """
        while self.deadline_lab_ns <= now_lab_ns:
            self.on_deadline(now_lab_ns)

    def state(self) -> dict[str, float]:
        """Return the values that samples show, by name; those of the lab have names that end in `_lab_bps` or
        `_lab_ns`.
        """
        return {"rate_lab_bps": self.rate_lab_bps}


for _file in (__file__, telemetry.__file__):
    sources.keep(_file)


Maker = Callable[[Line], RateControl]
_MAKERS: dict[str, Maker] = {}


def register(name: str, maker: Maker) -> None:
    """Give a rate control a name; the class itself is a maker, if its constructor takes the line alone."""
    if name in _MAKERS:
        raise RateControlError(f"there is a rate control {name} already; choose another name")
    _MAKERS[name] = maker


def names() -> list[str]:
    """Return all names, with those of packages of others."""
    return sorted({*_MAKERS, *(plugin.name for plugin in plugins.of_group(plugins.RATE_CONTROLS))})


def maker_of(choice: str | Maker) -> Maker:
    """Return the maker of a rate control, given as a name, a subclass of RateControl, or a function of the line."""
    if callable(choice):
        return choice
    if choice not in _MAKERS and (plugin := plugins.named(plugins.RATE_CONTROLS, choice)) is not None:
        maker = plugin.load()
        if not callable(maker):
            raise plugin.error(f"it is {maker!r}, and neither a subclass of RateControl nor a function of the line")
        _MAKERS[choice] = maker
    if choice not in _MAKERS:
        raise RateControlError(f"there is no rate control {choice!r}; {nearest(choice, names())}")
    return _MAKERS[choice]


def control(choice: str | Maker, line: Line) -> RateControl:
    """A new rate control."""
    made = maker_of(choice)(line)
    if not isinstance(made, RateControl):
        raise RateControlError(f"{choice!r} makes {made!r}; a rate control is a subclass of RateControl")
    return made
