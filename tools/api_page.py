"""Write docs/reference/api.md: the names that `xoff` exports, by section, for autodoc to describe.

    python tools/api_page.py

A unit test compares the page with what this would write.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "api.md"
_INTRODUCTION = """\
# Python API

`xoff` is the public face: an experiment, a topology, a rate control, a test or a notebook imports from it.

    from xoff import Flow, Incast, experiment, network

It imports on any machine with Python alone, and loads a name when it is first used. Mininet is needed to start a
network, not to describe one, so a file of yours imports all of this at its top. A parameter that is a quantity takes a
value of that type or text with a unit, as in `"10Gb/s"`.

## What is stable

- **Stable**: the names on this page, their parameters, and the members that are described here. What changes among them
  is in the change log, and the old form goes on working, with a warning that names the new one, for one version.
- **Stable too**: the command line of `xoff`, the files of a result folder, and the entry points of packages of others.
- **Not stable**: everything else. Modules below `testbed` can be imported, and their names may move with any version.
- **Results**: a digest holds for one version of Xoff. A change that moves digests is in the change log with its reason.

This page is made from `xoff.__all__` by `python tools/api_page.py`, and the texts on it are the docstrings.
"""
_TOPOLOGIES = "Topologies"
"""The section that is a table: the drawings in these docstrings are for a fixed width."""
_MEMBERS = {
    "Run": "lab_ns, directory, figure, claim, event, measuring",
    "Experiment": "",
    "Result": "passed, digest, figure, series, exit_code, check",
    "Network": "fabric",
    "LosslessTopo": "addSwitch, addLeaf, addRouter, addRoutes, addLink, next_hop",
    "LosslessSwitch": "",
    "LosslessLeaf": "vswitch",
    "LosslessRouter": "",
    "RdmaHost": "",
    "Port": "with_pfc, without_pfc, with_dcbx, with_vls",
    "Buffer": "",
    "Rate": "from_bps, bps, time_for, time_for_quanta, quanta",
    "Duration": "from_ns, ns",
    "Length": "propagation",
    "Size": "from_bytes, bytes",
    "Quantity": "",
    "Engine": "",
    "PreparedEngine": "",
    "Task": "experiment, parameters",
    "Cluster": "",
    "NetworkBlock": "",
    "PortState": "name, node, mac, cable, number",
    "Cabling": "pull, plug, set_up, change_delay, change_loss",
    "Vswitch": "ofctl, appctl",
    "BufferSettings": "",
    "Endpoint": "node, place, flows, sends, receives, lines, open, run",
    "EndpointControl": (
        "listen, ready, begin_ns, sending, receiving, count_sent, count_received, sent, received, observed"
    ),
    "Router": "",
    "SonicSwitch": "from_config_db, require",
    "Frr": "",
    "Bird": "",
    "Policy": "",
    "PolicySyntax": "",
    "SubnetManager": "apply, sweep, findings",
    "SubnetSweep": "changes, drift",
    "PlanDifference": "",
    "QosFinding": "severity, message",
    "ControllerClient": "ask, lines",
    "Plot": "notes, sources, save",
}
"""The members to describe where not all that have a docstring are for users."""
MADE_BY_US = {
    "Run", "Experiment", "Result", "Claim", "Network", "NetworkBlock", "Fabric", "Report", "RoceReport", "TcpReport",
    "Quantity", "Engine", "PreparedEngine", "Sweep", "SweepRow", "SweepFailure", "Task", "TaskOutcome", "Cluster",
    "PortState", "Cabling", "FoundDeadlock", "GroupCounters", "GroupLimits", "QueueCounters", "PortCounters", "Deaths",
    "BufferCounters", "Vswitch", "BufferSettings", "UsedQueuePair", "EndpointControl", "Outcome", "Stamp",
    "SonicSwitch", "Router", "Policy", "PlanDifference", "SubnetSweep", "QosFinding", "PolicySyntax",
    "ControllerAccess", "Plot",
}  # fmt: skip
"""Classes whose objects users get and do not make: their parameters are left out."""

NOT_FOR_USERS = ("breaks_tie_by", "in_kernel", "without_effect")
"""Members of any class that are between modules of Xoff, though their names do not say so."""


def described(name: str, kind: type) -> list[str]:
    """Return the members of a class that the page describes, if they have a docstring."""
    if (members := _MEMBERS.get(name)) is not None:
        return members.split(", ") if members else []
    return [one for one in dir(kind) if not one.startswith("_") and one not in NOT_FOR_USERS]


def text() -> str:
    """Return the page."""
    return "\n".join([_INTRODUCTION, *_sections()])


def _sections() -> Iterator[str]:
    import xoff

    for title, modules in xoff._PLACES.items():
        found = [(word.partition("=")[0], module) for module, names in modules.items() for word in names.split()]
        yield f"## {title}\n"
        if title == _TOPOLOGIES:
            yield from _table([(name, importlib.import_module(module)) for name, module in found])
            continue
        yield "```{eval-rst}"
        for name, _ in found:
            yield from _entry(name, getattr(xoff, name))
        yield "```\n"


def _table(topologies: list[tuple[str, ModuleType]]) -> Iterator[str]:
    """Yield the lines of a table: each topology, and the first sentence about its module."""
    yield "| class | what it is, and its name in `xoff shell` |\n|---|---|"
    for name, module in topologies:
        yield f"| `{name}` | {(module.__doc__ or '').partition(chr(10))[0]} |"
    yield ""


def _entry(name: str, value: object) -> Iterator[str]:
    """Yield the lines for one name."""
    if inspect.isclass(value):
        yield f".. autoclass:: xoff.{name}{'()' if name in MADE_BY_US else ''}"
        members = _MEMBERS.get(name)
        if members != "":
            yield f"   :members: {members}" if members else "   :members:"
            if members is None and (hidden := [one for one in NOT_FOR_USERS if hasattr(value, one)]):
                yield f"   :exclude-members: {', '.join(hidden)}"
    else:
        yield f".. {'autofunction' if callable(value) else 'autodata'}:: xoff.{name}"
    yield ""


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    PAGE.write_text(text())
