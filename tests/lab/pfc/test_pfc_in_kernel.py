"""The kernel's work for PFC agents against that of their processes: the same events, counters and frames."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import pytest

from testbed.lab import Result
from testbed.lab.engines.um import PreparedUm
from testbed.lab.results.result import Status
from testbed.lab.um import machine
from tools import compare_pfc

from ..conftest import Runner

pytestmark = pytest.mark.engines("um")
NEAR_NS, NEAR_SUM_NS = 100, 100
"""The most that moments of both can differ by, and times of many pauses. A system call takes a nanosecond at the least,
the kernel makes none, and a port does not make up for what it is late by."""


def passed(result: Result) -> Result:
    assert result.status is Status.OK, result.reason
    assert result.passed, [claim for claim in result.claims if not claim.passed]
    return result


def differences(ours: Any, theirs: Any, place: str = "") -> list[str]:
    """Return where two values differ; numbers of nanoseconds may by a few."""
    if isinstance(theirs, dict) and isinstance(ours, dict) and ours.keys() == theirs.keys():
        return [one for key in theirs for one in differences(ours[key], theirs[key], f"{place} {key}")]
    if isinstance(theirs, list) and isinstance(ours, list) and len(ours) == len(theirs):
        return [
            one
            for number, pair in enumerate(zip(ours, theirs, strict=True))
            for one in differences(*pair, f"{place} {number}")
        ]
    is_time = isinstance(theirs, int) and isinstance(ours, int) and theirs > 10_000
    near_ns = NEAR_SUM_NS if place.endswith("paused_ns") else NEAR_NS
    same = abs(ours - theirs) <= near_ns if is_time else ours == theirs
    return [] if same else [f"{place}: {ours} and not {theirs}"]


def by_port(events: list[list[Any]]) -> dict[str, list[Any]]:
    """Return the events of each kind at each port: those of one moment have no order of their own."""
    found = defaultdict(list)
    for at_ns, kind, port, priorities, detail in events:
        found[f"{kind} {port} {priorities}"].append([at_ns, detail])
    return dict(found)


def test_the_kernel_does_what_agents_do_to_the_nanosecond(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "SYSCALL_NS", 0)
    ours, theirs = (passed(run("pfc:reacts", in_kernel=in_kernel)) for in_kernel in (True, False))
    for name in ("events", "counters", "lateness", "frames at h1", "frames at h2", "frames at r"):
        mine: Any = ours.figure(name)
        other: Any = theirs.figure(name)
        if name == "events":
            mine, other = by_port(mine), by_port(other)
        assert differences(mine, other, name) == []


def compared(ready: PreparedUm, events: int, seed: int) -> Counter[str]:
    """Compare the kernel's rules with Python, by the library that is built with the kernel."""
    library = ready.kernel.library()
    if library is None:
        pytest.skip("the kernel was not built on this machine, so there is no library of its rules")
    differences, kinds = compare_pfc.compare(library, events, seed)
    assert differences == []
    return kinds


def test_its_rules_do_with_random_events_what_python_does(ready: PreparedUm) -> None:
    kinds = compared(ready, 6000, seed=1)
    assert kinds["served by the rules"] > 2000 and kinds["left to the process"] > 200


@pytest.mark.long
def test_its_rules_do_with_a_million_events_what_python_does(ready: PreparedUm) -> None:
    compared(ready, 1_000_000, seed=2)


def test_an_agent_that_is_killed_is_served_no_more(run: Runner) -> None:
    passed(run("pfc:killed"))
