"""A rate control of one's own, a class in Python, which a queue pair of the library tells of events."""

from __future__ import annotations

import struct
from typing import Any

from testbed.frames.telemetry import STAMP_OCTETS, Stamp
from testbed.roce.rates.base import Acknowledgement, RateControl
from testbed.units import NEVER

KIND = 3
"""Its kind in enum xr_rate_kind."""
SENT, CNP, ROUND_TRIP, ACKNOWLEDGED, LOSS, DEADLINE = range(6)
"""The events, as in enum xr_told of testbed/lab/um/linux/xoff_roce.h."""
_METHODS = ("on_sent", "on_cnp", "on_round_trip", "on_acknowledged", "on_loss", "on_deadline")
_STAMP = struct.Struct("!4I")


def wants(control: RateControl) -> int:
    """Return the events that a rate control has methods for, as a mask."""
    own = [getattr(type(control), name) is not getattr(RateControl, name) for name in _METHODS]
    return sum(is_own << place for place, is_own in enumerate(own))


def numbers(control: RateControl) -> dict[str, float]:
    """Return what the queue pair has to know of a rate control at its start, by name as in struct xr_rate."""
    return {
        "rate_bps": control.rate_lab_bps,
        "line_bps": control.line.rate.bps,
        "wants": wants(control),
        "counts_acknowledgements": control.counts_acknowledgements,
        "needs_telemetry": control.needs_telemetry,
        "window": control.window or 0,
        "deadline_ns": control.deadline_lab_ns,
    }


def tell(control: RateControl, event: Any, rate: Any, stamps: bytes) -> None:
    """Tell a rate control of a `struct xr_event`, and write what follows into a `struct xr_rate`."""
    kind, now_ns = event.kind, event.now_ns
    if kind == SENT:
        control.on_sent(now_ns, event.octets)
    elif kind == CNP:
        control.on_cnp(now_ns)
    elif kind == ROUND_TRIP:
        control.on_round_trip(now_ns, event.round_trip_ns)
    elif kind == ACKNOWLEDGED:
        round_trip_ns = None if event.round_trip_ns < 0 else event.round_trip_ns
        seen = tuple(Stamp(*_STAMP.unpack_from(stamps, at)) for at in range(0, len(stamps), STAMP_OCTETS))
        control.on_acknowledged(now_ns, Acknowledgement(event.packets, event.until, event.next, round_trip_ns, seen))
    elif kind == LOSS:
        control.on_loss(now_ns)
    else:
        control.on_deadline(now_ns)
    rate.rate_bps, rate.window = control.rate_lab_bps, control.window or 0
    rate.deadline_ns = min(control.deadline_lab_ns, NEVER)
