"""Orders of a node's speaker to its PFC agent, which alone stops queues and keeps which are paused; and notices back.

An order is a small packet in a socket that both inherit, so that none is lost if the agent dies: its successor finds
it. For each the agent answers with one octet when it is done.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Sequence
from typing import NamedTuple

from testbed.linux.port_program import FRAME_OCTETS
from testbed.switch.pfc.settings import Action, Kind, WatchdogSettings
from testbed.units import Duration

_FORM = struct.Struct("=BHB8B8I")
LARGEST_ORDER = _FORM.size + FRAME_OCTETS
DONE = b"."


class OrderType(enum.IntEnum):
    """The orders about a port."""

    PFC = 1  # PFC is on for the priorities `mask` and no other
    QUEUES = 2  # frames go into the queues `queue_of` from now on; `sockets` are the kernel's priorities for them
    DRAINED = 3  # the queues before are empty by now
    RELIEVED = 4  # the buffer of the priorities `mask` has room again
    SEND = 5  # the frame that follows, the way that PFC frames go
    OBEY = 6  # the PFC frame that follows, which came through a tunnel, as if it had come in here
    WATCHDOG = 7  # other settings of the watchdog, which follow (`encode_watchdog`)
    HOLD = 8  # nothing is sent on the priorities `mask`, and on no other for this reason


class Order(NamedTuple):
    type: OrderType
    slot: int
    mask: int = 0
    queue_of: Sequence[int] = (0,) * 8
    sockets: Sequence[int] = (0,) * 8
    frame: bytes = b""

    def encode(self) -> bytes:
        return _FORM.pack(self.type, self.slot, self.mask, *self.queue_of, *self.sockets) + self.frame

    @classmethod
    def parse(cls, data: bytes) -> Order:
        type_, slot, mask, *numbers = _FORM.unpack_from(data)
        return cls(OrderType(type_), slot, mask, numbers[:8], numbers[8:], data[_FORM.size :])


_WATCHDOG = struct.Struct("=3QBB")


def encode_watchdog(settings: WatchdogSettings | None) -> bytes:
    """Encode the settings of the watchdog for an order; no octets if there is none."""
    if settings is None:
        return b""
    times = (settings.detection.ps, settings.restoration.ps, settings.poll.ps)
    return _WATCHDOG.pack(*times, list(Action).index(settings.action), list(Kind).index(settings.kind))


def parse_watchdog(data: bytes) -> WatchdogSettings | None:
    if not data:
        return None
    *times, action, kind = _WATCHDOG.unpack(data)
    detection, restoration, poll = map(Duration.from_ps, times)
    return WatchdogSettings(detection, restoration, poll, list(Action)[action], list(Kind)[kind])


# Notices, from the agent to the speaker


class NoticeType(enum.IntEnum):
    MEASUREMENT = 1  # a measurement frame came in; it follows
    XOFF = 2  # the buffer of a priority passed its threshold
    XON = 3  # it has room again


NOTICE = struct.Struct("=BBHQQ")
"""A notice: type, priority, slot, time of arrival; for a frame also the time when a PFC frame in its place would have
taken effect."""
LARGEST_NOTICE = NOTICE.size + FRAME_OCTETS
