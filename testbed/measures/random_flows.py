"""Flows of random sizes that arrive at random at a load, and how long each took beside the best that its way allows."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from testbed.errors import UsageError
from testbed.frames.roce import BTH_OCTETS, ICRC_OCTETS, RETH_OCTETS
from testbed.net.build.topo import LosslessTopo
from testbed.net.traffic import Flow, Flows
from testbed.net.traffic.report import WIRE_OCTETS
from testbed.net.traffic.roce import Roce
from testbed.net.traffic.workload import flows
from testbed.roce.settings import Settings
from testbed.units import Duration, Rate, Size
from testbed.workload.arrivals import Pattern, arrivals, read_load
from testbed.workload.sizes import Distribution, Framing, distribution, read_distribution
from testbed.workload.transfers import WorkloadError

FRAMING = Framing(
    payload=Settings().mtu,
    beside=14 + 20 + 8 + BTH_OCTETS + ICRC_OCTETS + WIRE_OCTETS,
    message=Roce().message.bytes,
    beside_message=RETH_OCTETS,
    padded_to=4,
)
"""The packets that RoCE makes of data by writes, with Ethernet, IPv4, UDP and BTH, and what every frame has."""


@dataclass(frozen=True)
class FlowCompletion:
    """A flow that has ended with all of its data."""

    source: str
    target: str
    size: Size
    took: Duration
    """The time from its planned begin to the arrival of its last packet."""
    slowdown: float
    """This time in relation to the least that its way allows to one flow alone."""


def flow_sizes(wanted: str) -> Distribution:
    """Return sizes of flows: a published distribution by its name, such as "websearch", or the one of a table.

    A table has a size and the percentage of flows that are at most so large in each line, as in "2kB,50".
    """
    return read_distribution(wanted, "sizes") if "\n" in wanted or "," in wanted else distribution(wanted)


def random_flows(
    topology: LosslessTopo,
    sizes: Distribution | str,
    load: str,
    *,
    dice: random.Random,
    count: int = 0,
    lasts: Duration | str | None = None,
    pattern: str = "random",
    transport: Roce | None = None,
    **options: Any,
) -> list[Flow]:
    """Return RoCE flows between the hosts of a topology: `count` of them, or all that arrive in the time `lasts`.

    `load` is a percentage of each host's line on the wire, such as "50%", and `dice` is `run.rng`. A `pattern` is
    "random", "permutation", "all-to-all", or "incast:8" of the last host's line. `options` are those of `Flow`.
    """
    if bool(count) == (lasts is not None):
        raise WorkloadError(f"count is {count} and lasts {lasts}; give one of the two, which ends the arrivals")
    name, hosts, who = type(topology).__name__, topology.hosts(), Pattern.parse(pattern)
    who.require(len(hosts), name)
    chosen, settings = flow_sizes(sizes) if isinstance(sizes, str) else sizes, transport or Roce()
    framing = replace(FRAMING, payload=settings.settings.mtu, message=settings.message.bytes)
    transfers = arrivals(
        hosts, who, chosen, load=read_load(load), line=line_of(topology, name), framing=framing, dice=dice,
        count=count, lasts=None if lasts is None else Duration(lasts),
    )  # fmt: skip
    return flows(transfers, settings, **options)


def flow_completions(ended: Flows) -> list[FlowCompletion]:
    """Return the completions of flows that have ended, without those that lost data or have no end."""
    return [
        FlowCompletion(
            row["source"], row["target"], Size.from_bytes(row["size_bytes"]),
            Duration.nearest_ns(row["completion_ns"]), row["completion_ns"] / row["best_ns"],
        )
        for row in ended.log
        if row["completion_ns"] is not None and row["best_ns"]
    ]  # fmt: skip


def line_of(topology: LosslessTopo, name: str) -> Rate:
    """Return the rate of the slowest line of a host."""
    hosts = set(topology.hosts())
    links: Iterable[tuple[str, str, dict[str, Any]]] = topology.links(withInfo=True)
    found: list[Rate] = [
        info["cable"].rate for one, other, info in links if "cable" in info and (one in hosts or other in hosts)
    ]
    if len(hosts) < 2 or not found:
        raise UsageError(f"topology {name} has fewer than two hosts at lossless ports; fat-tree,4 has sixteen")
    return min(found, key=lambda rate: rate.bps)
