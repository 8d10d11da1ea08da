"""Moments at which a host's IPv4 frames arrive, over any time: for L03, L04 and L11.

Not an experiment. The kernel keeps some thousand frames for a tap, which a flow at line rate sends in half a second, so
they are taken while a case waits.
"""

import time

from xoff import Duration, Scale, Tap

_IPV4 = b"\x08\x00"
_SLICE_LAB_NS = 200_000_000


class Arrivals:
    """The times at which IPv4 frames arrive at a tap, by the monotonic clock."""

    def __init__(self, tap: Tap, scale: Scale) -> None:
        self._tap, self._scale = tap, scale
        self._seen: list[int] = []

    def wait(self, duration: Duration) -> None:
        """Wait for a time of the hardware, and take frames meanwhile."""
        self.wait_until(time.monotonic_ns() + self._scale.lab(duration).ns)

    def wait_until(self, moment_lab_ns: int) -> None:
        """Sleep until a moment of the monotonic clock, and take frames meanwhile."""
        while (left_ns := moment_lab_ns - time.monotonic_ns()) > 0:
            time.sleep(min(left_ns, _SLICE_LAB_NS) / 1e9)
            self._take()

    def taken(self) -> list[int]:
        """Return the times in ns at which frames have arrived since the last call."""
        self._take()
        seen, self._seen = self._seen, []
        return seen

    def _take(self) -> None:
        self._seen += [t_ns for t_ns, frame in self._tap.arrivals() if frame[12:14] == _IPV4]
