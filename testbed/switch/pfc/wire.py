"""The frames of one PFC port, prepared: those it sends are encoded in advance, those it gets are read in advance.

What a codec does for one frame takes several hundred byte codes, more than the whole budget of a hot path
(`testbed.switch.pfc.port`). The same few frames come again and again, so both directions are tables that fill
themselves.
"""

from __future__ import annotations

from typing import NamedTuple

from testbed.frames import Mac
from testbed.frames.mac_control import MacControlError, PauseFrame, PfcFrame, parse
from testbed.switch.pfc import PRIORITIES_IN
from testbed.switch.pfc.record import Ignored
from testbed.units import PFC_QUANTUM_BITS, Rate

MOST_READINGS = 256
"""The number of different frames that are remembered. A peer sends a few; when there are more all are forgotten."""


def pause_ns(rate: Rate, quanta: int) -> int:
    """Return `Rate.time_for_quanta` in whole nanoseconds, rounded up, and quicker."""
    return -(-quanta * PFC_QUANTUM_BITS * 10**9 // rate.bps)


class Frames(dict[int, bytes]):
    """Encoded PFC frames that ask the same time of each priority they name, by the mask of these priorities."""

    def __init__(self, source: Mac, quanta: int) -> None:
        self._source = source
        self._quanta = quanta

    def __missing__(self, mask: int) -> bytes:
        changes = dict.fromkeys(PRIORITIES_IN[mask], self._quanta)
        frame = self[mask] = PfcFrame.of(self._source, changes).encode()
        return frame


class FrameEffect(NamedTuple):
    """The effect of a received frame on this port. Hot paths unpack it as a tuple."""

    xoff: int = 0
    xon: int = 0
    pauses: tuple[tuple[int, int], ...] = ()  # (priority, ns) for each in `xoff`
    told: tuple[tuple[int, int], ...] = ()  # (mask, quanta): `xoff` in parts of equal time
    ignored: tuple[tuple[Ignored, int, int], ...] = ()  # (reason, mask, those of them that were to stop)

    @property
    def named(self) -> int:
        """The priorities whose enable bit was set."""
        named = self.xoff | self.xon
        for _, mask, _ in self.ignored:
            named |= mask
        return named


class Readings(dict[bytes, FrameEffect]):
    """The effects of received frames on this port, by their octets 0-5 and 12-33.

    That leaves out the source, which is not checked, and the padding: frames can be known before their sender is.
    """

    def __init__(self, rate: Rate) -> None:
        self._rate = rate
        self._enabled = 0
        self._obeyed = 0

    def obey(self, enabled: int, obeyed: int) -> None:
        """Read frames for a port with PFC on `enabled`, of which those not in `obeyed` are in a storm."""
        changed = (enabled ^ self._enabled) | (obeyed ^ self._obeyed)
        self._enabled, self._obeyed = enabled, obeyed
        for key in [key for key, reading in self.items() if reading.named & changed]:
            del self[key]

    def of(self, frame: bytes) -> FrameEffect:
        """Return the effect of the frame; hot paths have this line themselves."""
        return self[frame[:6] + frame[12:34]]

    def __missing__(self, key: bytes) -> FrameEffect:
        if len(self) >= MOST_READINGS:
            self.clear()
        reading = self[key] = self._read(key[:6] + bytes(6) + key[6:])
        return reading

    def _read(self, data: bytes) -> FrameEffect:
        try:
            frame = parse(data)
        except MacControlError as error:
            return FrameEffect(ignored=((Ignored[error.reason.name], 0, 0),))
        if isinstance(frame, PauseFrame):
            return FrameEffect(ignored=((Ignored.GLOBAL_PAUSE, 0, 0),))
        stopping = xon = 0
        pauses = []
        told: dict[int, int] = {}
        for priority, quanta in frame.changes():
            bit = 1 << priority
            if quanta:
                stopping |= bit
            if bit & self._obeyed and quanta:
                pauses.append((priority, pause_ns(self._rate, quanta)))
                told[quanta] = told.get(quanta, 0) | bit
            elif bit & self._obeyed:
                xon |= bit
        refused = (
            (Ignored.NOT_ENABLED, frame.enabled & ~self._enabled),
            (Ignored.STORM, frame.enabled & self._enabled & ~self._obeyed),
        )
        return FrameEffect(
            stopping & self._obeyed,
            xon,
            tuple(pauses),
            tuple((mask, quanta) for quanta, mask in told.items()),
            tuple((reason, mask, mask & stopping) for reason, mask in refused if mask),
        )
