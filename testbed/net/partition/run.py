"""The begin and the end of a network with parts: what it cannot have is refused, and how it was cut is noted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from testbed.experiment.run import Run
from testbed.net.partition.cut import PartitionError
from testbed.net.partition.gathered import crossed
from testbed.net.partition.management import doors
from testbed.net.partition.parts import Parts

PARTITION_LOG = "partition.jsonl"
"""The name of the file in a result folder: a line for each network with its parts, and what crossed the cables."""


def partitioned(topo: Any) -> Parts | None:
    """Divide a network if this kernel has a part of it; None if it has all."""
    return Parts.begin(topo, lambda: _require_possible(topo))


def _require_possible(topo: Any) -> None:
    kind = type(topo).__name__
    refused = {
        "it has no lossless parts, and Mininet's own links have no ends in two kernels": not hasattr(topo, "next_hop"),
        "its controller is no SrController, so one part has it": not set(_controllers(topo)) <= set(doors),
    }
    for reason, is_so in refused.items():
        if is_so:
            raise PartitionError(f"{kind} cannot be divided: {reason}; run it without --partitions")


def _controllers(topo: Any) -> Iterator[str]:
    """Yield the sockets of the controllers of leaves and routers."""
    for node in topo.nodes():
        info = topo.nodeInfo(node)
        if (of_leaf := info.get("controller")) is not None:
            yield of_leaf.removeprefix("unix:")
        if (of_router := getattr(getattr(info.get("wan"), "plan", None), "control", None)) is not None:
            yield of_router.path


def note_partition(parts: Parts, run: Run | None) -> None:
    """Write into the run's folder how a network was divided, and what crossed; it belongs to the run's digest."""
    cables = crossed(parts)
    if run is None:
        return
    line = {**parts.cut.as_json(), "cables": cables}
    with (run.directory / PARTITION_LOG).open("a", encoding="utf-8") as log:
        log.write(json.dumps(line) + "\n")
