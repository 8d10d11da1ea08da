"""The way of two ports to an agreement by DCBX, from its log: how long it took, and how many LLDPDUs.

Not an experiment.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from testbed.frames.dcbx.values import priorities
from xoff import Duration, Fabric, XoffError, dcbx_state


class NotSettledError(XoffError):
    """Ports did not come to the expected state in time."""


@dataclass(frozen=True)
class Passing:
    """The time and the LLDPDUs of one link until nothing changed any more."""

    lasted: Duration
    """The time from the beginning to the last change at either end."""
    sent: dict[str, int]
    """LLDPDUs that arrived until then, by the port they are from."""


def passing(story: Iterable[dict[str, Any]], ports: tuple[str, str], begin_ns: int) -> Passing:
    """Return how two ports came to their state since `begin_ns`, from the log."""
    lines = [line for line in story if line["port"] in ports and line["t_ns"] >= begin_ns]
    changed_ns = max((line["t_ns"] for line in lines if line["what"] != "frame"), default=begin_ns)
    sent = dict.fromkeys(ports, 0)
    for line in lines:
        if line["what"] == "frame" and line["direction"] == "received" and line["t_ns"] <= changed_ns:
            sent[ports[line["port"] == ports[0]]] += 1
    return Passing(Duration.from_ns(changed_ns - begin_ns), sent)


def wait_for(what: str, is_true: Callable[[], bool], seconds: float = 5, step: float = 0.01) -> None:
    """Wait until `is_true` returns true; raise NotSettledError with the text `what` if it does not in time."""
    deadline = time.monotonic() + seconds
    while not is_true():
        if time.monotonic() > deadline:
            raise NotSettledError(f"{what}: not within {seconds} s")
        time.sleep(step)


def feature(fabric: Fabric, port: str, name: str) -> dict[str, Any]:
    """Return one feature of a port, as its speaker shows it."""
    found: dict[str, Any] = dcbx_state(fabric, port)["features"][name]
    return found


def oper(fabric: Fabric, port: str, name: str) -> Any:
    """Return the operational value of a feature of a port."""
    return feature(fabric, port, name)["oper"]


def on_the_port(fabric: Fabric, port: str) -> list[int]:
    """Return the priorities on which the port's agent does PFC."""
    states = fabric.snapshot(fabric.port(port).node.name)["ports"][port]["priorities"]
    return [state["priority"] for state in states if state["enabled"]]


def listed(mask: int) -> list[int]:
    return list(priorities(mask))
