"""Flows that arrive at random at a load: who sends to whom, by a pattern, and how large the flows are."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

from testbed.units import Duration, Rate
from testbed.workload.sizes import Distribution, Framing
from testbed.workload.transfers import Transfer, WorkloadError, permutation

PATTERNS = ("random", "permutation", "incast:N", "all-to-all")
_INCAST = re.compile(r"incast[:,]([0-9]{1,4})")
_LOAD = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,6})?)(%?)")


@dataclass(frozen=True)
class Pattern:
    """The senders and receivers of flows that arrive, and which lines the load is of."""

    name: str
    senders: int = 0
    """The senders of an incast."""

    @classmethod
    def parse(cls, text: str) -> Pattern:
        """Return the pattern that a word stands for."""
        if match := _INCAST.fullmatch(text):
            if not int(match[1]):
                raise WorkloadError(f"pattern {text}: an incast has one sender at the least, as in incast:8")
            return cls("incast", int(match[1]))
        if text not in PATTERNS or text == "incast:N":
            raise WorkloadError(
                f"there is no pattern {text[:40]!r}; there are {', '.join(PATTERNS)}, where N is the number of "
                "senders, as in incast:8"
            )
        return cls(text)

    def require(self, hosts: int, topology: str) -> None:
        """Refuse a topology with too few hosts."""
        least = self.senders + 1 if self.name == "incast" else 2
        if hosts < least:
            raise WorkloadError(f"{self} needs {least} hosts, and {topology} has {hosts}; take a larger topology")

    def lines(self, hosts: int) -> int:
        """Return how many lines share the load: the target's of an incast, or those of all hosts."""
        return 1 if self.name == "incast" else hosts

    def flows(self, hosts: int) -> int:
        """Return how many flows arrive at one time."""
        return self.senders if self.name == "incast" else hosts - 1 if self.name == "all-to-all" else 1

    def __str__(self) -> str:
        return f"incast:{self.senders}" if self.name == "incast" else self.name


def read_load(text: str) -> float:
    """Return a load as a part of the line, above 0 and at most 1, from a percentage such as 50%."""
    match = _LOAD.fullmatch(text)
    if match is None:
        raise WorkloadError(f"load is {text[:40]!r}; a percentage of the line is expected, such as 50%")
    percent = float(match[1])
    if not match[2] and percent <= 1:
        raise WorkloadError(f"load is {text}; write {percent * 100:g}% or {percent:g}%, whichever is meant")
    if not 0 < percent <= 100:
        raise WorkloadError(f"load is {text}; it is above 0% and at most 100% of the line: more can never be sent")
    return percent / 100


def arrivals(
    hosts: Sequence[str],
    pattern: Pattern,
    sizes: Distribution,
    *,
    load: float,
    line: Rate,
    framing: Framing,
    dice: random.Random,
    count: int = 0,
    lasts: Duration | None = None,
) -> list[Transfer]:
    """Return flows that arrive by a Poisson process: `count` of them, or all that arrive in the time `lasts`.

    With `random` any host sends to any other, with `permutation` always to the same one. With `incast` the first hosts
    send to the last host at one moment, and with `all-to-all` one host sends to all others. The load is that of the
    hosts' lines on average, and with `incast` that of the target's line. It is of the wire: packets as `framing` has
    them, in the direction of the data.
    """
    if not 0 < load <= 1:
        raise WorkloadError(f"load is {load}; it is a part of the line, above 0 and at most 1")
    partners = {}
    if pattern.name == "permutation":
        partners = {one.source: one.target for one in permutation(hosts, sizes.mean, dice)}
    bits = framing.mean(sizes) * 8 * pattern.flows(len(hosts))
    gap_ps = bits * 10**12 / (line.bps * load * pattern.lines(len(hosts)))
    flows: list[Transfer] = []
    now_ps = 0.0 if lasts is None else dice.expovariate(1 / gap_ps)
    while (lasts is None or now_ps < lasts.ps) and (not count or len(flows) < count):
        start = Duration.from_ps(int(now_ps))
        for source, target in _pairs(hosts, pattern, partners, dice):
            flows.append(Transfer(source, target, sizes.draw(dice), start))
        now_ps += dice.expovariate(1 / gap_ps)
    return flows[:count] if count else flows


def _pairs(
    hosts: Sequence[str], pattern: Pattern, partners: dict[str, str], dice: random.Random
) -> list[tuple[str, str]]:
    if pattern.name == "incast":
        return [(source, hosts[-1]) for source in hosts[: pattern.senders]]
    source = dice.choice(hosts)
    if pattern.name == "permutation":
        return [(source, partners[source])]
    if pattern.name == "all-to-all":
        return [(source, target) for target in hosts if target != source]
    source, target = dice.sample(list(hosts), 2)
    return [(source, target)]
