"""The results of a measurement: one sample for each answered request, and the statistics of a series.

A sample is the proposal's four timestamps. (T4 - T1) - (T3 - T2) is the round trip, in which the time the far station
took to answer does not count; that time, T3 - T2, is kept beside it. T1 and T4 are one clock's, T2 and T3 another's,
and only differences within one clock are taken, so the clocks need not agree (decision 0111).
"""

from __future__ import annotations

from dataclasses import dataclass

from testbed.switch.headroom.calculation import HeadroomError
from testbed.units import Duration

TIMES = ("round_trip_ns", "longest_ns", "shortest_ns", "median_ns", "peer_response_ns")
"""The names of the times that a measurement gives, in readings of a port."""
_DRIFT_PPM = 200
"""The drift between two clocks, of which Ethernet allows each to be 100 ppm off."""


@dataclass(frozen=True)
class Sample:
    """T1 to T4 of one exchange, in ns."""

    t1_ns: int
    t2_ns: int
    t3_ns: int
    t4_ns: int

    @property
    def round_trip_ns(self) -> int:
        return (self.t4_ns - self.t1_ns) - self.response_ns

    @property
    def response_ns(self) -> int:
        """The time between the two stamps of the far station."""
        return self.t3_ns - self.t2_ns

    @property
    def is_possible(self) -> bool:
        """False if a clock was set during the exchange: nothing ends before it began, or lasts longer than its part."""
        return self.response_ns >= 0 and self.round_trip_ns >= 0


@dataclass(frozen=True)
class Measurement:
    """A series that is over and has enough samples."""

    samples: tuple[Sample, ...]  # as they came in
    asked: int  # requests, the lost ones too
    finished_ns: int  # by the asking station's clock

    @property
    def lost(self) -> int:
        return self.asked - len(self.samples)

    def percentile(self, percent: int) -> Duration:
        """Return the round trip that so many percent of samples do not exceed (nearest rank); 100 is the longest."""
        return _percentile([sample.round_trip_ns for sample in self.samples], percent)

    @property
    def shortest(self) -> Duration:
        return self.percentile(0)

    @property
    def longest(self) -> Duration:
        return self.percentile(100)

    @property
    def needed(self) -> Duration:
        """The time from which headroom is computed: the slowest way there, as a PFC frame might go, and the quickest
        way back.

        On its way back a response waits for frames of data to end, and headroom has that frame among its terms already.
        Ways of different samples can be added, since how far the two clocks are apart adds to one way what it takes
        from the other; for how fast they drift apart there is an allowance.

        If the far clock is set forward during the series, a way back after that looks shorter by the step, and a way
        there longer. So a way back counts only if a later way there (its T2 is not before that T3) was measured too:
        what the step takes from the sum, it then adds as well. If it is set back, the sum only becomes larger. Without
        any such pair nothing is known about steps, and the longest round trip is needed.
        """
        last_there_ns = max(sample.t2_ns for sample in self.samples)
        backs = [sample.t4_ns - sample.t3_ns for sample in self.samples if sample.t3_ns <= last_there_ns]
        if not backs:
            return self.longest
        there = max(sample.t2_ns - sample.t1_ns for sample in self.samples)
        lasted = max(sample.t4_ns for sample in self.samples) - min(sample.t1_ns for sample in self.samples)
        drift = -(-lasted * _DRIFT_PPM // 10**6)
        return max(self.percentile(25), min(self.longest, Duration.from_ns(max(0, there + min(backs) + drift))))

    def response(self, percent: int = 100) -> Duration:
        """Return T3 - T2 of the far station that so many percent of samples do not exceed."""
        return _percentile([sample.response_ns for sample in self.samples], percent)

    @property
    def times(self) -> dict[str, Duration]:
        """The times that were measured, by their names in `TIMES`."""
        found = (self.needed, self.longest, self.shortest, self.percentile(50), self.response())
        return dict(zip(TIMES, found, strict=True))

    @property
    def tx_propagation_delay_ns(self) -> int:
        """txPropagationDelay of 802.1Qcc 12.32.2.1: half of the shortest round trip, rounded up.

        The cable's own delay only with the timestamp points of time synchronisation; else the stations are in it.
        """
        return -(-min(sample.round_trip_ns for sample in self.samples) // 2)


def _percentile(values: list[int], percent: int) -> Duration:
    if type(percent) is not int or not 0 <= percent <= 100:
        raise HeadroomError(f"percentile {percent!r} does not exist; there are 0, the least, to 100, the most")
    rank = max(1, -(-len(values) * percent // 100))
    return Duration.from_ns(sorted(values)[rank - 1])
