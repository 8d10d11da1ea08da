"""Patterns of transfers between hosts: incast, permutation, all-to-all, collectives, on/off.

A pattern is a list of `Transfer`s. Its hosts are names, in the order that the pattern gives a meaning. Everything that
is random comes from the generator that the caller passes, so one seed gives one workload.

Collectives have dependencies. A transfer that is `after` others moves a row of equal blocks, and its block m is sent
when its source has received block m - `lag` of each of them; with a lag of 1 the first block waits for nothing.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from testbed.errors import UsageError
from testbed.units import Duration, Rate, Size

_AT_ONCE = Duration("0s")


class WorkloadError(UsageError):
    """A workload that cannot be."""


@dataclass(frozen=True)
class Transfer:
    """Data that go from one host to another."""

    source: str
    target: str
    size: Size
    start: Duration = Duration("0s")
    block: Size | None = None
    """The size of the unit that goes at a time; None: as the transport chooses."""
    after: tuple[int, ...] = ()
    """The places, in the list of transfers, of those that this one waits for; their target is its source."""
    lag: int = 0


def _hosts(hosts: Sequence[str], least: int) -> list[str]:
    several = list(hosts)
    if len(several) < least or len(set(several)) != len(several):
        raise WorkloadError(f"hosts are {', '.join(several) or 'none'}; {least} or more different ones are expected")
    return several


def incast(sources: Sequence[str], target: str, size: Size | str) -> list[Transfer]:
    """Return an incast: all sources send to one target at once."""
    return [Transfer(source, target, Size(size)) for source in _hosts(sources, 1) if source != target]


def permutation(hosts: Sequence[str], size: Size | str, dice: random.Random) -> list[Transfer]:
    """Return a permutation: each host sends to one other and receives from one other, in one cycle over all hosts.

    It is Sattolo's shuffle.
    """
    sources = _hosts(hosts, 2)
    targets = sources[:]
    for place in range(len(targets) - 1, 0, -1):
        other = dice.randrange(place)
        targets[place], targets[other] = targets[other], targets[place]
    return [Transfer(source, target, Size(size)) for source, target in zip(sources, targets, strict=True)]


def all_to_all(hosts: Sequence[str], size: Size | str) -> list[Transfer]:
    """Return all-to-all transfers: each host sends `size` to each other."""
    found = _hosts(hosts, 2)
    return [Transfer(source, target, Size(size)) for source in found for target in found if source != target]


def ring_all_reduce(hosts: Sequence[str], size: Size | str) -> list[Transfer]:
    """All-reduce of `size` in a ring of n hosts: 2 (n - 1) rounds, in each of which every host sends n-th parts on.

    The first n - 1 rounds reduce and scatter, the others gather. A host sends the part of a round when it has the part
    of the round before from its predecessor.
    """
    ring = _hosts(hosts, 2)
    count = len(ring)
    part = Size.from_bytes(-(-Size(size).bytes // count))
    rounds = 2 * (count - 1)
    return [
        Transfer(host, ring[(place + 1) % count], part * rounds, _AT_ONCE, part, ((place - 1) % count,), 1)
        for place, host in enumerate(ring)
    ]


def ring_all_gather(hosts: Sequence[str], size: Size | str) -> list[Transfer]:
    """All-gather of `size` in a ring of n hosts: each has an n-th part, and sends on what it gets, n - 1 times."""
    ring = _hosts(hosts, 2)
    count = len(ring)
    part = Size.from_bytes(-(-Size(size).bytes // count))
    return [
        Transfer(host, ring[(place + 1) % count], part * (count - 1), _AT_ONCE, part, ((place - 1) % count,), 1)
        for place, host in enumerate(ring)
    ]


def halving_doubling_all_reduce(hosts: Sequence[str], size: Size | str) -> list[Transfer]:
    """All-reduce of `size` by recursive halving and doubling, between a number of hosts that is a power of two.

    In the first round each host exchanges half of the data with the host that is half of all hosts away, in the next
    one a quarter with the one that is a quarter away, and so on; then the same rounds backwards gather the sums. A host
    begins a round when it has the data of the round before.
    """
    ranks = _hosts(hosts, 2)
    count, rounds = len(ranks), (len(ranks) - 1).bit_length()
    if count != 1 << rounds:
        raise WorkloadError(
            f"there are {count} hosts; halving and doubling takes a power of two, such as {1 << rounds}"
        )
    distances = [count >> number for number in range(1, rounds + 1)]
    transfers: list[Transfer] = []
    before = 0
    for number, distance in enumerate([*distances, *reversed(distances)]):
        part = Size.from_bytes(max(1, Size(size).bytes * distance // count))
        for place, host in enumerate(ranks):
            after = ((number - 1) * count + (place ^ before),) if number else ()
            transfers.append(Transfer(host, ranks[place ^ distance], part, _AT_ONCE, part, after))
        before = distance
    return transfers


def tree_all_reduce(hosts: Sequence[str], size: Size | str) -> list[Transfer]:
    """All-reduce of `size` in a binary tree: up to the first host, which has the sum, and down again.

    The children of host n are hosts 2n + 1 and 2n + 2. A host sends up when it has what all its children sent, and down
    when it has what its parent sent.
    """
    ring, size = _hosts(hosts, 2), Size(size)
    up = {child: place for place, child in enumerate(range(1, len(ring)))}
    down = {child: len(up) + place for place, child in enumerate(range(1, len(ring)))}

    def children(host: int) -> tuple[int, ...]:
        return tuple(up[child] for child in (2 * host + 1, 2 * host + 2) if child < len(ring))

    transfers = [Transfer(ring[child], ring[(child - 1) // 2], size, _AT_ONCE, size, children(child)) for child in up]
    for child in down:
        parent = (child - 1) // 2
        after = (down[parent],) if parent else children(0)
        transfers.append(Transfer(ring[parent], ring[child], size, _AT_ONCE, size, after))
    return transfers


def request_response(client: str, server: str, request: Size | str, response: Size | str, count: int) -> list[Transfer]:
    """Closed loop: a client asks `count` times, each time when it has the response to the request before."""
    if count < 1:
        raise WorkloadError(f"count is {count}; a client asks at least once")
    request, response = Size(request), Size(response)
    return [
        Transfer(client, server, request * count, _AT_ONCE, request, (1,), 1),
        Transfer(server, client, response * count, _AT_ONCE, response, (0,), 0),
    ]


def on_off(
    source: str,
    target: str,
    rate: Rate | str,
    *,
    on: Duration | str,
    off: Duration | str,
    lasts: Duration | str,
    dice: random.Random | None,
) -> list[Transfer]:
    """Bursts at a rate with pauses between them; with `dice` both are exponential about their means."""
    rate, on, off, lasts = Rate(rate), Duration(on), Duration(off), Duration(lasts)
    if not on.ps:
        raise WorkloadError("a burst of 0s sends nothing; give `on` above zero")
    found, now_ps = [], 0
    while now_ps < lasts.ps:
        burst_ps, gap_ps = on.ps, off.ps
        if dice is not None:
            burst_ps = max(1, round(dice.expovariate(1 / on.ps)))
            gap_ps = round(dice.expovariate(1 / off.ps)) if off.ps else 0
        octets = max(1, rate.bps * min(burst_ps, lasts.ps - now_ps) // (8 * 10**12))
        found.append(Transfer(source, target, Size.from_bytes(octets), Duration.from_ps(now_ps)))
        now_ps += burst_ps + gap_ps
    return found
