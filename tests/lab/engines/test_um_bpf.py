"""BPF programs in the engine `um`: compiled by linux/bpf_jit.c, they do what the kernel's interpreter does."""

from __future__ import annotations

from typing import Any

import pytest

from testbed.lab.um import machine

from ..conftest import Runner

pytestmark = pytest.mark.engines("um")


def test_compiled_programs_do_what_interpreted_ones_do(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """With ideal lines: the kernel interprets no program with callbacks, as those of real lines have."""

    def figures(line: str, compiled: int) -> dict[str, Any]:
        result = run("bpf_programs:incast", line=line).check()
        found = {figure.name: figure.value for figure in result.figures}
        assert found.pop("compiled") == (found["programs"] if compiled else 0)
        return found | {"virtual": result.times.virtual_ns}

    real, by_cpu = figures("real", compiled=1), figures("ideal", compiled=1)
    usual = machine.command_line()
    monkeypatch.setattr(machine, "command_line", lambda *_: [*usual, "sysctl.net.core.bpf_jit_enable=0"])
    assert figures("ideal", compiled=0) == by_cpu
    assert by_cpu["programs"] > 3
    assert min(by_cpu["pauses"]) > 0
    # A function that is not global is gone through at each of its calls, in each turn of a loop around them. With one
    # such loop the port program had 470 000, and that was most of what a small network took to start.
    assert real["verified"] < 120_000
