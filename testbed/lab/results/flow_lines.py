"""A line of `flows.jsonl`: a flow that has ended, as `testbed/net/traffic/flow_log.py` writes it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from testbed.units import Scale

FLOWS = "flows.jsonl"
_TEXTS = ("source", "target", "transport", "rate_control", "failure", "ways", "spread")
_NUMBERS = (
    "priority", "size_bytes", "worst_delay_ns", "sent", "received", "lost", "doubled", "out_of_order", "reordered",
    "reordering_extent", "octets", "marked", "retransmitted", "cnps",
)  # fmt: skip
_MAY_BE_UNKNOWN = frozenset({"worst_delay_ns", "reordered", "reordering_extent", "marked", "retransmitted", "cnps"})
_LARGEST = 10**21


@dataclass(frozen=True)
class Flow:
    """A flow that has ended. Its times are the hardware's, except `t_ns`, which is the lab's."""

    t_ns: int
    """The moment at which it was to begin."""
    number: int
    completion_ns: float | None
    """None if it had no end, or not all of it arrived."""
    best_ns: float | None
    """Its completion time with the network to itself; None if that is not known."""
    goodput_bps: float
    scale: int
    texts: dict[str, str]
    numbers: dict[str, int | float | None]
    """The counters, by name; None where a transport does not count."""

    @property
    def size(self) -> int:
        """The octets of its data."""
        return int(self.numbers["size_bytes"] or 0)


def flow_of(line: Any, latest_ns: int) -> Flow | None:
    """Return the flow of a line, or None if it is no such line."""
    match line:
        case {"lab_ns": int(t_ns), "flow": int(number), "goodput_bps": goodput, "scale": int(scale)} if (
            abs(t_ns) <= latest_ns and 1 <= scale <= Scale.limit and _is_number(goodput)
        ):
            taken, best = line.get("completion_ns"), line.get("best_ns")
            texts = {name: line.get(name, "") for name in _TEXTS}
            numbers = {name: line.get(name) for name in _NUMBERS}
            known = all(isinstance(text, str) for text in texts.values())
            counted = all(
                _is_number(value) or (value is None and name in _MAY_BE_UNKNOWN) for name, value in numbers.items()
            )
            if known and counted and all(value is None or _is_number(value) for value in (taken, best)):
                return Flow(t_ns, number, taken, best, goodput, scale, texts, numbers)
    return None


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return math.isfinite(value) and 0 <= value <= _LARGEST
