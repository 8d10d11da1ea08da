"""Cables in units of the hardware, and the same cables on the lab's scale; lines, and when a node has a frame."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from testbed.errors import UsageError
from testbed.switch.pfc.line import PFC_FRAME
from testbed.units import Duration, Length, Rate, Scale, Size

if TYPE_CHECKING:  # in the lab each module that is imported takes time, and most cables have neither
    from testbed.switch.link.errors import Errors
    from testbed.switch.link.jam import Jam
    from testbed.switch.link.retry import Llr

MTU = 1500
MTUS = range(1280, 9216 + 1)
"""The possible MTUs: from the least that IPv6 needs to the jumbo frames of common switches."""
HEADER = Size.from_bytes(8 + 64)
"""The part of a frame that a node has to have before it cuts through."""


class CableError(UsageError):
    """The description of a cable contradicts itself or is out of range."""


@dataclass(frozen=True)
class Cable:
    """A full-duplex cable: `Cable("100Gb/s", "50km")`, or with a delay instead of a length.

    `loss` is the fraction of frames that the cable loses in each direction; lossless Ethernet needs 0. `errors` is the
    law by which bits are damaged, `BitErrors("1e-9")` or `FecErrors("1e-6")`; a damaged frame is lost, unless `llr`
    repairs it: Link Layer Retry, True or `Llr(...)`. `mtu` is the MTU of both its ports in octets: 9216 for jumbo
    frames.
    """

    rate: Rate
    delay: Duration
    length: Length | None
    loss: Fraction
    mtu: int
    errors: Errors | None
    llr: Llr | None
    """As it was given; `retry` has what the cable chooses, too."""

    def __init__(
        self,
        rate: Rate | str = "10Gb/s",
        length: Length | str | None = None,
        *,
        delay: Duration | str | None = None,
        loss: Fraction | str | int = 0,
        mtu: int = MTU,
        errors: Errors | None = None,
        llr: Llr | bool | None = None,
    ) -> None:
        if length is not None and delay is not None:
            raise CableError(f"a cable has a length ({length}) or a delay ({delay}), not both")
        run = None if length is None else Length(length)
        object.__setattr__(self, "rate", Rate(rate))
        object.__setattr__(self, "length", run)
        object.__setattr__(self, "delay", run.propagation() if run else Duration(delay or "0s"))
        object.__setattr__(self, "loss", _part(loss))
        object.__setattr__(self, "mtu", mtu)
        object.__setattr__(self, "errors", errors)
        object.__setattr__(self, "llr", llr or None)
        if not self.rate.bps:
            raise CableError("a cable of 0b/s carries nothing; give a rate above zero")
        if type(mtu) is not int or mtu not in MTUS:
            raise CableError(f"mtu is {mtu!r}; a whole number of octets is expected, {MTUS[0]} to {MTUS[-1]}")
        if errors or llr:
            self._check_link(errors, llr)

    def _check_link(self, errors: object, llr: object) -> None:
        from testbed.switch.link.errors import Errors
        from testbed.switch.link.retry import Llr

        if not isinstance(errors, Errors | None):
            raise CableError(f"errors is {errors!r}; write BitErrors('1e-9') or FecErrors('1e-6')")
        if llr is True:
            object.__setattr__(self, "llr", Llr())
        elif llr and not isinstance(llr, Llr):
            raise CableError(f"llr is {llr!r}; write True, or Llr(...)")
        self.retry  # noqa: B018 - a cable on which it cannot work is refused at once

    @property
    def retry(self) -> Llr | None:
        """Link Layer Retry with what the cable chooses; None if it has none."""
        llr = self.llr
        return llr if llr is None or llr.is_in_lab_time else llr.on(self.rate, self.delay, self.length, self.mtu)

    @property
    def is_plain(self) -> bool:
        """True if frames are there at once, and all of them."""
        return not (self.delay.ps or self.loss or self.errors or self.llr)

    def with_delay(self, delay: Duration) -> Cable:
        """Return the same cable with another delay, and with no length."""
        return self._like(self.rate, delay, self.loss, self.llr)

    def with_loss(self, loss: Fraction | str | int) -> Cable:
        """Return the same cable with another loss."""
        return self._like(self.rate, self.delay, _part(loss), self.llr)

    def with_llr(self, llr: Llr) -> Cable:
        """Return the same cable with other settings of Link Layer Retry."""
        return self._like(self.rate, self.delay, self.loss, llr)

    def in_lab(self, scale: Scale) -> Cable:
        """Return the same cable on the lab's scale: its rate divided, its delay multiplied."""
        retry = self.retry and self.retry.in_lab(scale)
        return self._like(scale.lab(self.rate), scale.lab(self.delay), self.loss, retry)

    def in_hardware(self, scale: Scale) -> Cable:
        """Return the cable of the hardware for which this one of the lab stands."""
        retry = self.llr and self.llr.in_hardware(scale)
        return self._like(scale.real(self.rate), scale.nearest_real(self.delay), self.loss, retry)

    def _like(self, rate: Rate, delay: Duration, loss: Fraction, llr: Llr | None) -> Cable:
        return Cable(rate, delay=delay, loss=loss, mtu=self.mtu, errors=self.errors, llr=llr)

    def __str__(self) -> str:
        lost = f", losing {self.loss} of the frames" if self.loss else ""
        lost += f", {self.errors}" if self.errors else ""
        lost += ", LLR" if self.llr else ""
        jumbo = f", MTU {self.mtu}" if self.mtu != MTU else ""
        return f"{self.rate} over {self.length or self.delay}{lost}{jumbo}"


def _part(loss: Fraction | str | int) -> Fraction:
    try:
        part = Fraction(loss)
    except (ValueError, ZeroDivisionError):
        part = Fraction(-1)
    if not 0 <= part <= 1:
        raise CableError(f"loss is {loss!r}; it is a part of the frames, from 0 to 1, such as '1/1000'")
    return part


class Line(enum.StrEnum):
    """The model of the lines at a node's ports (decision 0620)."""

    REAL = "real"
    """PFC frames wait for the frame that is leaving and take their time; cells come free with a frame's last bit."""
    IDEAL = "ideal"
    """PFC frames never wait and take no time; cells come free with a frame's first bit."""

    @classmethod
    def of(cls, where: str, value: object) -> Line:
        """Return what a user has written, the real one if it is nothing; UsageError if it does not exist."""
        return cls.REAL if value is None else cls(_known(where, "line", value, cls))


class Forwarding(enum.StrEnum):
    """The moment at which a node has a frame that comes in; without this setting it is that of the first bit."""

    CUT_THROUGH = "cut-through"  # with the preamble and the first 64 octets
    STORE_AND_FORWARD = "store-and-forward"  # with the last bit

    @classmethod
    def of(cls, where: str, value: object) -> Forwarding | None:
        """Return what a user has written; UsageError if it is nothing that exists."""
        return None if value is None else cls(_known(where, "forwarding", value, cls))


def _known(where: str, name: str, value: object, kinds: type[enum.StrEnum]) -> str:
    if isinstance(value, str) and value in list(kinds):
        return value
    raise UsageError(f"{where}: {name} is {value!r}; write {' or '.join(repr(one.value) for one in kinds)}")


def pause_ns(rate: Rate, line: Line, forwarding: Forwarding | None) -> int:
    """Return the time from when a PFC frame comes in until its last bit has.

    `line` is that of the sender. What stores frames gets none before that, and what cuts through has its header.
    """
    if line is Line.IDEAL or forwarding is Forwarding.STORE_AND_FORWARD:
        return 0
    waits = PFC_FRAME.bytes - (HEADER.bytes if forwarding is Forwarding.CUT_THROUGH else 0)
    return rate.time_for(Size.from_bytes(waits)).ns


_WAITS = {None: 0, Forwarding.CUT_THROUGH: 1, Forwarding.STORE_AND_FORWARD: 2}


class LlrMode(enum.IntFlag):
    """The part of Link Layer Retry that an end of a cable does, as the kernel has it (`enum xl_mode`)."""

    SENDS = 1
    """It numbers what it sends: OTG's `llr_mode_remote`."""
    RECEIVES = 2
    """It takes frames with numbers: OTG's `llr_mode_local`."""
    UNNUMBERED = 4
    """Its frames go without a number all the same."""


BOTH_WAYS = LlrMode.SENDS | LlrMode.RECEIVES
NO_LLR = LlrMode(0)


def line_settings(
    cable: Cable, forwarding: Forwarding | None, seed: int, jams: Sequence[Jam], mode: LlrMode = BOTH_WAYS
) -> dict[str, Any]:
    """Return the settings of a direction of a cable of the lab, for the kernel: to a node that forwards so."""
    from testbed.switch.link.errors import threshold
    from testbed.switch.link.retry import LlrAction

    actions = list(LlrAction)
    made: dict[str, Any] = {
        "bps": cable.rate.bps,
        "delay_ns": cable.delay.ns,
        "loss": threshold(cable.loss),
        "seed": seed,
        "wait": _WAITS[forwarding],
        "jams": [
            {"what": int(jam.what), "fate": int(jam.fate), "first": jam.first, "count": jam.count} for jam in jams
        ],
    }
    if cable.errors:
        made |= {
            "slot_octets": cable.errors.slot_octets,
            "slot_threshold": threshold(cable.errors.probability),
        }
    if llr := cable.retry:
        made |= {
            "has_llr": int(mode),
            "frames": llr.frames,
            "octets": llr.octets,
            "replay_count": llr.replay_count,
            "spacing": llr.spacing,
            "init_action": actions.index(LlrAction(llr.init_action)),
            "flush_action": actions.index(LlrAction(llr.flush_action)),
            "re_init": int(llr.re_init),
            "first_sequence": llr.first_sequence,
            "replay_timer_ns": Duration(llr.replay_timer or "0s").ns,
            "age_ns": Duration(llr.data_age).ns if llr.data_age else 0,
        }
    return made
