"""Flows at random beside a training job: which there are, and how long they last.

Each wave of the job meets a network of its own load. The flows begin a while before the wave, so that it does not find
the network empty, and new ones arrive for longer than the wave takes.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from testbed.errors import UsageError
from testbed.measures.offered_load import MOST_FLOWS
from testbed.measures.random_flows import FRAMING
from testbed.units import Duration, Rate, Size
from testbed.workload.arrivals import Pattern, arrivals, read_load
from testbed.workload.sizes import Distribution, distribution, read_distribution
from testbed.workload.transfers import Transfer

_LEAD = 2
"""Flows begin as long before a wave as so many flows of the mean size take with what the load leaves of the line."""
_TIMES = 4
"""They arrive for so many times as long as the wave would take with what the load leaves of the line."""
_LEAST_LEFT = 0.1
_OTHER = Duration("20us")
"""The time of a wave that is none of its data's: delays and acknowledgements."""


@dataclass(frozen=True)
class Background:
    """The settings of flows at random beside a job, all of which have been checked."""

    sizes: Distribution
    load: float
    pattern: Pattern

    @classmethod
    def of(cls, *, load: str, sizes: str, table: str | None, pattern: str) -> Background | None:
        """Check settings and return them; None without a load. `table` is the text of the file that `sizes` names."""
        if not load:
            return None
        found = distribution(sizes) if table is None else read_distribution(table, sizes)
        return cls(found, read_load(load), Pattern.parse(pattern))

    def _left(self, line: Rate) -> Rate:
        return Rate.from_bps(int(line.bps * max(_LEAST_LEFT, 1 - self.load)))

    def lead(self, line: Rate) -> Duration:
        """Return how long before a wave the flows begin."""
        return self._left(line).time_for(Size.from_bytes(round(FRAMING.mean(self.sizes)))) * _LEAD

    def lasts(self, wave: Sequence[Transfer], line: Rate) -> Duration:
        """Return a time that is longer than a wave of these transfers takes, if nothing is far from the average."""
        octets: Counter[tuple[str, bool]] = Counter()
        for one in wave:
            for end in ((one.source, False), (one.target, True)):
                octets[end] += FRAMING.on_wire(one.size).bytes
        data = self._left(line).time_for(Size.from_bytes(max(octets.values())))
        return max(one.start for one in wave) + (data + _OTHER) * _TIMES

    def transfers(self, hosts: Sequence[str], line: Rate, lasts: Duration, seed: int) -> list[Transfer]:
        """Return the flows that arrive in a time; those of a longer time begin with them."""
        flows = arrivals(
            hosts, self.pattern, self.sizes, load=self.load, line=line, framing=FRAMING, dice=random.Random(seed),
            lasts=lasts,
        )  # fmt: skip
        if len(flows) > MOST_FLOWS:
            raise UsageError(
                f"{len(flows)} flows arrive in {lasts}, while a wave of the job is carried, and a run has up to "
                f"{MOST_FLOWS}: take a lower --load, larger --sizes, or a --shrink"
            )
        return flows
